"""A reader that runs a causal language model on this machine, in token-budget batches sorted by length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from winnow.modeling.loading import LanguageModel, chat_text, load_causal_lm
from winnow.readers.batching import Item, LocalEngine
from winnow.readers.prefix import collate
from winnow.records import Generate, Generation, Likelihood, Score, Usage


@dataclass
class LocalReader(LocalEngine):
    """Serves Generate and Likelihood requests with a model from a safetensors folder, the hub or a GGUF file."""

    revision: ClassVar[int] = 1

    def load(self) -> LanguageModel:
        """Load the model and its tokenizer, which pads on the left."""
        return load_causal_lm(self.path, self.dtype, self.device, self.quantize)

    def encode(self, request: Generate | Likelihood) -> Item:
        """Render the chat template and tokenise. The end of a reply is the model's end token."""
        tokenizer = self.lm.tokenizer
        ids = tokenizer(chat_text(tokenizer, request.messages), add_special_tokens=False)["input_ids"]
        return Item(request, ids, self.target(request) if isinstance(request, Likelihood) else ())

    def generate(self, batch: Sequence[Item]) -> list[Generation]:
        """Generate a reply to each request of a batch."""
        from winnow.readers.generation import generate

        requests = [item.request for item in batch if isinstance(item.request, Generate)]
        return generate(self.lm, requests, collate(self.lm, [item.ids for item in batch]))

    def score(self, batch: Sequence[Item]) -> list[Score]:
        """Score the continuations in one forward pass, which computes logits only at their positions."""
        import torch

        from winnow.readers.generation import target_logprobs

        inputs = collate(self.lm, [item.ids for item in batch], [item.target for item in batch])
        mask = inputs["attention_mask"]
        prefix_length = inputs["past_key_values"].get_seq_length() if "past_key_values" in inputs else 0
        longest_target = max(len(item.target) for item in batch)
        with torch.inference_mode():
            output = self.lm.model(
                **inputs | {"input_ids": inputs["input_ids"][:, prefix_length:]},
                position_ids=(mask.cumsum(dim=1) - 1).clamp(min=0)[:, prefix_length:],
                logits_to_keep=longest_target + 1,
                use_cache=prefix_length > 0,
            )
        logprobs = target_logprobs(output.logits[:, :-1], [item.target for item in batch], right=True)
        return [Score(value, Usage(item.length)) for value, item in zip(logprobs, batch, strict=True)]
