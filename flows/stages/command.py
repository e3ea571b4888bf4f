"""Command line of a stage: `--params`, `--track`, Hydra overrides, `-m` multiruns and `--help`."""

import atexit
import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from flows.project.artifacts import Project
from flows.settings.composition import Composed, forget_options, list_groups
from flows.settings.description import format_choices, format_help
from flows.settings.door import open_seeds, open_settings
from flows.settings.grid import COMMAND_SETTINGS
from flows.settings.overrides import load_params
from flows.settings.secrets import check_secrets
from flows.settings.typed import Settings
from flows.stages.errors import exit_on_errors
from flows.stages.last_sweep import Recall, recall_sweep, remember_sweep
from flows.stages.registry import Stage, list_needed, list_stages
from flows.stages.words import complete_words, compose_jobs, run_hydra, take_value
from flows.tools.dvc import check_target, restore_artifacts, track_artifacts
from flows.tools.prefect import run_flow
from flows.tools.summary import Summary
from winnow.artifacts.provenance import flatten, get_running_revision
from winnow.errors import ConfigError


def make_main(stage: Stage) -> Callable[[], None]:
    """Return the `main` function of a stage's module."""

    def main() -> None:
        atexit.register(gc.freeze)  # Python would search what it frees for cycles, for a second
        with exit_on_errors():
            run_command(stage, sys.argv[1:])

    return main


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The words of a command line.

    Attributes:
        words: The words but --track, with which the command is recorded.
        target: Folder after --track, or "".
        params: File after --params, or "".
        rest: The other words: overrides and flags of Hydra.
    """

    words: Sequence[str]
    target: str
    params: str
    rest: Sequence[str]

    @classmethod
    def parse(cls, words: Sequence[str]) -> "CommandLine":
        """Take the flags of Winnow out of the words; raise ConfigError if one has no value."""
        target, own = take_value(words, "--track", "a folder, for example --track tracked/index")
        params, rest = take_value(own, "--params", "a file, for example --params params.yaml")
        return cls(own, target, params, rest)


def _check_words(words: Sequence[str]) -> None:
    """Raise ConfigError if a word contains a secret, without showing it."""
    check_secrets(
        (word.partition("=")[0] if "=" in word else f"word {number} of the command", word)
        for number, word in enumerate(words, 1)
    )


def run_command(stage: Stage, words: Sequence[str]) -> None:
    """Run a stage with the words of its command line, and print its summary."""
    _check_words(words)
    if {"--help", "-h"} & set(words):
        choices = [
            word for word in words if "=" in word and word.partition("=")[0] in list_groups()
        ]
        print(format_choices(choices) or format_help(stage.name, stage.description))
        return
    recall = _recall(stage, words)
    line = CommandLine.parse(recall.words)
    if line.target:
        check_target(Path(line.target))

    def run_jobs(composed: Sequence[Composed]) -> None:
        _run_jobs(stage, line, composed, recall).show()

    composed = _compose(stage, line)
    if composed is None:
        composed = run_hydra(complete_words(line.rest, grid=stage.grid), run_jobs)
    if composed:
        run_jobs(composed)


def run(stage: Stage, overrides: Sequence[str] = ()) -> Summary:
    """Run a stage as its command does, from Python, and return its summary.

    Args:
        stage: Stage, such as `flows.sweep.STAGE`.
        overrides: Words of the command line, such as ["-m", "k=1,5"].

    Raises:
        ConfigError: If a setting is wrong, or if the words need the command line.
    """
    _check_words(overrides)
    forget_options()
    recall = _recall(stage, overrides)
    line = CommandLine.parse(recall.words)
    composed_jobs = _compose(stage, line)
    if composed_jobs is None or line.target:
        raise ConfigError(
            f"{' '.join(overrides)}: Hydra's own settings, its flags but -m, launchers other than "
            "runner=shared, and --track need the command line."
        )
    return _run_jobs(stage, line, composed_jobs, recall)


def _compose(stage: Stage, line: CommandLine) -> list[Composed] | None:
    """Compose the settings of each job, or return None if only Hydra's own `main` can."""
    if line.params:
        return [load_params(Path(line.params), line.rest, grid=stage.grid)]
    return compose_jobs(complete_words(line.rest, grid=stage.grid))


def _recall(stage: Stage, words: Sequence[str]) -> Recall:
    """Return the words of a stage, with those of the sweep that it shows."""
    return recall_sweep(words) if stage.last_sweep == "used" else Recall(words)


