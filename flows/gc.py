"""List the artifacts and calls that no settings and no report use any more, with their sizes, and
remove them if told to.

Artifacts are used if the settings in params.yaml, in conf/experiment/ or of this command lead to
them, if a page in reports/ or a folder in tracked/ names them, or if another used artifact was made
from them. Calls are used if an engine of these settings made them, or an engine of the settings
with which a used artifact was made. What is younger than a day is kept, because a running command
may use it. Nothing is removed without --remove.

winnow gc  # or `python -m flows.gc`
winnow gc strategy=post_fusion k=7  # the artifacts of these settings are used, too
winnow gc --remove  # removes the artifacts
winnow gc --remove --calls  # removes the calls as well, which would have to be paid for again
"""

import argparse
import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from flows.project.artifacts import Project
from flows.project.engines import (
    EVALUATED,
    compute_estimator_identity,
    identify_engine_specs,
    open_reader,
    resolve_engine_spec,
    resolve_reader_spec,
)
from flows.project.inputs import list_roots
from flows.project.models import (
    is_trained,
    list_readers,
    list_teachers,
    list_trainings,
    resolve_reader_path,
)
from flows.settings.composition import list_options
from flows.settings.door import compose, open_settings
from flows.settings.overrides import complete_overrides, load_params
from flows.settings.typed import Settings
from flows.stages.registry import iter_artifacts
from flows.stages.report_folder import ENGINES
from flows.tools.dvc import TRACKED, restore_artifacts
from flows.tools.summary import Summary, progress
from winnow.artifacts.provenance import flatten, read_manifest
from winnow.errors import MissingArtifactError, WinnowError
from winnow.identity.code import get_ledger_identity
from winnow.ledger.sqlite import SqliteStore
from winnow.ledger.stores import open_store
from winnow.ledger.tools import prune_calls, summarize_calls
from winnow.predictions import Price
from winnow.searchers.web.identity import is_web_search

_PARAMS = Path("params.yaml")
_KEY = re.compile(r"[0-9a-f]{12}")
_FOLDER_NAME = re.compile(r".+-([0-9a-f]{12})")
"""Name of an artifact's folder, which ends with its key."""


@dataclass
class Use:
    """What settings and reports use.

    Attributes:
        keys: Keys of artifacts.
        engines: Identities of engines in the ledger.
        opened: Keys of the models whose identities are among `engines`.
        problems: Names of the settings that could not be resolved here, by the reason.
    """

    keys: set[str] = field(default_factory=set)
    engines: set[str] = field(default_factory=set)
    opened: set[str] = field(default_factory=set)
    problems: dict[str, list[str]] = field(default_factory=dict)


def gc(
    settings: Settings,
    *,
    remove: bool = False,
    calls: bool = False,
    force: bool = False,
    hours: float = 24.0,
) -> Summary:
    """List what is not used, and remove it if told to.

    Args:
        settings: Settings whose artifacts and calls are used.
        remove: Whether to remove the artifacts that are listed.
        calls: Whether to remove the calls as well.
        force: Whether to remove even if some settings cannot be resolved, so that what they use is
            not known.
        hours: Age from which artifacts and calls are listed.
    """
    restore_artifacts(str(settings.paths.ledger))
    use, before = find_use(settings), time.time() - hours * 3600
    folders = list(iter_unused_folders(list_roots(settings), use.keys, before))
    rows: list[dict[str, object]] = [
        {
            "unused": str(folder),
            "what": _describe_folder(folder),
            "MB": f"{_measure(folder) / 2**20:.1f}",
        }
        for folder in folders
    ]
    is_removing = remove and (force or not use.problems)
    with open_store(str(settings.paths.ledger)) as ledger:  # base ledgers are never changed
        totals = summarize_calls(ledger, before=before) if isinstance(ledger, SqliteStore) else []
        unused = [
            total
            for total in totals
            if total.engine not in use.engines and not is_web_search(total.engine)
        ]
        rows += [
            {
                "unused": total.engine,
                "what": f"{total.calls} calls",
                "MB": f"{total.result_bytes / 2**20:.1f}",
            }
            for total in unused
        ]
        if is_removing and calls and unused and isinstance(ledger, SqliteStore):
            prune_calls(ledger, engines=sorted({total.engine for total in unused}), before=before)
    if is_removing:
        for folder in folders:
            shutil.rmtree(folder)
    if not rows:
        return Summary("Everything is used, or younger than the given age.")
    problems = [
        f"Not resolved, so that what they use may be listed: {', '.join(names)}. {why}"
        for why, names in use.problems.items()
    ]
    advice = "" if calls or not unused else " Calls are kept without --calls."
    if is_removing:
        note = f"Removed.{advice}"
    elif remove:
        note = (
            "Nothing was removed, because some settings cannot be resolved. Add --force to remove "
            "what is listed anyway."
        )
    else:
        note = f"Nothing was removed. Add --remove to remove the artifacts.{advice}"
    return Summary(
        "Artifacts and calls that no settings and no report use",
        rows,
        "\n".join([*problems, note]),
    )


