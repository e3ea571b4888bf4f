"""The words of former sweeps: a command that shows a sweep takes those of the last one, or of the one that it names."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from flows.settings.composition import compose_config
from flows.settings.typed import Settings
from winnow.artifacts.files import write_texts

_FILE = "sweeps.json"
"""File in the data folder with the words of each sweep by its name, the last one last."""


def remember_sweep(words: Sequence[str], jobs: Sequence[Settings]) -> None:
    """Record the words of a sweep that starts, unless it is a dry run, a shard or a pipeline that ends before the sweep."""
    first = jobs[0]
    if first.dry_run or first.shard or first.pipeline.goal not in ("sweep", "report"):
        return
    folder, name = Path(first.paths.data), str(first.sweep.name)
    former = {key: value for key, value in _read(folder).items() if key != name}
    write_texts(folder, {_FILE: json.dumps({**former, name: list(words)}, indent=1) + "\n"})


def recall_sweep(words: Sequence[str]) -> list[str]:
    """Return the words of the last sweep if there are none, and those of a sweep for `sweep.name=NAME` alone; print them then.

    All other words are returned as they are.
    """
    name = words[0].partition("sweep.name=")[2] if len(words) == 1 else ""
    if words and not name:
        return list(words)
    former = _read(Path(compose_config([]).paths.data))
    recalled = former.get(name) if name else next(reversed(list(former.values())), None)
    if recalled is None:
        return list(words)
    print(f"Settings of the {'sweep of this name' if name else 'last sweep'}: {' '.join(recalled) or '(none)'}")
    return list(recalled)


def _read(folder: Path) -> Mapping[str, list[str]]:
    try:
        sweeps: Mapping[str, list[str]] = json.loads((folder / _FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return sweeps
