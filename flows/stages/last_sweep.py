"""Words of former sweeps: a command that shows a sweep takes the last sweep's or a named one's."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from flows.settings.typed import Settings
from winnow.artifacts.files import write_texts
from winnow.errors import ConfigError

_FILE = Path("data/sweeps.json")
"""File with each sweep's words by name, the last one last. It is here whatever paths.data is."""
_NAMED = re.compile(r"\+{0,2}sweep\.name=(.+)")


def remember_sweep(words: Sequence[str], jobs: Sequence[Settings]) -> None:
    """Record a starting sweep's words, unless it is a dry run or a pipeline that ends before it."""
    if jobs[0].dry_run or jobs[0].pipeline.goal not in ("sweep", "report"):
        return
    names = dict.fromkeys(str(job.sweep.name) for job in jobs)
    essential = [
        word for word in words if not word.startswith("shard=")
    ]  # all shards together are the sweep
    former = {name: own for name, own in _read().items() if name not in names}
    write_texts(
        _FILE.parent,
        {_FILE.name: json.dumps({**former, **dict.fromkeys(names, essential)}, indent=1) + "\n"},
    )


def recall_sweep(words: Sequence[str]) -> list[str]:
    """Return the words of the last sweep if there are none, and those of a sweep for
    `sweep.name=NAME` alone; print them then.

    All other words are returned as they are.

    Raises:
        ConfigError: If no sweep of this name was run here, but others were.
    """
    name_match = _NAMED.fullmatch(words[0]) if len(words) == 1 else None
    sweeps = _read()
    if (words and not name_match) or not sweeps:
        return list(words)
    if name_match and name_match[1] not in sweeps:
        raise ConfigError(
            f"There was no sweep of the name {name_match[1]} here, but there were "
            f"{', '.join(sweeps)}. "
            "Give all its settings."
        )
    recalled = sweeps[name_match[1]] if name_match else list(sweeps.values())[-1]
    print(
        f"Settings of the {'sweep of this name' if name_match else 'last sweep'}: "
        f"{' '.join(recalled) or '(none)'}"
    )
    return list(recalled)


def _read() -> Mapping[str, list[str]]:
    try:
        sweeps = json.loads(_FILE.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return sweeps if isinstance(sweeps, dict) else {}