def find_use(settings: Settings) -> Use:
    """Find what these settings, params.yaml, experiments, reports and tracked folders use."""
    use = Use()
    loaders: dict[str, Callable[[], Settings]] = {
        f"experiment={name}": partial(compose, [f"experiment={name}"])
        for name in list_options("experiment")
    }
    if _PARAMS.is_file():
        loaders[str(_PARAMS)] = lambda: open_settings(load_params(_PARAMS, []))
    loaders["the settings of this command"] = lambda: settings
    with progress("resolving settings", len(loaders)) as advance:
        for name, load in loaders.items():
            try:
                _add_settings(use, load())
            except WinnowError as error:
                use.problems.setdefault(str(error), []).append(name)
            advance()
    texts = [file.read_text(errors="replace") for file in Path("reports").rglob("*.md")]
    for file in Path("reports").rglob(ENGINES):
        use.engines.update(json.loads(file.read_text(encoding="utf-8")))
    texts += [str(folder) for folder in TRACKED.glob("*/*/*/*")]
    for text in texts:
        use.keys.update(match.group(1) for match in re.finditer(r"-([0-9a-f]{12})\b", text))
    manifests = {
        match.group(1): read_manifest(folder)
        for folder, match in _iter_folders(list_roots(settings))
    }
    _add_inputs(use, manifests)
    for key in sorted(use.keys & manifests.keys()):
        config = manifests[key].get("settings", {}).get("config")
        if config is not None:
            try:
                known_settings = {
                    name: value for name, value in config.items() if name in Settings.model_fields
                }
                _add_engines(
                    use, Project(Settings.load({**settings.plain, **known_settings}))
                )  # an earlier version's may lack some
            except WinnowError as error:
                use.problems.setdefault(str(error).splitlines()[0], []).append(f"artifact {key}")
    return use


def _add_settings(use: Use, settings: Settings) -> None:
    """Add what the cells of a configuration use, whether they are finished or not."""
    for cell in settings.cells:
        project = Project(cell)
        for artifact in iter_artifacts(project):
            use.keys.add(artifact.key)
            use.keys.update(_iter_keys(artifact.settings))
        _add_engines(use, project)


