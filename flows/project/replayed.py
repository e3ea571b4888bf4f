"""Archives read back: their cells, checked against the code that replays them."""

import json
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.project.archive import RECORD, VERSION
from flows.project.cells import build_placement, build_strategy
from flows.project.prompts import build_prompt
from flows.settings.components import import_component_class
from flows.settings.typed import Settings
from winnow.artifacts.files import check_free_space
from winnow.artifacts.provenance import compute_file_digest, flatten_all
from winnow.errors import ConfigError, InputError, LedgerError
from winnow.identity.modules import is_in_winnow
from winnow.predictions import Price
from winnow.records import Role
from winnow.sweeps.labels import CellLabels
from winnow.sweeps.recorded import RecordedEngine
from winnow.sweeps.spec import CellSpec, EngineSpec, QuestionSelection


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
    """Return an unpacked archive's settings (with paths in its folder), its cells and its record.

    Args:
        folder: Folder of the unpacked archive.
        allowed: Modules outside Winnow whose components may be built, because their code is
            trusted.

    Raises:
        InputError: If the record is of another version, or if a path leads out of the folder.
        ConfigError: If a component is not one of Winnow or of the allowed modules.
    """
    record = _read_record(folder / RECORD)
    if record["version"] != VERSION:
        raise InputError(
            f"{folder / RECORD} has version {record.get('version')!r}; expected {VERSION}. Use "
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
    """Raise ConfigError for a component outside Winnow, which would run code the archive chose."""
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
    """Return whether a target is a class of Winnow, not of a library that Winnow imports."""
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
        engine = next((one for one in (*engines, *judges) if one.role == role), None)
        if engine is None:
            raise LedgerError(
                f"The archive has no calls of the role {role!r}. It replays the metrics of its own "
                "tables only."
            )
        return engine

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
