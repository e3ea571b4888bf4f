"""What readers on this machine share: token-budget batches sorted by length, windows, identities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import insort
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from winnow.errors import ConfigError
from winnow.models import LanguageModel, check_model, keep_freed_memory, resolve_dtype, weights_digest
from winnow.records import Generate, Generation, Likelihood, Request, Result, Score

_ROOM_A_MESSAGE = 64
"""Tokens that a chat template may add to a message, counted generously."""


@dataclass(frozen=True, slots=True)
class Item:
    """A request in tokens: the prompt's, and for a likelihood those of the continuation."""

    request: Generate | Likelihood
    ids: Sequence[int]
    target: Sequence[int] = ()

    @property
    def length(self) -> int:
        """Return how many tokens it takes, prompt and continuation together."""
        return len(self.ids) + len(self.target)


@dataclass
class LocalEngine(ABC):
    """An engine over weights of this machine; a kind of model adds how it loads, encodes, generates and scores.

    Args:
        path: a safetensors folder, a hub name or (causal models) a GGUF file.
        name: what the ledger and the reports call it.
        dtype: float32, bfloat16, float16, or auto (bfloat16 where the hardware has it); a bfloat16 result may depend on
            what shared its batch.
        device: auto, cpu or cuda.
        quantize: "none", or "4bit" on CUDA (bitsandbytes).
        window: tokens of prompt and reply together; None takes the model's own limit.
        batch_tokens: padded prompt tokens a batch holds at most.
        batch_size: prompts a batch holds at most.

    """

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
        """Refuse sizes that could hold nothing."""
        if min(self.batch_tokens, self.batch_size, self.capacity) < 1:
            raise ConfigError(
                f"reader.batch_tokens, batch_size and capacity start at 1; received {self.batch_tokens}, "
                f"{self.batch_size}, {self.capacity}."
            )
        if self.quantize not in ("none", "4bit"):
            raise ConfigError(f"reader.quantize must be none or 4bit; received {self.quantize!r}.")

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return what a model on this machine can meet."""
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
    def room(self) -> int:
        """Return how many tokens prompt and reply may have together."""
        return self.window or self.lm.window

    def check(self) -> None:
        """Refuse a model that lacks a tokenizer, a config or safe weights, before it is loaded."""
        check_model(self.path)

    def close(self) -> None:
        """Let go of the weights."""
        self._lm = None

    def fits(self, request: Request) -> bool:
        """Tell whether prompt and reply fit into the window; short prompts are passed without tokenising."""
        asked = _asked(request)
        reply = asked.decoding.max_new_tokens if isinstance(asked, Generate) else len(asked.continuation.encode()) + 1
        characters = sum(len(m.content.encode()) for m in asked.messages) + _ROOM_A_MESSAGE * len(asked.messages)
        if characters + reply < self.room:
            return True
        item = self.encode(asked)
        return item.length + (reply if isinstance(asked, Generate) else 0) <= self.room

    def size(self, request: Request) -> int:
        """Return the prompt's length in tokens, chat template included."""
        return len(self.encode(_asked(request)).ids)

    def submit(self, requests: Sequence[Request]) -> None:
        """Take requests and keep them sorted by length, in groups that can share a batch."""
        for request in requests:
            asked = _asked(request)
            insort(self._pending.setdefault(_group(asked), []), self.encode(asked), key=lambda item: item.length)

    def collect(self) -> Sequence[tuple[Request, Result]]:
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
        """Return the tokens of a continuation, with the end token where the end is scored too."""
        tokenizer = self.lm.tokenizer
        ids: list[int] = tokenizer(request.continuation, add_special_tokens=False)["input_ids"]
        return [*ids, tokenizer.eos_token_id] if request.ended else ids

    @abstractmethod
    def load(self) -> LanguageModel:
        """Load model and tokenizer."""

    @abstractmethod
    def encode(self, request: Generate | Likelihood) -> Item:
        """Turn a request into tokens."""

    @abstractmethod
    def generate(self, batch: Sequence[Item]) -> list[Generation]:
        """Write a reply to each prompt; all have the same max_new_tokens."""

    @abstractmethod
    def score(self, batch: Sequence[Item]) -> list[Score]:
        """Return log P(continuation | prompt) of each, in nats."""


def _asked(request: Request) -> Generate | Likelihood:
    if not isinstance(request, Generate | Likelihood):
        raise ConfigError(f"A reader serves Generate and Likelihood requests; received {type(request).__name__}.")
    return request


def _group(request: Generate | Likelihood) -> Hashable:
    if isinstance(request, Generate):
        return request.decoding.max_new_tokens, request.decoding.logprobs
    return "likelihood"
