"""A ledger in which replies without text count as missing, so that a run requests them again."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType

from winnow.protocols import CallStore
from winnow.records import Generation, Request, Result


@dataclass
class RetryingStore:
    """A ledger that hides replies without text, such as those that a content filter stopped.

    A hidden reply is deleted when it is looked up, so that a new one can be stored. A reply that is empty again is kept:
    each call is made once more at most.

    Attributes:
        ledger: Open ledger.
        keep: Whether hidden replies are kept, as a dry run does, which only counts the calls.

    """

    ledger: CallStore
    keep: bool = False
    _retried: set[bytes] = field(default_factory=set, repr=False)

    def __enter__(self) -> "RetryingStore":
        """Open the ledger."""
        self.ledger.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the ledger."""
        self.ledger.__exit__(kind, error, trace)

    def __len__(self) -> int:
        """Return the number of stored calls."""
        return len(self.ledger)

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Result]:
        """Return the stored results by key, without replies without text that were not requested again yet."""
        results = self.ledger.get(keys)
        empty = {
            key
            for key, result in results.items()
            if isinstance(result, Generation) and result.is_empty and key not in self._retried
        }
        if not self.keep:
            self._retried.update(keys)
            self.ledger.delete(list(empty))
        return {key: result for key, result in results.items() if key not in empty}

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
        """Return the mean time of an engine's stored calls in seconds, or None if there are none."""
        return self.ledger.compute_mean_seconds(engine)
