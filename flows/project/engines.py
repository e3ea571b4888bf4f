"""Opens the engines of a configuration by role, and runs jobs through them with a progress bar.

A role is the part that an engine plays in a strategy, such as reader, judge, estimator or search.
"""

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any

from flows.project.artifacts import Project
from flows.project.ledger import open_ledger
from flows.project.models import (
    get_closed_book_reader,
    identify_estimator_weights,
    identify_reader_weights,
    resolve_estimator_path,
    resolve_reader_path,
)
from flows.project.searched import resolve_corpus_spec, resolve_search_spec
from flows.settings import sections
from flows.settings.components import Component
from flows.settings.identity import PinnedAssets
from flows.settings.sections import Reader
from flows.settings.typed import Settings
from flows.tools.prefect import run_in_blocks
from flows.tools.summary import progress
from winnow.artifacts.provenance import compute_key
from winnow.driver.run import MAX_ACTIVE, Driver, Job
from winnow.driver.stats import RunStats
from winnow.errors import ConfigError
from winnow.identity.code import declare_settings, get_ledger_identity
from winnow.identity.modules import is_in_winnow
from winnow.modeling.loading import compute_weights_digest
from winnow.predictions import Price
from winnow.protocols import (
    MODEL_ROLES,
    CallStore,
    Engine,
    Engines,
    Estimator,
    PromptRenderer,
    build_engine_map,
)
from winnow.readers.budget import Budget, Spending
from winnow.records import Generate, Role, T
from winnow.steps import Outcome
from winnow.sweeps.dry_run import CostEstimate, estimate_cost
from winnow.sweeps.run import LoadedCell
from winnow.sweeps.spec import EngineSpec

OTHER_ROLES: tuple[Role, ...] = ("estimator", "nli", "search", "corpus")
"""Roles that no language model fills."""
EVALUATED = "evaluated"
"""Name of a reader that is compared with its base model after a training."""
_MAX_RENDERED = 100
"""Number of plans in which a dry run looks for the first prompt of each role."""


def resolve_engine_spec(project: Project, role: Role) -> EngineSpec:
    """Resolve how to open the engine of a role; a role without a model of its own uses the reader.

    Raises:
        ConfigError: If there is no such role.

    """
    if role == "estimator":
        identity = compute_estimator_identity(project)
        return EngineSpec(
            role, identity, lambda _: _open_estimator_engine(open_estimator(project), identity)
        )
    if role == "search":
        return resolve_search_spec(project)
    if role == "corpus":
        return resolve_corpus_spec(project)
    if role == "nli":
        return _resolve_nli_spec(project)
    if role not in MODEL_ROLES:
        raise ConfigError(
            f"engines: there is no role {role!r}; the roles are "
            f"{', '.join((*MODEL_ROLES, *OTHER_ROLES))}."
        )
    node = project.settings.get_model(role) or project.settings.reader
    return resolve_reader_spec(project, node, project.settings.prompt, role)


def resolve_closed_book_spec(project: Project) -> EngineSpec:
    """Resolve how to open the reader that is asked without passages."""
    return resolve_reader_spec(
        project, get_closed_book_reader(project.settings), project.settings.prompt
    )


def _resolve_nli_spec(project: Project) -> EngineSpec:
    """Resolve how to open the model of entailment, an estimator that is read as it is."""
    node = project.settings.nli
    if node is None or node.trained or node.base is None:
        raise ConfigError(
            "A metric needs a model of entailment. Choose estimator@nli=nli (a classifier) or "
            "estimator@nli=nli_t5, and nli.base=FOLDER or a name on the hub; received "
            f"nli={'null' if node is None else node.name}."
        )
    base = node.base
    identity = _compute_estimator_identity(project, node, project.pinned.identify_model(base))
    return EngineSpec(
        "nli", identity, lambda _: _open_estimator_engine(node.engine.build(path=base), identity)
    )


def resolve_reader_spec(
    project: Project, reader: Reader, prompt: Component, role: Role = "reader"
) -> EngineSpec:
    """Resolve how to open the language model of a role."""
    key = compute_key(
        identify_reader_weights(project, reader, prompt),
        project.pinned.identify_settings(reader.engine),
        reader.name,
    )
    price = find_price(project.settings, reader)

    def open_engine(check: bool) -> Engine:
        return open_reader(
            reader, resolve_reader_path(project, reader, prompt), price=price, check=check
        )

    return EngineSpec(role, key, open_engine, price, reader.engine.get("budget"))


