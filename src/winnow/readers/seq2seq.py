"""A reader that runs an encoder-decoder such as T5 on this machine, in batches of prompts of
similar length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from winnow.modeling.loading import LanguageModel, load_seq2seq
from winnow.readers.local_engine import LocalEngine
from winnow.readers.runtime import TokenizedRequest
from winnow.requests import Generate, Generation, Likelihood, Score


@dataclass
class Seq2SeqReader(LocalEngine):
    """A reader that serves Generate and Likelihood requests with an encoder-decoder from a
    safetensors folder or the hub.
    """

    revision: ClassVar[int] = 1

    def load(self) -> LanguageModel:
        """Load the model and its tokenizer."""
        return load_seq2seq(self.path, self.dtype, self.device, self.quantize)

    def encode(self, request: Generate | Likelihood) -> TokenizedRequest:
        """Join the messages to plain text, because these models have no chat template, and tokenize
        the text.
        """
        tokenizer = self.lm.tokenizer
        prompt = "\n\n".join(message.content for message in request.messages)
        ids = tokenizer(prompt, truncation=False)["input_ids"]
        return TokenizedRequest(
            request, ids, self.tokenize_target(request) if isinstance(request, Likelihood) else ()
        )

    def generate(self, batch: Sequence[TokenizedRequest]) -> list[Generation]:
        """Generate a reply to each request of a batch."""
        from winnow.readers.generation import generate

        requests = [item.request for item in batch if isinstance(item.request, Generate)]
        return generate(self.lm, requests, self._pad_prompts(batch))

    def score(self, batch: Sequence[TokenizedRequest]) -> list[Score]:
        """Score the continuations in one pass of the encoder and one of the decoder over all target
        positions.
        """
        import torch

        from winnow.readers.generation import score_targets

        start_id = self.lm.model.config.decoder_start_token_id
        pad_id = self.lm.tokenizer.pad_token_id
        longest_target = max(len(item.target) for item in batch)
        decoder_rows = [
            [start_id, *item.target[:-1], *[pad_id] * (longest_target - len(item.target))]
            for item in batch
        ]
        with torch.inference_mode():
            output = self.lm.model(
                **self._pad_prompts(batch),
                decoder_input_ids=torch.tensor(decoder_rows, device=self.lm.device),
                use_cache=False,
            )
        return score_targets(self.lm, batch, output.logits, align_right=False)

    def _pad_prompts(self, batch: Sequence[TokenizedRequest]) -> Any:
        """Pad the prompts of a batch on the right, and return them as inputs of the encoder."""
        rows = [list(item.ids) for item in batch]
        return self.lm.tokenizer.pad(
            {"input_ids": rows}, padding_side="right", return_tensors="pt"
        ).to(self.lm.device)
