"""Artifacts of another machine: equal but for what "auto" means there, so that a setting lets this machine use them."""

from flows._artifacts import Artifact
from winnow.artifacts.provenance import flatten, read_manifest

_RESOLVED = ("dtype", "precision", "runtime")
"""Settings whose "auto" depends on the machine."""
_SETTINGS = {
    "reader": "reader.engine",
    "estimator": "estimator.engine",
    "retriever": "retriever.engine",
    "training": "training",
    "settings": "joint.settings",
    "parser": "corpus.parser",
}
"""Where the settings of an artifact's inputs are in the configuration."""


def announce(artifact: Artifact) -> None:
    """Print a line if an unfinished artifact exists already with another precision or runtime, and how to use it."""
    if not artifact.done and (text := _hint(artifact)):
        print(text)


def _hint(artifact: Artifact) -> str:
    wanted = flatten(artifact.settings["inputs"])
    prefix = artifact.folder.name.removesuffix(artifact.key)
    for folder in sorted(artifact.folder.parent.glob(f"{prefix}*")):
        made = flatten(read_manifest(folder).get("settings", {}).get("inputs", {}))
        differing = [name for name in {**wanted, **made} if wanted.get(name) != made.get(name)]
        if made and differing and all(name.rpartition(".")[2] in _RESOLVED for name in differing):
            overrides = " ".join(f"{_setting(name)}={made[name]}" for name in differing if name in made)
            return f"{folder} is finished, and differs only by what auto meant where it was made. To use it, set {overrides}."
    return ""


def _setting(name: str) -> str:
    label, _, rest = name.partition(".")
    return f"{_SETTINGS.get(label, label)}.{rest}"
