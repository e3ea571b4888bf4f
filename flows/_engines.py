"""Engines by role: which component serves a role, what it costs, and driving plans through them with a progress bar."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from omegaconf import DictConfig

from flows import _models
from flows._artifacts import Project
from flows._build import build
from flows._summary import progress
from winnow.artifacts.provenance import compute_key
from winnow.artifacts.tables import read_passages
from winnow.driver import MAX_ACTIVE, Driver, Job, Tally
from winnow.dry_run import CostEstimate, estimate_cost
from winnow.errors import ConfigError
from winnow.identity import ledger_identity
from winnow.ledger.stores import open_store
from winnow.protocols import CallStore, Engine, Engines, Estimator, engines_for
from winnow.readers.budget import Budget, Spending
from winnow.readers.openai_engine import OpenAIEngine
from winnow.records import Outcome, Price, Role, T
from winnow.sweeps.spec import EngineSpec

ROLES = ("reader", "rewriter", "judge", "verifier")
"""The roles of language models; "estimator" and "search" have components of their own."""


def engine_spec(project: Project, role: Role) -> EngineSpec:
    """Return how the engine of a role is opened; roles of language models without a model of their own use the reader."""
    if role == "estimator":
        identity = estimator_identity(project)
        return EngineSpec(role, identity, lambda _: _estimator_engine(project, identity))
    if role == "search":
        index, corpus = project.index(), project.corpus
        identity = (
            f"{project.cfg.search.name}@{compute_key(index.identity, project.pinned.settings(project.cfg.search.engine))}"
        )
        return EngineSpec(role, identity, lambda _: _search_engine(project, index.require, corpus.require, identity))
    if role not in ROLES:
        raise ConfigError(f"engines: there is no role {role!r}; the roles are {', '.join((*ROLES, 'estimator', 'search'))}.")
    node = project.cfg.get(role) or project.cfg.reader
    return reader_spec(project, node, project.cfg.prompt, role)


def reader_spec(project: Project, reader: DictConfig, prompt: DictConfig, role: Role = "reader") -> EngineSpec:
    """Return how the language model of a role is opened."""
    key = compute_key(_models.reader_weights(project, reader, prompt), project.pinned.settings(reader.engine), reader.name)
    price = price_of(project.cfg, reader)

    def open_engine(check: bool) -> Engine:
        return open_reader(reader, _models.reader_path(project, reader, prompt), price=price, check=check)

    return EngineSpec(role, key, open_engine, price)


def open_reader(reader: DictConfig, path: str, *, price: Price, name: str | None = None, check: bool = True) -> Engine:
    """Return the reader of these weights or this remote model; what it needs is checked now, weights are loaded later."""
    priced = {"price": price} if "budget" in reader.engine else {}
    engine: Engine = build(reader.engine, path=path, name=name or reader.name, **priced)
    if isinstance(engine, OpenAIEngine):
        engine.spending = _spending(engine.identity, engine.budget, engine.price)
    if check:
        engine.check()
    return engine


@cache
def _spending(identity: str, budget: Budget, price: Price) -> Spending:  # noqa: ARG001 (one for each model)
    """Return what this process spends on a model: groups of cells and judges share one budget."""
    return Spending(budget, price)


def price_of(cfg: DictConfig, reader: DictConfig) -> Price:
    """Return a reader's price from the table of conf/prices; zero for a model that is not in it."""
    factor = float(reader.get("price_factor", 1.0))
    row = next((row for row in cfg.prices.table if row.model == reader.base), None)
    return Price() if row is None else Price(factor * float(row.input), factor * float(row.output))


def estimator_identity(project: Project) -> str:
    """Return what the ledger files estimates under."""
    cfg = project.cfg.estimator
    return f"{cfg.name}@{compute_key(project.pinned.settings(cfg.engine), _models.estimator_weights(project))}"


def open_estimator(project: Project) -> Estimator:
    """Return the estimator; one that reads pairs gets the weights of its training, or its base's."""
    cfg = project.cfg.estimator
    paths = {"path": _models.estimator_path(project)} if "base" in cfg else {}
    estimator: Estimator = build(cfg.engine, **paths)
    return estimator


def _estimator_engine(project: Project, identity: str) -> Engine:
    from winnow.estimators.engine import EstimatorEngine

    return EstimatorEngine(open_estimator(project), identity)


