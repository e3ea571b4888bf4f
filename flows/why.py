"""Show from which settings, inputs and code an artifact was made, and how they differ from the
current settings.

Without `artifact=FOLDER` it shows the predictions of the current settings.

    python -m flows.why strategy=post_fusion k=5
    python -m flows.why artifact=data/predictions/post_fusion-0123456789ab
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.project.artifacts import Artifact, Project
from flows.project.cells import resolve_cell_artifact
from flows.project.inputs import ArtifactIndex, list_roots
from flows.settings.door import list_cells
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.registry import Stage, get_stage
from flows.tools.summary import Summary
from winnow.artifacts.provenance import (
    find_changed_modules,
    flatten,
    get_git_revision,
    get_installed_versions,
    read_manifest,
)
from winnow.artifacts.steps import count_models
from winnow.errors import ConfigError, MissingArtifactError


def why(jobs: Sequence[Settings]) -> Summary:
    """Print how artifacts and inputs were made, and return their differences from the settings."""
    rows: list[dict[str, Any]] = []
    titles = []
    cells: Sequence[Settings] = list_cells(jobs)
    described = set[Path]()
    if artifact := jobs[0].artifact:
        cells = _select_cells(cells, Path(artifact))
    for settings in cells:
        project = Project(settings)
        folder = Path(artifact) if artifact else resolve_cell_artifact(project).folder
        if folder not in described:
            for line in _iter_history(folder, ArtifactIndex(list_roots(settings)), described):
                print(line)
        rows += _build_difference_rows(project, folder)
        titles.append(str(folder))
    titles = list(dict.fromkeys(titles))
    title = f"{', '.join(titles)} and the settings of this command"
    return Summary(title if rows else f"{title}: no difference", rows)


def _select_cells(cells: Sequence[Settings], folder: Path) -> Sequence[Settings]:
    """Return the first cell whose artifact a folder has, or all cells without one."""
    manifest = _read_finished_manifest(folder)
    for settings in cells:
        if _resolve_artifact(Project(settings), manifest).key == manifest["key"]:
            return [settings]
    return cells


def _iter_history(
    folder: Path, index: ArtifactIndex, described: set[Path], user: str = "", depth: int = 0
) -> Iterator[str]:
    """Yield lines about an artifact and, indented below it, each of its source artifacts once.

    Args:
        folder: Folder of the artifact.
        index: Artifacts of the project.
        described: Folders that were described before, to which this one is added.
        user: Code and libraries of the artifact that was made from this one, which are not said
            again.
        depth: Number of artifacts above this one.
    """
    indent = "  " * depth
    described.add(folder)
    manifest = _read_finished_manifest(folder)
    settings = manifest["settings"]
    code = (
        f"code {manifest['git']}; "
        f"{', '.join(f'{name} {number}' for name, number in manifest['versions'].items())}"
    )
    yield f"{indent}{folder}"
    yield (
        f"{indent}  made by flows.{settings.get('stage', '?')}, content {manifest['content']}, "
        f"{manifest['rows']} rows"
    )
    if code != user:
        yield f"{indent}  {code}"
    for (role, model), count in sorted(count_models(folder).items()):
        yield f"{indent}  {count} replies of the role {role} by {model}"
    inputs: list[str] = []
    for label, value in flatten(settings.get("inputs", {})).items():
        if (artifact := index.find(value)) is None:
            yield f"{indent}  {label} = {value!r}"
        elif artifact in described:
            yield f"{indent}  {label} = {value}, described once: {artifact.name}"
        else:
            yield f"{indent}  {label} = {value}, see below"
            inputs += list(_iter_history(artifact, index, described, code, depth + 1))
    yield from inputs


def _read_finished_manifest(folder: Path) -> Mapping[str, Any]:
    """Read the manifest of a finished artifact.

    Raises:
        MissingArtifactError: If the folder has no manifest of the current format.
    """
    manifest = read_manifest(folder)
    if "content" not in manifest:
        raise MissingArtifactError(
            f"{folder} is not a finished artifact: it has no manifest.json of this version of "
            "Winnow. Run the stage that makes it (`python -m flows.pipeline` runs all) with the "
            "same settings first."
        )
    return manifest


def _build_difference_rows(project: Project, folder: Path) -> list[dict[str, Any]]:
    """Return a row per input, library version and revision that differs from the current state."""
    manifest = _read_finished_manifest(folder)
    current = _resolve_artifact(project, manifest)
    revision = get_git_revision()
    pairs = {
        **_find_changes(
            flatten(manifest["settings"].get("inputs", {})),
            flatten(current.settings["inputs"]),
            "",
        ),
        **_find_changes(manifest["versions"], get_installed_versions(), "version of "),
        **_find_changes({"code": manifest["git"]}, {"code": revision}, ""),
        **{
            f"module {name}": ("as it was", "changed, same revision")
            for name in find_changed_modules(folder, revision)
        },
    }
    return [{"what": name, "artifact": then, "now": now} for name, (then, now) in pairs.items()]


def _find_changes(
    then: Mapping[str, Any], now: Mapping[str, Any], prefix: str
) -> dict[str, tuple[Any, Any]]:
    """Return the old and new values of the names that differ; "-" stands for a missing value."""
    values = {
        name: (then.get(name, "-"), now.get(name, "-")) for name in dict.fromkeys([*then, *now])
    }
    return {f"{prefix}{name}": (old, new) for name, (old, new) in values.items() if old != new}


def _resolve_artifact(project: Project, manifest: Mapping[str, Any]) -> Artifact:
    """Return the current artifact of a manifest's stage, of several the one with its key or else
    with its name.

    Raises:
        ConfigError: If there is no such stage.
    """
    settings = manifest["settings"]
    artifacts = list(get_stage(str(settings.get("stage"))).resolve(project))
    if not artifacts:
        raise ConfigError(
            f"The stage {settings['stage']} makes nothing for one cell that could be compared."
        )
    return max(
        artifacts,
        key=lambda one: (one.key == manifest["key"], one.settings["name"] == settings.get("name")),
    )


STAGE = Stage(why, grid=True, seeds="one")
main = make_main(STAGE)
if __name__ == "__main__":
    main()
