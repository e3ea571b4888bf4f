"""From command line to stage: `--params FILE`, Hydra overrides, `-m` multiruns and `--help`, for every flow alike."""

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from flows._conf import CONF, compose, flat_keys, groups, is_group, options
from flows._grid import axes_of
from flows._prefect import run_flow
from flows._summary import Summary
from winnow.errors import ConfigError, WinnowError, nearest

Stage = Callable[[Sequence[DictConfig]], Summary]


def entry(stage: Stage, *, retries: int = 0) -> Callable[[], None]:
    """Return the `main` of a flow module; `stage` takes the configs of all jobs of the command (one, or a multirun's)."""
    name = stage.__name__

    @functools.wraps(stage)
    def main() -> None:
        arguments = sys.argv[1:]
        try:
            if {"--help", "-h"} & set(arguments):
                print(_help(name, sys.modules[stage.__module__].__doc__ or ""))
            elif "--params" in arguments:
                run_flow(stage, name, retries, [from_params(arguments)])
            else:
                check_overrides(_words(arguments))
                _through_hydra(stage, name, retries)
        except WinnowError as error:
            sys.exit(f"{type(error).__name__}: {error}")

    return main


def _words(arguments: Sequence[str]) -> list[str]:
    """Return the overrides among the arguments: what is neither a flag of Hydra's nor a flag's value."""
    valued = {
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
    }
    return [
        word
        for before, word in zip(["", *arguments], arguments, strict=False)
        if not word.startswith("-") and before not in valued
    ]


def _through_hydra(stage: Stage, name: str, retries: int) -> None:
    import hydra

    from flows._launcher import register

    register()

    def task(cfg: DictConfig) -> None:
        run_flow(stage, name, retries, [cfg])

    task.together = functools.partial(run_flow, stage, name, retries)  # type: ignore[attr-defined]  # read by the launcher
    hydra.main(config_path=str(CONF), config_name="config", version_base="1.3")(_raising(task))()


def _raising(task: Callable[[DictConfig], None]) -> Callable[[DictConfig], None]:
    """Let our own errors pass Hydra, which would print a hint about stack traces instead of the message alone."""

    @functools.wraps(task)
    def guarded(cfg: DictConfig) -> None:
        try:
            task(cfg)
        except WinnowError as error:
            sys.exit(f"{type(error).__name__}: {error}")

    return guarded


def from_params(arguments: list[str]) -> DictConfig:
    """Load a composed file, as DVC's stages do; `key=value` words after it change keys that it has."""
    at = arguments.index("--params")
    if at + 1 == len(arguments):
        raise ConfigError("--params needs a file, for example --params params.yaml.")
    path = Path(arguments[at + 1])
    if not path.is_file():
        raise ConfigError(f"There is no {path}. Run `python -m flows.compose` to make it from conf/.")
    cfg = OmegaConf.load(path)
    assert isinstance(cfg, DictConfig)
    for word in arguments[:at] + arguments[at + 2 :]:
        key, _, value = word.partition("=")
        if OmegaConf.select(cfg, key, default=OmegaConf) is OmegaConf:
            raise ConfigError(_unknown(key, flat_keys(cfg)))
        check_reaches(key, axes_of(cfg.get("grid")))
        OmegaConf.update(cfg, key, OmegaConf.create(f"v: {value}").v)
    return cfg


def check_overrides(words: Sequence[str]) -> None:
    """Refuse, with the nearest valid name, an override whose key or group option does not exist, or that a grid hides."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import OverrideParseException

    try:
        parsed = OverridesParser.create().parse_overrides(list(words))
    except OverrideParseException as error:
        raise ConfigError(f"{error.override!r} is not an override; write key=value, for example k=5.") from error
    chosen = {}
    for override in parsed:
        key = override.key_or_group
        if is_group(key):
            values = [str(v) for v in _values(override)]
            for value in values:
                if value not in [*options(key), "null"]:
                    raise ConfigError(f"{key}={value}: there is no conf/{key}/{value}.yaml." + nearest(value, options(key)))
            chosen[key] = values[0]
    known: set[str] = set()
    one_grid = [o for o in parsed if o.key_or_group.partition(".")[0] == "grid" and not o.is_sweep_override()]
    axes = _axes(chosen, [str(override.input_line) for override in one_grid])
    for override in parsed:
        key = override.key_or_group
        check_reaches(key, axes)
        if override.is_add() or key.startswith("hydra") or is_group(key) or override.package is not None:
            continue
        known = known or set(flat_keys(compose([f"{group}={value}" for group, value in chosen.items()])))
        if key not in known:
            raise ConfigError(_unknown(key, known | set(groups())))


def check_reaches(key: str, axes: Mapping[str, Sequence[Any]]) -> None:
    """Refuse a setting that a grid, of these axes, takes from elsewhere, so that it would reach none of its cells."""
    if key in axes:
        values = ", ".join(str(one.get("name", one)) if isinstance(one, DictConfig) else str(one) for one in axes[key])
        raise ConfigError(
            f"{key}: the grid of this experiment is over {key} ({values}), so that this would reach none of its cells. "
            f"Set 'grid.{key}=[...]' instead."
        )
    group = key.partition(".")[0]
    if group in axes and is_group(group):
        raise ConfigError(
            f"{key}: the grid of this experiment takes each {group} from conf/{group} as it is, so that this would reach "
            f"none of its cells. Copy the YAML under a name of its own, change it there, and set 'grid.{group}=[name]'."
        )


def _axes(chosen: Mapping[str, str], words: Sequence[str]) -> Mapping[str, Sequence[Any]]:
    """Return the axes of the grid that these choices and words about it come to."""
    if "experiment" not in chosen and not words:
        return {}
    return axes_of(compose([*(f"{group}={value}" for group, value in chosen.items()), *words]).grid)


def _values(override: Any) -> Sequence[Any]:
    value = override.value()
    return list(value.list) if hasattr(value, "list") else [value]


def _unknown(key: str, known: Any) -> str:
    return f"There is no setting {key!r}." + nearest(key, known) + " `--help` lists the groups; conf/ holds every key."


def _help(name: str, doc: str) -> str:
    listed = "\n".join(f"  {group:<10} {', '.join(options(group))}" for group in groups())
    plain = [key for key in map(str, compose([])) if key not in groups() and key != "hydra"]
    return (
        f"{doc.strip()}\n\nUsage: python -m flows.{name} [group=choice] [key=value] [-m key=a,b,c] [--params FILE]\n\n"
        f"Groups and their choices (conf/<group>/<choice>.yaml):\n{listed}\n\nOther settings (conf/config.yaml):\n"
        f"  {' '.join(plain)}\n\n--cfg job prints the composed settings and stops."
    )
