"""Opens the engines of a configuration by role, and runs jobs through them with a progress bar.

A role is the part that an engine plays in a strategy, such as reader, judge, estimator or search.
"""

import inspect
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from flows.project.artifacts import Project
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
from winnow.artifacts.provenance import compute_key
from winnow.errors import ConfigError
from winnow.identity.code import declare_settings, get_ledger_identity, has_tested_revision
from winnow.modeling.loading import compute_weights_digest
from winnow.predictions import Price
from winnow.protocols import (
    MODEL_ROLES,
    Engine,
    Engines,
    Estimator,
    RemoteEngine,
    build_engine_map,
)
from winnow.readers.budget import Budget, PaidEngine, Spending
from winnow.records import Role
from winnow.strategies.prompt import Prompt
from winnow.sweeps.run import LoadedCell
from winnow.sweeps.spec import EngineSpec

OTHER_ROLES: tuple[Role, ...] = ("estimator", "nli", "search", "corpus")
"""Roles that no language model fills."""
EVALUATED = "evaluated"
"""Name of a reader that is compared with its base model after a training."""


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
    project: Project, reader: Reader, prompt: Component[Prompt], role: Role = "reader"
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

    return EngineSpec(role, key, open_engine, price, reader.engine)


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
    price_kwargs = {"price": price} if "budget" in reader.engine else {}
    engine = reader.engine.build(path=path, name=name or reader.name, **price_kwargs)
    if not has_tested_revision(type(engine)):
        weights = compute_weights_digest(path) if path else ""
        declare_settings(
            engine, compute_key(PinnedAssets({}).identify_settings(reader.engine), weights)
        )
    if isinstance(engine, PaidEngine):
        engine_spending = engine.spending
        engine.spending = _spending(engine.identity, engine_spending.budget, engine_spending.price)
    if check:
        engine.check()
    return engine


@cache
def _spending(identity: str, budget: Budget, price: Price) -> Spending:  # noqa: ARG001 (the cache has an entry per model)
    """Return this process's spending on a model, so that all its engines share one budget."""
    return Spending(budget, price)


def find_price(settings: Settings, reader: Reader) -> Price:
    """Look up a reader's price in conf/prices, also without its commit; return 0 if unlisted."""
    factor, table = reader.price_factor, {row.model: row for row in settings.prices.table}
    base = str(reader.base)
    row = table.get(base) or table.get(base.partition("@")[0])
    return Price() if row is None else Price(factor * row.input, factor * row.output)


def compute_estimator_identity(project: Project) -> str:
    """Compute the identity under which the ledger stores the results of the estimator."""
    return _compute_estimator_identity(
        project, project.settings.estimator, identify_estimator_weights(project)
    )


def _compute_estimator_identity(project: Project, node: sections.Estimator, weights: str) -> str:
    return f"{node.name}@{compute_key(project.pinned.identify_settings(node.engine), weights)}"


def open_estimator(project: Project) -> Estimator:
    """Open the estimator with its trained weights, or with the base model's if it is untrained."""
    settings = project.settings.estimator
    paths = {"path": resolve_estimator_path(project)} if settings.base is not None else {}
    return settings.engine.build(**paths)


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

    One model on a server has one engine even if two keys differ in a setting that affects speed
    alone, as each would otherwise send what the other one waits for.

    Raises:
        ConfigError: If two roles share a model and differ in its budget, or share an engine and
            differ in another setting, since there is only one of each.
    """
    by_key: dict[str, Engine] = {}
    by_server: dict[tuple[type, str], Engine] = {}
    by_model: dict[str, EngineSpec] = {}
    first_specs: dict[int, EngineSpec] = {}
    engine_sets: dict[Hashable, dict[tuple[type, Role], Engine]] = {name: {} for name in sets}
    for name, spec in ((name, spec) for name, specs in sets.items() for spec in specs):
        if spec.key not in by_key:
            engine = spec.open(check)
            if isinstance(engine, RemoteEngine):
                server = type(engine), get_ledger_identity(engine)
                engine = by_server.setdefault(server, engine)
            by_key[spec.key] = engine
        engine = by_key[spec.key]
        _check_alike(by_model.setdefault(engine.identity, spec), spec, ["budget"])
        first = first_specs.setdefault(id(engine), spec)
        _check_alike(first, spec, sorted({*first.settings, *spec.settings}))
        engine_sets[name] |= build_engine_map(engine, spec.role)
    return dict(engine_sets)


def _check_alike(first: EngineSpec, second: EngineSpec, names: Iterable[str]) -> None:
    """Raise ConfigError if two roles, which share what these settings say, differ in them."""
    for name in names:
        values = [_get_setting(spec.settings, name) for spec in (first, second)]
        if values[0] != values[1]:
            raise ConfigError(
                f"The roles {first.role} and {second.role} use the same model, which has one "
                f"{name}, but {first.role}.engine.{name} is {values[0]} and "
                f"{second.role}.engine.{name} is {values[1]}. Set both alike."
            )


def _get_setting(settings: Mapping[str, Any], name: str) -> Any:
    """Return a setting of an engine, by default the one of its class."""
    if name in settings or not isinstance(settings, Component):
        return settings.get(name)
    parameter = inspect.signature(settings.component_class).parameters.get(name)
    return None if parameter is None else parameter.default


def open_cell_engines(cells: Iterable[LoadedCell]) -> dict[Hashable, Engines]:
    """Open the engines of cells, by the names of the sets that serve them."""
    return open_engine_sets({cell.engine_set: cell.spec.engines for cell in cells})


def list_prices(sets: Iterable[Engines]) -> dict[str, Price]:
    """Return the prices of the engines that have one, by the identities of their calls."""
    engines = [engine for engines in sets for engine in engines.values()]
    return {
        get_ledger_identity(engine): engine.spending.price
        for engine in engines
        if isinstance(engine, PaidEngine)
    }


def identify_engine_specs(specs: Sequence[EngineSpec]) -> dict[Role, str]:
    """Return what `identify_engines` does for engine specifications, without loading a model."""
    return identify_engines(open_engines(specs, check=False))


def identify_engines(engines: Engines) -> dict[Role, str]:
    """Return the identities under which the ledger stores the calls of the engines, by role."""
    return {role: get_ledger_identity(engine) for (_, role), engine in engines.items()}
