"""The folder of a sweep's pages, which belongs to one sweep over one data set and corpus."""

import json
from pathlib import Path

from flows.settings.typed import Settings
from winnow.artifacts.files import write_texts
from winnow.artifacts.frames import CELL_VALUES, QUESTION_VALUES
from winnow.errors import ConfigError
from winnow.reports.owner import OWNER, read_owner

ENGINES = "engines.json"
"""File with the identities of the engines whose calls the report shows, which `flows.gc` reads."""
_PARTS = (
    "index.html", "report.md", "tables.tex", CELL_VALUES, "cells.csv", "cells", "figures",
    QUESTION_VALUES, "power.html", "power.md", "labels.jsonl", "labels_more.jsonl",
    "calibration.json", ENGINES, OWNER,
)  # fmt: skip
"""Files and folders of a sweep's pages. Everything else in the folder is of others."""


def open_report_folder(settings: Settings) -> Path:
    """Return the sweep's page folder, after moving another sweep's pages to a folder next to it.

    Pages of the same name over another data set or corpus are of another sweep. Nothing is
    overwritten silently: the new name of the former pages is printed. What else is in the folder,
    such as pages of sweeps whose names begin alike ("study/table1"), stays.

    Raises:
        ConfigError: If the folder cannot be one of a sweep alone, or has files of these names that
            are not a sweep's.
    """
    out = Path(settings.report.out)
    is_shared = out.resolve() in (Path.cwd(), Path("reports").resolve())
    if is_shared or out.is_file():
        raise ConfigError(
            f"report.out={settings.report.out!r} must be a folder of this sweep alone, such as "
            f"reports/{settings.sweep.name}."
        )
    owner = {
        "sweep": str(settings.sweep.name),
        "dataset": str(settings.dataset.name),
        "corpus": str(settings.corpus.name),
    }
    file = out / OWNER
    parts = [
        out / name
        for name in _PARTS
        if (out / name).exists() and not (out / name / OWNER).exists()  # one of an inner sweep
    ]
    written = [part for part in parts if not part.name.startswith("labels")]
    if written and not file.is_file():
        raise ConfigError(
            f"report.out={out} has {written[0].name}, which no report wrote, and which would be "
            "overwritten. Choose another folder."
        )
    former = read_owner(file) if file.is_file() else owner
    if former != owner:
        destination = _find_free_name(
            out.with_name(f"{out.name}-{former['dataset'].replace('/', '_')}")
        )
        destination.mkdir(parents=True)
        for part in parts:
            part.rename(destination / part.name)
        print(
            f"{out} had the report of another sweep ({', '.join(former.values())}), which is now "
            f"in {destination}."
        )
    write_texts(out, {OWNER: json.dumps(owner, indent=1) + "\n"})
    return out


def _find_free_name(path: Path) -> Path:
    """Return the path, or the first of path-2, path-3, ... that does not exist."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free