def _add_engines(use: Use, project: Project) -> None:
    """Add the ledger identities of a cell's calls. A model that is not trained yet has none."""
    settings = project.settings
    models = [(reader, settings.prompt) for reader in list_readers(settings)]
    models += [(teacher.reader, teacher.prompt) for teacher in list_teachers(settings)]
    models += [
        (training.teacher.reader, settings.prompt)
        for training in list_trainings(settings)
        if training.teacher is not None
    ]
    for reader, prompt in models:
        spec = resolve_reader_spec(project, reader, prompt)
        if spec.key in use.opened:
            continue
        with suppress(MissingArtifactError):
            use.engines.update(identify_engine_specs([spec]).values())
            weights = [str(reader.base), resolve_reader_path(project, reader, prompt)]
            for path in weights if is_trained(settings, reader) else ():
                engine = open_reader(reader, path, price=Price(), name=EVALUATED, check=False)
                use.engines.add(get_ledger_identity(engine))
            use.opened.add(spec.key)
    use.engines.add(compute_estimator_identity(project))
    engines = {"search": settings.roles, "corpus": settings.retriever.engines}
    for role, is_used in (
        *((role, role in configured_roles) for role, configured_roles in engines.items()),
        ("nli", settings.nli is not None),
    ):
        if is_used:
            spec = resolve_engine_spec(project, role)
            with suppress(MissingArtifactError):
                use.engines.update(identify_engine_specs([spec]).values())


def _iter_keys(settings: Any) -> Iterator[str]:
    """Yield the keys of the artifacts among the inputs, recorded as "key:content" or "key"."""
    for value in flatten(settings).values():
        if isinstance(value, str):
            key = value.partition(":")[0]
            if _KEY.fullmatch(key):
                yield key


def _add_inputs(use: Use, manifests: Mapping[str, Mapping[str, Any]]) -> None:
    """Add the artifacts from which used artifacts were made."""
    pending = list(use.keys)
    while pending:
        manifest: Mapping[str, Any] = manifests.get(pending.pop(), {})
        new = set(_iter_keys(manifest.get("settings", {}).get("inputs", {}))) - use.keys
        use.keys |= new
        pending += new
    exports = {
        key: manifest["settings"]["inputs"]["cells"]
        for key, manifest in manifests.items()
        if _is_export(manifest)
    }
    use.keys.update(key for key, cells in exports.items() if use.keys >= set(cells))


def _is_export(manifest: Mapping[str, Any]) -> bool:
    """Return whether an artifact holds exported calls; it is used as long as its cells are."""
    return bool(manifest) and manifest["settings"].get("stage") == "calls"


def _iter_folders(roots: Iterable[Path]) -> "Iterator[tuple[Path, re.Match[str]]]":
    """Yield the folders of artifacts below data/<kind>/ and models/<kind>/."""
    for root in roots:
        for folder in sorted(root.glob("*/*")):
            match = _FOLDER_NAME.fullmatch(folder.name)
            if match and folder.is_dir():
                yield folder, match


def iter_unused_folders(roots: Iterable[Path], used: set[str], before: float) -> Iterator[Path]:
    """Yield the folders of unused artifacts in which nothing was written since `before`."""
    for folder, match in _iter_folders(roots):
        newest = max(
            (path.stat().st_ctime for path in folder.rglob("*")), default=folder.stat().st_ctime
        )
        if match.group(1) not in used and newest < before:
            yield folder


def _describe_folder(folder: Path) -> str:
    manifest = read_manifest(folder)
    return f"made by flows.{manifest['settings'].get('stage', '?')}" if manifest else "unfinished"


def _measure(folder: Path) -> int:
    """Return the size of a folder in bytes."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main() -> None:
    """Parse the command line and print what is not used."""
    parser = argparse.ArgumentParser(
        prog="winnow gc", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--remove", action="store_true", help="remove the listed artifacts")
    parser.add_argument(
        "--calls", action="store_true", help="with --remove: remove the listed calls as well"
    )
    parser.add_argument(
        "--force", action="store_true", help="remove even if some settings cannot be resolved"
    )
    parser.add_argument(
        "--hours",
        type=float,
        default=24.0,
        help="age from which artifacts and calls are listed (24)",
    )
    parser.add_argument(
        "settings", nargs="*", help="settings whose artifacts and calls are used, such as k=7"
    )
    options = parser.parse_args()
    try:
        settings = compose(complete_overrides(options.settings))
        gc(
            settings,
            remove=options.remove,
            calls=options.calls,
            force=options.force,
            hours=options.hours,
        ).show()
    except WinnowError as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
