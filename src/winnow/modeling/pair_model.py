"""Base class of local models that read question-passage pairs: estimators and generators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge

from winnow.identity.markers import ModelName, SpeedOnly
from winnow.modeling.devices import resolve_dtype_setting
from winnow.modeling.pair_inputs import PairTemplate, PairTokenizer, pad_rows

if TYPE_CHECKING:
    import torch

    from winnow.modeling.loading import LanguageModel


@dataclass
class PairModel(ABC):
    """A model with a tokenizer of question-passage pairs. It is loaded on first use.

    Args:
        path: Safetensors folder or hub name.
        template: Templates of question and passage. In RE-RAG, estimator and generator have the
            same input (section 2.2).
        max_length: Maximum number of tokens of a pair. Longer passages are truncated, and counted
            in `truncated`.
        dtype: "float32", "bfloat16", "float16" or "auto" (bfloat16 if the hardware supports it).
        device: "auto", "cpu" or "cuda".
    """

    path: Annotated[str, ModelName]
    template: PairTemplate = field(default_factory=PairTemplate)
    max_length: Annotated[int, Ge(1)] = 256
    dtype: str = "auto"
    device: Annotated[str, SpeedOnly("every device computes the same up to rounding")] = "auto"
    _lm: LanguageModel | None = field(default=None, repr=False)
    _tokens: PairTokenizer | None = field(default=None, repr=False)

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with dtype "auto" resolved for this machine."""
        return resolve_dtype_setting(settings, default=cls.dtype)

    @property
    def lm(self) -> LanguageModel:
        """Return the language model, which is loaded on first use."""
        if self._lm is None:
            self._lm = self.load()
        return self._lm

    @property
    def tokens(self) -> PairTokenizer:
        """Return the tokenizer of pairs, which is created on first use."""
        if self._tokens is None:
            self._tokens = self.build_pair_tokenizer()
        return self._tokens

    @property
    def truncated(self) -> int:
        """Return the number of pairs truncated to `max_length` so far."""
        return self._tokens.truncated if self._tokens else 0

    @property
    def truncated_answers(self) -> int:
        """Return the number of distinct answers truncated so far; 0 if the model reads none."""
        return 0

    @abstractmethod
    def load(self) -> LanguageModel:
        """Load the model and its tokenizer."""

    @abstractmethod
    def build_pair_tokenizer(self) -> PairTokenizer:
        """Create the tokenizer of pairs for this kind of model."""


def build_seq2seq_tokenizer(model: PairModel) -> PairTokenizer:
    """Create an encoder-decoder's pair tokenizer, whose tokens are those of the joined text.

    The tokenizer of BART adds a start token, and distinguishes "word" from " word"; that of T5 does
    neither.
    """
    tokenizer = model.lm.tokenizer

    def split(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    whole, end = list(tokenizer("a")["input_ids"]), int(tokenizer.eos_token_id)
    head = whole[: -len(split("a")) - 1] if whole[-1] == end else []
    return PairTokenizer(
        tokenizer,
        model.template,
        model.max_length,
        head=head,
        tail=[*_tokenize_suffix(model), end],
        prepend_space=split("a b") != [*split("a"), *split("b")],
    )


def build_causal_tokenizer(model: PairModel) -> PairTokenizer:
    """Create a decoder-only model's pair tokenizer, which adds any start token and the suffix."""
    tokenizer = model.lm.tokenizer
    start = [] if tokenizer.bos_token_id is None else [int(tokenizer.bos_token_id)]
    return PairTokenizer(
        tokenizer,
        model.template,
        model.max_length,
        head=start,
        tail=_tokenize_suffix(model),
        prepend_space=True,
    )


def _tokenize_suffix(model: PairModel) -> list[int]:
    """Return the token ids of the template's suffix."""
    if not model.template.suffix:
        return []
    ids: list[int] = model.lm.tokenizer(model.template.suffix, add_special_tokens=False)[
        "input_ids"
    ]
    return ids


def collate_rows(
    model: PairModel, rows: Sequence[Sequence[int]], *, left: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Pad the pairs' token ids, build the attention mask, and move both to the model's device."""
    ids, mask = pad_rows(rows, int(model.lm.tokenizer.pad_token_id), left=left)
    return ids.to(model.lm.device), mask.to(model.lm.device)
