"""Archives of finished sweeps: one file from which the tables are recomputed without a model.

An archive has the predictions, questions and rankings of the cells, the calls that the cells and
judged metrics used, the tables, and a record of what each cell is: its settings, its labels, and
the identities of its engines. Of artifacts that tables do not read, such as the corpus and weights,
it has the manifests alone.
"""

import json
import shlex
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flows.project.engines import identify_engine_specs
from flows.project.inputs import ArtifactIndex, list_roots
from flows.settings.components import iter_components
from flows.settings.typed import Settings
from flows.tools.dvc import CALLS
from winnow.artifacts.files import atomic_write
from winnow.artifacts.provenance import MANIFEST, get_running_revision, read_manifest
from winnow.errors import ConfigError
from winnow.identity.markers import get_input_file_settings, get_model_path_settings
from winnow.records import Role
from winnow.sweeps.spec import CellSpec, EngineSpec

RECORD, TABLES = "replay.json", "tables"
"""Names in an archive: the record of the cells, and the folder of the tables. The calls have the
name that DVC tracks.
"""
VERSION = 1
_OF_MACHINES = ("paths", "tracking", "export", "hydra")
"""Groups of settings whose words describe a machine or the export, not the sweep."""
_TIME = (1980, 1, 1, 0, 0, 0)
"""Time of every file in an archive, so that equal sweeps make equal archives."""


def write_archive(
    file: Path,
    jobs: Sequence[Settings],
    specs: Sequence[CellSpec],
    judges: Sequence[Role],
    calls: Path,
    tables: Sequence[Path],
) -> None:
    """Write the archive of finished cells.

    Args:
        file: File to write.
        jobs: Settings of the jobs, the first of which names the metrics and the report.
        specs: Finished cells.
        judges: Roles that judged metrics ask.
        calls: File of the calls that the cells and the judged metrics used.
        tables: Files of the report's tables.

    Raises:
        ConfigError: If a component reads a file that would have to be in the archive, or if the
            file is an archive of other cells.
    """
    settings, models = jobs[0], Path(jobs[0].paths.models)
    _check_files(specs, settings)
    _check_overwrite(file, specs)

    def place(path: Path) -> str:
        """Return the place in the archive of an artifact's folder, or of a file in it."""
        folder = next(one for one in (path, *path.parents) if (one / MANIFEST).is_file())
        root = "models" if folder.is_relative_to(models) else "data"
        return Path(root, folder.parent.name, folder.name, path.relative_to(folder)).as_posix()

    record = {
        "version": VERSION,
        "code": get_running_revision(),
        "words": list(dict.fromkeys(_join_words(job.words) for job in jobs)),
        "settings": _leave_out_places(settings.plain),
        "cells": [_describe_cell(spec, judges, place) for spec in specs],
    }
    input_folders = list(dict.fromkeys(folder for spec in specs for folder in _list_folders(spec)))
    files = {f"{TABLES}/{one.name}": one for one in tables} | {CALLS: calls}
    for folder in ArtifactIndex(list_roots(settings)).collect(input_folders):
        own = (
            [one for one in folder.rglob("*") if one.is_file()]
            if folder in input_folders
            else [folder / MANIFEST]
        )
        files |= {place(one): one for one in own}
        code = folder.resolve().parents[1] / "code" / f"{read_manifest(folder).get('modules')}.json"
        files |= (
            {f"{place(folder).partition('/')[0]}/code/{code.name}": code} if code.is_file() else {}
        )
    with (
        atomic_write(file) as partial,
        zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        archive.writestr(
            zipfile.ZipInfo(RECORD, _TIME),
            json.dumps(record, indent=1, default=str),
            zipfile.ZIP_DEFLATED,
        )
        for name in sorted(files):
            with (
                files[name].open("rb") as source,
                archive.open(_describe_entry(name, files[name]), "w") as target,
            ):
                shutil.copyfileobj(source, target)


def _check_files(specs: Sequence[CellSpec], settings: Settings) -> None:
    """Raise ConfigError if a strategy, a context processor, a metric or the breakdown reads a file
    or a model of its own.
    """
    plain = settings.plain
    nodes = {f"metric.{name}": node for name, node in plain["metric"].items()} | {
        "breakdown": plain.get("breakdown")
    }
    for spec in specs:
        nodes |= {
            "strategy.plan": spec.config["strategy"]["plan"],
            "context.plan": spec.config["context"]["plan"],
        }
        for name, component in (
            part for key, node in nodes.items() for part in iter_components(node, key)
        ):
            cls = component.component_class
            for setting in (*get_input_file_settings(cls), *get_model_path_settings(cls)):
                if value := component.get(setting.partition(".")[0]):
                    raise ConfigError(
                        f"{name}.{setting}={value} is a file or a model that is read while cells "
                        "are replayed, and archives have none. Leave the component out, or "
                        "publish the file with the command of the sweep."
                    )


def _check_overwrite(file: Path, specs: Sequence[CellSpec]) -> None:
    """Raise ConfigError if a file is there that is not the archive of the same cells."""
    if not file.exists():
        return
    try:
        with zipfile.ZipFile(file) as archive:
            keys = {cell["key"] for cell in json.loads(archive.read(RECORD))["cells"]}
    except (zipfile.BadZipFile, KeyError, ValueError):
        keys = set()
    if keys != {spec.key for spec in specs}:
        raise ConfigError(
            f"{file} has other cells. Name the sweep by sweep.name, or choose another folder by "
            "export.out."
        )


def _describe_entry(name: str, file: Path) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _TIME)
    entry.compress_type, entry.file_size = zipfile.ZIP_DEFLATED, file.stat().st_size
    return entry


