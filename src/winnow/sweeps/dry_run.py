"""The dry run of a sweep, which estimates calls, tokens and cost by role without running a model.

A plan (the generator that requests the model calls for one question) may request more or fewer
calls depending on the replies. The dry run therefore runs all plans several times. It uses the
results in the ledger, the store of finished calls, and each time another placeholder in place of
the replies that are missing. This gives bounds on the number of calls.
"""

import heapq
import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from winnow.driver.calls import describe_missing_engine
from winnow.driver.jobs import Job
from winnow.errors import ConfigError
from winnow.identity.code import get_ledger_identity
from winnow.keys import compute_request_key
from winnow.predictions import Price
from winnow.protocols import CallStore, Engine, Engines, SampleSharer
from winnow.readers.token_estimates import estimate_max_usage
from winnow.records import Passage, Role
from winnow.requests import (
    NO_USAGE,
    Estimate,
    Generate,
    Generation,
    Likelihood,
    Pages,
    Request,
    Result,
    Score,
    Search,
    ToolCall,
    Usage,
)
from winnow.strategies.self_rag.reflection import RETRIEVE

_SPREAD = 1e-3
"""Spread of the estimates, so that the first ones of a question are not always the best."""
_MAX_RECENT = 20_000
"""Number of results that are kept for other plans that request them."""


@dataclass(frozen=True, slots=True)
class _Placeholder:
    """What replaces the results that the ledger lacks.

    Attributes:
        reply: Text of replies. Some plans request more after "unknown", others after an answer,
            after answers that differ, after a segment that ends with Self-RAG's token for
            retrieval, after an agent's search, or after candidates; some end with a reply that
            concludes.
        score: Log-odds of relevance and log-likelihoods, on which the action of corrective
            retrieval depends.
        token_logprobs: Log-probabilities of the first named token and of the others, on which
            Self-RAG's retrieval depends.
        goes_on: Whether replies call a tool, open the tag of a query and have an improbable token,
            and searches find a page, without which some plans end.
        uses_tokens: Whether replies count as long as they may be, by which a budget of tokens is
            spent early.
    """

    reply: str
    score: float
    token_logprobs: tuple[float, float]
    goes_on: bool = False
    uses_tokens: bool = False


