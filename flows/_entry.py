"""Command-line interface that all stages share: `--params`, `--track`, Hydra overrides, `-m` multiruns and `--help`."""

import errno
import functools
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from omegaconf import DictConfig

from flows._conf import (
    CONF,
    check_choices,
    compose,
    fill_grid,
    list_groups,
    list_options,
    read_choices,
    remove_hydra,
    resolve_settings,
)
from flows._describe import format_choices
from flows._hub import use_recorded_commits
from flows._overrides import complete_overrides, load_params
from flows._prefect import run_flow
from flows._schema import check_settings
from flows._secrets import check_secrets
from flows._seeds import expand_seeds
from flows._stages import Stage, list_stages
from flows._summary import Summary
from flows._tracked import check_target, restore_artifacts, track_artifacts
from winnow.artifacts.provenance import flatten, get_running_revision
from winnow.errors import ConfigError, WinnowError

_INTERRUPTED = 130
"""Exit status that shells report for a process that was ended by Ctrl-C."""
_UNUSABLE_PATHS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)
"""Errors of paths that the user chose."""
Run = Callable[[Sequence[DictConfig]], Summary]
"""A function that runs a stage for the configurations of all jobs of one command."""
_FLAGS_WITH_VALUE = frozenset(
    ["--cfg", "-c", "--package", "-p", "--config-name", "-cn", "--config-path", "-cp", "--config-dir", "-cd", "--info", "-i"]
)
"""Flags of Hydra that are followed by a value."""


def make_main(stage: Stage) -> Callable[[], None]:
    """Return the `main` function of a stage's module."""
    name, run = stage.name, stage.run
    if not stage.dry_run:
        run = _reject_dry_run(run)
    if stage.seeds != "ignored":
        run = _expand_seeds(run, only_one=stage.seeds == "one")
    run = _check_configs(_pin_commits(run) if stage.uses_commits else run)

    @functools.wraps(run)
    def main() -> None:
        arguments = sys.argv[1:]
        try:
            check_secrets((word.partition("=")[0], word) for word in arguments)
            if {"--help", "-h"} & set(arguments):
                chosen = [word for word in arguments if "=" in word and word.partition("=")[0] in list_groups()]
                print(format_choices(chosen) or _format_help(name, stage.description))
                return
            target, arguments = _take_value(arguments, "--track", "a folder, for example --track tracked/index")
            if target:
                check_target(Path(target))
            tracked = _track_artifacts(run, Path(target)) if target else run
            params, arguments = _take_value(arguments, "--params", "a file, for example --params params.yaml")
            if params:
                cfg = load_params(Path(params), arguments, grid=stage.grid)
                _with_short_errors(functools.partial(run_flow, tracked, name, stage.retries))([cfg])
            else:
                sys.argv[1:] = _complete_arguments(arguments, grid=stage.grid)
                _run_hydra(tracked, name, stage.retries)
        except WinnowError as error:
            sys.exit(f"{type(error).__name__}: {error}")

    return main


def _check_configs(stage: Run) -> Run:
    """Wrap a stage to check the options, types and secrets of every configuration first."""

    @functools.wraps(stage)
    def checked(configs: Sequence[DictConfig]) -> Summary:
        for cfg in configs:
            plain = resolve_settings(cfg)
            check_secrets((name, str(value)) for name, value in flatten(plain).items())
            check_choices(cfg)
            check_settings(cfg)
        get_running_revision()
        restore_artifacts(str(configs[0].paths.ledger))
        return stage(configs)

    return checked


def _track_artifacts(stage: Run, target: Path) -> Run:
    """Wrap a stage to link its artifacts into a folder that DVC tracks."""

    @functools.wraps(stage)
    def tracked(configs: Sequence[DictConfig]) -> Summary:
        summary = stage(configs)
        if not configs[0].get("dry_run"):
            track_artifacts(target, summary.artifacts)
        return summary

    return tracked


def _pin_commits(stage: Run) -> Run:
    """Wrap a stage to use the recorded commits of names on the Hugging Face hub."""

    @functools.wraps(stage)
    def pinned(configs: Sequence[DictConfig]) -> Summary:
        return stage([use_recorded_commits(cfg) for cfg in configs])

    return pinned


def _expand_seeds(stage: Run, *, only_one: bool) -> Run:
    """Wrap a stage to run it once per training seed, or to reject several seeds if it shows a single training."""

    @functools.wraps(stage)
    def expanded(configs: Sequence[DictConfig]) -> Summary:
        several = next((list(cfg.seeds) for cfg in configs if len(cfg.get("seeds") or ()) > 1), None)
        if only_one and several:
            raise ConfigError(
                f"seeds={several}: flows.{stage.__name__} shows one training. Name one, such as seeds=[{several[0]}]."
            )
        return stage(expand_seeds(configs))

    return expanded


