"""Shared by the two clients of OpenAI-like servers: model, address, identity, price and budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from winnow.errors import ConfigError
from winnow.readers.budget import Budget, Spending
from winnow.readers.openai_protocol import ChatProtocol, estimated_tokens
from winnow.records import Generate, Price, Request


@dataclass
class OpenAIEngine:
    """One model on one server.

    Args:
        path: the server's name for the model.
        name: the model's name in reports.
        base_url: the server's address, with its version.
        server: the server's name in the ledger; "" means base_url. Set it where one server has several addresses.
        key_variable: the environment variable with the key; a server on this machine needs none.
        window: tokens of prompt and reply together, estimated; None leaves refusing to the server.
        max_tokens_field: "max_tokens", or "max_completion_tokens" for OpenAI's reasoning models.
        extra: further fields of every request's body; part of the identity.
        budget: the most that a run may spend.
        price: what the model costs.

    """

    remote: ClassVar[bool] = True
    speed_only: ClassVar[Mapping[str, str]] = {
        "base_url": "the server's name identifies it",
        "key_variable": "where the key is, not what the model is",
        "budget": "it stops a run, and changes no reply",
    }

    path: str
    name: str
    base_url: str = "https://api.openai.com/v1"
    server: str = ""
    key_variable: str = "OPENAI_API_KEY"
    window: int | None = None
    max_tokens_field: str = "max_tokens"
    extra: Mapping[str, Any] = field(default_factory=dict)
    budget: Budget = Budget()
    price: Price = Price()

    def __post_init__(self) -> None:
        """Refuse an invalid address, and a budget in dollars without a price."""
        self.protocol = ChatProtocol(self.path, self.base_url, self.key_variable, self.max_tokens_field, self.extra)
        self.spending = Spending(self.budget, self.price)

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with the server's name, which is its address by default."""
        return {**settings, "server": settings.get("server") or settings.get("base_url", cls.base_url)}

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return Generate: chat servers give no likelihood of a given text."""
        return (Generate,)

    def refusal(self, request: Request) -> str | None:
        """Return why a request cannot be served: chat servers report no log-probabilities of named tokens."""
        if isinstance(request, Generate) and request.token_logprobs:
            return "a chat server reports no log-probabilities of named tokens. Use a reader on this machine (reader=folder)."
        return None

    @property
    def identity(self) -> str:
        """Return server, model and extra fields; equal for both clients, because their results are."""
        extra = f"+{sorted(self.extra.items())}" if self.extra else ""
        return f"{self.server or self.base_url}#{self.path}{extra}"

    def check(self) -> None:
        """Raise if a key is needed and missing."""
        self.protocol.key()

    def fits(self, request: Request) -> bool:
        """Return whether prompt and reply fit into the context length, by estimate."""
        generate = as_generate(request)
        return self.window is None or estimated_tokens(generate) + generate.decoding.max_new_tokens <= self.window

    def size(self, request: Request) -> int:
        """Return the prompt's length in tokens, by estimate."""
        return estimated_tokens(as_generate(request))


def as_generate(request: Request) -> Generate:
    """Return the request; raise ConfigError for a kind that chat servers do not serve."""
    if not isinstance(request, Generate):
        raise ConfigError(
            f"A reader behind an API serves Generate requests; received {type(request).__name__}. Strategies that score "
            "answers need a local reader."
        )
    return request
