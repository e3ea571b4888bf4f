"""Words of a command line: overrides, flags of Hydra, and the settings that they compose."""

import os
import sys
from collections.abc import Callable, Sequence

from flows.settings.composition import (
    CONF,
    Composed,
    compose_with_choices,
    fill_grid,
    read_choices,
)
from flows.settings.multirun import split_multirun
from flows.settings.overrides import complete_overrides
from flows.stages.errors import exit_on_errors
from winnow.errors import ConfigError, WinnowError

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


def complete_words(words: Sequence[str], *, grid: bool) -> list[str]:
    """Return words with checked and completed overrides, and Hydra's flags and values unchanged."""
    classified = _classify(words)
    overrides = [word for word, is_override in classified if is_override]
    completed_overrides = iter(complete_overrides(overrides, grid=grid))
    return [next(completed_overrides) if is_override else word for word, is_override in classified]


def _classify(words: Sequence[str]) -> list[tuple[str, bool]]:
    """Return each word with a flag that says whether it is an override."""
    return [
        (word, not word.startswith("-") and previous not in _FLAGS_WITH_VALUE)
        for previous, word in zip(["", *words], words, strict=False)
    ]


def compose_jobs(words: Sequence[str]) -> list[Composed] | None:
    """Compose the settings of each job, or return None for words that only Hydra's own `main`
    obeys: its flags but -m, its settings, and launchers.

    Raises:
        ConfigError: If the settings cannot be composed.
    """
    classified = _classify(words)
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


def run_hydra(words: Sequence[str], run: Callable[[Sequence[Composed]], None]) -> list[Composed]:
    """Let Hydra's `main` process the words of a command line, and return the remaining job, if any.

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


def take_value(words: Sequence[str], flag: str, expected: str) -> tuple[str, list[str]]:
    """Return a flag's value ("" if absent) and the other words; raise ConfigError if it is last."""
    if flag not in words:
        return "", list(words)
    index = words.index(flag)
    if index + 1 == len(words):
        raise ConfigError(f"{flag} needs {expected}.")
    return words[index + 1], [*words[:index], *words[index + 2 :]]