def _run_jobs(
    stage: Stage, line: CommandLine, composed: Sequence[Composed], recall: Recall
) -> Summary:
    """Run a stage with composed settings, under Prefect if it is used.

    With --params, an optional stage does nothing if no cell reads its results.
    """
    jobs = open_jobs(stage, composed, line.words)
    recall.check(jobs)
    if stage.last_sweep == "set":
        remember_sweep(line.words, jobs)
    is_skipped = line.params and stage.is_optional and not is_needed(stage, jobs)
    if is_skipped and not jobs[0].dry_run:
        if line.target:
            track_artifacts(Path(line.target), [])
        return Summary(
            "No cell of these settings reads the results of this stage; without --params it runs "
            "in any case."
        )
    return run_flow(partial(execute, stage, target=line.target), stage.name, jobs)


def execute(stage: Stage, jobs: Sequence[Settings], target: str = "") -> Summary:
    """Run a stage for all jobs, and link its artifacts into the DVC folder `target`, if given."""
    summary = stage.start(jobs)
    if not isinstance(summary, Summary):
        raise ConfigError(f"flows.{stage.name} must return a Summary; it returned {summary!r}.")
    if len(jobs) > 1 and not (stage.grid or jobs[0].dry_run):
        summary = summary.drop_repeated()
    if target and not jobs[0].dry_run:
        if not summary.artifacts and jobs[0].shard is None:
            _check_nothing_made(stage, jobs)
        track_artifacts(Path(target), summary.artifacts)
    return summary


def _check_nothing_made(stage: Stage, jobs: Sequence[Settings]) -> None:
    """Raise ConfigError if a stage made artifacts that its summary does not name."""
    for artifact in (one for job in jobs for one in stage.resolve(Project(job))):
        if artifact.is_finished:
            raise ConfigError(
                f"--track: the summary of flows.{stage.name} names no artifact, so that DVC would "
                f"not track {artifact.folder}. Pass artifacts=[folder, ...] to Summary."
            )


def is_needed(stage: Stage, jobs: Sequence[Settings]) -> bool:
    """Return whether a cell of the settings reads what a stage before the sweep makes."""
    return any(stage.name in list_needed("sweep", cell) for job in jobs for cell in job.cells)


def open_jobs(
    stage: Stage, composed: Sequence[Composed], words: Sequence[str] = ()
) -> list[Settings]:
    """Return a stage's settings: checked, with recorded commits, and one for each training seed.

    Raises:
        ConfigError: If a setting is wrong, or if the stage has no dry run, or cannot show several
            seeds.
    """
    if stage.seeds == "ignored":
        jobs = [open_settings(one, words) for one in composed]
    else:
        if stage.seeds == "one" and (
            several := next((list(one.seeds) for one in composed if len(one.seeds or ()) > 1), None)
        ):
            raise ConfigError(
                f"seeds={several}: flows.{stage.name} shows one training. Name one, such as "
                f"seeds=[{several[0]}]."
            )
        jobs = [job for one in composed for job in open_seeds(one, words)]
    _check_common_settings(stage, jobs)
    if not stage.dry_run and any(job.dry_run for job in jobs):
        have = _list_names(lambda one: bool(one.dry_run))
        raise ConfigError(
            f"flows.{stage.name} has no dry run; only {have} have one. Remove dry_run=true."
        )
    if jobs[0].dry_run and jobs[0].shard is not None:
        raise ConfigError(
            f"shard={jobs[0].shard}: dry_run=true counts the calls of all shards together. Remove "
            "shard."
        )
    if not stage.run_shard and jobs[0].shard is not None:
        have = _list_names(lambda one: bool(one.run_shard))
        raise ConfigError(
            f"shard={jobs[0].shard}: flows.{stage.name} has no shards; only {have} have them. "
            "Remove it."
        )
    get_running_revision()
    restore_artifacts(jobs[0].paths.ledger)
    return jobs


def _check_common_settings(stage: Stage, jobs: Sequence[Settings]) -> None:
    """Raise ConfigError if jobs differ in settings of which the command has one for all."""
    names = ["dry_run", "pipeline", "shard", "shards"]
    names += [stage.name] if stage.name in COMMAND_SETTINGS else []
    names += ["report"] if stage.name in ("calibrate_judge", "power") else []
    for name in names:
        parts = [flatten({name: job.plain.get(name)}) for job in jobs]
        for key in parts[0]:
            values = dict.fromkeys(str(part.get(key)) for part in parts)
            if len(values) > 1:
                example = f", or set {key}=reports/NAME for all" if key == "report.out" else ""
                raise ConfigError(
                    f"The jobs differ in {key}, of which a command has one for all: "
                    f"{', '.join(values)}. Run a command for each{example}."
                )


def _list_names(condition: Callable[[Stage], bool]) -> str:
    return ", ".join(stage.name for stage in list_stages() if condition(stage))
