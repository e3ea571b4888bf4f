"""Models converted for OpenVINO by `openvino_export`, each in a folder of its own."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from pathlib import Path

from winnow.artifacts.provenance import is_unchanged
from winnow.modeling.loading import compute_weights_digest
from winnow.modeling.openvino import disable_telemetry

REVISION = 2
"""Raised when a change of the conversion makes former ones invalid."""
MODEL_FILE = "openvino_model.xml"
FILES = "files.json"
"""Name of the file that records the files of a conversion."""


def find_converted(
    path: str, folder: Path, weights: str = "full", dtype: str = "float32"
) -> Path | None:
    """Return the folder of a converted model with its tokenizer and configuration, or None."""
    target = get_conversion_folder(path, folder, weights, dtype)
    return target if _is_intact(target) else None


def _is_intact(folder: Path) -> bool:
    """Return whether a folder has a converted model with the files that the conversion wrote, and
    no others, which might replace a part of the tokenizer.

    A changed model would give other replies, whose identity is still the original weights'.
    """
    if not (folder / FILES).is_file():
        return False
    records = json.loads((folder / FILES).read_text())
    files = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    return files == {*records, FILES} and all(
        is_unchanged(folder / name, record) for name, record in records.items()
    )


def get_conversion_folder(path: str, folder: Path, weights: str, dtype: str) -> Path:
    """Return a conversion's folder, named by a digest of the weights and all else it depends on."""
    disable_telemetry()
    from openvino import get_version

    software = [get_version(), version("transformers")]
    parts = [compute_weights_digest(path), str(REVISION), *software]
    if weights != "full":
        parts += [weights, version("nncf")]
    elif dtype != "float32":
        parts.append(dtype)
    return folder / hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
