"""The dry run: walks the plans of a sweep without a model and counts, by role, what they would request."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from winnow.driver import Job, no_engine
from winnow.errors import ConfigError
from winnow.identity import ledger_identity
from winnow.keys import request_key
from winnow.protocols import CallStore, Engine, Engines
from winnow.records import Generate, Generation, Likelihood, Pages, Price, Request, Result, Role, Score, Search, Usage

_CHARACTERS_PER_TOKEN = 4
_PROBES = ("unknown", "an answer", "answer {number}")
"""Stand-ins for replies that the ledger lacks: some plans request more after "unknown", others after an
answer, others after answers that differ."""


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """Bounds on what a sweep requests of one role: after the probe with the fewest calls, and after all probes together.

    Attributes:
        requests: calls as a script without sharing would make them.
        stored: distinct calls that the ledger contains.
        missing: distinct calls that would be made.
        tokens: their prompt tokens, at four characters per token.
        money: their dollars: without any reply at least, with replies of max_new_tokens at most.
        seconds: their time at the mean of this engine's stored calls, None if there are none.
        is_open: Whether some of them depend on replies that are not known yet, so that there may be more than the upper bound.

    """

    requests: tuple[int, int]
    stored: tuple[int, int]
    missing: tuple[int, int]
    tokens: tuple[int, int]
    money: tuple[float, float]
    seconds: tuple[float, float] | None
    is_open: bool = False


@dataclass(slots=True)
class _Walk:
    """One pass over the plans: requests by plan and role, and the distinct keys that the ledger contains and lacks."""

    requests: list[dict[Role, int]] = field(default_factory=list)
    stored: dict[bytes, tuple[Role, Result]] = field(default_factory=dict)
    missing: dict[bytes, tuple[Role, Result, Usage]] = field(default_factory=dict)
    open_roles: set[Role] = field(default_factory=set)
    """Roles of requests that depend on replies which are not known yet."""


def estimate_cost(
    jobs: Callable[[], Iterable[Job[Any]]],
    engines: Engines,
    ledger: CallStore,
    prices: Mapping[Role, Price] | None = None,
) -> dict[Role, CostEstimate]:
    """Return bounds by role; `jobs` starts a fresh pass over the same plans in the same order.

    Raises:
        ConfigError: if a plan requests what no engine serves.

    """
    walks = [_walk(jobs(), engines, ledger, probe) for probe in _PROBES]
    roles = dict.fromkeys(role for walk in walks for requests in walk.requests for role in requests)
    by_role = {role: engine for (_, role), engine in engines.items()}
    roles = roles or dict.fromkeys(by_role)
    return {role: _bounds(role, walks, (prices or {}).get(role, Price()), by_role[role], ledger) for role in roles}


def _bounds(role: Role, walks: Sequence[_Walk], price: Price, engine: Engine, ledger: CallStore) -> CostEstimate:
    counts = list(zip(*([plan.get(role, 0) for plan in walk.requests] for walk in walks), strict=True))
    stored = [sum(owner == role for owner, _ in walk.stored.values()) for walk in walks]
    missing = [{key: usage for key, (owner, _, usage) in walk.missing.items() if owner == role} for walk in walks]
    certain = set.intersection(*(set(keys) for keys in missing))
    possible = {key: usage for keys in missing for key, usage in keys.items()}
    tokens = [sum(possible[key].tokens_in for key in keys) for keys in (certain, possible)]
    replies = sum(usage.tokens_out for usage in possible.values())
    mean = ledger.mean_seconds(ledger_identity(engine))
    return CostEstimate(
        requests=(sum(map(min, counts)), sum(map(max, counts))),
        stored=(min(stored), max(stored)),
        missing=(len(certain), len(possible)),
        tokens=(tokens[0], tokens[1]),
        money=(price.of(tokens[0], 0), price.of(tokens[1], replies)),
        seconds=None if mean is None else (mean * len(certain), mean * len(possible)),
        is_open=any(role in walk.open_roles for walk in walks),
    )


def _walk(jobs: Iterable[Job[Any]], engines: Engines, ledger: CallStore, probe: str) -> _Walk:
    walk = _Walk()
    for job in jobs:
        walk.requests.append({})
        depends_on_probes = False
        results: Sequence[Any] | None = None
        while True:
            try:
                requests = next(job.plan) if results is None else job.plan.send(results)
            except StopIteration:
                break
            if depends_on_probes:
                walk.open_roles |= {request.role for request in requests}
            results, is_guessed = _results(requests, engines, ledger, probe, walk)
            depends_on_probes |= is_guessed
    return walk


def _results(
    requests: Sequence[Request], engines: Engines, ledger: CallStore, probe: str, walk: _Walk
) -> tuple[list[Result], bool]:
    """Return stored results, with the probe for the others, and whether there are others."""
    keys = [request_key(ledger_identity(_engine(request, engines)), request) for request in requests]
    counts = walk.requests[-1]
    for request in requests:
        counts[request.role] = counts.get(request.role, 0) + 1
    roles = dict(zip(keys, (request.role for request in requests), strict=True))
    unseen = [key for key in roles if key not in walk.stored and key not in walk.missing]
    walk.stored.update({key: (roles[key], result) for key, result in ledger.get(unseen).items()})
    for key, request in zip(keys, requests, strict=True):
        if key not in walk.stored:
            text = probe.format(number=len(walk.missing))
            walk.missing.setdefault(key, (request.role, _probe(request, text), _max_usage(request)))
    results = [walk.stored[key][1] if key in walk.stored else walk.missing[key][1] for key in keys]
    return results, any(key not in walk.stored for key in keys)


def _engine(request: Request, engines: Engines) -> Engine:
    engine = engines.get((type(request), request.role))
    if engine is None:
        raise ConfigError(no_engine(request, engines))
    if (reason := engine.refusal(request)) is not None:
        raise ConfigError(f"{engine.identity} cannot serve a plan: {reason}")
    return engine


def _probe(request: Request, text: str) -> Result:
    if isinstance(request, Generate):
        tokens = dict.fromkeys(request.token_logprobs, (0.0,))
        return Generation(text, logprobs=(0.0,) if request.decoding.logprobs else None, token_logprobs=tokens or None)
    return Pages(()) if isinstance(request, Search) else Score(0.0)


def _max_usage(request: Request) -> Usage:
    """Return an upper bound on the tokens of a call."""
    if not isinstance(request, Generate | Likelihood):
        return Usage()
    characters = sum(len(message.content) for message in request.messages)
    if isinstance(request, Likelihood):
        return Usage((characters + len(request.continuation)) // _CHARACTERS_PER_TOKEN)
    return Usage(characters // _CHARACTERS_PER_TOKEN, request.decoding.max_new_tokens)
