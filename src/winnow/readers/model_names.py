"""Names of models on servers."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

_VERSION_SUFFIX = re.compile(r"-(\d{3,8}|\d{4}-\d{2}-\d{2})")
"""Date or version that a server appends to the name of a model."""


def is_same_model(expected: str, served: str) -> bool:
    """Return whether two names mean the same model, of which the served one may be a snapshot.

    Names of the same model may differ in case, path, file type and date, and a tag ":latest" or a
    revision ("@main") may be missing. Any other tag is part of the name: qwen3:0.6b and qwen3:70b
    are two models.
    """
    names = [name.lower() for name in (expected, served)]
    owners = [
        name.split("/")[0] for name in names if name.count("/") == 1 and not name.startswith("/")
    ]
    if len(owners) == 2 and owners[0] != owners[1]:
        return False
    expected_base, served_base = (
        PurePosixPath(name.partition("@")[0].removesuffix(":latest"))
        .name.removesuffix(".gguf")
        .removesuffix("-latest")
        for name in names
    )
    return served_base == expected_base or bool(
        _VERSION_SUFFIX.fullmatch(served_base.removeprefix(expected_base))
    )