_PLACEHOLDERS = (
    _Placeholder("unknown", 30.0, (0.0, 0.0), uses_tokens=True),
    _Placeholder("an answer", -30.0, (-30.0, 0.0)),
    _Placeholder("answer {number}", 0.0, (0.0, -30.0)),
    _Placeholder(
        "answer {number}\nAction: Search[{number}]\nFollow up: {number}\n(a) {number} (b) b (c) c "
        "(d) d (e) e (f) f",
        -30.0,
        (0.0, -30.0),
        goes_on=True,
    ),
    _Placeholder("So the answer is: an answer.\nAction: Finish[an answer]", -30.0, (-30.0, 0.0)),
    _Placeholder(f"answer {{number}}{RETRIEVE}", 30.0, (0.0, -30.0)),
)


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """Lower and upper bounds on what a sweep requests of one role.

    Attributes:
        requests: Number of requests. Without sharing, each of them would be a call.
        stored: Number of distinct calls that the ledger contains.
        missing: Number of distinct calls that would be made: those after every placeholder, and
            those after any of them.
        tokens: Number of prompt tokens of the missing calls, by estimate. The lower bound counts
            the samples that a server takes for one prompt once.
        money: Dollars for the missing calls. The lower bound counts no reply, the upper bound
            replies of max_new_tokens.
        seconds: Time for the missing calls at the mean time of this engine's stored calls, or None
            if there are none.
        is_open: Whether requests depend on replies that are not known yet, so that the upper bounds
            may be exceeded.
    """

    requests: tuple[int, int]
    stored: tuple[int, int]
    missing: tuple[int, int]
    tokens: tuple[int, int]
    money: tuple[float, float]
    seconds: tuple[float, float] | None
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that some run of the plans makes.

    Attributes:
        key: Key of the call.
        role: Role of its engine.
        usage: Tokens that it may take.
        prompt: Key of the prompt's first sample.
        samples: Maximum number of samples of the prompt that are paid for as one.
    """

    key: bytes
    role: Role
    usage: Usage
    prompt: bytes
    samples: int


@dataclass(slots=True)
class _SimulatedRun:
    """One run of all plans with a placeholder for missing replies.

    Attributes:
        calls: Calls of all runs, which share them to save memory, by key.
        requests: Number of requests by role, for each plan. Plans with equal numbers share them.
        stored: Keys of the distinct calls that the ledger contains.
        missing: Number of each distinct call that the ledger lacks, by key.
        recent: Results from the ledger that were read last, because other cells request them too.
        open_roles: Roles of requests that depend on replies which are not known yet.
    """

    calls: dict[bytes, _Call]
    requests: list[Mapping[Role, int]] = field(default_factory=list)
    stored: set[bytes] = field(default_factory=set)
    missing: dict[bytes, int] = field(default_factory=dict)
    recent: dict[bytes, Result] = field(default_factory=dict)
    open_roles: set[Role] = field(default_factory=set)

    def read(self, ledger: CallStore, keys: Sequence[bytes]) -> dict[bytes, Result]:
        """Return the stored results of calls, from the ledger unless they were read recently."""
        unread = [key for key in keys if key not in self.recent and key not in self.missing]
        self.recent.update(ledger.get(unread))
        results = {key: self.recent[key] for key in keys if key in self.recent}
        if len(self.recent) > _MAX_RECENT:
            for key in list(itertools.islice(self.recent, len(self.recent) - _MAX_RECENT)):
                del self.recent[key]
        return results

    def leave_out(self, keys: Set[bytes]) -> None:
        """Remove calls counted elsewhere, but keep requests, which are counted without sharing."""
        self.stored -= keys
        self.missing = {key: number for key, number in self.missing.items() if key not in keys}


def estimate_cost(
    jobs: Callable[[], Iterable[Job[Any]]],
    engines: Engines,
    ledger: CallStore,
    prices: Mapping[Role, Price] | None = None,
    counted: set[bytes] | None = None,
) -> dict[Role, CostEstimate]:
    """Estimate the calls, tokens, cost and time of a sweep.

    Args:
        jobs: Function that creates the jobs. Every call returns the same plans in the same order.
        engines: Engines by kind of request and role. They are not run.
        ledger: Open store of finished calls.
        prices: Price of the model of each role. Roles without a price cost nothing.
        counted: Keys of calls that an earlier estimate of the same sweep counted as certain. They
            are left out here, and those of this estimate are added. A call that was only possible
            is counted again, so that the bounds of the sums hold.

    Returns:
        The estimate of each role.

    Raises:
        ConfigError: If a plan makes a request that no engine serves.
    """
    calls: dict[bytes, _Call] = {}
    runs = [_simulate(jobs(), engines, ledger, placeholder, calls) for placeholder in _PLACEHOLDERS]
    earlier = set() if counted is None else set(counted)
    roles = dict.fromkeys(role for run in runs for requests in run.requests for role in requests)
    by_role = {role: engine for (_, role), engine in engines.items()}
    roles = roles or dict.fromkeys(by_role)
    if counted is not None:
        counted |= set.intersection(*(run.stored | run.missing.keys() for run in runs))
    for run in runs:
        run.leave_out(earlier)
    return {
        role: _compute_bounds(role, runs, (prices or {}).get(role, Price()), by_role[role], ledger)
        for role in roles
    }


def _compute_bounds(
    role: Role, runs: Sequence[_SimulatedRun], price: Price, engine: Engine, ledger: CallStore
) -> CostEstimate:
    """Combine the simulated runs to the bounds of one role."""
    counts = list(zip(*([plan.get(role, 0) for plan in run.requests] for run in runs), strict=True))
    calls = runs[0].calls
    stored_counts = [sum(calls[key].role == role for key in run.stored) for run in runs]
    missing_keys = [{key for key in run.missing if calls[key].role == role} for run in runs]
    certain, possible = set.intersection(*missing_keys), set.union(*missing_keys)
    most = min(len(possible), sum(map(max, counts)))  # calls of several runs may exclude each other
    min_tokens = _count_min_tokens(calls[key] for key in certain)
    max_tokens, max_reply_tokens = (
        sum(heapq.nlargest(most, (getattr(calls[key].usage, name) for key in possible)))
        for name in ("tokens_in", "tokens_out")
    )
    mean_seconds = ledger.compute_mean_seconds(get_ledger_identity(engine))
    return CostEstimate(
        requests=(sum(map(min, counts)), sum(map(max, counts))),
        stored=(min(stored_counts), max(stored_counts)),
        missing=(len(certain), most),
        tokens=(min_tokens, max_tokens),
        money=(price.compute_cost(min_tokens, 0), price.compute_cost(max_tokens, max_reply_tokens)),
        seconds=(
            None if mean_seconds is None else (mean_seconds * len(certain), mean_seconds * most)
        ),
        is_open=any(role in run.open_roles for run in runs),
    )


def _count_min_tokens(calls: Iterable[_Call]) -> int:
    """Return the number of prompt tokens of calls, with samples of a prompt together."""
    by_prompt: dict[bytes, list[_Call]] = {}
    for call in calls:
        by_prompt.setdefault(call.prompt, []).append(call)
    return sum(
        group[0].usage.tokens_in * math.ceil(len(group) / group[0].samples)
        for group in by_prompt.values()
    )


def _simulate(
    jobs: Iterable[Job[Any]],
    engines: Engines,
    ledger: CallStore,
    placeholder: _Placeholder,
    calls: dict[bytes, _Call],
) -> _SimulatedRun:
    """Run all plans with stored results, and with the placeholder for missing replies."""
    run = _SimulatedRun(calls)
    patterns: dict[frozenset[tuple[Role, int]], Mapping[Role, int]] = {}
    for job in jobs:
        counts: Counter[Role] = Counter()
        depends_on_placeholders = False
        results: Sequence[Any] | None = None
        while True:
            try:
                requests = next(job.plan) if results is None else job.plan.send(results)
            except StopIteration:
                break
            if depends_on_placeholders:
                run.open_roles |= {request.role for request in requests}
            counts.update(request.role for request in requests)
            results, is_guessed = _answer_requests(requests, engines, ledger, placeholder, run)
            depends_on_placeholders |= is_guessed
        run.requests.append(patterns.setdefault(frozenset(counts.items()), dict(counts)))
    return run


def _answer_requests(
    requests: Sequence[Request],
    engines: Engines,
    ledger: CallStore,
    placeholder: _Placeholder,
    run: _SimulatedRun,
) -> tuple[list[Result], bool]:
    """Return stored results, with the placeholder for missing ones, and whether any is missing."""
    keys = [
        compute_request_key(get_ledger_identity(_find_engine(request, engines)), request)
        for request in requests
    ]
    outcomes = run.read(ledger, list(dict.fromkeys(keys)))
    results: list[Result] = []
    for key, request in zip(keys, requests, strict=True):
        call = run.calls.get(key)
        if call is None:
            call = run.calls[key] = _describe_call(key, request, _find_engine(request, engines))
        if key in outcomes:
            run.stored.add(call.key)
            results.append(outcomes[key])
            continue
        if key not in run.missing:
            _check_request(request, engines)
            run.missing[call.key] = len(run.missing)
        results.append(_build_placeholder(request, placeholder, number=run.missing[key]))
    return results, any(key not in outcomes for key in keys)


def _describe_call(key: bytes, request: Request, engine: Engine) -> _Call:
    """Return a request's call, with the prompt that it shares with other samples."""
    samples = engine.samples_per_call if isinstance(engine, SampleSharer) else 1
    prompt = key
    if isinstance(request, Generate) and samples > 1 and request.decoding.temperature > 0:
        prompt = compute_request_key(
            get_ledger_identity(engine), structs.replace(request, sample=0)
        )
    return _Call(key, request.role, _compute_max_usage(request), prompt, samples)


