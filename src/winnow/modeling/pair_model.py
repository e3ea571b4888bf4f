"""Base class of local estimators and generators, which read question and passage together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from winnow.modeling.loading import resolve_dtype
from winnow.modeling.pair_inputs import PairTemplate, PairTokens

if TYPE_CHECKING:
    from winnow.modeling.loading import LanguageModel


@dataclass
class PairModel(ABC):
    """A model with a tokenizer of question-passage pairs. It is loaded on first use.

    Args:
        path: Safetensors folder or hub name.
        template: Templates of question and passage. In RE-RAG, estimator and generator have the same input (section 2.2).
        max_length: Maximum number of tokens of a pair. The passage is truncated to fit, and the pair is counted.
        dtype: "float32", "bfloat16", "float16" or "auto" (bfloat16 if the hardware supports it).
        device: "auto", "cpu" or "cuda".

    """

    speed_only: ClassVar[Mapping[str, str]] = {"device": "every device computes the same up to rounding"}
    model_paths: ClassVar[tuple[str, ...]] = ("path",)

    path: str
    template: PairTemplate = field(default_factory=PairTemplate)
    max_length: int = 256
    dtype: str = "auto"
    device: str = "auto"
    _lm: LanguageModel | None = field(default=None, repr=False)
    _tokens: PairTokens | None = field(default=None, repr=False)

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with dtype "auto" resolved for this machine."""
        dtype = resolve_dtype(str(settings.get("dtype", cls.dtype)), str(settings.get("device", "auto")))
        return {**settings, "dtype": dtype}

    @property
    def lm(self) -> LanguageModel:
        """Return the model, which is loaded on first use."""
        if self._lm is None:
            self._lm = self.load()
        return self._lm

    @property
    def tokens(self) -> PairTokens:
        """Return the tokenizer of pairs."""
        if self._tokens is None:
            self._tokens = self.pair_tokenizer()
        return self._tokens

    @property
    def truncated(self) -> int:
        """Return the number of pairs truncated to `max_length` so far."""
        return self._tokens.truncated if self._tokens else 0

    @abstractmethod
    def load(self) -> LanguageModel:
        """Load the model and its tokenizer."""

    @abstractmethod
    def pair_tokenizer(self) -> PairTokens:
        """Create the tokenizer of pairs for this kind of model."""


def seq2seq_tokens(model: PairModel) -> PairTokens:
    """Create a tokenizer of pairs for a T5, which appends the end token."""
    return PairTokens(model.lm.tokenizer, model.template, model.max_length, tail=[int(model.lm.tokenizer.eos_token_id)])


def causal_tokens(model: PairModel) -> PairTokens:
    """Create a tokenizer of pairs for a decoder-only model, which adds the start token, if any, and the form's suffix."""
    tokenizer = model.lm.tokenizer
    start = [] if tokenizer.bos_token_id is None else [int(tokenizer.bos_token_id)]
    tail = tokenizer(model.template.suffix, add_special_tokens=False)["input_ids"] if model.template.suffix else []
    return PairTokens(tokenizer, model.template, model.max_length, head=start, tail=tail, spaced=True)
