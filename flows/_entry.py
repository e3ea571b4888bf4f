"""From command line to stage: `--params FILE`, Hydra overrides, `-m` multiruns and `--help`, for every flow alike."""

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeVar

from omegaconf import DictConfig, OmegaConf

from flows._conf import CONF, check_choices, compose, groups, options
from flows._hub import use_recorded_commits
from flows._overrides import check_overrides, from_params
from flows._prefect import run_flow
from flows._renames import current_overrides
from flows._schema import check_settings
from flows._secrets import check_secrets
from flows._seeds import expand_seeds
from flows._summary import Summary
from winnow.artifacts.provenance import flatten
from winnow.errors import ConfigError, WinnowError

_INTERRUPTED = 130
"""The exit status of a process that Ctrl-C ended, as shells report it."""
Stage = Callable[[Sequence[DictConfig]], Summary]
_FLAGS_WITH_VALUE = frozenset(
    ["--cfg", "-c", "--package", "-p", "--config-name", "-cn", "--config-path", "-cp", "--config-dir", "-cd", "--info", "-i"]
)


def entry(
    stage: Stage,
    *,
    retries: int = 0,
    grid: bool = False,
    dry_run: bool = False,
    uses_commits: bool = True,
    seeds: Literal["ignored", "each", "one"] = "ignored",
) -> Callable[[], None]:
    """Return the `main` of a flow module; `stage` takes the configs of all jobs of the command (one, or a multirun's).

    Args:
        stage: the module's stage.
        retries: of the Prefect flow.
        grid: whether the stage expands the settings' grid, so that no word may set an axis beside it.
        dry_run: whether the stage has a dry run; others refuse the setting.
        uses_commits: whether names on the hub get the commits that `acquire` recorded.
        seeds: "each" if the stage rests on a training, so that it runs once for each of the settings' seeds; "one" if it
            shows a single training and refuses several seeds.

    """
    name = stage.__name__
    if not dry_run:
        stage = _without_dry_run(stage)
    if seeds != "ignored":
        stage = _for_each_seed(stage, only_one=seeds == "one")
    stage = _with_checked_choices(_with_recorded_commits(stage) if uses_commits else stage)

    @functools.wraps(stage)
    def main() -> None:
        arguments = sys.argv[1:]
        try:
            check_secrets((word.partition("=")[0], word) for word in arguments)
            if {"--help", "-h"} & set(arguments):
                print(_help(name, sys.modules[stage.__module__].__doc__ or ""))
            elif "--params" in arguments:
                _with_short_errors(functools.partial(run_flow, stage, name, retries))([_from_params(arguments, grid)])
            else:
                arguments = _with_current_names(arguments)
                sys.argv[1:] = arguments
                check_overrides(_overrides(arguments), grid=grid)
                _run_hydra(stage, name, retries)
        except WinnowError as error:
            sys.exit(f"{type(error).__name__}: {error}")

    return main


def _with_checked_choices(stage: Stage) -> Stage:
    @functools.wraps(stage)
    def checked(configs: Sequence[DictConfig]) -> Summary:
        for cfg in configs:
            check_choices(cfg)
            check_settings(cfg)
            plain = OmegaConf.to_container(cfg, resolve=True)
            check_secrets((name, str(value)) for name, value in flatten(plain).items())
        return stage(configs)

    return checked


def _with_recorded_commits(stage: Stage) -> Stage:
    @functools.wraps(stage)
    def pinned(configs: Sequence[DictConfig]) -> Summary:
        return stage([use_recorded_commits(cfg) for cfg in configs])

    return pinned


def _for_each_seed(stage: Stage, *, only_one: bool) -> Stage:
    @functools.wraps(stage)
    def expanded(configs: Sequence[DictConfig]) -> Summary:
        several = next((list(cfg.seeds) for cfg in configs if len(cfg.get("seeds") or ()) > 1), None)
        if only_one and several:
            raise ConfigError(
                f"seeds={several}: flows.{stage.__name__} shows one training. Name one, such as seeds=[{several[0]}]."
            )
        return stage(expand_seeds(configs))

    return expanded


def _without_dry_run(stage: Stage) -> Stage:
    @functools.wraps(stage)
    def checked(configs: Sequence[DictConfig]) -> Summary:
        if any(cfg.get("dry_run") for cfg in configs):
            raise ConfigError(
                f"flows.{stage.__name__} has no dry run: flows.sweep and flows.closed_book have. Leave dry_run out."
            )
        return stage(configs)

    return checked


def _overrides(arguments: Sequence[str]) -> list[str]:
    """Return the overrides among the arguments: neither flags of Hydra's nor their values."""
    return [word for word, is_override in _classified(arguments) if is_override]


def _with_current_names(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with former names of settings replaced."""
    words: list[str] = []
    for word, is_override in _classified(arguments):
        words += current_overrides([word]) if is_override else [word]
    return words


def _classified(arguments: Sequence[str]) -> list[tuple[str, bool]]:
    """Return each argument with whether it is an override."""
    return [
        (word, not word.startswith("-") and before not in _FLAGS_WITH_VALUE)
        for before, word in zip(["", *arguments], arguments, strict=False)
    ]


def _run_hydra(stage: Stage, name: str, retries: int) -> None:
    import hydra

    def task(cfg: DictConfig) -> None:
        run_flow(stage, name, retries, [cfg])

    guarded = _with_short_errors(task)
    guarded.run_all = _with_short_errors(functools.partial(run_flow, stage, name, retries))  # type: ignore[attr-defined]  # called by the launcher
    hydra.main(config_path=str(CONF), config_name="config", version_base="1.3")(guarded)()


Configs = TypeVar("Configs", DictConfig, Sequence[DictConfig])


def _with_short_errors(task: Callable[[Configs], None]) -> Callable[[Configs], None]:
    """Exit with the message of a WinnowError alone, before Hydra prints a stack trace; say what an interrupt leaves."""

    def guarded(configs: Configs) -> None:
        try:
            task(configs)
        except WinnowError as error:
            sys.exit(f"{type(error).__name__}: {error}")
        except KeyboardInterrupt:
            print("\nInterrupted. Finished calls and artifacts are kept; the same command continues.", file=sys.stderr)
            sys.exit(_INTERRUPTED)

    return guarded


def _from_params(arguments: Sequence[str], grid: bool) -> DictConfig:
    """Load the file after `--params`, changed by the other words."""
    at = arguments.index("--params")
    if at + 1 == len(arguments):
        raise ConfigError("--params needs a file, for example --params params.yaml.")
    return from_params(Path(arguments[at + 1]), [*arguments[:at], *arguments[at + 2 :]], grid=grid)


def _help(name: str, doc: str) -> str:
    listed = "\n".join(f"  {group:<10} {', '.join(options(group))}" for group in groups())
    plain = [key for key in map(str, compose([])) if key not in groups() and key != "hydra"]
    return (
        f"{doc.strip()}\n\nUsage: python -m flows.{name} [-m] [group=choice ...] [key=value ...] [--params FILE]\n"
        "With -m, key=a,b,c is a job for each value\n\n"
        f"Groups and their choices (conf/<group>/<choice>.yaml):\n{listed}\n\nOther settings (conf/config.yaml):\n"
        f"  {' '.join(plain)}\n\n--cfg job prints the composed settings and stops."
    )