def _find_engine(request: Request, engines: Engines) -> Engine:
    """Return the engine that serves a request; raise ConfigError if there is none."""
    engine = engines.get((type(request), request.role))
    if engine is None:
        raise ConfigError(describe_missing_engine(request, engines))
    return engine


def _check_request(request: Request, engines: Engines) -> None:
    """Raise ConfigError if the engine of a request that the ledger lacks refuses it."""
    engine = _find_engine(request, engines)
    if (reason := engine.explain_refusal(request)) is not None:
        raise ConfigError(f"{engine.identity} cannot serve a plan: {reason}")


def _build_placeholder(request: Request, placeholder: _Placeholder, number: int) -> Result:
    """Build a result in place of a missing one, whose number is written into replies."""
    if isinstance(request, Generate):
        first, other = placeholder.token_logprobs
        logprobs_by_token = {
            token: (other if index else first,)
            for index, token in enumerate(request.token_logprobs)
        }
        reply = placeholder.reply.format(number=number)
        if placeholder.goes_on:
            reply += _open_tag(request.decoding.stop, number)
        words = reply.partition(" ")
        tokens = (words[0], reply.removeprefix(words[0]))
        calls = [
            ToolCall(tool.name, json.dumps({"query": str(number)}), "1")
            for tool in request.tools[:1]
        ]
        return Generation(
            reply,
            logprobs=(
                (0.0, -30.0 if placeholder.goes_on else 0.0) if request.decoding.logprobs else None
            ),
            tokens=tokens if request.decoding.top_logprobs else (),
            top_logprobs=(
                tuple({token: 0.0} for token in tokens) if request.decoding.top_logprobs else ()
            ),
            token_logprobs=logprobs_by_token or None,
            token_positions={} if logprobs_by_token else None,
            tool_calls=tuple(calls) if placeholder.goes_on else (),
            usage=_compute_max_usage(request) if placeholder.uses_tokens else NO_USAGE,
        )
    if isinstance(request, Search):
        return Pages(
            (Passage(f"page {number}", "", f"page {number}"),) if placeholder.goes_on else ()
        )
    if isinstance(request, Likelihood) and request.per_token:
        return Score(
            placeholder.score, tokens=(request.continuation,), logprobs=(placeholder.score,)
        )
    if isinstance(request, Estimate):
        return Score(placeholder.score + _SPREAD * ((number * 61) % 97 - 48))
    return Score(placeholder.score)


def _open_tag(stop: Sequence[str], number: int) -> str:
    """Return an open tag with a query if `stop[0]` closes one: "<search>1" for "</search>"."""
    if not stop or not stop[0].startswith(("</", "<|end")):
        return ""
    begin = (
        stop[0].replace("</", "<", 1)
        if stop[0].startswith("</")
        else stop[0].replace("<|end", "<|begin", 1)
    )
    return f"\n{begin}{number}"


def _compute_max_usage(request: Request) -> Usage:
    """Return the estimated prompt tokens and the maximum reply tokens of a call."""
    if not isinstance(request, Generate | Likelihood):
        return Usage()
    return estimate_max_usage(request)
