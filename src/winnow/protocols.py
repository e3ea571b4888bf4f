"""Interfaces of the components, as protocols: a class implements one by having its members."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from typing_extensions import get_protocol_members

from winnow.errors import ConfigError
from winnow.records import Answer, Context, Hit, Passage, Question, Role
from winnow.requests import Estimate, Generate, Plan, Request, Result, Search, TooLong

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PassageSource = Callable[[], Iterator[Passage]]
"""A function that returns a new corpus iterator. It is called once per pass that an index needs."""


class CorpusParser(Protocol):
    """Parses a corpus in a public format into passages, one at a time."""

    def __iter__(self) -> Iterator[Passage]:
        """Yield every passage; raise InputError with the file and line if one is malformed."""
        ...


class DatasetParser(Protocol):
    """Parses a dataset in a public format into questions, one at a time."""

    def __iter__(self) -> Iterator[Question]:
        """Yield every question; raise InputError with the file and line if one is malformed."""
        ...


class Searcher(Protocol):
    """An index that is open for search."""

    def search(self, questions: Sequence[Question], depth: int) -> list[list[Hit]]:
        """Search for up to `depth` hits per question, best first."""
        ...


class Retriever(Protocol):
    """Builds an index of a corpus in a folder and opens it for search."""

    def build(self, passages: PassageSource, folder: Path) -> None:
        """Write the index to the folder. Keep finished parts that the folder already contains."""
        ...

    def open(self, folder: Path) -> Searcher:
        """Open a finished index with memory mapping."""
        ...


@runtime_checkable
class VectorSearcher(Searcher, Protocol):
    """An open index of vectors that can be searched with averages of several texts' vectors."""

    def search_averages(
        self, texts: Sequence[tuple[str, Sequence[str]]], depth: int
    ) -> list[list[Hit]]:
        """Return up to `depth` hits, best first, per query with texts encoded as passages are."""
        ...


@runtime_checkable
class BlockRetriever(Retriever, Protocol):
    """A retriever whose index is built from corpus blocks, which several processes can prepare."""

    def build_blocks(
        self, passages: PassageSource, folder: Path, select: Callable[[int], bool]
    ) -> "Sequence[Path]":
        """Prepare the selected blocks, counted from 0, for `build`, which prepares missing ones."""
        ...


class Estimator(Protocol):
    """Estimates how relevant passages are to questions."""

    @property
    def software(self) -> str:
        """Return the library that computes scores and its version, as `Engine.software`, or ""."""
        ...

    @property
    def truncated(self) -> int:
        """Return the number of inputs truncated to the maximum length so far."""
        ...

    def score(self, pairs: Sequence[tuple[str, Passage]]) -> "NDArray[np.float32]":
        """Compute the log-odds of shape (pairs,) that each passage is relevant to its question."""
        ...


class Engine(Protocol):
    """Serves one or more kinds of requests with a model or server, and chooses its own batches."""

    @property
    def software(self) -> str:
        """Return the library and version that compute replies ("torch 2.13.0"); "" for a server.

        Replies are stored with it, as with the model that a server reports, so that a replayed cell
        says what made its calls.
        """
        ...

    @property
    def reuses_prefixes(self) -> bool:
        """Return whether the engine keeps the keys and values of prompts.

        It then receives prompts that begin alike one after the other. Others receive the longest
        requests first.
        """
        ...

    @property
    def identity(self) -> str:
        """Return the identity for the ledger: model, revision or weights digest, and precision."""
        ...

    @property
    def capacity(self) -> int:
        """Return the number of requests that are worth submitting at once."""
        ...

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return the kinds of requests that this engine serves."""
        ...

    def explain_refusal(self, request: Request) -> str | None:
        """Return why a request of a served kind is refused and what to do, or None if it is not."""
        ...

    def check(self) -> None:
        """Raise an error before the first request if anything (weights, an API key) is missing."""
        ...

    def close(self) -> None:
        """Release connections and weights. No further requests follow."""
        ...

    def fits(self, request: Request) -> bool:
        """Return whether the request fits into the model's context length."""
        ...

    def count_tokens(self, request: Request) -> int:
        """Return the length of the request in prompt tokens, or an estimate of it."""
        ...

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests. Later calls of `collect` return their results."""
        ...

    def collect(self, timeout: float) -> Sequence[tuple[Request, Result | TooLong]]:
        """Return finished requests with their results, possibly none.

        A `RemoteEngine` waits at most `timeout` seconds for the first result. An engine that
        computes in this process runs one batch, however long that takes. The driver times calls
        accordingly.

        Each call implies that all previously returned results have been stored. The results may
        include those of an earlier run. An engine that cannot continue (rejected key, exhausted
        budget) first returns all finished requests and then raises an error.
        """
        ...


@runtime_checkable
class RemoteEngine(Engine, Protocol):
    """An engine that waits for a server. Others compute in this process, during `collect`."""

    def stop(self) -> None:
        """Send no further request, because the run ends with an error elsewhere.

        Later calls of `collect` return the results of the calls in flight, which are paid for, and
        then raise `StoppedError`. Calls that a later run can collect are not waited for.
        """
        ...


@runtime_checkable
class SampleSharer(Protocol):
    """An engine whose call may request several samples of a prompt, which is then paid for once."""

    @property
    def samples_per_call(self) -> int:
        """Return the maximum number of samples of a call."""
        ...


@runtime_checkable
class PromptRenderer(Protocol):
    """An engine whose server can show the prompt that the model reads."""

    def render_prompt(self, request: Generate) -> str | None:
        """Return a prompt in the server's chat template, or None if the server does not show it."""
        ...


