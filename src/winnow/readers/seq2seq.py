"""A reader that runs a T5-like encoder-decoder on this machine, in token-budget batches sorted by length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from winnow.modeling.loading import LanguageModel, load_seq2seq
from winnow.readers.batching import Item, LocalEngine
from winnow.records import Generate, Generation, Likelihood, Score, Usage


@dataclass
class Seq2SeqReader(LocalEngine):
    """Serves Generate and Likelihood requests with a model from a safetensors folder or the hub. Prompts are plain text."""

    revision: ClassVar[int] = 1

    def load(self) -> LanguageModel:
        """Load the model and its tokenizer."""
        return load_seq2seq(self.path, self.dtype, self.device, self.quantize)

    def encode(self, request: Generate | Likelihood) -> Item:
        """Join and tokenise the messages. The tokenizer appends the end token to prompt and reply."""
        tokenizer = self.lm.tokenizer
        ids = tokenizer("\n\n".join(message.content for message in request.messages), truncation=False)["input_ids"]
        return Item(request, ids, self.target(request) if isinstance(request, Likelihood) else ())

    def generate(self, batch: Sequence[Item]) -> list[Generation]:
        """Generate a reply to each request of a batch."""
        from winnow.readers.generation import generate

        requests = [item.request for item in batch if isinstance(item.request, Generate)]
        return generate(self.lm, requests, self._pad_prompts(batch))

    def score(self, batch: Sequence[Item]) -> list[Score]:
        """Score the continuations in one pass of the encoder and one of the decoder over all target positions."""
        import torch

        from winnow.readers.generation import target_logprobs

        start = self.lm.model.config.decoder_start_token_id
        longest_target = max(len(item.target) for item in batch)
        pad = self.lm.tokenizer.pad_token_id
        rows = [[start, *item.target[:-1], *[pad] * (longest_target - len(item.target))] for item in batch]
        with torch.inference_mode():
            output = self.lm.model(
                **self._pad_prompts(batch), decoder_input_ids=torch.tensor(rows, device=self.lm.device), use_cache=False
            )
        logprobs = target_logprobs(output.logits, [item.target for item in batch], right=False)
        return [Score(value, Usage(item.length)) for value, item in zip(logprobs, batch, strict=True)]

    def _pad_prompts(self, batch: Sequence[Item]) -> Any:
        rows = [list(item.ids) for item in batch]
        return self.lm.tokenizer.pad({"input_ids": rows}, padding_side="right", return_tensors="pt").to(self.lm.device)
