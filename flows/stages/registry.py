"""The stages of an experiment: what each reads, makes and accepts, described once in its module.

From these descriptions come the order of `flows.pipeline`, the numbers of code in the keys of
artifacts, what `flows.why`, `winnow gc` and `flows.shards` know of stages, the choices of
`pipeline.goal` and `shards.stage`, and the stages of dvc.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from flows.project.shards import get_shard
from winnow.errors import ConfigError, suggest_name

if TYPE_CHECKING:
    from flows.project.artifacts import Artifact, Project
    from flows.settings.typed import Settings
    from flows.tools.summary import Summary
    from winnow.sweeps.shards import Shard


Shards = Literal["", "parts", "calls"]
Seeds = Literal["ignored", "each", "one"]
LastSweep = Literal["", "set", "used"]
_CHOICES = {"shards": Shards, "seeds": Seeds, "last_sweep": LastSweep}
"""Attributes of a stage that take one of a few values."""
_DEFINITION = re.compile(r"^STAGE\b[^=\n]*= Stage\(", re.MULTILINE)
"""The line of a module that defines a stage."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A command of `flows`. One that makes artifacts has a version and `resolve`.

    Attributes:
        run: Function that runs the stage for the settings of all jobs of a command: one job, or
            those of a multirun. Its name is also the module's.
        version: Number of the code in the keys of its artifacts, which is raised when they change;
            0 if it makes none.
        resolve: Function that yields the artifacts of one cell, the one that the settings name
            first.
        makes: Function that returns the one of them that `run` makes; by default the first.
        reads: Names of the stages whose artifacts it may read.
        needs: Function that returns those of `reads` whose artifacts it reads for the settings of
            one cell; by default all.
        settings: Groups and settings that it reads itself, for DVC; those of `reads` are added.
        dry_run: Function that runs in its place with dry_run=true, and makes and pays nothing;
            stages without one reject the setting.
        run_shard: Function that runs a shard of it, if it has shards.
        shards: What its shards write: "parts" of the artifact, or "calls"; "" if it has no shards.
        grid: Whether it expands `grid` into cells. Overrides of settings that are axes of the grid
            are then rejected.
        seeds: "each" if it uses trained models and runs once per training seed; "one" if it shows a
            single training and rejects several seeds.
        is_optional: Whether it does nothing with `--params` if no cell reads its results, which its
            `settings` decide.
        last_sweep: "set" if its settings are those of a sweep, "used" if it shows a sweep: without
            settings, the last one.
    """

    run: Callable[[Sequence[Settings]], Summary]
    version: int = 0
    resolve: Callable[[Project], Iterable[Artifact]] = lambda _: ()
    makes: Callable[[Project], Artifact] | None = None
    reads: tuple[str, ...] = ()
    needs: Callable[[Settings], Iterable[str]] | None = None
    settings: tuple[str, ...] = ()
    dry_run: Callable[[Sequence[Settings]], Summary] | None = None
    run_shard: Callable[[Sequence[Settings], Shard], Summary] | None = None
    shards: Shards = ""
    grid: bool = False
    seeds: Seeds = "ignored"
    is_optional: bool = False
    last_sweep: LastSweep = ""

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if (value := getattr(self, name)) not in get_args(choices):
                raise ConfigError(
                    f"Stage({self.name}): {name} must be one of {get_args(choices)}; received "
                    f"{value!r}."
                )
        if (self.run_shard is None) != (not self.shards):
            raise ConfigError(
                f"Stage({self.name}): run_shard and shards belong together; received "
                f"{self.run_shard!r} and {self.shards!r}."
            )
        if not isinstance(self.reads, tuple) or not isinstance(self.version, int):
            raise ConfigError(
                f"Stage({self.name}): reads must be a tuple of names and version a whole number; "
                f"received {self.reads!r} and {self.version!r}."
            )

    @property
    def name(self) -> str:
        """Return the name of the stage, as in `python -m flows.<name>`."""
        return self.run.__name__

    @property
    def description(self) -> str:
        """Return the documentation of the stage's module."""
        return (import_module(self.run.__module__).__doc__ or "").strip()

    @property
    def summary(self) -> str:
        """Return the first sentence of the documentation on one line, without its period."""
        return self.description.partition("\n\n")[0].replace("\n", " ").removesuffix(".")

    def start(self, jobs: Sequence[Settings]) -> Summary:
        """Run the stage, or, as the settings say, its dry run or a shard of it."""
        if self.dry_run is not None and jobs[0].dry_run:
            return self.dry_run(jobs)
        if self.run_shard is not None and (shard := get_shard(jobs[0])) is not None:
            return self.run_shard(jobs, shard)
        return self.run(jobs)

    def resolve_made(self, project: Project) -> Artifact:
        """Return the artifact that the stage makes for the settings of one cell."""
        return next(iter(self.resolve(project))) if self.makes is None else self.makes(project)

    def list_needs(self, cell: Settings) -> set[str]:
        """Return the names of the stages whose artifacts it reads for the settings of one cell."""
        needed_names = set(self.reads if self.needs is None else self.needs(cell))
        assert needed_names <= set(self.reads), (
            f"{self.name} needs {needed_names}, which are not among its `reads`."
        )
        return needed_names