def _list_folders(spec: CellSpec) -> Iterator[Path]:
    """Yield the folders of the artifacts that the tables of a cell read."""
    files = (spec.questions.path, spec.questions.closed_book, spec.relevance)
    yield from (
        spec.folder,
        spec.retrieval,
        *([spec.pool] if spec.pool else []),
        *(one.parent for one in files if one),
    )


def _describe_cell(
    spec: CellSpec, judges: Sequence[Role], place: Callable[[Path], str]
) -> dict[str, Any]:
    selection = spec.questions
    return {
        "key": spec.key,
        "folder": place(spec.folder),
        "labels": asdict(spec.labels),
        "named": spec.settings,
        "questions": {
            "path": place(selection.path),
            "split": selection.split,
            "limit": selection.limit,
            "closed_book": selection.closed_book and place(selection.closed_book),
            "keeps": selection.keeps,
        },
        "retrieval": place(spec.retrieval),
        "pool": spec.pool and place(spec.pool),
        "relevance": spec.relevance and place(spec.relevance),
        "engines": _describe_engines(spec.engines),
        "ranking_engines": _describe_engines(spec.ranking_engines),
        "judges": _describe_engines([spec.resolve_engine(role) for role in judges]),
        "settings": _leave_out_places(spec.config),
        "identity": spec.identity,
    }


def _join_words(words: Sequence[str]) -> str:
    """Return the words of a sweep as they are typed, without those that are of a machine."""
    return shlex.join(
        word for word in words if word.partition("=")[0].partition(".")[0] not in _OF_MACHINES
    )


def _leave_out_places(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without the machine's folders and addresses, which may contain passwords."""
    paths = {
        **plain["paths"],
        "data": "data",
        "models": "models",
        "downloads": "",
        "ledger": "ledger.sqlite",
        "base_ledgers": [],
    }
    return {**plain, "paths": paths, "tracking": {**plain["tracking"], "uri": "", "artifacts": ""}}


def _describe_engines(specs: Sequence[EngineSpec]) -> list[dict[str, Any]]:
    identities = identify_engine_specs(specs)
    return [
        {
            "role": spec.role,
            "key": spec.key,
            "identity": identities[spec.role],
            "price": asdict(spec.price),
        }
        for spec in specs
    ]
