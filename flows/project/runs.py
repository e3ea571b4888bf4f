"""Runs of plans with the engines of a project: their outcomes, and what they cost or would cost."""

from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from flows.project.engines import identify_engines, open_engines
from flows.project.ledger import open_ledger
from flows.settings.typed import Settings
from flows.tools.prefect import show_blocks
from flows.tools.summary import progress
from winnow.driver.jobs import Job
from winnow.driver.run import MAX_ACTIVE, Driver
from winnow.driver.stats import RunStats
from winnow.predictions import Price
from winnow.protocols import CallStore, Engines, PromptRenderer
from winnow.records import Role, T
from winnow.requests import Generate, Usage
from winnow.steps import Outcome
from winnow.sweeps.dry_run import CostEstimate, estimate_cost
from winnow.sweeps.spec import EngineSpec

_MAX_RENDERED = 100
"""Number of plans in which a dry run looks for the first prompt of each role."""


def iter_outcomes(
    engines: Engines | Mapping[Hashable, Engines],
    ledger: CallStore,
    jobs: Iterable[Job[T]],
    total: int,
    label: str,
    stats: RunStats | None = None,
) -> Generator[Outcome[T]]:
    """Run jobs and yield their outcomes, with a progress bar, and for Prefect with blocks.

    Args:
        engines: Engines, or sets of engines by name; they are closed at the end.
        ledger: Store of finished calls.
        jobs: Jobs, which are consumed lazily.
        total: Number of jobs, for the progress bar.
        label: Text next to the progress bar.
        stats: Counts of calls to update, if the caller needs them.
    """
    driver = Driver(engines, ledger, stats=stats)
    # A batch fills only if as many plans are active.
    driver.max_active = max(MAX_ACTIVE, *(engine.capacity for engine in driver.engines))
    with progress(label, total) as advance, show_blocks(label, total) as count:
        num_finished = 0

        def show_counts(counts: RunStats) -> None:
            nonlocal num_finished
            advance(
                counts.plans - num_finished,
                f"calls made: {counts.executed}, shared: {counts.ledger_hits + counts.merged}",
            )
            num_finished = counts.plans

        driver.on_progress = show_counts
        try:
            for outcome in driver.run(jobs):
                yield outcome
                count()
        finally:
            for engine in driver.engines:
                engine.close()


def collect_results(
    settings: Settings,
    specs: Sequence[EngineSpec],
    jobs: Iterable[Job[T]],
    total: int,
    label: str,
    models: Counter[tuple[Role, str]] | None = None,
) -> dict[Hashable, T]:
    """Run jobs with the ledger of the settings, and return their results by tag; see
    `iter_outcomes` and `count_models_of`.
    """
    with open_ledger(settings) as ledger:
        outcomes = iter_outcomes(open_engines(specs), ledger, jobs, total, label)
        counted_outcomes = outcomes if models is None else count_models_of(outcomes, models)
        return {outcome.tag: outcome.result for outcome in counted_outcomes}


def count_models_of(
    outcomes: Iterable[Outcome[T]], models: Counter[tuple[Role, str]]
) -> Iterator[Outcome[T]]:
    """Yield outcomes, and count their replies by role and model."""
    for outcome in outcomes:
        for step in outcome.steps:
            if step.model:
                models[step.role, step.model] += step.calls
        yield outcome


def build_dry_run_rows(
    settings: Settings,
    specs: Sequence[EngineSpec],
    jobs: Callable[[], Iterable[Job[Any]]],
    counted: set[bytes] | None = None,
    shard_ledgers: Sequence[Path] = (),
    *,
    retry_empty: bool = False,
) -> list[dict[str, Any]]:
    """Estimate the jobs' calls, cost and time, one row per role, without API keys or weights.

    Args:
        settings: Settings, which name the ledger.
        specs: Engines that serve the jobs.
        jobs: Function that creates the jobs; it is called once for each of the estimates.
        counted: Keys of calls that earlier rows counted; see `estimate_cost`.
        shard_ledgers: Ledgers of shards, which the run will merge.
        retry_empty: Whether the run will request replies without text again.
    """
    engines = open_engines(specs, check=False)
    with open_ledger(
        settings, retry_empty=retry_empty, dry_run=True, shard_ledgers=shard_ledgers
    ) as ledger:
        estimates = estimate_cost(
            jobs, engines, ledger, {spec.role: spec.price for spec in specs}, counted
        )
    identities = identify_engines(engines)
    priced_roles = {spec.role for spec in specs if spec.price != Price()}
    return [
        _build_cost_row(role, identities[role], estimate, is_priced=role in priced_roles)
        for role, estimate in estimates.items()
    ]


def render_first_prompts(specs: Sequence[EngineSpec], jobs: Iterable[Job[Any]]) -> list[str]:
    """Return each role's first prompt as rendered by its server, if it runs and renders prompts.

    A server that changes its chat template changes every score and reports nothing.
    """
    engines = open_engines(specs, check=False)
    prompts: dict[Role, str] = {}
    for job in islice(jobs, _MAX_RENDERED):
        for request in next(job.plan, ()):
            engine = engines[type(request), request.role]
            if (
                isinstance(request, Generate)
                and isinstance(engine, PromptRenderer)
                and request.role not in prompts
            ):
                prompts[request.role] = engine.render_prompt(request) or ""
    return [
        f"The first prompt of the {role}, as its server renders it:\n{prompt}"
        for role, prompt in prompts.items()
        if prompt
    ]


def _build_cost_row(
    role: Role, identity: str, estimate: CostEstimate, *, is_priced: bool
) -> dict[str, Any]:
    low, high = estimate.money
    seconds = estimate.seconds
    more = " or more" if estimate.is_open else ""
    return {
        "role": role,
        "model": identity,
        "calls without sharing": _format_range(estimate.requests) + more,
        "in the ledger": _format_range(estimate.stored),
        "to be made": _format_range(estimate.missing) + more,
        "prompt tokens, about": _format_range(estimate.tokens) + more,
        "dollars, about": f"{low:.4f} to {high:.4f}{more}" if is_priced else "no price known",
        "seconds, about": (
            "no earlier call"
            if seconds is None
            else _format_range([round(bound) for bound in seconds]) + more
        ),
    }


def _format_range(bounds: Sequence[int]) -> str:
    low, high = bounds
    return f"{low}" if low == high else f"{low} to {high}"


def describe_usage(stats: RunStats, prices: Mapping[str, Price]) -> str:
    """Describe a run's calls in one sentence, and each role's tokens and cost in another.

    Args:
        stats: Counts of the run.
        prices: Prices by the identity of the engine.
    """
    lines = [
        f"{stats.requests} calls requested: {stats.executed} made, {stats.merged} merged in "
        f"flight, {stats.ledger_hits} from the ledger, {stats.external} by other processes; "
        f"{100 * stats.shared:.0f} % cost nothing."
    ]
    for role in dict.fromkeys(role for role, _ in stats.usage):
        parts = {engine: usage for (other, engine), usage in stats.usage.items() if other == role}
        total = sum(parts.values(), Usage())
        costs = [
            prices[engine].compute_cost(usage.tokens_in, usage.tokens_out)
            for engine, usage in parts.items()
            if prices.get(engine, Price()) != Price()
        ]
        cost = f", {sum(costs):.4f} dollars" if costs else ""
        lines.append(
            f"The {role} read {total.tokens_in} tokens and wrote {total.tokens_out}{cost}."
        )
    return " ".join(lines)