def _reject_dry_run(stage: Run) -> Run:
    """Wrap a stage to raise a ConfigError for dry_run=true."""

    @functools.wraps(stage)
    def checked(configs: Sequence[DictConfig]) -> Summary:
        if any(cfg.get("dry_run") for cfg in configs):
            raise ConfigError(f"flows.{stage.__name__} has no dry run; only {_list_dry_runs()} have one. Remove dry_run=true.")
        return stage(configs)

    return checked


def _list_dry_runs() -> str:
    return ", ".join(stage.name for stage in list_stages() if stage.dry_run)


def _complete_arguments(arguments: Sequence[str], *, grid: bool) -> list[str]:
    """Return the arguments with checked and completed overrides; the flags of Hydra and their values stay as they are."""
    words = _classify_arguments(arguments)
    completed = iter(complete_overrides([word for word, is_override in words if is_override], grid=grid))
    return [next(completed) if is_override else word for word, is_override in words]


def _classify_arguments(arguments: Sequence[str]) -> list[tuple[str, bool]]:
    """Return each argument with a flag that says whether it is an override."""
    return [
        (word, not word.startswith("-") and previous not in _FLAGS_WITH_VALUE)
        for previous, word in zip(["", *arguments], arguments, strict=False)
    ]


def _run_hydra(stage: Run, name: str, retries: int) -> None:
    """Let Hydra compose the configuration of each job, and run the stage."""
    import hydra
    from hydra.core.hydra_config import HydraConfig

    is_composed = False

    def run(configs: Sequence[DictConfig]) -> None:
        nonlocal is_composed
        is_composed = True
        run_flow(stage, name, retries, configs)

    def run_one(cfg: DictConfig) -> None:
        run([fill_grid(cfg, read_choices(HydraConfig.get()))])

    def run_all(configs: Sequence[DictConfig]) -> None:
        run([fill_grid(remove_hydra(cfg), read_choices(cfg.hydra)) for cfg in configs])

    guarded = _with_short_errors(run_one)
    guarded.run_all = _with_short_errors(run_all)  # type: ignore[attr-defined]  # called by winnow_launcher
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises its errors instead of printing them with a stack trace
    try:
        hydra.main(config_path=str(CONF), config_name="config", version_base="1.3")(guarded)()
    except Exception as error:
        if is_composed:
            raise
        raise ConfigError(
            f"The settings cannot be composed: {error} `--help` lists the settings and their options."
        ) from error


Configs = TypeVar("Configs", DictConfig, Sequence[DictConfig])


def _with_short_errors(task: Callable[[Configs], None]) -> Callable[[Configs], None]:
    """Wrap a task to exit with a one-line message, instead of a stack trace, on a WinnowError or Ctrl-C."""

    def guarded(configs: Configs) -> None:
        try:
            task(configs)
        except WinnowError as error:
            sys.exit(f"{type(error).__name__}: {error}")
        except OSError as error:
            if error.errno not in _UNUSABLE_PATHS:
                raise
            sys.exit(
                f"{type(error).__name__}: {error.filename} cannot be used ({error.strerror}). Choose folders "
                "that you may write to by paths.data, paths.models, paths.ledger and tracking.uri, and shorter names."
            )
        except KeyboardInterrupt:
            print("\nInterrupted. Finished calls and artifacts are kept; the same command continues.", file=sys.stderr)
            sys.exit(_INTERRUPTED)

    return guarded


def _take_value(arguments: Sequence[str], flag: str, expected: str) -> tuple[str, list[str]]:
    """Return the value after a flag, or "" without the flag, and the other arguments."""
    if flag not in arguments:
        return "", list(arguments)
    index = arguments.index(flag)
    if index + 1 == len(arguments):
        raise ConfigError(f"{flag} needs {expected}.")
    return arguments[index + 1], [*arguments[:index], *arguments[index + 2 :]]


def _format_help(name: str, doc: str) -> str:
    """Return the text of `--help`: the module's docstring, the usage, and the groups with their options."""
    listed = "\n".join(f"  {group:<10} {', '.join(list_options(group))}" for group in list_groups())
    plain = [key for key in map(str, compose([])) if key not in list_groups() and key != "hydra"]
    return (
        f"{doc.strip()}\n\nUsage: python -m flows.{name} [-m] [group=option ...] [key=value ...] [--params FILE] "
        "[--track FOLDER]\n"
        "With -m, key=a,b,c runs one job per value. --params reads the settings from a file, as the stages of dvc.yaml do; "
        "--track links the finished artifacts into a folder for DVC.\n\n"
        f"Groups and their options (conf/<group>/<option>.yaml):\n{listed}\n\nOther settings (conf/config.yaml):\n"
        f"  {' '.join(plain)}\n\nAdd --cfg job to print the composed settings without running the stage. "
        "--help with group=option (retriever=dense) explains the settings of that choice."
    )
