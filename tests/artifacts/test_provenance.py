"""Manifests: what an artifact contains is recorded, and a later change is noticed."""

import json
import os
from pathlib import Path

import pytest

from winnow.artifacts.provenance import check_content, content_digest, is_done, write_manifest
from winnow.errors import ArtifactError


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    """A finished artifact of two files."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "data").write_text("one")
    (tmp_path / "sub" / "more").write_text("two")
    (tmp_path / "training.json").write_text('{"seconds": 1}')
    write_manifest(tmp_path, key="k", settings={"a": 1}, rows=3)
    return tmp_path


def test_a_manifest_marks_its_own_key_as_finished(artifact: Path, tmp_path: Path) -> None:
    """A manifest of another key, or of a version that recorded no content, does not count."""
    assert is_done(artifact, "k")
    assert not is_done(artifact, "other")
    assert not is_done(tmp_path / "nowhere", "k")
    body = json.loads((artifact / "manifest.json").read_text())
    del body["content"]
    (artifact / "manifest.json").write_text(json.dumps(body))
    assert not is_done(artifact, "k")


def test_content_is_checked(artifact: Path) -> None:
    """A changed file, a changed file of equal size, a removed one; a copy with another time is equal."""
    check_content(artifact)
    os.utime(artifact / "data", (1, 1))
    check_content(artifact)
    for name, text in (("data", "uno"), ("sub/more", "longer")):
        before = (artifact / name).read_text()
        (artifact / name).write_text(text)
        os.utime(artifact / name, (2, 2))
        with pytest.raises(ArtifactError, match=f"{name} was modified after its stage finished"):
            check_content(artifact)
        (artifact / name).write_text(before)
    (artifact / "data").unlink()
    with pytest.raises(ArtifactError, match="data was removed"):
        check_content(artifact)


def test_the_content_digest_covers_names_and_bytes_but_no_timing(artifact: Path) -> None:
    """Two runs that took different times have equal content; another name or byte has not."""
    first = content_digest(artifact)
    (artifact / "training.json").write_text('{"seconds": 2}')
    write_manifest(artifact, key="k", settings={}, rows=0)
    assert content_digest(artifact) == first
    (artifact / "data").write_text("uno")
    write_manifest(artifact, key="k", settings={}, rows=0)
    second = content_digest(artifact)
    (artifact / "data").rename(artifact / "other")
    write_manifest(artifact, key="k", settings={}, rows=0)
    assert len({first, second, content_digest(artifact)}) == 3
    assert content_digest(artifact / "sub") == ""
