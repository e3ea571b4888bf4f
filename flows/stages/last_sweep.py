"""Words of former sweeps: a command that shows a sweep takes the last sweep's or a named one's."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.settings.door import list_cells
from flows.settings.grid import COMMAND_SETTINGS
from flows.settings.typed import Settings
from winnow.artifacts.files import write_texts
from winnow.artifacts.provenance import compute_key
from winnow.errors import ConfigError
from winnow.sweeps.spec import IGNORED_GROUPS

_FILE = Path("data/sweeps.json")
"""File with each sweep's words by name, the last one last. It is here whatever paths.data is."""
_NAMED = re.compile(r"\+{0,2}sweep\.name=(.+)")
_VIEWS = ("report", "metric", "breakdown", "watch", "power", "calibrate_judge")
"""Groups whose settings say what is shown of a sweep."""
_NOT_COMPARED = {
    *IGNORED_GROUPS, *_VIEWS, *COMMAND_SETTINGS, "facts", "evaluator"
} - {"sweep"}  # fmt: skip
"""Settings in which a command may differ from the sweep that it shows."""


@dataclass(frozen=True, slots=True)
class Recall:
    """Words of a command that shows a sweep.

    Attributes:
        words: Words, with those of the sweep.
        digest: Digest of the settings of the sweep's cells; "" if no sweep was recalled.
    """

    words: Sequence[str]
    digest: str = ""

    def check(self, jobs: Sequence[Settings]) -> None:
        """Raise ConfigError if the recalled words now give settings of other cells."""
        if self.digest and _compute_digest(jobs) != self.digest:
            raise ConfigError(
                "The words of the sweep now give other settings, because params.yaml or conf/ has "
                f"changed since: {shlex.join(self.words)}. Run the sweep again, or give all "
                "settings of the cells to show, such as -m k=1,5 or --params params.yaml."
            )


def remember_sweep(words: Sequence[str], jobs: Sequence[Settings]) -> None:
    """Record a starting sweep's words, unless it is a dry run or a pipeline that ends before it."""
    if jobs[0].dry_run or jobs[0].pipeline.goal not in ("sweep", "report"):
        return
    names = dict.fromkeys(str(job.sweep.name) for job in jobs)
    essential = [
        word for word in words if not word.startswith("shard=")
    ]  # all shards together are the sweep
    record = {"words": essential, "digest": _compute_digest(jobs)}
    former = {name: own for name, own in _read().items() if name not in names}
    text = json.dumps({**former, **dict.fromkeys(names, record)}, indent=1) + "\n"
    write_texts(_FILE.parent, {_FILE.name: text})


def recall_sweep(words: Sequence[str]) -> Recall:
    """Add the words of the last sweep, or with `sweep.name=NAME` of the one of this name, to words
    that only say what to show, and print them. Other words are returned as they are.

    Raises:
        ConfigError: If no sweep of this name was run here, but others were.
    """
    names = [match[1] for word in words if (match := _NAMED.fullmatch(word))]
    views = [word for word in words if _read_key(word).partition(".")[0] in _VIEWS]
    sweeps = _read()
    if len(names) > 1 or len(names) + len(views) < len(words) or not sweeps:
        return Recall(words)
    if names and names[0] not in sweeps:
        raise ConfigError(
            f"There was no sweep of the name {names[0]} here, but there were {', '.join(sweeps)}. "
            "Give all its settings."
        )
    record = sweeps[names[0]] if names else list(sweeps.values())[-1]
    print(
        f"Settings of the {'sweep of this name' if names else 'last sweep'}: "
        f"{shlex.join(record['words']) or '(none)'}"
    )
    kept_words = [word for word in record["words"] if not _is_replaced(word, views)]
    return Recall([*kept_words, *views], record["digest"])


def _is_replaced(word: str, views: Sequence[str]) -> bool:
    """Return whether words that say what to show replace a recorded one: the same setting, or one
    of a metric or breakdown that they leave out.
    """
    key = _read_key(word)
    for view in views:
        chosen, _, value = view.partition("=")
        if key == _read_key(view):
            return True
        if key.startswith(f"{chosen}.") and chosen in ("metric", "breakdown"):
            names = value.strip("[]").replace(" ", "").split(",")
            return chosen == "breakdown" or key.split(".")[1] not in names
    return False


def _read_key(word: str) -> str:
    return word.partition("=")[0].lstrip("+~")


def _compute_digest(jobs: Sequence[Settings]) -> str:
    """Compute a digest of the settings of all cells, but for what is shown of them and where."""
    cells = [
        {name: node for name, node in cell.plain.items() if name not in _NOT_COMPARED}
        for cell in list_cells(jobs)
    ]
    return compute_key(cells)


def _read() -> Mapping[str, dict[str, Any]]:
    try:
        sweeps = json.loads(_FILE.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    is_valid = isinstance(sweeps, dict) and all(isinstance(own, dict) for own in sweeps.values())
    return sweeps if is_valid else {}
