"""A causal language model on this machine, in token-budget batches sorted by length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.models import LanguageModel, chat_text, load_causal_lm
from winnow.readers.batching import Item, LocalEngine
from winnow.readers.prefix import laid_out
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

        asked = [item.request for item in batch if isinstance(item.request, Generate)]
        return generate(self.lm, asked, laid_out(self.lm, [item.ids for item in batch]))

    def score(self, batch: Sequence[Item]) -> list[Score]:
        """Score the continuations in one forward pass, whose logits are kept for their positions only."""
        import torch

        from winnow.readers.generation import target_logprobs

        inputs = laid_out(self.lm, [item.ids for item in batch], [item.target for item in batch])
        mask = inputs["attention_mask"]
        known = inputs["past_key_values"].get_seq_length() if "past_key_values" in inputs else 0
        longest = max(len(item.target) for item in batch)
        with torch.inference_mode():
            made = self.lm.model(
                **inputs | {"input_ids": inputs["input_ids"][:, known:]},
                position_ids=(mask.cumsum(dim=1) - 1).clamp(min=0)[:, known:],
                logits_to_keep=longest + 1,
                use_cache=known > 0,
            )
        sums = target_logprobs(made.logits[:, :-1], [item.target for item in batch], right=True)
        return [Score(value) for value in sums]
