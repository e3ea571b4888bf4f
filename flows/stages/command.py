"""Command-line interface that all stages share: `--params`, `--track`, Hydra overrides, `-m`
multiruns and `--help`.
"""

import atexit
import errno
import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from flows.project.artifacts import Project
from flows.settings.composition import (
    CONF,
    Composed,
    compose_config,
    compose_with_choices,
    fill_grid,
    list_groups,
    list_options,
    read_choices,
)
from flows.settings.description import format_choices
from flows.settings.door import open_seeds, open_settings
from flows.settings.multirun import split_multirun
from flows.settings.overrides import complete_overrides, load_params
from flows.settings.secrets import check_secrets
from flows.settings.typed import Settings
from flows.stages.last_sweep import recall_sweep, remember_sweep
from flows.stages.registry import Stage, list_needed, list_stages
from flows.tools.dvc import check_target, restore_artifacts, track_artifacts
from flows.tools.prefect import run_flow
from flows.tools.summary import Summary
from winnow.artifacts.provenance import get_running_revision
from winnow.errors import ConfigError, WinnowError

_INTERRUPTED = 130
"""Exit status that shells report for a process that was ended by Ctrl-C."""
_UNUSABLE_PATHS = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
)
"""Errors of paths that the user chose."""
_FLAGS_WITH_VALUE = frozenset(
    [
        "--cfg",
        "-c",
        "--package",
        "-p",
        "--config-name",
        "-cn",
        "--config-path",
        "-cp",
        "--config-dir",
        "-cd",
        "--info",
        "-i",
    ]
)
"""Flags of Hydra that are followed by a value."""
_MULTIRUN = frozenset(["-m", "--multirun"])
"""Flags of Hydra that run a job for each combination of values."""


def make_main(stage: Stage) -> Callable[[], None]:
    """Return the `main` function of a stage's module."""

    def main() -> None:
        atexit.register(gc.freeze)  # Python would search what it frees for cycles, for a second
        with exit_on_errors():
            run_command(stage, sys.argv[1:])

    return main


def run_command(stage: Stage, words: Sequence[str]) -> None:
    """Run a stage with the words of its command line, and print its summary."""
    check_secrets((word.partition("=")[0], word) for word in words)
    if {"--help", "-h"} & set(words):
        chosen = [word for word in words if "=" in word and word.partition("=")[0] in list_groups()]
        print(format_choices(chosen) or _format_help(stage.name, stage.description))
        return
    if stage.last_sweep == "used":
        words = recall_sweep(words)
    target, untracked = _take_value(words, "--track", "a folder, for example --track tracked/index")
    if target:
        check_target(Path(target))
    params, rest = _take_value(untracked, "--params", "a file, for example --params params.yaml")

    def run_jobs(composed: Sequence[Composed]) -> None:
        jobs = open_jobs(stage, composed, words)
        if stage.last_sweep == "set":
            remember_sweep(untracked, jobs)
        is_skipped = params and stage.is_optional and not is_needed(stage, jobs)
        chosen = replace(stage, run=_skip) if is_skipped else stage
        run_flow(partial(execute, chosen, target=target), stage.name, jobs).show()

    if params:
        run_jobs([load_params(Path(params), rest, grid=stage.grid)])
        return
    completed = _complete_arguments(rest, grid=stage.grid)
    composed = _compose_jobs(completed)
    if composed is None:
        composed = _run_hydra(completed, run_jobs)
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
    check_secrets((word.partition("=")[0], word) for word in overrides)
    composed = _compose_jobs(_complete_arguments(overrides, grid=stage.grid))
    if composed is None:
        raise ConfigError(
            f"{' '.join(overrides)}: Hydra's own settings, its flags but -m, and launchers other "
            "than runner=shared need the command line."
        )
    jobs = open_jobs(stage, composed, overrides)
    if stage.last_sweep == "set":
        remember_sweep(overrides, jobs)
    return run_flow(partial(execute, stage), stage.name, jobs)


def execute(stage: Stage, jobs: Sequence[Settings], target: str = "") -> Summary:
    """Run a stage for the settings of all jobs, and link its artifacts into the folder `target`
    that DVC tracks, if any.
    """
    summary = stage.run(jobs)
    if len(jobs) > 1 and not (stage.grid or jobs[0].dry_run):
        summary = summary.drop_repeated()
    if target and not jobs[0].dry_run:
        if not summary.artifacts and stage.run is not _skip and jobs[0].shard is None:
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


def _skip(_: Sequence[Settings]) -> Summary:
    return Summary(
        "No cell of these settings reads the results of this stage; without --params it runs in "
        "any case."
    )


