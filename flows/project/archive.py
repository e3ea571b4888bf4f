"""Archives of finished sweeps: one file with all from which the tables are computed again, without
a model.

An archive has the predictions, questions and rankings of the cells, the calls that the cells and
judged metrics used, the tables, and a record of what each cell is: its settings, its labels, and
the identities of its engines. Of artifacts that tables do not read, such as the corpus and weights,
it has the manifests alone.
"""

import json
import shlex
import shutil
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flows.project.cells import build_placement, build_strategy
from flows.project.engines import identify_engine_specs
from flows.project.inputs import ArtifactIndex, list_roots
from flows.project.prompts import build_prompt
from flows.settings.components import import_component_class, iter_components
from flows.settings.typed import Settings
from flows.tools.dvc import CALLS
from winnow.artifacts.files import atomic_write, check_free_space
from winnow.artifacts.provenance import (
    MANIFEST,
    compute_file_digest,
    flatten_all,
    get_running_revision,
    read_manifest,
)
from winnow.errors import ConfigError, InputError, LedgerError
from winnow.identity.markers import get_input_file_settings, get_model_path_settings
from winnow.identity.modules import is_in_winnow
from winnow.predictions import Price
from winnow.records import Role
from winnow.sweeps.labels import CellLabels
from winnow.sweeps.recorded import RecordedEngine
from winnow.sweeps.spec import CellSpec, EngineSpec, QuestionSelection

