"""The folder of a sweep's pages, which belongs to one sweep over one data set and corpus."""

import json
from pathlib import Path

from flows.settings.typed import Settings
from winnow.artifacts.files import write_texts

ENGINES = "engines.json"
"""File with the identities of the engines whose calls the report shows, which `flows.gc` reads."""
_OWNER = "sweep.json"
"""File of a report's folder that says which sweep the pages are of."""


def open_report_folder(settings: Settings) -> Path:
    """Return the sweep's page folder, after moving another sweep's pages to a folder next to it.

    Pages of the same name over another data set or corpus are of another sweep. Nothing is
    overwritten silently: the new name of the former pages is printed.
    """
    out = Path(settings.report.out)
    owner = {
        "sweep": str(settings.sweep.name),
        "dataset": str(settings.dataset.name),
        "corpus": str(settings.corpus.name),
    }
    file = out / _OWNER
    former = json.loads(file.read_text()) if file.is_file() else owner
    if former != owner:
        destination = _find_free_name(
            out.with_name(f"{out.name}-{former['dataset'].replace('/', '_')}")
        )
        out.rename(destination)
        print(
            f"{out} had the report of another sweep ({', '.join(former.values())}), which is now "
            f"in {destination}."
        )
    write_texts(out, {_OWNER: json.dumps(owner, indent=1) + "\n"})
    return out


def _find_free_name(path: Path) -> Path:
    """Return the path, or the first of path-2, path-3, ... that does not exist."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free