def _search_engine(project: Project, index: Callable[[], Any], corpus: Callable[[], Any], identity: str) -> Engine:
    retriever = project.cfg.retriever.engine
    engine: Engine = build(
        project.cfg.search.engine,
        searcher=lambda: build(retriever).open(index()),
        passages=lambda: {p.passage_id: p for p in read_passages(corpus() / "passages.parquet")},
        identity=identity,
    )
    return engine


def open_ledger(cfg: DictConfig) -> CallStore:
    """Return the ledger of the settings, a context manager."""
    return open_store(str(cfg.paths.ledger))


def open_engines(specs: Iterable[EngineSpec], *, check: bool = True) -> Engines:
    """Open the engines of some roles; roles of equal key share one."""
    by_key: dict[str, Engine] = {}
    engines: dict[tuple[type, Role], Engine] = {}
    for spec in specs:
        if spec.key not in by_key:
            by_key[spec.key] = spec.open(check)
        engines |= engines_for(by_key[spec.key], spec.role)
    return engines


def drive(
    engines: Engines, ledger: CallStore, jobs: Iterable[Job[T]], total: int, label: str, tally: Tally | None = None
) -> Iterator[Outcome[T]]:
    """Yield each outcome, with a progress bar; `tally`, if given, receives the counts. The engines are closed at the end."""
    distinct = list({id(engine): engine for engine in engines.values()}.values())
    max_active = max(MAX_ACTIVE, *(engine.capacity for engine in distinct))  # a batch of 50,000 needs as many active plans
    with progress(label, total) as advance:
        done = 0

        def tick(counts: Tally) -> None:
            nonlocal done
            advance(counts.plans - done, f"{counts.executed} calls made, {counts.ledger_hits + counts.merged} shared")
            done = counts.plans

        driver = Driver(engines, ledger, max_active=max_active, tick=tick)
        if tally is not None:
            driver.tally = tally
        try:
            yield from driver.run(jobs)
        finally:
            for engine in distinct:
                engine.close()


def dry_run_rows(cfg: DictConfig, specs: Sequence[EngineSpec], jobs: Callable[[], Iterable[Job[Any]]]) -> list[dict[str, Any]]:
    """Return what the jobs would request, cost and take, a row per role; needs neither key nor weights."""
    engines = open_engines(specs, check=False)
    with open_ledger(cfg) as ledger:
        estimates = estimate_cost(jobs, engines, ledger, {spec.role: spec.price for spec in specs})
    identities = {role: ledger_identity(engine) for (_, role), engine in engines.items()}
    return [_cost_row(role, identities[role], estimate) for role, estimate in estimates.items()]


def _cost_row(role: Role, identity: str, estimate: CostEstimate) -> dict[str, Any]:
    low, high = estimate.money
    seconds, more = estimate.seconds, " or more" if estimate.is_open else ""
    return {
        "role": role,
        "model": identity,
        "calls without sharing": _span(estimate.requests) + more,
        "in the ledger": _span(estimate.stored),
        "to be made": _span(estimate.missing) + more,
        "prompt tokens, about": _span(estimate.tokens) + more,
        "dollars, about": f"{low:.4f} to {high:.4f}{more}" if high else "no price known",
        "seconds, about": "no earlier call" if seconds is None else _span([round(s) for s in seconds]) + more,
    }


def _span(bounds: Sequence[int]) -> str:
    low, high = bounds
    return f"{low}" if low == high else f"{low} to {high}"


def summary_text(tally: Tally, prices: Mapping[Role, Price]) -> str:
    """Return one sentence on what a run requested and what it cost, and one per role on its tokens."""
    lines = [
        f"{tally.requests} calls requested: {tally.executed} made, {tally.merged} merged in flight, {tally.ledger_hits} from "
        f"the ledger, {tally.external} by other processes; {100 * tally.shared:.0f} % cost nothing."
    ]
    for role, usage in tally.usage.items():
        price = prices.get(role, Price())
        cost = f", {price.of(usage.tokens_in, usage.tokens_out):.4f} dollars" if price != Price() else ""
        lines.append(f"The {role} read {usage.tokens_in} tokens and wrote {usage.tokens_out}{cost}.")
    return " ".join(lines)
