"""What components must be able to do; any class with these methods fits, no base class is needed."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from winnow.records import Context, Hit, Passage, Plan, Question, Request, Result, TooLong

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PassageSource = Callable[[], Iterator[Passage]]
"""Starts a fresh pass over a corpus; called as often as an index needs passes."""


class CorpusReader(Protocol):
    """Turns a public format into passages, one at a time."""

    def __iter__(self) -> Iterator[Passage]:
        """Yield every passage; raise InputError with file and line for a malformed one."""
        ...


class DatasetReader(Protocol):
    """Turns a public format into questions, one at a time."""

    def __iter__(self) -> Iterator[Question]:
        """Yield every question; raise InputError with file and line for a malformed one."""
        ...


class Searcher(Protocol):
    """An opened index."""

    def search(self, questions: Sequence[Question], depth: int) -> list[list[Hit]]:
        """Return up to `depth` hits a question, best first."""
        ...


class Retriever(Protocol):
    """Builds an index of a corpus in a folder and opens it for search."""

    def build(self, passages: PassageSource, folder: Path) -> None:
        """Write the index; a folder that holds a finished part of it is continued."""
        ...

    def open(self, folder: Path) -> Searcher:
        """Open a finished index, memory-mapped."""
        ...


class Estimator(Protocol):
    """Judges how relevant passages are to questions."""

    @property
    def truncated(self) -> int:
        """Return how many texts were cut to the model's window so far."""
        ...

    def score(self, pairs: Sequence[tuple[str, Passage]]) -> "NDArray[np.float32]":
        """Return (pairs,) float32 log-odds of "true" against "false"."""
        ...


class Engine(Protocol):
    """Meets requests of some kinds, in batches of its own choosing; the driver's only view of a model."""

    @property
    def identity(self) -> str:
        """Return what the ledger files results under: model, revision or weights digest, and precision."""
        ...

    @property
    def capacity(self) -> int:
        """Return how many requests it is worth handing over at once."""
        ...

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return the kinds of requests that it meets."""
        ...

    def check(self) -> None:
        """Refuse, before anything is asked, what cannot work: no weights, no key."""
        ...

    def close(self) -> None:
        """Let go of connections; no further request comes."""
        ...

    def fits(self, request: Request) -> bool:
        """Tell whether the request fits into the model's window."""
        ...

    def size(self, request: Request) -> int:
        """Return the request's length in prompt tokens, or a fair estimate."""
        ...

    def submit(self, requests: Sequence[Request]) -> None:
        """Take requests; they are met by later calls of `collect`."""
        ...

    def collect(self) -> Sequence[tuple[Request, Result | TooLong]]:
        """Return finished requests, at least one while any is pending (blocking), none otherwise.

        The next call says that all that was returned before is stored. Results of an earlier run may be among them.
        An engine that can go no further (a refused key, a spent budget) first returns what it has finished, and
        raises when nothing is left to return.
        """
        ...


class Strategy(Protocol):
    """How passages are put to the reader and its replies become one answer."""

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan:
        """Start the plan for one question; see `winnow.records.Plan`."""
        ...
