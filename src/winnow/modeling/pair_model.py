"""Shared by estimators and generators: a model on this machine that reads question and passage together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from winnow.modeling.loading import resolve_dtype
from winnow.modeling.pair_inputs import PairForm, PairTokens

if TYPE_CHECKING:
    from winnow.modeling.loading import LanguageModel


@dataclass
class PairModel(ABC):
    """A model that is loaded on first use, with its tokenizer of pairs.

    Args:
        path: a safetensors folder or a hub name.
        form: how question and passage are written; in RE-RAG estimator and generator read the same (section 2.2).
        max_length: tokens read of a pair; the passage is cut to fit, and the pair counted.
        dtype: float32, bfloat16, float16, or auto (bfloat16 where the hardware has it).
        device: auto, cpu or cuda.

    """

    speed_only: ClassVar[Mapping[str, str]] = {"device": "the same computation on another device"}
    model_paths: ClassVar[tuple[str, ...]] = ("path",)

    path: str
    form: PairForm = field(default_factory=PairForm)
    max_length: int = 256
    dtype: str = "auto"
    device: str = "auto"
    _lm: LanguageModel | None = field(default=None, repr=False)
    _tokens: PairTokens | None = field(default=None, repr=False)

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with the precision that "auto" means on this machine."""
        dtype = resolve_dtype(str(settings.get("dtype", cls.dtype)), str(settings.get("device", "auto")))
        return {**settings, "dtype": dtype}

    @property
    def lm(self) -> LanguageModel:
        """Return the model, loaded on first use."""
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
        """Return how many pairs were cut to the window so far."""
        return self._tokens.truncated if self._tokens else 0

    @abstractmethod
    def load(self) -> LanguageModel:
        """Load model and tokenizer."""

    @abstractmethod
    def pair_tokenizer(self) -> PairTokens:
        """Return this kind of model's tokenizer of pairs."""


def seq2seq_tokens(model: PairModel) -> PairTokens:
    """Return a T5's pairs, each followed by the end token."""
    return PairTokens(model.lm.tokenizer, model.form, model.max_length, tail=[int(model.lm.tokenizer.eos_token_id)])


def causal_tokens(model: PairModel) -> PairTokens:
    """Return a decoder's pairs, preceded by the start token where the model has one, and ended by the form's suffix."""
    tokenizer = model.lm.tokenizer
    start = [] if tokenizer.bos_token_id is None else [int(tokenizer.bos_token_id)]
    tail = tokenizer(model.form.suffix, add_special_tokens=False)["input_ids"] if model.form.suffix else []
    return PairTokens(tokenizer, model.form, model.max_length, head=start, tail=tail, spaced=True)