RECORD, TABLES = "replay.json", "tables"
"""Names in an archive: the record of the cells, and the folder of the tables. The calls have the
name that DVC tracks.
"""
_VERSION = 1
_OF_MACHINES = ("paths", "tracking", "export", "hydra")
"""Groups of settings whose words are those of a machine or of the export, and not of the sweep."""
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
        "version": _VERSION,
        "code": get_running_revision(),
        "words": [_join_words(job.words) for job in jobs],
        "settings": _leave_out_places(settings.plain),
        "cells": [_describe_cell(spec, judges, place) for spec in specs],
    }
    read = list(dict.fromkeys(folder for spec in specs for folder in _list_folders(spec)))
    files = {f"{TABLES}/{one.name}": one for one in tables} | {CALLS: calls}
    for folder in ArtifactIndex(list_roots(settings)).collect(read):
        own = (
            [one for one in folder.rglob("*") if one.is_file()]
            if folder in read
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
            found for key, node in nodes.items() for found in iter_components(node, key)
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
    """Return settings without the folders, databases and servers of the machine, whose addresses
    may have passwords.
    """
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


def unpack_archive(file: Path, folder: Path) -> None:
    """Unpack an archive to a folder, unless it was unpacked there before.

    Raises:
        InputError: If the file is not an archive of this kind.
        ConfigError: If the folder has other files, or if one of the archive's was changed in it.

    """
    digest, mark = compute_file_digest(file), folder / "archive.sha256"
    is_unpacked = mark.is_file() and mark.read_text() == digest
    if not is_unpacked and folder.exists() and any(folder.iterdir()):
        raise ConfigError(
            f"{folder} has files already, of another archive or of yours. Choose a new folder by "
            "--out."
        )
    try:
        with zipfile.ZipFile(file) as archive:
            if is_unpacked:
                _check_unpacked(archive, folder)
                return
            if RECORD not in archive.namelist():
                raise InputError(
                    f"{file} has no {RECORD}. Expected an archive of `python -m flows.export "
                    "export.format=replay`."
                )
            folder.mkdir(parents=True, exist_ok=True)
            check_free_space(folder, sum(entry.file_size for entry in archive.infolist()))
            archive.extractall(folder)  # which keeps names inside the folder
    except zipfile.BadZipFile as error:
        raise InputError(
            f"{file} is damaged or is not an archive ({error}). Get it again."
        ) from error
    mark.write_text(digest)


def _check_unpacked(archive: zipfile.ZipFile, folder: Path) -> None:
    for entry in archive.infolist():
        path = folder / entry.filename
        if not path.is_file() or zlib.crc32(path.read_bytes()) != entry.CRC:
            raise ConfigError(
                f"{path} is not as in the archive any more. Choose a new folder by --out."
            )


def load_archive(
    folder: Path, allowed: Collection[str] = ()
) -> tuple[Settings, list[CellSpec], Mapping[str, Any]]:
    """Return the settings of an unpacked archive, whose paths are in its folder, its cells, and its
    record.

    Args:
        folder: Folder of the unpacked archive.
        allowed: Modules outside Winnow whose components may be built, because their code is
            trusted.

    Raises:
        InputError: If the record is of another version, or if a path leads out of the folder.
        ConfigError: If a component is not one of Winnow or of the allowed modules.

    """
    record = _read_record(folder / RECORD)
    if record["version"] != _VERSION:
        raise InputError(
            f"{folder / RECORD} has version {record.get('version')!r}; expected {_VERSION}. Use "
            f"the code that wrote the archive: {record.get('code')}."
        )
    _check_components(
        [record["settings"], *(cell["settings"] for cell in record["cells"])], allowed
    )
    paths = {
        "data": str(folder / "data"),
        "models": str(folder / "models"),
        "ledger": str(folder / "ledger.sqlite"),
    }

    def move(plain: dict[str, Any]) -> Settings:
        report = {**plain["report"], "out": str(folder / "report"), "figures": []}
        return Settings.load(
            {
                **plain,
                "paths": {**plain["paths"], **paths, "base_ledgers": []},
                "report": report,
                "grid": None,
            }
        )

    return (
        move(record["settings"]),
        [_load_cell(folder, cell, move(cell["settings"])) for cell in record["cells"]],
        record,
    )


def _read_record(file: Path) -> dict[str, Any]:
    """Read the record of an archive; raise InputError if it is damaged."""
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        names = {"version", "code", "settings", "cells", "words"}
        if (
            isinstance(record, dict)
            and names <= record.keys()
            and all(isinstance(cell, dict) for cell in record["cells"])
        ):
            return record
        reason = f"expected {', '.join(sorted(names))}"
    except (ValueError, TypeError) as error:
        reason = str(error)
    raise InputError(f"{file} is not the record of an archive ({reason}). Get the archive again.")


def _check_components(settings: Iterable[Any], allowed: Collection[str]) -> None:
    """Raise ConfigError for a component outside Winnow, because building it would run code of the
    archive's choice.
    """
    targets = {
        str(value) for plain in settings for name, value in flatten_all(plain) if name == "_target_"
    }
    foreign = sorted(
        one for one in targets if not _is_own(one) and one.rpartition(".")[0] not in allowed
    )
    if foreign:
        module = foreign[0].rpartition(".")[0]
        raise ConfigError(
            f"The archive uses {', '.join(foreign)}, which is not part of Winnow. Get the code of "
            f"{module} from the authors, read it, and add --allow {module} to run it."
        )


def _is_own(target: str) -> bool:
    """Return whether a target is a class of Winnow, and not one of another library that a module of
    Winnow imports.
    """
    return is_in_winnow(target) and is_in_winnow(import_component_class(target).__module__)


def _load_cell(folder: Path, cell: Mapping[str, Any], settings: Settings) -> CellSpec:
    def find(name: str | None) -> Path | None:
        if name is None:
            return None
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise InputError(
                f"{folder / RECORD} names {name!r}, which is outside the archive. Do not use this "
                "archive."
            )
        return path

    def require(name: str) -> Path:
        path = find(name)
        if path is None or not path.exists():
            raise InputError(
                f"{folder / RECORD} names {name!r}, which the archive lacks. Get the archive again."
            )
        return path

    def resolve_engine(role: Role) -> EngineSpec:
        found = next((one for one in (*engines, *judges) if one.role == role), None)
        if found is None:
            raise LedgerError(
                f"The archive has no calls of the role {role!r}. It replays the metrics of its own "
                "tables only."
            )
        return found

    engines, ranking, judges = (
        _load_engines(cell[name]) for name in ("engines", "ranking_engines", "judges")
    )
    selection, labels = cell["questions"], cell["labels"]
    questions, retrieval, pool = (
        require(selection["path"]),
        require(cell["retrieval"]),
        find(cell["pool"]),
    )
    varying = tuple((name, value) for name, value in labels["varying"])
    return CellSpec(
        key=cell["key"],
        folder=require(cell["folder"]),
        labels=CellLabels(**{**labels, "varying": varying}),
        settings=cell["named"],
        questions=QuestionSelection(
            questions,
            selection["split"],
            selection["limit"],
            find(selection["closed_book"]),
            selection["keeps"],
        ),
        retrieval=retrieval,
        pool=pool,
        relevance=find(cell["relevance"]),
        distractors=settings.distractors.rule.build(),
        placement=build_placement(settings, questions),
        weighting=settings.weighting.build(),
        processor=settings.context.plan.build() if settings.context.plan else None,
        searches=settings.search.rules.build(),
        strategy=lambda: build_strategy(
            settings, build_prompt(settings.prompt, lambda: (questions, pool or retrieval))
        ),
        engines=engines,
        ranking_engines=ranking,
        resolve_engine=resolve_engine,
        config=settings.plain,
        identity=cell["identity"],
    )


def _load_engines(recorded: Sequence[Mapping[str, Any]]) -> tuple[EngineSpec, ...]:
    def open_engine(identity: str) -> Callable[[bool], RecordedEngine]:
        return lambda _: RecordedEngine(identity)

    return tuple(
        EngineSpec(one["role"], one["key"], open_engine(one["identity"]), Price(**one["price"]))
        for one in recorded
    )