def open_jobs(
    stage: Stage, composed: Sequence[Composed], words: Sequence[str] = ()
) -> list[Settings]:
    """Return the settings with which a stage runs: checked, with recorded commits, and one for each
    training seed.

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
    if not stage.dry_run and any(job.dry_run for job in jobs):
        raise ConfigError(
            f"flows.{stage.name} has no dry run; only {_list_dry_runs()} have one. Remove "
            "dry_run=true."
        )
    get_running_revision()
    restore_artifacts(jobs[0].paths.ledger)
    return jobs


def _list_dry_runs() -> str:
    return ", ".join(stage.name for stage in list_stages() if stage.dry_run)


def _complete_arguments(arguments: Sequence[str], *, grid: bool) -> list[str]:
    """Return the arguments with checked and completed overrides; the flags of Hydra and their
    values stay as they are.
    """
    words = _classify_arguments(arguments)
    completed = iter(
        complete_overrides([word for word, is_override in words if is_override], grid=grid)
    )
    return [next(completed) if is_override else word for word, is_override in words]


def _classify_arguments(arguments: Sequence[str]) -> list[tuple[str, bool]]:
    """Return each argument with a flag that says whether it is an override."""
    return [
        (word, not word.startswith("-") and previous not in _FLAGS_WITH_VALUE)
        for previous, word in zip(["", *arguments], arguments, strict=False)
    ]


def _compose_jobs(words: Sequence[str]) -> list[Composed] | None:
    """Compose the settings of each job, or return None for words that only Hydra's own `main`
    obeys: its flags but -m, its settings, and launchers.

    Raises:
        ConfigError: If the settings cannot be composed.

    """
    classified = _classify_arguments(words)
    overrides = [word for word, is_override in classified if is_override]
    flags = {word for word, is_override in classified if not is_override}
    if not flags <= _MULTIRUN or any(word.lstrip("+~").startswith("hydra") for word in overrides):
        return None
    jobs = []
    for job in split_multirun(overrides) if flags else [overrides]:
        cfg, choices = compose_with_choices(job)
        if choices.get("runner") != "shared":
            return None
        jobs.append(cfg)
    return jobs


def _run_hydra(words: Sequence[str], run: Callable[[Sequence[Composed]], None]) -> list[Composed]:
    """Let Hydra's own `main` obey the words of a command line, and return the job that is left, if
    any.

    Args:
        words: Words of the command line. After some flags, such as `--cfg job`, there is no job.
        run: Function that runs a job. Launchers that start a process for each job, such as
            joblib's, call it there.

    Raises:
        ConfigError: If the settings cannot be composed.

    """
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    jobs: list[Composed] = []
    is_running = False

    def add_one(cfg: Composed) -> None:
        nonlocal is_running
        job = fill_grid(cfg, read_choices(HydraConfig.get()))
        is_running = (
            HydraConfig.get().mode == RunMode.MULTIRUN
        )  # a launcher, which runs each job by itself
        if is_running:
            with exit_on_errors():
                run([job])
        else:
            jobs.append(job)

    os.environ["HYDRA_FULL_ERROR"] = (
        "1"  # Hydra then raises its errors instead of printing them with a stack trace
    )
    former, sys.argv = (
        sys.argv,
        [sys.argv[0], *words],
    )  # the only place from which Hydra takes words
    try:
        hydra.main(config_path=str(CONF), config_name="config", version_base="1.3")(add_one)()
    except WinnowError:
        raise
    except Exception as error:
        if is_running:
            raise
        raise ConfigError(
            f"The settings cannot be composed: {error} `--help` lists the settings and their "
            "options."
        ) from error
    finally:
        sys.argv = former
    return jobs


@contextmanager
def exit_on_errors() -> Iterator[None]:
    """Exit with a one-line message, instead of a stack trace, on a WinnowError, an unusable path or
    Ctrl-C.
    """
    try:
        yield
    except WinnowError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    except OSError as error:
        if error.errno not in _UNUSABLE_PATHS:
            raise
        sys.exit(
            f"{type(error).__name__}: {error.filename} cannot be used ({error.strerror}). Choose "
            "folders that you may write to by paths.data, paths.models, paths.ledger and "
            "tracking.uri, and shorter names."
        )
    except KeyboardInterrupt:
        print(
            "\nInterrupted. Finished calls and artifacts are kept; the same command continues.",
            file=sys.stderr,
        )
        sys.exit(_INTERRUPTED)


def _take_value(arguments: Sequence[str], flag: str, expected: str) -> tuple[str, list[str]]:
    """Return the value after a flag, or "" without the flag, and the other arguments."""
    if flag not in arguments:
        return "", list(arguments)
    index = arguments.index(flag)
    if index + 1 == len(arguments):
        raise ConfigError(f"{flag} needs {expected}.")
    return arguments[index + 1], [*arguments[:index], *arguments[index + 2 :]]


def _format_help(name: str, doc: str) -> str:
    """Return the text of `--help`: the module's docstring, the usage, and the groups with their
    options.
    """
    listed = "\n".join(f"  {group:<10} {', '.join(list_options(group))}" for group in list_groups())
    plain = [
        key for key in map(str, compose_config([])) if key not in list_groups() and key != "hydra"
    ]
    return (
        f"{doc.strip()}\n\nUsage: python -m flows.{name} [-m] [group=option ...] [key=value ...] "
        "[--params FILE] [--track FOLDER]\nWith -m, key=a,b,c runs one job per value. --params "
        "reads the settings from a file, as the stages of dvc.yaml do; --track links the "
        "finished artifacts into a folder for DVC.\n\nGroups and their options "
        f"(conf/<group>/<option>.yaml):\n{listed}\n\nOther settings (conf/config.yaml):\n "
        f" {' '.join(plain)}\n\nAdd --cfg job to print the composed settings without running the "
        "stage. --help with group=option (retriever=dense) explains the settings of that choice."
    )
