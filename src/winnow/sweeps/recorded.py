"""Engines known only by identity, for replaying recorded calls on a machine without models."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from winnow.errors import LedgerError
from winnow.requests import Estimate, Generate, Likelihood, Request, Result, Search, TooLong


@dataclass(frozen=True, slots=True)
class RecordedEngine:
    """An engine whose calls are all in the ledger, the store of finished calls; it makes none.

    Args:
        identity: Identity under which the ledger has the calls.
    """

    revision: ClassVar[int] = 1

    identity: str

    @property
    def software(self) -> str:
        """Return "", because no library computes replies here."""
        return ""

    @property
    def reuses_prefixes(self) -> bool:
        """Return False."""
        return False

    @property
    def capacity(self) -> int:
        """Return 1."""
        return 1

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return all kinds of requests, because the identity does not say which were recorded."""
        return (Generate, Likelihood, Estimate, Search)

    def explain_refusal(self, request: Request) -> str | None:  # noqa: ARG002 (the protocol)
        """Return None, because calls that were made were not refused."""
        return None

    def check(self) -> None:
        """Do nothing, because no model is needed."""

    def close(self) -> None:
        """Do nothing."""

    def fits(self, request: Request) -> bool:  # noqa: ARG002 (the protocol)
        """Return True; a call that was shortened is recorded as it was made."""
        return True

    def count_tokens(self, request: Request) -> int:  # noqa: ARG002 (the protocol)
        """Return 0, because there is no tokenizer."""
        return 0

    def submit(self, requests: Sequence[Request]) -> None:
        """Raise LedgerError, because a call that is not in the ledger cannot be made."""
        raise LedgerError(
            f"{len(requests)} calls of {self.identity} are not among the recorded ones, such as "
            f"{type(requests[0]).__name__} of the role {requests[0].role!r}. The code, a prompt "
            "or a metric differs from the recorded one."
        )

    def collect(self, timeout: float) -> Sequence[tuple[Request, Result | TooLong]]:  # noqa: ARG002 (the protocol)
        """Return nothing."""
        return ()
