"""A reader that runs a causal language model on this machine, in batches of prompts of similar length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from winnow.modeling.loading import LanguageModel, load_causal_lm, render_chat
from winnow.readers.batching import LocalEngine, TokenisedRequest
from winnow.records import Generate, Generation, Likelihood, Score, Usage


@dataclass
class LocalReader(LocalEngine):
    """A reader that serves Generate and Likelihood requests with a model from a safetensors folder, the hub or a GGUF file."""

    revision: ClassVar[int] = 1

    def load(self) -> LanguageModel:
        """Load the model and its tokenizer, which pads on the left."""
        return load_causal_lm(self.path, self.dtype, self.device, self.quantize)

    def encode(self, request: Generate | Likelihood) -> TokenisedRequest:
        """Render the messages with the model's chat template, and tokenise the resulting text."""
        tokenizer = self.lm.tokenizer
        prompt = render_chat(tokenizer, request.messages)
        ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
        return TokenisedRequest(request, ids, self.tokenise_target(request) if isinstance(request, Likelihood) else ())

    def generate(self, batch: Sequence[TokenisedRequest]) -> list[Generation]:
        """Generate a reply to each request of a batch."""
        from winnow.readers.generation import generate
        from winnow.readers.prefix import collate

        requests = [item.request for item in batch if isinstance(item.request, Generate)]
        return generate(self.lm, requests, collate(self.lm, [item.ids for item in batch]))

    def score(self, batch: Sequence[TokenisedRequest]) -> list[Score]:
        """Score the continuations in one forward pass, which computes logits only for the tokens of the continuations."""
        import torch

        from winnow.readers.generation import sum_target_logprobs
        from winnow.readers.prefix import collate

        inputs = collate(self.lm, [item.ids for item in batch], [item.target for item in batch])
        mask = inputs["attention_mask"]
        prefix_length = inputs["past_key_values"].get_seq_length() if "past_key_values" in inputs else 0
        longest_target = max(len(item.target) for item in batch)
        with torch.inference_mode():
            position_ids = (mask.cumsum(dim=1) - 1).clamp(min=0)
            output = self.lm.model(
                **inputs | {"input_ids": inputs["input_ids"][:, prefix_length:]},
                position_ids=position_ids[:, prefix_length:],
                logits_to_keep=longest_target + 1,
                use_cache=prefix_length > 0,
            )
        logprobs = sum_target_logprobs(output.logits[:, :-1], [item.target for item in batch], align_right=True)
        return [Score(logprob, Usage(item.length)) for logprob, item in zip(logprobs, batch, strict=True)]
