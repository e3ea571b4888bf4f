"""A ledger around another one, which does everything that a subclass does not do differently."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from winnow.protocols import CallStore
from winnow.requests import Request, Result


@dataclass
class WrappedStore:
    """A store with the methods of `ledger`.

    Attributes:
        ledger: Ledger that is wrapped.
    """

    ledger: CallStore

    def __enter__(self) -> Self:
        """Open the ledger."""
        self.ledger.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        """Close the ledger."""
        self.ledger.__exit__(*error)

    def __len__(self) -> int:
        return len(self.ledger)

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Result]:
        """Return the stored results by key."""
        return self.ledger.get(keys)

    def put(self, engine: str, rows: Sequence[tuple[bytes, Request, Result, float]]) -> None:
        """Store results."""
        self.ledger.put(engine, rows)

    def delete(self, keys: Sequence[bytes]) -> None:
        """Delete results."""
        self.ledger.delete(keys)

    def claim(self, keys: Sequence[bytes]) -> set[bytes]:
        """Claim calls; return the keys that this owner now holds."""
        return self.ledger.claim(keys)

    def release(self, keys: Sequence[bytes]) -> None:
        """Release this owner's claims."""
        self.ledger.release(keys)

    def find_owners(self, keys: Sequence[bytes]) -> set[str]:
        """Return the owners of the claims on these calls."""
        return self.ledger.find_owners(keys)

    def compute_mean_seconds(self, engine: str) -> float | None:
        """Return the mean time of an engine's stored calls in seconds, or None if it has none."""
        return self.ledger.compute_mean_seconds(engine)
