"""The interfaces of components; any class with these members fits, no base class is needed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from winnow.records import Answer, Context, Hit, Passage, Plan, Question, Request, Result, Role, TooLong

if TYPE_CHECKING:
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray

PassageSource = Callable[[], Iterator[Passage]]
"""Starts a fresh pass over a corpus; called as often as an index needs passes."""


class CorpusParser(Protocol):
    """Parses a public format into passages, one at a time."""

    def __iter__(self) -> Iterator[Passage]:
        """Yield every passage; raise InputError with file and line for a malformed one."""
        ...


class DatasetParser(Protocol):
    """Parses a public format into questions, one at a time."""

    def __iter__(self) -> Iterator[Question]:
        """Yield every question; raise InputError with file and line for a malformed one."""
        ...


class Searcher(Protocol):
    """An opened index."""

    def search(self, questions: Sequence[Question], depth: int) -> list[list[Hit]]:
        """Return up to `depth` hits per question, best first."""
        ...


class Retriever(Protocol):
    """Builds an index of a corpus in a folder and opens it for search."""

    def build(self, passages: PassageSource, folder: Path) -> None:
        """Write the index; continue if the folder contains a finished part of it."""
        ...

    def open(self, folder: Path) -> Searcher:
        """Open a finished index, memory-mapped."""
        ...


class Estimator(Protocol):
    """Estimates how relevant passages are to questions."""

    @property
    def truncated(self) -> int:
        """Return how many texts were cut to the model's context length so far."""
        ...

    def score(self, pairs: Sequence[tuple[str, Passage]]) -> "NDArray[np.float32]":
        """Return (pairs,) float32 log-odds of "true" against "false"."""
        ...


class Engine(Protocol):
    """Serves requests of some kinds, in batches of its own choosing; the driver's only view of a model or a server."""

    @property
    def identity(self) -> str:
        """Return what the ledger files results under: model, revision or weights digest, and precision."""
        ...

    @property
    def capacity(self) -> int:
        """Return how many requests are worth submitting at once."""
        ...

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return the kinds of requests that it serves."""
        ...

    def refusal(self, request: Request) -> str | None:
        """Return why a request of a served kind cannot be served, with what to do; None if it can."""
        ...

    def check(self) -> None:
        """Raise before the first request if something is missing: weights, a key."""
        ...

    def close(self) -> None:
        """Release connections and weights; no further request comes."""
        ...

    def fits(self, request: Request) -> bool:
        """Return whether the request fits into the model's context length."""
        ...

    def size(self, request: Request) -> int:
        """Return the request's length in prompt tokens, or an estimate."""
        ...

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests; later calls of `collect` return their results."""
        ...

    def collect(self, timeout: float) -> Sequence[tuple[Request, Result | TooLong]]:
        """Return finished requests, possibly none.

        An engine that waits for a server has the attribute `remote = True` and waits at most `timeout` seconds for the
        first result. One that computes in this process runs one batch, however long that takes; calls are timed
        accordingly.

        Each call implies that all results returned before are stored. Results of an earlier run may be among them. An
        engine that cannot continue (a refused key, an exhausted budget) first returns what is finished, then raises.
        """
        ...


Engines = Mapping[tuple[type, Role], Engine]
"""The engines of a run by request kind and role."""


def engines_for(engine: Engine, *roles: Role) -> dict[tuple[type, Role], Engine]:
    """Return the entries of an engine that serves these roles ("reader" if none is named).

    Estimate and Search requests have one role each, which counts instead.
    """
    entries: dict[tuple[type, Role], Engine] = {}
    for kind in engine.serves:
        fixed = getattr(kind, "role", None)
        names = (fixed,) if isinstance(fixed, str) else roles or ("reader",)
        entries |= {(kind, name): engine for name in names}
    return entries


class CallStore(Protocol):
    """Stores the result of every call under its key, and lets processes share work by claiming keys.

    A context manager: entering opens it, leaving releases this owner's claims and closes it.
    """

    def __enter__(self) -> "CallStore":
        """Open the store."""
        ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None") -> None:
        """Release this owner's claims and close the store."""
        ...

    def __len__(self) -> int:
        """Return how many calls are stored."""
        ...

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Result]:
        """Return the results stored under any of the keys."""
        ...

    def put(self, engine: str, rows: Sequence[tuple[bytes, Request, Result, float]]) -> None:
        """Store (key, request, result, seconds) rows in one commit, release the claims on them, renew this owner's others."""
        ...

    def claim(self, keys: Sequence[bytes]) -> set[bytes]:
        """Claim the calls that are neither stored nor claimed by a live owner; return those that this owner has now."""
        ...

    def release(self, keys: Sequence[bytes]) -> None:
        """Release this owner's claims on calls that will not be made."""
        ...

    def release_dead(self) -> int:
        """Release the claims of owners that have ended, or whose lease has expired; return how many."""
        ...

    def mean_seconds(self, engine: str) -> float | None:
        """Return the mean seconds of an engine's stored calls, None where there is none."""
        ...


class Strategy(Protocol):
    """Builds prompts from passages, and one answer from the replies."""

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Start the plan for one question; see `winnow.records.Plan`."""
        ...
