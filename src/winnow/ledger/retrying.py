"""A ledger in which replies without text count as missing, so that a run requests them again."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from winnow.ledger.wrapped import WrappedStore
from winnow.requests import Generation, Result


@dataclass
class RetryingStore(WrappedStore):
    """A ledger that hides replies without text, such as those that a content filter stopped.

    A hidden reply is deleted when its call is claimed, just before it is made again, so that a run
    that ends early keeps the others. A reply that is empty again is kept: each call is made once
    more at most.

    Attributes:
        ledger: Ledger with the results.
        keep: Whether hidden replies are kept, as a dry run does, which only counts the calls.
    """

    keep: bool = False
    _hidden: set[bytes] = field(default_factory=set, repr=False)
    _retried: set[bytes] = field(default_factory=set, repr=False)

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Result]:
        """Return the stored results by key, except empty replies that were not yet retried."""
        results = self.ledger.get(keys)
        empty = {
            key for key, result in results.items() if _is_empty(result) and key not in self._retried
        }
        self._hidden |= empty
        return {key: result for key, result in results.items() if key not in empty}

    def claim(self, keys: Sequence[bytes]) -> set[bytes]:
        """Delete the empty replies to these calls, claim the calls, and return their keys.

        Another process may have stored a reply with text since the look-up.
        """
        if not self.keep:
            hidden = self.ledger.get(list(self._hidden.intersection(keys)))
            self.ledger.delete([key for key, result in hidden.items() if _is_empty(result)])
        self._retried.update(keys)
        self._hidden.difference_update(keys)
        return self.ledger.claim(keys)


def _is_empty(result: Result) -> bool:
    return isinstance(result, Generation) and result.is_empty
