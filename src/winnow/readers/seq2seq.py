"""A reader that runs an encoder-decoder such as T5 locally in batches of similar prompt lengths."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from annotated_types import Ge

from winnow.modeling.loading import LanguageModel, load_seq2seq
from winnow.readers.local_engine import LocalEngine
from winnow.readers.runtime import TokenizedRequest
from winnow.requests import Generate, Generation, Likelihood, Score

_log = logging.getLogger(__name__)


@dataclass
class Seq2SeqReader(LocalEngine):
    """A reader for Generate and Likelihood requests with a safetensors or hub encoder-decoder.

    Args (in addition to LocalEngine's):
        max_length: Maximum number of tokens of a prompt that ends with its only passage. That of a
            longer one is cut, as joint training cuts pairs. None cuts nothing.
    """

    revision: ClassVar[int] = 3

    max_length: Annotated[int, Ge(1)] | None = None
    _has_cut: bool = field(default=False, repr=False)

    @property
    def identity(self) -> str:
        """Return the identity of the base class, followed by the maximum length."""
        return f"{super().identity}/max {self.max_length}" if self.max_length else super().identity

    def load(self) -> LanguageModel:
        """Load the model and its tokenizer."""
        return load_seq2seq(self.path, self.dtype, self.device, self.quantize)

    def encode(self, request: Generate | Likelihood) -> TokenizedRequest:
        """Join messages to plain text, as these models have no chat template, and tokenize it."""
        prompt = "\n\n".join(message.content for message in request.messages)
        ends = [passage.text.strip() for passage in request.passages]
        is_pair = len(ends) == 1 and prompt.rstrip().endswith(ends[0])
        (ids,) = self.tokenize([prompt], cut=is_pair)
        return TokenizedRequest(
            request, ids, self.tokenize_target(request) if isinstance(request, Likelihood) else ()
        )

    def tokenize(self, texts: Sequence[str], *, cut: bool) -> list[list[int]]:
        """Tokenize texts, and cut each to `max_length` tokens if `cut`."""
        rows: list[list[int]] = self.lm.tokenizer(texts, truncation=False)["input_ids"]
        if not cut or self.max_length is None or max(map(len, rows)) <= self.max_length:
            return rows
        if not self._has_cut:
            self._has_cut = True
            _log.warning(
                "Some prompts have more than reader.engine.max_length=%d tokens, and are cut as in "
                "training.",
                self.max_length,
            )
        cut_rows: list[list[int]] = self.lm.tokenizer(
            texts, truncation=True, max_length=self.max_length
        )["input_ids"]
        return cut_rows

    def generate(self, batch: Sequence[TokenizedRequest]) -> list[Generation]:
        """Generate a reply to each request of a batch."""
        from winnow.readers.generation import generate

        requests = [item.request for item in batch if isinstance(item.request, Generate)]
        return generate(self.lm, requests, self._pad_prompts(batch))

    def score(self, batch: Sequence[TokenizedRequest]) -> list[Score]:
        """Score the continuations in one encoder and one decoder pass over all target positions."""
        import torch

        from winnow.readers.generation import score_targets

        start = self.lm.decoder_start
        pad_id = self.lm.tokenizer.pad_token_id
        longest_target = max(len(item.target) for item in batch)
        decoder_rows = [
            [*start, *item.target[:-1], *[pad_id] * (longest_target - len(item.target))]
            for item in batch
        ]
        with torch.inference_mode():
            output = self.lm.model(
                **self._pad_prompts(batch),
                decoder_input_ids=torch.tensor(decoder_rows, device=self.lm.device),
                use_cache=False,
            )
        return score_targets(self.lm, batch, output.logits[:, len(start) - 1 :], align_right=False)

    def _pad_prompts(self, batch: Sequence[TokenizedRequest]) -> Any:
        """Pad the prompts of a batch on the right, and return them as inputs of the encoder."""
        rows = [list(item.ids) for item in batch]
        return self.lm.tokenizer.pad(
            {"input_ids": rows}, padding_side="right", return_tensors="pt"
        ).to(self.lm.device)
