"""Interface of what runs the model of a local reader: PyTorch in batches, or OpenVINO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from winnow.requests import Generate, Likelihood, Request, Result

if TYPE_CHECKING:
    from winnow.modeling.text_interface import TextInterface


@dataclass(frozen=True, slots=True)
class TokenizedRequest:
    """A tokenized request.

    Attributes:
        request: Original request.
        ids: Token ids of the prompt.
        target: Token ids of the continuation of a Likelihood request; empty for a Generate request.
    """

    request: Generate | Likelihood
    ids: Sequence[int]
    target: Sequence[int] = ()

    @property
    def length(self) -> int:
        """Return the total number of tokens of prompt and continuation."""
        return len(self.ids) + len(self.target)


class Runtime(Protocol):
    """Runs a model on tokenized requests, and chooses which of them run together."""

    @property
    def software(self) -> str:
        """Return the library and its version, as `winnow.protocols.Engine.software`."""
        ...

    @property
    def identity(self) -> str:
        """Return what the identity of a reader says of the runtime: "" for PyTorch."""
        ...

    @property
    def reuses_prefixes(self) -> bool:
        """Return whether a prefix shared by consecutive prompts is read only once."""
        ...

    @property
    def text(self) -> TextInterface:
        """Return the tokenizer and the limits of the model."""
        ...

    def explain_refusal(self, request: Request) -> str | None:
        """Return why the runtime does not serve a request and what to do, or None if it does."""
        ...

    def add(self, item: TokenizedRequest) -> None:
        """Queue a request."""
        ...

    def collect(self) -> Sequence[tuple[Request, Result]]:
        """Run until a request is finished, and return the finished ones; none if none is queued."""
        ...

    def close(self) -> None:
        """Release the weights, and drop the requests that are not finished."""
        ...
