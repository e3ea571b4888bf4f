"""Base class of local readers: token-budget batches sorted by length, context lengths and identities."""

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
    """A tokenised request: `ids` are the tokens of the prompt, `target` those of a Likelihood's continuation."""

    request: Generate | Likelihood
    ids: Sequence[int]
    target: Sequence[int] = ()

    @property
    def length(self) -> int:
        """Return the number of tokens of prompt and continuation together."""
        return len(self.ids) + len(self.target)


@dataclass
class LocalEngine(ABC):
    """Base class of engines that run a model on this machine. Subclasses define loading, encoding, generation and scoring.

    Args:
        path: Safetensors folder, hub name or (causal models only) GGUF file.
        name: Name of the model in the ledger and in reports.
        dtype: "float32", "bfloat16", "float16" or "auto" (bfloat16 if the hardware supports it). A bfloat16 result may
            depend on the other requests of its batch.
        device: "auto", "cpu" or "cuda".
        quantize: "none" or, on CUDA only, "4bit" (bitsandbytes).
        context_length: Maximum number of tokens of prompt and reply together; None means the model's own limit.
        batch_tokens: Maximum number of padded prompt tokens per batch.
        batch_size: Maximum number of prompts per batch.
        capacity: Maximum number of requests in the queue.
        deterministic: Run every prompt alone and without a shared prefix, so that a reply depends on its request only, at
            the speed of single prompts. Otherwise rounding in bfloat16 may change a reply with what shares its batch
            (docs/rules.md has the share).

    """

    speed_only: ClassVar[Mapping[str, str]] = {
        "device": "every device computes the same up to rounding",
        "batch_tokens": "batches affect replies only by rounding, and not at all with `deterministic`",
        "batch_size": "batches affect replies only by rounding, and not at all with `deterministic`",
        "capacity": "the length of the queue does not affect replies",
    }

    path: str
    name: str
    dtype: str = "auto"
    device: str = "auto"
    quantize: str = "none"
    context_length: int | None = None
    batch_tokens: int = 4096
    batch_size: int = 16
    capacity: int = 256
    deterministic: bool = False
    _lm: LanguageModel | None = field(default=None, repr=False)
    _identity: str = field(default="", repr=False)
    _pending: dict[Hashable, list[Item]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Raise ConfigError if a size is below 1 or `quantize` is unknown."""
        if min(self.batch_tokens, self.batch_size, self.capacity) < 1:
            raise ConfigError(
                f"reader.batch_tokens, batch_size and capacity start at 1; received {self.batch_tokens}, "
                f"{self.batch_size}, {self.capacity}."
            )
        if self.quantize not in ("none", "4bit"):
            raise ConfigError(f"reader.quantize must be none or 4bit; received {self.quantize!r}.")

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with dtype "auto" resolved for this machine."""
        dtype = resolve_dtype(str(settings.get("dtype", "auto")), str(settings.get("device", "auto")))
        return {**settings, "dtype": dtype}

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return the kinds of requests that a local model serves."""
        return (Generate, Likelihood)

    @property
    def identity(self) -> str:
        """Return the name, the digest of the weights, the precision, and whether prompts run alone."""
        if not self._identity:
            dtype = resolve_dtype(self.dtype, self.device)
            precision = dtype if self.quantize == "none" else f"{dtype}/{self.quantize}"
            alone = "/deterministic" if self.deterministic else ""
            self._identity = f"{self.name}@{weights_digest(self.path)}/{precision}{alone}"
        return self._identity

    @property
    def lm(self) -> LanguageModel:
        """Return the model, which is loaded on first use."""
        if self._lm is None:
            keep_freed_memory()
            self._lm = self.load()
        return self._lm

    @property
    def token_limit(self) -> int:
        """Return the maximum number of tokens of prompt and reply together."""
        return self.context_length or self.lm.context_length

    def refusal(self, request: Request) -> str | None:  # noqa: ARG002 (for subclasses)
        """Return None, because a local model serves every request of its kinds."""
        return None

    def check(self) -> None:
        """Raise ModelError, before loading, if the model lacks a tokenizer, a config or safe weights."""
        check_model(self.path)

    def close(self) -> None:
        """Release the weights."""
        self._lm = None

    def fits(self, request: Request) -> bool:
        """Return whether prompt and reply fit into the context length. Short prompts are accepted without tokenising them."""
        text_request = _text_request(request)
        messages = text_request.messages
        if isinstance(text_request, Generate):
            max_reply_tokens = text_request.decoding.max_new_tokens
        else:
            max_reply_tokens = len(text_request.continuation.encode()) + 1
        max_prompt_tokens = sum(len(m.content.encode()) for m in messages) + _TOKENS_PER_MESSAGE * len(messages)
        if max_prompt_tokens + max_reply_tokens < self.token_limit:
            return True
        item = self.encode(text_request)
        return item.length + (max_reply_tokens if isinstance(text_request, Generate) else 0) <= self.token_limit

    def size(self, request: Request) -> int:
        """Return the length of the prompt in tokens, including the chat template."""
        return len(self.encode(_text_request(request)).ids)

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests in groups that can share a batch, sorted by length."""
        for request in requests:
            text_request = _text_request(request)
            item = self.encode(text_request)
            insort(self._pending.setdefault(_batch_key(text_request), []), item, key=lambda item: item.length)

    def collect(self, timeout: float) -> Sequence[tuple[Request, Result]]:  # noqa: ARG002 (nothing to wait for)
        """Run the batch of the longest pending prompts that can share one."""
        if not self._pending:
            return []
        key = max(self._pending, key=lambda key: self._pending[key][-1].length)
        items = self._pending[key]
        count = 1 if self.deterministic else min(self.batch_size, max(1, self.batch_tokens // max(1, items[-1].length)))
        batch, self._pending[key] = items[-count:], items[:-count]
        if not self._pending[key]:
            del self._pending[key]
        results: Sequence[Result] = self.generate(batch) if isinstance(batch[0].request, Generate) else self.score(batch)
        return [(item.request, result) for item, result in zip(batch, results, strict=True)]

    def target(self, request: Likelihood) -> list[int]:
        """Tokenise a continuation, and append the end token if it is scored too."""
        tokenizer = self.lm.tokenizer
        ids: list[int] = tokenizer(request.continuation, add_special_tokens=False)["input_ids"]
        return [*ids, tokenizer.eos_token_id] if request.include_eos else ids

    @abstractmethod
    def load(self) -> LanguageModel:
        """Load the model and its tokenizer."""

    @abstractmethod
    def encode(self, request: Generate | Likelihood) -> Item:
        """Tokenise a request."""

    @abstractmethod
    def generate(self, batch: Sequence[Item]) -> list[Generation]:
        """Generate a reply to each prompt. All requests have the same max_new_tokens."""

    @abstractmethod
    def score(self, batch: Sequence[Item]) -> list[Score]:
        """Compute log P(continuation | prompt) for each item, in nats."""


def _text_request(request: Request) -> Generate | Likelihood:
    if not isinstance(request, Generate | Likelihood):
        raise ConfigError(f"A reader serves Generate and Likelihood requests; received {type(request).__name__}.")
    return request


def _batch_key(request: Generate | Likelihood) -> Hashable:
    """Return a key that is equal for requests that can share a batch."""
    if isinstance(request, Generate):
        return request.decoding.max_new_tokens, request.decoding.logprobs, request.token_logprobs
    return "likelihood"