@cache
def list_stages() -> tuple[Stage, ...]:
    """Return all stages, each after those that it reads."""
    files = sorted(Path(__file__).parents[1].glob("[a-z]*.py"))
    # the others are slow to import
    names = [file.stem for file in files if _DEFINITION.search(file.read_text())]
    stages: dict[str, Stage] = {name: import_module(f"flows.{name}").STAGE for name in names}
    for name, stage in stages.items():
        _check_names(name, stage, names)
    order = TopologicalSorter({name: stage.reads for name, stage in stages.items()}).static_order()
    return tuple(stages[name] for name in order)


def _check_names(module: str, stage: Stage, names: Sequence[str]) -> None:
    """Raise ConfigError if a stage is not named like its module, or reads an unknown stage."""
    if stage.name != module:
        raise ConfigError(
            f"flows/{module}.py: the function of its stage is named {stage.name!r}. Name it "
            f"{module!r}."
        )
    for name in stage.reads:
        if name not in names:
            raise ConfigError(
                f"flows/{module}.py: reads={stage.reads!r} names {name!r}, which is not a stage."
                + suggest_name(name, names)
            )


def get_stage(name: str) -> Stage:
    """Return a stage by its name; raise ConfigError if there is none."""
    stages = {stage.name: stage for stage in list_stages()}
    if name not in stages:
        raise ConfigError(f"There is no stage {name!r}." + suggest_name(name, list(stages)))
    return stages[name]


def choose_stage(setting: str, name: str, condition: Callable[[Stage], bool]) -> Stage:
    """Return the stage that a setting names; raise ConfigError unless it meets `condition`."""
    stages = {stage.name: stage for stage in list_stages() if condition(stage)}
    if name not in stages:
        raise ConfigError(f"{setting}={name!r}: expected one of {', '.join(stages)}.")
    return stages[name]


def list_ancestors(name: str) -> list[Stage]:
    """Return the stages that a stage reads, also indirectly, each after those that it reads."""
    ancestor_names = _follow(name, lambda stage: stage.reads)
    return [stage for stage in list_stages() if stage.name in ancestor_names]


def list_needed(name: str, cell: Settings) -> set[str]:
    """Return the names of the stages that a stage needs, directly or indirectly, for one cell."""
    return _follow(name, lambda stage: stage.list_needs(cell))


def _follow(name: str, list_names: Callable[[Stage], Iterable[str]]) -> set[str]:
    """Return the names of the stages that a function reaches from a stage, also indirectly."""
    reached, pending = set[str](), [name]
    while pending:
        new = set(list_names(get_stage(pending.pop()))) - reached
        reached |= new
        pending += new
    return reached


def iter_artifacts(project: Project) -> Iterator[Artifact]:
    """Yield the artifacts of all stages for these settings, even if a sweep does not read them."""
    needed_names = {"sweep", *list_needed("sweep", project.settings)}
    for stage in list_stages():
        if stage.name in needed_names:
            yield from stage.resolve(project)
        else:
            with suppress(ConfigError):  # settings of what is not needed may not fit together
                yield from stage.resolve(project)