def list_missing_members(protocol: type, known: Collection[str]) -> list[str]:
    """Return the members of a protocol, in order of their names, that are not among those known."""
    return sorted(get_protocol_members(protocol) - set(known))


Engines = Mapping[tuple[type, Role], Engine]
"""The engines of a run, keyed by kind of request and role."""


def build_engine_map(engine: Engine, *roles: Role) -> dict[tuple[type, Role], Engine]:
    """Map each kind of request that an engine serves, with each of these roles, to the engine.

    Without roles, a request has its own default: "reader", "estimator" for Estimate, or "search"
    for Search.

    Raises:
        ConfigError: If the engine lacks a member of `Engine`. The message names it.
    """
    member_names = {*dir(type(engine)), *getattr(engine, "__dict__", {})}
    if missing_members := list_missing_members(Engine, member_names):
        raise ConfigError(
            f"{type(engine).__module__}.{type(engine).__qualname__} is not an engine: it lacks "
            f"{', '.join(missing_members)}. See winnow.protocols.Engine; a member that is spelled "
            "otherwise has no effect."
        )
    return {
        (kind, role): engine
        for kind in engine.serves
        for role in roles or (_DEFAULT_ROLES.get(kind, "reader"),)
    }


MODEL_ROLES: tuple[Role, ...] = ("reader", "rewriter", "reranker", "judge", "verifier")
"""Roles that a language model fills, unlike "estimator", "nli", "search" and "corpus"."""
_DEFAULT_ROLES: Mapping[type, Role] = {Estimate: "estimator", Search: "search"}


class CallStore(Protocol):
    """Stores the result of every model call under the key of its request.

    Processes share work through claims: a claim reserves a call for one owner, a process, until the
    result is stored or the owner has ended. An owner on another host has ended if it no longer
    renews its claims. A store is a context manager: entering opens it, and leaving releases this
    owner's claims and closes it.
    """

    def __enter__(self) -> "CallStore":
        """Open the store."""
        ...

    def __exit__(self, *error: Any) -> None:
        """Release this owner's claims and close the store."""
        ...

    def __len__(self) -> int: ...

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Result]:
        """Return the stored results of these keys. Keys without a result are omitted."""
        ...

    def put(self, engine: str, rows: Sequence[tuple[bytes, Request, Result, float]]) -> None:
        """Store (key, request, result, seconds) rows of the engine of this identity in one commit.

        The claims on these rows are released.
        """
        ...

    def claim(self, keys: Sequence[bytes]) -> set[bytes]:
        """Claim and return keys that are neither stored nor claimed by another live owner."""
        ...

    def release(self, keys: Sequence[bytes]) -> None:
        """Release this owner's claims on calls that will not be made."""
        ...

    def find_owners(self, keys: Sequence[bytes]) -> set[str]:
        """Return the owners of the claims on these calls."""
        ...

    def delete(self, keys: Sequence[bytes]) -> None:
        """Delete the results of these keys, so that the calls are repeated."""
        ...

    def compute_mean_seconds(self, engine: str) -> float | None:
        """Return the mean time of an engine's stored calls in seconds, or None if it has none."""
        ...


class RetrievalPlan(Protocol):
    """Ranks passages for a question with models that write queries or reorder the ranking."""

    def plan(
        self, question: Question, contexts: Sequence[Context], depth: int
    ) -> "Plan[list[Hit]]":
        """Return the plan for one question, which returns up to `depth` hits, best first.

        `contexts` are the ranking of the retriever, best first.
        """
        ...


class ContextProcessor(Protocol):
    """Changes placed contexts before a strategy runs: selects sentences, summarizes, reorders."""

    def process(self, question: Question, contexts: Sequence[Context]) -> Plan[tuple[Context, ...]]:
        """Return the plan whose result replaces the contexts. A changed text names its sources."""
        ...


class Strategy(Protocol):
    """Answers a question: builds prompts from the contexts, and one answer from the replies."""

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Return the plan, a generator that requests model calls (see `winnow.requests.Plan`)."""
        ...
