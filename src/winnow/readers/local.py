"""A causal language model on this machine, in token-budget batches sorted by length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from winnow.models import LanguageModel, chat_text, load_causal_lm
from winnow.readers.batching import Item, LocalEngine
from winnow.records import Generate, Generation, Likelihood, Score


@dataclass
class LocalReader(LocalEngine):
    """Serves Generate and Likelihood requests from a safetensors folder, a hub name or a GGUF file."""

    def load(self) -> LanguageModel:
        """Load model and tokenizer; prompts are padded on the left."""
        return load_causal_lm(self.path, self.dtype, self.device, self.quantize)

    def encode(self, request: Generate | Likelihood) -> Item:
        """Render the chat template; the end of a reply is the model's end token."""
        tokenizer = self.lm.tokenizer
        ids = tokenizer(chat_text(tokenizer, request.messages), add_special_tokens=False)["input_ids"]
        return Item(request, ids, self.target(request) if isinstance(request, Likelihood) else ())

    def generate(self, batch: Sequence[Item]) -> list[Generation]:
        """Write the replies of a batch."""
        from winnow.readers.generation import generate

        return generate(self.lm, [item.request for item in batch if isinstance(item.request, Generate)], self._padded(batch))

    def score(self, batch: Sequence[Item]) -> list[Score]:
        """Score the continuations in one forward pass, whose logits are kept for their positions only."""
        import torch

        from winnow.readers.generation import target_logprobs

        inputs = self._padded(batch)
        longest = max(len(item.target) for item in batch)
        with torch.inference_mode():
            made = self.lm.model(
                **inputs,
                position_ids=(inputs["attention_mask"].cumsum(dim=1) - 1).clamp(min=0),
                logits_to_keep=longest + 1,
                use_cache=False,
            )
        sums = target_logprobs(made.logits[:, :-1], [item.target for item in batch], right=True)
        return [Score(value) for value in sums]

    def _padded(self, batch: Sequence[Item]) -> Any:
        rows = [[*item.ids, *item.target] for item in batch]
        return self.lm.tokenizer.pad({"input_ids": rows}, padding_side="left", return_tensors="pt").to(self.lm.device)
