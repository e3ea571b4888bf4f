"""The door from composed settings, with grids and seeds, to the typed settings that code uses."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from flows.settings.commits import use_recorded_commits
from flows.settings.composition import Composed, compose_config, resolve_without_grid
from flows.settings.grid import expand_grid, expand_seeds
from flows.settings.secrets import check_secrets
from flows.settings.typed import Settings
from winnow.artifacts.provenance import flatten

T = TypeVar("T")


def compose(overrides: Sequence[str] = ()) -> Settings:
    """Compose conf/ with overrides in Hydra's syntax, and return the settings of the job.

    Raises:
        ConfigError: If Hydra cannot compose them, or if a setting is wrong.
    """
    return open_settings(compose_config(overrides), overrides)


def open_settings(composed: Composed, words: Sequence[str] = ()) -> Settings:
    """Return the settings of a job, with the recorded commits of what has none.

    Args:
        composed: Settings as Hydra composes them.
        words: Words of the command line with which they were composed.

    Raises:
        ConfigError: If a setting is wrong, or contains a secret.
    """
    plain = resolve_without_grid(composed)
    check_values(plain)

    def list_own_cells() -> list[Settings]:
        cells = list(
            drop_equal((cell for one in expand_seeds(composed) for cell in expand_grid(one)), dict)
        )
        for cell in cells:
            check_values(cell)
        return [Settings.load(use_recorded_commits(cell), words=words) for cell in cells]

    return Settings.load(
        use_recorded_commits(plain), words=words, list_cells=list_own_cells, source=composed
    )


def check_values(plain: dict[str, Any]) -> None:
    """Raise ConfigError if a value of plain settings is or contains a secret."""
    check_secrets((name, str(value)) for name, value in flatten(plain).items())


def reopen(job: Settings) -> Settings:
    """Return the settings of a job with the commits that are recorded now."""
    return open_settings(job.source, job.words)


def open_seeds(composed: Composed, words: Sequence[str] = ()) -> list[Settings]:
    """Return the settings of a job, once for each training seed."""
    return [open_settings(one, words) for one in expand_seeds(composed)]


def list_cells(jobs: Iterable[Settings]) -> list[Settings]:
    """Return the settings of the distinct cells of all jobs."""
    return list(drop_equal((cell for job in jobs for cell in job.cells), lambda cell: cell.plain))


def drop_equal(items: Iterable[T], read_plain: Callable[[T], dict[str, Any]]) -> Iterator[T]:
    """Yield the first of all items whose plain settings are equal."""
    known_texts = set[str]()
    for item in items:
        text = json.dumps(read_plain(item), sort_keys=True, default=str)
        if text not in known_texts:
            known_texts.add(text)
            yield item