def open_reader(
    reader: Reader, path: str, *, price: Price, name: str | None = None, check: bool = True
) -> Engine:
    """Open a reader; a local model loads its weights at the first request.

    Args:
        reader: Settings of the reader.
        path: Folder or file of the weights, or the name of a remote model.
        price: Price of the model's tokens.
        name: Name of the reader in its identity, by default the one in its settings.
        check: Whether to check now that everything the reader needs is present.

    """
    priced = {"price": price} if "budget" in reader.engine else {}
    engine: Any = reader.engine.build(path=path, name=name or reader.name, **priced)
    if not is_in_winnow(reader.engine.target):
        weights = compute_weights_digest(path) if path else ""
        declare_settings(
            engine, compute_key(PinnedAssets({}).identify_settings(reader.engine), weights)
        )
    if priced:
        engine.spending = _spending(engine.identity, engine.budget, engine.price)
    if check:
        engine.check()
    opened: Engine = engine
    return opened


@cache
def _spending(identity: str, budget: Budget, price: Price) -> Spending:  # noqa: ARG001 (the cache has an entry per model)
    """Return the spending of this process on a model, shared by all engines of the model so that
    they share its budget.
    """
    return Spending(budget, price)


def find_price(settings: Settings, reader: Reader) -> Price:
    """Look up the price of a reader in the table of conf/prices; a model that is not listed gets a
    price of zero.
    """
    factor = reader.price_factor
    row = next((row for row in settings.prices.table if row.model == reader.base), None)
    return Price() if row is None else Price(factor * row.input, factor * row.output)


def compute_estimator_identity(project: Project) -> str:
    """Compute the identity under which the ledger stores the results of the estimator."""
    return _compute_estimator_identity(
        project, project.settings.estimator, identify_estimator_weights(project)
    )


def _compute_estimator_identity(project: Project, node: sections.Estimator, weights: str) -> str:
    return f"{node.name}@{compute_key(project.pinned.identify_settings(node.engine), weights)}"


def open_estimator(project: Project) -> Estimator:
    """Open the estimator with its trained weights, or with those of its base model if it is not
    trained.
    """
    settings = project.settings.estimator
    paths = {"path": resolve_estimator_path(project)} if settings.base is not None else {}
    estimator: Estimator = settings.engine.build(**paths)
    return estimator


def _open_estimator_engine(estimator: Estimator, identity: str) -> Engine:
    from winnow.estimators.engine import EstimatorEngine

    return EstimatorEngine(estimator, identity)


def open_engines(specs: Iterable[EngineSpec], *, check: bool = True) -> Engines:
    """Open one engine per key, which all roles with this key share; see `open_engine_sets`."""
    (engines,) = open_engine_sets({None: tuple(specs)}, check=check).values()
    return engines


def open_engine_sets(
    sets: Mapping[Hashable, Iterable[EngineSpec]], *, check: bool = True
) -> dict[Hashable, Engines]:
    """Open sets of engines, one engine per key, which all roles of all sets with this key share.

    Raises:
        ConfigError: If two roles share a model and have different budgets, since the model has only
            one.

    """
    by_key: dict[str, Engine] = {}
    by_model: dict[str, EngineSpec] = {}
    opened: dict[Hashable, dict[tuple[type, Role], Engine]] = {name: {} for name in sets}
    for name, spec in ((name, spec) for name, specs in sets.items() for spec in specs):
        if spec.key not in by_key:
            by_key[spec.key] = spec.open(check)
        engine = by_key[spec.key]
        first = by_model.setdefault(engine.identity, spec)
        if spec.budget != first.budget:
            raise ConfigError(
                f"The roles {first.role} and {spec.role} use the same model, which has one budget, "
                f"but their budgets are {first.budget} and {spec.budget}. Set "
                f"{spec.role}.engine.budget and {first.role}.engine.budget alike."
            )
        opened[name] |= build_engine_map(engine, spec.role)
    return dict(opened)


def open_cell_engines(cells: Iterable[LoadedCell]) -> dict[Hashable, Engines]:
    """Open the engines of cells, by the names of the sets that serve them."""
    return open_engine_sets({cell.engine_set: cell.spec.engines for cell in cells})


def iter_outcomes(
    open_all: Callable[[], Engines | Mapping[Hashable, Engines]],
    ledger: CallStore,
    jobs: Callable[[], Iterable[Job[T]]],
    total: int,
    label: str,
    stats: RunStats | None = None,
) -> Iterator[Outcome[T]]:
    """Run jobs and yield their outcomes, with a progress bar; under Prefect, in blocks that are
    retried alone.

    Args:
        open_all: Function that opens the engines, or sets of engines by name; they are closed at
            the end.
        ledger: Store of finished calls.
        jobs: Function that creates the jobs, which are consumed lazily. Their tags are distinct.
        total: Number of jobs, for the progress bar.
        label: Text beside the progress bar.
        stats: Counts of calls to update, if the caller needs them.

    """

    def start(finished: Container[Hashable]) -> Iterator[Outcome[T]]:
        remaining = (job for job in jobs() if job.tag not in finished)
        return _drive(open_all(), ledger, remaining, total, label, stats)

    return run_in_blocks(start, total, label)


