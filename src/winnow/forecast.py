"""The dry run: walks the plans of a sweep without a model and counts what it would ask."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from winnow.driver import UNSERVED, Job
from winnow.errors import ConfigError
from winnow.keys import request_key
from winnow.ledger import Ledger
from winnow.protocols import Engine
from winnow.records import Generate, Generation, Price, Request, Score, Usage

_CHARACTERS_A_TOKEN = 4
_PROBES = ("unknown", "an answer")
"""What a plan is told where the ledger does not know: it asks some calls after either reply, others after one of them."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Bounds on what a sweep asks: calls that are certain, and those together with what only some replies lead to.

    Attributes:
        asked: calls as a script a cell would make them.
        stored: distinct calls that the ledger holds already.
        missing: distinct calls that would be made.
        tokens: prompt tokens of those, at four characters a token.
        money: dollars that those cost: nothing written at the least, max_new_tokens written at the most.
        seconds: their time at the mean of this engine's stored calls, None where there is none.

    """

    asked: tuple[int, int]
    stored: tuple[int, int]
    missing: tuple[int, int]
    tokens: tuple[int, int]
    money: tuple[float, float]
    seconds: tuple[float, float] | None


@dataclass(slots=True)
class _Walk:
    """One pass over the plans: calls asked for by each, distinct keys that the ledger holds, and those it lacks."""

    asked: list[int] = field(default_factory=list)
    stored: dict[bytes, Any] = field(default_factory=dict)
    missing: dict[bytes, tuple[Any, Usage]] = field(default_factory=dict)


def forecast(jobs: Callable[[], Iterable[Job]], engine: Engine, ledger: Ledger, price: Price | None = None) -> Forecast:
    """Count the calls of the jobs for an engine; `jobs` starts a fresh pass over them, in the same order.

    Raises:
        ConfigError: where a plan asks for what the engine does not serve.

    """
    price = price or Price()
    walks = [_walk(jobs(), engine, ledger, probe) for probe in _PROBES]
    by_plan = list(zip(*(walk.asked for walk in walks), strict=True))
    everywhere = set.intersection(*(set(walk.missing) for walk in walks))
    anywhere = {key: most for walk in walks for key, (_, most) in walk.missing.items()}
    read = [sum(anywhere[key].tokens_in for key in keys) for keys in (everywhere, anywhere)]
    written = sum(most.tokens_out for most in anywhere.values())
    each = ledger.mean_seconds(engine.identity)
    return Forecast(
        asked=(sum(map(min, by_plan)), sum(map(max, by_plan))),
        stored=(min(len(walk.stored) for walk in walks), max(len(walk.stored) for walk in walks)),
        missing=(len(everywhere), len(anywhere)),
        tokens=(read[0], read[1]),
        money=(price.of(read[0], 0), price.of(read[1], written)),
        seconds=None if each is None else (each * len(everywhere), each * len(anywhere)),
    )


def _walk(jobs: Iterable[Job], engine: Engine, ledger: Ledger, probe: str) -> _Walk:
    walk = _Walk()
    for job in jobs:
        walk.asked.append(0)
        results: Sequence[Any] | None = None
        while True:
            try:
                requests = next(job.plan) if results is None else job.plan.send(results)
            except StopIteration:
                break
            results = _answer(requests, engine, ledger, probe, walk)
    return walk


def _answer(requests: Sequence[Request], engine: Engine, ledger: Ledger, probe: str, walk: _Walk) -> list[Any]:
    strange = next((type(request).__name__ for request in requests if type(request) not in engine.serves), None)
    if strange:
        kinds = " and ".join(kind.__name__ for kind in engine.serves)
        raise ConfigError(f"A strategy asks for {strange}, and {engine.identity} serves {kinds} alone. {UNSERVED}")
    keys = [request_key(engine.identity, request) for request in requests]
    walk.asked[-1] += len(keys)
    walk.stored.update(ledger.get([k for k in dict.fromkeys(keys) if k not in walk.stored and k not in walk.missing]))
    for key, request in zip(keys, requests, strict=True):
        if key not in walk.stored:
            reply = Generation(probe) if isinstance(request, Generate) else Score(0.0)
            walk.missing.setdefault(key, (reply, _most(request)))
    return [walk.stored[key] if key in walk.stored else walk.missing[key][0] for key in keys]


def _most(request: Request) -> Usage:
    """Return what a call takes at most."""
    if not isinstance(request, Generate):
        return Usage()
    read = sum(len(message.content) for message in request.messages) // _CHARACTERS_A_TOKEN
    return Usage(read, request.decoding.max_new_tokens)
