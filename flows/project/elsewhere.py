"""Finds finished artifacts from another machine that differ only by what "auto" means there.

Precision and runtime are part of an artifact's key, and "auto" resolves to different values on
different machines.
"""

from flows.project.artifacts import Artifact
from winnow.artifacts.provenance import flatten, read_manifest

_MACHINE_DEPENDENT = ("dtype", "precision", "runtime")
"""Names of settings whose value "auto" depends on the machine."""
_INPUT_KEYS = {
    "reader": "reader.engine",
    "estimator": "estimator.engine",
    "retriever": "retriever.engine",
    "training": "training",
    "settings": "joint.settings",
    "parser": "corpus.parser",
}
"""Keys in the configuration of the settings that an artifact records as its inputs."""


def print_equivalent(artifact: Artifact) -> None:
    """Print how to use a finished artifact of another precision or runtime if this one is not."""
    if not artifact.is_finished and (text := _describe_equivalent(artifact)):
        print(text)


def _describe_equivalent(artifact: Artifact) -> str:
    """Return a line that names an equivalent artifact and the overrides that select it, or ""."""
    inputs = flatten(artifact.settings["inputs"])
    prefix = artifact.folder.name.removesuffix(artifact.key)
    for folder in sorted(artifact.folder.parent.glob(f"{prefix}*")):
        stored_inputs = flatten(read_manifest(folder).get("settings", {}).get("inputs", {}))
        differing = [
            name
            for name in {**inputs, **stored_inputs}
            if inputs.get(name) != stored_inputs.get(name)
        ]
        if (
            stored_inputs
            and differing
            and all(name.rpartition(".")[2] in _MACHINE_DEPENDENT for name in differing)
        ):
            overrides = " ".join(
                f"{_build_key(name)}={stored_inputs[name]}"
                for name in differing
                if name in stored_inputs
            )
            return (
                f"{folder} is finished, and differs only by what auto meant where it was made. To "
                f"use it, set {overrides}."
            )
    return ""


def _build_key(name: str) -> str:
    """Return the key in the configuration of a setting that the artifact records under `name`."""
    label, _, rest = name.partition(".")
    return f"{_INPUT_KEYS.get(label, label)}.{rest}"
