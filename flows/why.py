"""Show what made an artifact: settings, inputs up to the corpus, code and versions, and what differs from the settings now.

Without `artifact` it is the cell of the settings.

    python -m flows.why strategy=post_fusion k=5
    python -m flows.why artifact=data/predictions/post_fusion-0123456789ab
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from flows import _models
from flows._artifacts import Artifact, Project
from flows._cells import cell_artifact, closed_book_artifact
from flows._entry import entry
from flows._summary import Summary
from winnow.artifacts.provenance import flatten, git_revision, read_manifest, versions
from winnow.errors import ConfigError, MissingArtifactError


def why(configs: Sequence[DictConfig]) -> Summary:
    """Print the record of each job's artifact and of its inputs, and tabulate the differences from the settings."""
    rows: list[dict[str, Any]] = []
    titles = []
    for cfg in configs:
        project = Project(cfg)
        folder = Path(cfg.artifact) if cfg.get("artifact") else cell_artifact(project).folder
        for line in _history(folder, _roots(cfg)):
            print(line)
        rows += _differences(project, folder)
        titles.append(str(folder))
    title = f"{', '.join(titles)} and the settings of this command"
    return Summary(title if rows else f"{title}: no difference", rows)


def _roots(cfg: DictConfig) -> list[Path]:
    return [Path(cfg.paths.data), Path(cfg.paths.models)]


def _history(folder: Path, roots: Sequence[Path], depth: int = 0) -> Iterator[str]:
    """Yield the lines about an artifact and, indented below, about those that it was made from."""
    indent, body = "  " * depth, _manifest(folder)
    settings = body["settings"]
    libraries = ", ".join(f"{name} {number}" for name, number in body["versions"].items())
    yield f"{indent}{folder}"
    yield f"{indent}  made by flows.{settings.get('stage', '?')}, content {body['content']}, {body['rows']} rows"
    yield f"{indent}  code {body['git']}; {libraries}"
    inputs: list[str] = []
    for label, value in flatten(settings.get("inputs", {})).items():
        if (artifact := _artifact_folder(value, roots)) is None:
            yield f"{indent}  {label} = {value!r}"
        else:
            yield f"{indent}  {label} = {value}, see below"
            inputs += list(_history(artifact, roots, depth + 1))
    yield from inputs


def _manifest(folder: Path) -> Mapping[str, Any]:
    body = read_manifest(folder)
    if "content" not in body:
        raise MissingArtifactError(f"{folder} is no finished artifact: it has no manifest.json of this version.")
    return body


def _artifact_folder(value: Any, roots: Sequence[Path]) -> Path | None:
    """Return the folder of an input that is an artifact (its identity is key:content), None for any other value."""
    key, separator, content = value.partition(":") if isinstance(value, str) else ("", "", "")
    if not separator or len(key) != 12 or len(content) != 12:
        return None
    folders = (folder for root in roots for folder in root.glob(f"*/*-{key}"))
    return next((folder for folder in folders if read_manifest(folder).get("content") == content), None)


def _differences(project: Project, folder: Path) -> list[dict[str, Any]]:
    """Return a row for each setting, input, version and revision in which the artifact differs from this checkout."""
    body = _manifest(folder)
    current = _current(project, str(body["settings"].get("stage")))
    pairs = {
        **_changed(flatten(body["settings"].get("inputs", {})), flatten(current.settings["inputs"]), ""),
        **_changed(body["versions"], versions(), "version of "),
        **_changed({"code": body["git"]}, {"code": git_revision()}, ""),
    }
    return [{"what": name, "artifact": then, "now": now} for name, (then, now) in pairs.items()]


def _changed(then: Mapping[str, Any], now: Mapping[str, Any], prefix: str) -> dict[str, tuple[Any, Any]]:
    names = dict.fromkeys([*then, *now])
    return {f"{prefix}{n}": (then.get(n, "-"), now.get(n, "-")) for n in names if then.get(n, "-") != now.get(n, "-")}


def _current(project: Project, stage: str) -> Artifact:
    """Return the artifact of a stage under the settings."""
    cfg = project.cfg
    artifacts: dict[str, Callable[[], Artifact]] = {
        "corpus": lambda: project.corpus,
        "index": project.index,
        "questions": lambda: project.questions,
        "retrieve": project.retrieval,
        "score": lambda: _models.relevance(project),
        "train_reader": lambda: _models.trained_reader(project, cfg.reader, cfg.prompt),
        "train_joint": lambda: _models.joint(project),
        "closed_book": lambda: closed_book_artifact(project),
        "sweep": lambda: cell_artifact(project),
    }
    if stage not in artifacts:
        raise ConfigError(f"The artifact was made by the stage {stage!r}, which this version does not have.")
    return artifacts[stage]()


main = entry(why, seeds="one")
if __name__ == "__main__":
    main()
