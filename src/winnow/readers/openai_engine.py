"""Base class of the two OpenAI-compatible readers: model, address, identity, price and budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from winnow.errors import ConfigError, ServerUnavailableError
from winnow.identity.markers import NotAFile, SpeedOnly
from winnow.identity.values import check_values
from winnow.predictions import Price
from winnow.readers.budget import Budget, Spending
from winnow.readers.openai_protocol import ChatProtocol, ModelChange, is_begun, is_loopback
from winnow.readers.token_estimates import estimate_max_usage, estimate_prompt_tokens
from winnow.requests import Generate, Likelihood, Request

_SECONDS_TO_REPLY = 10.0
"""Time that a server has to show that it runs."""


@dataclass
class OpenAIEngine:
    """Base class of engines that send requests to one model on one server.

    Args:
        path: Name of the model on the server.
        name: Name of the model in reports.
        base_url: Address of the server, including the API version.
        server: Name of the server in the ledger; "" means base_url. Set it if one server has
            several addresses.
        api_key_variable: Environment variable that contains the API key. A server on this machine
            needs no key.
        context_length: Maximum number of tokens of prompt and reply together. The number of tokens
            is estimated. None leaves the check to the server.
        max_tokens_field: Name of the request field that limits the length of a reply: "max_tokens",
            or "max_completion_tokens" for OpenAI's reasoning models.
        extra: Additional fields of every request body. They are part of the identity, under which
            the ledger stores replies.
        served_model: Name of the model that the server reports, if it is not `path`; "*" accepts
            any name.
        model_change: What follows if the server reports several models, such as two snapshots of
            one name: reports "mark" the cells, the run "stop"s at the first reply of another model,
            or both are taken for the same ("allow").
        budget: Limits on what a run may spend.
        price: Price of the model.
    """

    software: ClassVar[str] = ""
    reuses_prefixes: ClassVar[bool] = False

    path: Annotated[str, NotAFile("the name of a model on a server")]
    name: str
    base_url: Annotated[str, SpeedOnly("the server is identified by its name")] = (
        "https://api.openai.com/v1"
    )
    server: str = ""
    api_key_variable: Annotated[str, SpeedOnly("the source of the key does not affect replies")] = (
        "OPENAI_API_KEY"
    )
    context_length: int | None = None
    max_tokens_field: str = "max_tokens"
    extra: Mapping[str, Any] = field(default_factory=dict)
    served_model: Annotated[
        str, SpeedOnly("it decides which replies are accepted but does not affect them")
    ] = ""
    model_change: Annotated[
        ModelChange, SpeedOnly("it decides what is said of replies but does not affect them")
    ] = "mark"
    budget: Annotated[Budget, SpeedOnly("it stops a run but does not affect replies")] = Budget()
    price: Price = Price()

    def __post_init__(self) -> None:
        check_values("reader.engine", self)
        self.protocol = ChatProtocol(
            self.path,
            self.base_url,
            self.api_key_variable,
            self.max_tokens_field,
            self.extra,
            self.served_model,
            self.model_change,
        )
        self.spending = Spending(self.budget, self.price)

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with the name of the server, which defaults to its address."""
        return {
            **settings,
            "server": settings.get("server") or settings.get("base_url", cls.base_url),
        }

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return Generate only, because chat servers do not compute likelihoods of given texts."""
        return (Generate,)

    def explain_refusal(self, request: Request) -> str | None:
        """Return the reason if the request needs named tokens or begins the reply, else None."""
        if isinstance(request, Generate) and request.token_logprobs:
            return (
                "a chat server does not report the log-probabilities of tokens named in a request. "
                "Use a reader that runs on this machine (reader=folder)."
            )
        if (
            isinstance(request, Generate | Likelihood)
            and is_begun(request.messages)
            and not self.continues_replies
        ):
            return (
                "the prompt begins the reply (prompt.reply_start), which this server would take "
                "for a finished reply. Use reader.engine.dialect=vllm with a server of vLLM, a "
                "reader that runs on this machine (reader=folder), or a prompt without "
                "reply_start."
            )
        return None

    @property
    def continues_replies(self) -> bool:
        """Return False, because chat servers have no common way to continue a begun reply."""
        return False

    @property
    def identity(self) -> str:
        """Return server, model, extra fields and the context length, by which passages are dropped
        from prompts. Both readers of a model have the same identity and share stored replies.
        """
        extra = f"+{sorted(_sort(self.extra).items())}" if self.extra else ""
        context = f"/context {self.context_length}" if self.context_length else ""
        return f"{self.server or self.base_url}#{self.path}{extra}{context}"

    def check(self) -> None:
        """Raise ConfigError if a server needs an API key and the environment variable is unset."""
        self.protocol.read_api_key()

    def check_reachable(self) -> None:
        """Raise ServerUnavailableError if the server gives no reply at all. No model is called."""
        import httpx

        try:
            httpx.get(
                f"{self.base_url.rstrip('/')}/models",
                timeout=_SECONDS_TO_REPLY,
                trust_env=not is_loopback(self.base_url),
            )
        except httpx.HTTPError as error:
            reason = self.protocol.mask_api_key(f"{type(error).__name__}: {error}")
        else:
            return
        raise ServerUnavailableError(
            f"No server replies at {self.base_url} ({reason}). Start it, or correct "
            "reader.engine.base_url."
        )

    def fits(self, request: Request) -> bool:
        """Estimate whether prompt and reply fit into the context length."""
        text_request = self.require_served(request)
        if self.context_length is None:
            return True
        usage = estimate_max_usage(text_request)
        return usage.tokens_in + usage.tokens_out <= self.context_length

    def count_tokens(self, request: Request) -> int:
        """Estimate the length of the prompt in tokens."""
        return estimate_prompt_tokens(self.require_served(request))

    def require_served(self, request: Request) -> Generate | Likelihood:
        """Return the request unchanged if its kind is served; raise ConfigError otherwise."""
        if isinstance(request, Generate | Likelihood) and isinstance(request, self.serves):
            return request
        raise ConfigError(
            "A reader behind an API serves only Generate requests; received "
            f"{type(request).__name__}. Strategies that score given answers need a local reader "
            "(reader=folder), or a server with reader.engine.dialect=vllm."
        )


def _sort(value: Any) -> Any:
    """Return settings with the keys of all mappings sorted, at any depth."""
    if isinstance(value, Mapping):
        return {name: _sort(value[name]) for name in sorted(value)}
    return [_sort(item) for item in value] if isinstance(value, list) else value
