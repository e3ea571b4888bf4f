"""Base class of readers that run a model on this machine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge

from winnow.errors import ConfigError
from winnow.identity.markers import ModelName, SpeedOnly
from winnow.identity.values import check_values
from winnow.modeling.devices import resolve_device_type, resolve_dtype, resolve_dtype_setting
from winnow.modeling.generation_settings import describe_generation
from winnow.modeling.loading import (
    LanguageModel,
    check_model,
    compute_weights_digest,
)
from winnow.modeling.text_interface import TextInterface
from winnow.readers.batching import Batches
from winnow.readers.runtime import Runtime, TokenizedRequest
from winnow.requests import Generate, Generation, Likelihood, Request, Result, Score

_TOKENS_PER_MESSAGE = 64
"""An upper bound on the number of tokens that a chat template adds to a message."""


@dataclass
class LocalEngine(ABC):
    """Base class of local engines. Subclasses load the model, tokenize, generate and score.

    Args:
        path: Safetensors folder, hub name or (causal models only) GGUF file.
        name: Name of the model in the ledger and in reports.
        dtype: "float32", "bfloat16", "float16" or "auto" (bfloat16 if the hardware supports it). In
            bfloat16, a result may depend on the other requests of its batch.
        device: "auto", "cpu" or "cuda".
        quantize: "none", or "4bit" for 4-bit weights (bitsandbytes, CUDA only).
        context_length: Maximum number of tokens of prompt and reply together; None means the
            model's own limit.
        batch_tokens: Maximum number of padded prompt tokens per batch; None for the number
            in `default_batches`. It is lowered if a GPU has too little memory.
        batch_size: Maximum number of prompts per batch; None for the number in `default_batches`.
        capacity: Maximum number of requests in the queue.
        deterministic: Whether to run every prompt in a batch of its own and without a shared
            prefix. This is slower, but a reply then depends only on its request. Otherwise,
            rounding in bfloat16 may change a reply when other requests share its batch
            (docs/rules.md reports how often).
    """

    default_batches: ClassVar[Mapping[str, tuple[int, int]]] = {
        "cpu": (4096, 16),
        "cuda": (65536, 256),
    }
    """Maximum padded prompt tokens and prompts per batch by device. Big batches keep a GPU busy."""

    path: Annotated[str, ModelName]
    name: str
    dtype: str = "auto"
    device: Annotated[str, SpeedOnly("every device computes the same up to rounding")] = "auto"
    quantize: Literal["none", "4bit"] = "none"
    context_length: int | None = None
    batch_tokens: Annotated[
        int | None,
        Ge(1),
        SpeedOnly("batches affect replies only by rounding, and not at all with `deterministic`"),
    ] = None
    batch_size: Annotated[
        int | None,
        Ge(1),
        SpeedOnly("batches affect replies only by rounding, and not at all with `deterministic`"),
    ] = None
    capacity: Annotated[
        int, Ge(1), SpeedOnly("the length of the queue does not affect replies")
    ] = 256
    deterministic: bool = False

    def __post_init__(self) -> None:
        check_values("reader.engine", self)

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with dtype "auto" resolved for this machine."""
        return resolve_dtype_setting(settings)

    @cached_property
    def batches(self) -> Batches:
        """What PyTorch runs."""
        tokens, rows = self.batch_limits
        return Batches(
            self.load, self.generate, self.score, tokens, 1 if self.deterministic else rows
        )

    @property
    def model_runtime(self) -> Runtime:
        """Return what runs the model: PyTorch, in a class that has no other runtime."""
        return self.batches

    @property
    def software(self) -> str:
        """Return the library that computes, and its version."""
        return self.model_runtime.software

    @property
    def reuses_prefixes(self) -> bool:
        """Return whether the beginning that prompts share is read once for neighbors."""
        return self.model_runtime.reuses_prefixes

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return the kinds of requests that a local model serves."""
        return (Generate, Likelihood)

    @cached_property
    def _weights_identity(self) -> str:
        """The name, weights digest, precision, "deterministic", and what else replies depend on."""
        dtype = resolve_dtype(self.dtype, self.device)
        precision = dtype if self.quantize == "none" else f"{dtype}/{self.quantize}"
        suffix = "/deterministic" if self.deterministic else ""
        suffix += f"/context {self.context_length}" if self.context_length else ""
        replies = describe_generation(self.path)
        return f"{self.name}@{compute_weights_digest(self.path)}/{precision}{suffix}{replies}"

    @property
    def identity(self) -> str:
        """Return the name, the digest of the weights, the precision, "deterministic", and what else
        the replies depend on: a shorter context drops passages from prompts.
        """
        return self._weights_identity

    @property
    def lm(self) -> LanguageModel:
        """Return the model with its tokenizer. PyTorch loads it on first use."""
        return self.batches.lm

    @property
    def text(self) -> TextInterface:
        """Return the tokenizer and the limits of the model."""
        return self.model_runtime.text

    @cached_property
    def batch_limits(self) -> tuple[int, int]:
        """Return the maximum numbers of padded prompt tokens and of prompts per batch."""
        tokens, rows = self.default_batches.get(
            resolve_device_type(self.device), self.default_batches["cpu"]
        )
        return self.batch_tokens or tokens, self.batch_size or rows

    @property
    def token_limit(self) -> int:
        """Return the maximum number of tokens of prompt and reply together.

        Raises:
            ConfigError: If `context_length` exceeds what the model reads. Beyond it, some runtimes
                compute numbers without meaning.
        """
        own_limit = self.text.context_length
        if self.context_length and self.context_length > own_limit:
            raise ConfigError(
                f"reader.engine.context_length={self.context_length} exceeds the {own_limit} "
                f"tokens that {self.path} reads. Lower it, or set it to null."
            )
        return self.context_length or own_limit

    def explain_refusal(self, request: Request) -> str | None:
        """Return why a request cannot be served, or None. Tools require a chat template."""
        if isinstance(request, Generate) and request.tools:
            return (
                "the model has no chat template that shows tools. Use a chat model (reader=folder) "
                "or a server."
            )
        return None

    def check(self) -> None:
        """Raise ModelError, without loading, if a tokenizer, config or safe weights are missing."""
        check_model(self.path)

    def close(self) -> None:
        """Release the model weights, and drop the requests that are not finished."""
        self.model_runtime.close()

    def fits(self, request: Request) -> bool:
        """Return whether prompt and reply fit into the context. Short prompts are not tokenized."""
        text_request = require_text_request(request)
        messages = text_request.messages
        if isinstance(text_request, Generate):
            max_reply_tokens = text_request.decoding.max_new_tokens
        else:
            max_reply_tokens = len(text_request.continuation.encode()) + 1
        prompt_bytes = sum(
            len(message.content.encode()) for message in messages
        )  # a token has at least one byte
        max_prompt_tokens = prompt_bytes + _TOKENS_PER_MESSAGE * len(messages)
        names_tools = isinstance(text_request, Generate) and (
            text_request.tools or any(one.tool_calls for one in messages)
        )
        if not names_tools and max_prompt_tokens + max_reply_tokens < self.token_limit:
            return True
        item = self.encode(text_request)  # includes the continuation of a Likelihood
        tokens_to_generate = max_reply_tokens if isinstance(text_request, Generate) else 0
        return item.length + tokens_to_generate <= self.token_limit

    def count_tokens(self, request: Request) -> int:
        """Return the length of the prompt in tokens, including the chat template."""
        return len(self.encode(require_text_request(request)).ids)

    def submit(self, requests: Sequence[Request]) -> None:
        """Tokenize and queue requests."""
        for request in requests:
            self.model_runtime.add(self.encode(require_text_request(request)))

    def collect(self, timeout: float) -> Sequence[tuple[Request, Result]]:  # noqa: ARG002 (nothing to wait for)
        """Run one batch, or the requests that run together until at least one is finished."""
        return self.model_runtime.collect()

    def tokenize_target(self, request: Likelihood) -> list[int]:
        """Tokenize the continuation of a request, with the token that ends a reply if the request
        includes it.
        """
        text = self.text
        ids: list[int] = text.tokenizer(request.continuation, add_special_tokens=False)["input_ids"]
        return [*ids, text.reply_end_id] if request.include_eos else ids

    @abstractmethod
    def load(self) -> LanguageModel:
        """Load the model and its tokenizer."""

    @abstractmethod
    def encode(self, request: Generate | Likelihood) -> TokenizedRequest:
        """Tokenize the prompt of a request and, for a Likelihood, its continuation."""

    @abstractmethod
    def generate(self, batch: Sequence[TokenizedRequest]) -> list[Generation]:
        """Generate replies; items share max_new_tokens, (top_)logprobs, stop and token_logprobs."""

    @abstractmethod
    def score(self, batch: Sequence[TokenizedRequest]) -> list[Score]:
        """Compute log P(continuation | prompt) for each item, in nats."""


def require_text_request(request: Request) -> Generate | Likelihood:
    """Return a Generate or Likelihood request unchanged; raise ConfigError for any other."""
    if not isinstance(request, Generate | Likelihood):
        raise ConfigError(
            "A local reader serves Generate and Likelihood requests; received "
            f"{type(request).__name__}."
        )
    return request
