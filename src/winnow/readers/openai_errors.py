"""Failures of calls: which may succeed when repeated, and what the server says of them."""

from __future__ import annotations

from collections.abc import Mapping

from winnow.errors import ReaderError

_ECHO_FIELDS = frozenset(
    ("input", "inputs", "prompt", "prompts", "messages", "request", "body", "query", "content")
)
"""Fields of an error in which a server repeats the request."""


class ModelMismatchError(ReaderError):
    """Raised when a server replies with another model than was requested."""


class RetryableError(Exception):
    """Raised when a call failed and another attempt may succeed.

    Attributes:
        after: Seconds to wait before the next attempt, according to the server's Retry-After
            header, or None.
        throttled: Whether the server rejected the call only because of its load (HTTP 429 or 503).
        billed: Whether the server may charge for the lost reply.
    """

    def __init__(
        self,
        reason: str,
        *,
        after: float | None = None,
        throttled: bool = False,
        billed: bool = False,
    ) -> None:
        """Store the reason and the details of the failure."""
        super().__init__(reason)
        self.after, self.throttled, self.billed = after, throttled, billed


def read_reason(body: object) -> str:
    """Return the text of an error body without fields that repeat the request, such as `input`."""
    if isinstance(body, Mapping):
        return " ".join(
            read_reason(value)
            for name, value in body.items()
            if str(name).lower() not in _ECHO_FIELDS
        )
    if isinstance(body, list | tuple):
        return " ".join(map(read_reason, body))
    return "" if body is None else str(body)