def collect_results(
    settings: Settings,
    specs: Sequence[EngineSpec],
    jobs: Callable[[], Iterable[Job[T]]],
    total: int,
    label: str,
    models: Counter[tuple[Role, str]] | None = None,
) -> dict[Hashable, T]:
    """Run jobs with the ledger of the settings, and return their results by tag; see
    `iter_outcomes` and `count_models_of`.
    """
    with open_ledger(settings) as ledger:
        outcomes = iter_outcomes(lambda: open_engines(specs), ledger, jobs, total, label)
        counted = outcomes if models is None else count_models_of(outcomes, models)
        return {outcome.tag: outcome.result for outcome in counted}


def count_models_of(
    outcomes: Iterable[Outcome[T]], models: Counter[tuple[Role, str]]
) -> Iterator[Outcome[T]]:
    """Yield outcomes, and count their replies by role and model."""
    for outcome in outcomes:
        for step in outcome.steps:
            if step.model:
                models[step.role, step.model] += step.calls
        yield outcome


def _drive(
    engines: Engines | Mapping[Hashable, Engines],
    ledger: CallStore,
    jobs: Iterable[Job[T]],
    total: int,
    label: str,
    stats: RunStats | None,
) -> Iterator[Outcome[T]]:
    """Run jobs on a new driver with a progress bar, and close the engines at the end."""
    driver = Driver(engines, ledger)
    # A batch fills only if as many plans are active.
    driver.max_active = max(MAX_ACTIVE, *(engine.capacity for engine in driver.engines))
    with progress(label, total) as advance:
        done = 0

        def show_counts(counts: RunStats) -> None:
            nonlocal done
            advance(
                counts.plans - done,
                f"calls made: {counts.executed}, shared: {counts.ledger_hits + counts.merged}",
            )
            done = counts.plans

        driver.on_progress = show_counts
        if stats is not None:
            driver.stats = stats
        try:
            yield from driver.run(jobs)
        finally:
            for engine in driver.engines:
                engine.close()


def build_dry_run_rows(
    settings: Settings,
    specs: Sequence[EngineSpec],
    jobs: Callable[[], Iterable[Job[Any]]],
    counted: set[bytes] | None = None,
) -> list[dict[str, Any]]:
    """Estimate the calls, cost and time of the jobs, one row per role. Neither API keys nor weights
    are needed.

    Args:
        settings: Settings, which name the ledger.
        specs: Engines that serve the jobs.
        jobs: Function that creates the jobs; it is called once for each of the estimates.
        counted: Keys of calls that earlier rows counted; see `estimate_cost`.

    """
    engines = open_engines(specs, check=False)
    with open_ledger(settings, retry_empty=settings.sweep.retry_empty, dry_run=True) as ledger:
        estimates = estimate_cost(
            jobs, engines, ledger, {spec.role: spec.price for spec in specs}, counted
        )
    identities = identify_engines(engines)
    return [
        _build_cost_row(role, identities[role], estimate) for role, estimate in estimates.items()
    ]


def render_first_prompts(specs: Sequence[EngineSpec], jobs: Iterable[Job[Any]]) -> list[str]:
    """Return the first prompt of each role whose server runs and renders prompts, as the server
    renders it.

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


def identify_engine_specs(specs: Sequence[EngineSpec]) -> dict[Role, str]:
    """Return what `identify_engines` does for engines that are only described; no model
    is loaded.
    """
    return identify_engines(open_engines(specs, check=False))


def identify_engines(engines: Engines) -> dict[Role, str]:
    """Return the identities under which the ledger stores the calls of the engines, by role."""
    return {role: get_ledger_identity(engine) for (_, role), engine in engines.items()}


def _build_cost_row(role: Role, identity: str, estimate: CostEstimate) -> dict[str, Any]:
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
        "dollars, about": f"{low:.4f} to {high:.4f}{more}" if high else "no price known",
        "seconds, about": (
            "no earlier call"
            if seconds is None
            else _format_range([round(bound) for bound in seconds]) + more
        ),
    }


def _format_range(bounds: Sequence[int]) -> str:
    low, high = bounds
    return f"{low}" if low == high else f"{low} to {high}"


def describe_usage(stats: RunStats, prices: Mapping[Role, Price]) -> str:
    """Describe the calls of a run in one sentence, and the tokens and cost of each role
    in another.
    """
    lines = [
        f"{stats.requests} calls requested: {stats.executed} made, {stats.merged} merged in "
        f"flight, {stats.ledger_hits} from the ledger, {stats.external} by other processes; "
        f"{100 * stats.shared:.0f} % cost nothing."
    ]
    for role, usage in stats.usage.items():
        price = prices.get(role, Price())
        cost = (
            f", {price.compute_cost(usage.tokens_in, usage.tokens_out):.4f} dollars"
            if price != Price()
            else ""
        )
        lines.append(
            f"The {role} read {usage.tokens_in} tokens and wrote {usage.tokens_out}{cost}."
        )
    return " ".join(lines)
