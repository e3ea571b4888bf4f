"""What the two roads to an OpenAI-like server share: the model, its address, its price and what may be spent on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from winnow.errors import ConfigError
from winnow.readers.budget import Budget, Spending
from winnow.readers.openai_protocol import ChatProtocol, estimated_tokens
from winnow.records import Generate, Price, Request


@dataclass
class OpenAIEngine:
    """One model of one server.

    Args:
        path: the server's name for the model.
        name: what the reports call it.
        base_url: where the server is, with its version.
        server: what the ledger calls the server; "" takes base_url. Name it where the same server has several addresses.
        key_variable: the environment variable that holds the key; a server on this machine needs none.
        window: tokens of prompt and reply together, by estimate; None leaves it to the server to refuse.
        max_tokens_field: "max_tokens", or "max_completion_tokens" for OpenAI's reasoning models.
        extra: further fields of every request's body; part of what results are filed under.
        budget: what a run may spend.
        price: what the model costs.

    """

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
        """Refuse an address that is none, and a budget in money without a price."""
        self.protocol = ChatProtocol(self.path, self.base_url, self.key_variable, self.max_tokens_field, self.extra)
        self.spending = Spending(self.budget, self.price)

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return the one kind: chat servers give no likelihood of a given answer."""
        return (Generate,)

    @property
    def identity(self) -> str:
        """Return server, model and extra fields; both roads give the same, for their results are."""
        extra = f"+{sorted(self.extra.items())}" if self.extra else ""
        return f"{self.server or self.base_url}#{self.path}{extra}"

    def check(self) -> None:
        """Refuse to begin without a key where one is needed."""
        self.protocol.key()

    def fits(self, request: Request) -> bool:
        """Tell, by estimate, whether prompt and reply fit into the window."""
        asked = as_generate(request)
        return self.window is None or estimated_tokens(asked) + asked.decoding.max_new_tokens <= self.window

    def size(self, request: Request) -> int:
        """Return the prompt's length in tokens, by estimate."""
        return estimated_tokens(as_generate(request))


def as_generate(request: Request) -> Generate:
    """Return the request, or say that servers only write."""
    if not isinstance(request, Generate):
        raise ConfigError(
            f"A reader behind an API serves Generate requests; received {type(request).__name__}. Strategies that score "
            "answers need a local reader."
        )
    return request
