"""Shared by readers on this machine: token-budget batches sorted by length, context lengths, identities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import insort
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from winnow.errors import ConfigError
from winnow.modeling.loading import LanguageModel, check_model, keep_freed_memory, resolve_dtype, weights_digest
from winnow.records import Generate, Generation, Likelihood, Request, Result, Score

_TOKENS_PER_MESSAGE = 64
"""An upper bound on the tokens that a chat template adds to a message."""


@dataclass(frozen=True, slots=True)
class Item:
    """A request in tokens: the prompt's, and for a likelihood the continuation's."""

    request: Generate | Likelihood
    ids: Sequence[int]
    target: Sequence[int] = ()

    @property
    def length(self) -> int:
        """Return how many tokens it takes, prompt and continuation together."""
        return len(self.ids) + len(self.target)


@dataclass
class LocalEngine(ABC):
    """An engine over weights on this machine; subclasses define loading, encoding, generation and scoring.

    Args:
        path: a safetensors folder, a hub name or (causal models) a GGUF file.
        name: the model's name in the ledger and in reports.
        dtype: float32, bfloat16, float16, or auto (bfloat16 where the hardware has it); a bfloat16 result may depend
            on the other requests of its batch.
        device: auto, cpu or cuda.
        quantize: "none", or "4bit" on CUDA (bitsandbytes).
        window: tokens of prompt and reply together; None means the model's own limit.
        batch_tokens: padded prompt tokens per batch, at most.
        batch_size: prompts per batch, at most.

    """

    speed_only: ClassVar[Mapping[str, str]] = {
        "device": "the same computation on another device",
        "batch_tokens": "batches change no reply but by rounding",
        "batch_size": "batches change no reply but by rounding",
        "capacity": "how many requests are queued at once",
    }

    path: str
    name: str
    dtype: str = "auto"
    device: str = "auto"
    quantize: str = "none"
    window: int | None = None
    batch_tokens: int = 4096
    batch_size: int = 16
    capacity: int = 256
    _lm: LanguageModel | None = field(default=None, repr=False)
    _identity: str = field(default="", repr=False)
    _pending: dict[Hashable, list[Item]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Refuse sizes below 1."""
        if min(self.batch_tokens, self.batch_size, self.capacity) < 1:
            raise ConfigError(
                f"reader.batch_tokens, batch_size and capacity start at 1; received {self.batch_tokens}, "
                f"{self.batch_size}, {self.capacity}."
            )
        if self.quantize not in ("none", "4bit"):
            raise ConfigError(f"reader.quantize must be none or 4bit; received {self.quantize!r}.")

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with the precision that "auto" means on this machine."""
        dtype = resolve_dtype(str(settings.get("dtype", "auto")), str(settings.get("device", "auto")))
        return {**settings, "dtype": dtype}

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return what a model on this machine serves."""
        return (Generate, Likelihood)

    @property
    def identity(self) -> str:
        """Return name, digest of the weights and precision."""
        if not self._identity:
            dtype = resolve_dtype(self.dtype, self.device)
            precision = dtype if self.quantize == "none" else f"{dtype}/{self.quantize}"
            self._identity = f"{self.name}@{weights_digest(self.path)}/{precision}"
        return self._identity

    @property
    def lm(self) -> LanguageModel:
        """Return the model, loaded on first use."""
        if self._lm is None:
            keep_freed_memory()
            self._lm = self.load()
        return self._lm

    @property
    def context_length(self) -> int:
        """Return how many tokens prompt and reply may have together."""
        return self.window or self.lm.window

    def refusal(self, request: Request) -> str | None:  # noqa: ARG002 (subclasses restrict it)
        """Return None: a model on this machine serves every request of its kinds."""
        return None

    def check(self) -> None:
        """Raise for a model without tokenizer, config or safe weights, before it is loaded."""
        check_model(self.path)

    def close(self) -> None:
        """Release the weights."""
        self._lm = None

    def fits(self, request: Request) -> bool:
        """Return whether prompt and reply fit into the context length; short prompts are not tokenised for it."""
        text = _text_request(request)
        reply = text.decoding.max_new_tokens if isinstance(text, Generate) else len(text.continuation.encode()) + 1
        characters = sum(len(m.content.encode()) for m in text.messages) + _TOKENS_PER_MESSAGE * len(text.messages)
        if characters + reply < self.context_length:
            return True
        item = self.encode(text)
        return item.length + (reply if isinstance(text, Generate) else 0) <= self.context_length

    def size(self, request: Request) -> int:
        """Return the prompt's length in tokens, chat template included."""
        return len(self.encode(_text_request(request)).ids)

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests, sorted by length, in groups that can share a batch."""
        for request in requests:
            text = _text_request(request)
            insort(self._pending.setdefault(_group(text), []), self.encode(text), key=lambda item: item.length)

    def collect(self, timeout: float) -> Sequence[tuple[Request, Result]]:  # noqa: ARG002 (it computes, nothing is awaited)
        """Run the batch of the longest pending prompts that can share one."""
        if not self._pending:
            return []
        group = max(self._pending, key=lambda name: self._pending[name][-1].length)
        items = self._pending[group]
        count = min(self.batch_size, max(1, self.batch_tokens // max(1, items[-1].length)))
        batch, self._pending[group] = items[-count:], items[:-count]
        if not self._pending[group]:
            del self._pending[group]
        results: Sequence[Result] = self.generate(batch) if isinstance(batch[0].request, Generate) else self.score(batch)
        return [(item.request, result) for item, result in zip(batch, results, strict=True)]

    def target(self, request: Likelihood) -> list[int]:
        """Return the tokens of a continuation, with the end token where it is scored too."""
        tokenizer = self.lm.tokenizer
        ids: list[int] = tokenizer(request.continuation, add_special_tokens=False)["input_ids"]
        return [*ids, tokenizer.eos_token_id] if request.include_eos else ids

    @abstractmethod
    def load(self) -> LanguageModel:
        """Load model and tokenizer."""

    @abstractmethod
    def encode(self, request: Generate | Likelihood) -> Item:
        """Turn a request into tokens."""

    @abstractmethod
    def generate(self, batch: Sequence[Item]) -> list[Generation]:
        """Generate a reply to each prompt; all have the same max_new_tokens."""

    @abstractmethod
    def score(self, batch: Sequence[Item]) -> list[Score]:
        """Return log P(continuation | prompt) of each, in nats."""


def _text_request(request: Request) -> Generate | Likelihood:
    if not isinstance(request, Generate | Likelihood):
        raise ConfigError(f"A reader serves Generate and Likelihood requests; received {type(request).__name__}.")
    return request


def _group(request: Generate | Likelihood) -> Hashable:
    if isinstance(request, Generate):
        return request.decoding.max_new_tokens, request.decoding.logprobs, request.token_logprobs
    return "likelihood"
