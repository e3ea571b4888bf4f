"""Manifests: what an artifact contains is recorded, and a later change is noticed."""

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest

from winnow.artifacts import provenance
from winnow.artifacts.provenance import (
    CONTENT_DIGEST,
    check_content,
    compute_key,
    describe_files,
    find_changed_modules,
    get_git_revision,
    get_installed_versions,
    is_code_mixed,
    is_done,
    read_content_digest,
    write_manifest,
)
from winnow.errors import ArtifactError, DiskFullError


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


def test_what_a_killed_process_left_is_no_part_of_an_artifact(artifact: Path) -> None:
    """An unfinished file, or a file in an unfinished folder, is not recorded, so that its removal
    later changes nothing.
    """
    (artifact / ".manifest.json.99999999-5@elsewhere.partial").write_text("half")
    folder = artifact / "sub" / ".model.99999999-5@elsewhere.partial"
    folder.mkdir()
    (folder / "weights").write_text("half")
    (artifact / ".hidden").write_text("a file of the artifact")
    assert set(describe_files(artifact)) == {"data", "sub/more", ".hidden"}


def test_content_is_checked(artifact: Path) -> None:
    """A changed file, a changed file of equal size, a removed one; a copy with another time is
    equal.
    """
    check_content(artifact)
    os.utime(artifact / "data", (1, 1))
    check_content(artifact)
    for name, text in (("data", "uno"), ("sub/more", "longer")):
        before = (artifact / name).read_text()
        (artifact / name).write_text(text)
        os.utime(artifact / name, (2, 2))
        with pytest.raises(ArtifactError, match=f"{name} was modified after its stage wrote it"):
            check_content(artifact)
        (artifact / name).write_text(before)
    (artifact / "data").unlink()
    with pytest.raises(ArtifactError, match="data was removed"):
        check_content(artifact)


def test_the_content_digest_covers_names_and_bytes_but_no_timing(artifact: Path) -> None:
    """Two runs that took different times have equal content; another name or byte has not."""
    first = read_content_digest(artifact)
    (artifact / "training.json").write_text('{"seconds": 2}')
    write_manifest(artifact, key="k", settings={}, rows=0)
    assert read_content_digest(artifact) == first
    (artifact / "data").write_text("uno")
    write_manifest(artifact, key="k", settings={}, rows=0)
    second = read_content_digest(artifact)
    (artifact / "data").rename(artifact / "other")
    write_manifest(artifact, key="k", settings={}, rows=0)
    assert len({first, second, read_content_digest(artifact)}) == 3
    assert read_content_digest(artifact / "sub") == ""


def test_a_manifest_records_how_the_artifact_was_made(artifact: Path) -> None:
    """Key, settings, rows, code, versions and files, sorted by name; a file that holds times is no
    content.
    """
    body = json.loads((artifact / "manifest.json").read_text())
    assert list(body) == sorted(body)
    assert (body["key"], body["rows"], body["settings"]) == ("k", 3, {"a": 1})
    assert (body["git"], body["versions"]) == (get_git_revision(), get_installed_versions())
    assert sorted(body["files"]) == ["data", "sub/more"]


@pytest.mark.parametrize("text", ["two", "uno"])
def test_a_file_is_read_again_only_if_its_time_changed(artifact: Path, text: str) -> None:
    """Size and time stand for the content; the digests of the two texts lie on both sides of that
    of "one".
    """
    recorded = (artifact / "data").stat().st_mtime_ns
    (artifact / "data").write_text(text)
    os.utime(artifact / "data", ns=(recorded, recorded))
    check_content(artifact)
    for time in (recorded - 1, recorded + 1):
        os.utime(artifact / "data", ns=(time, time))
        with pytest.raises(ArtifactError, match="data was modified"):
            check_content(artifact)


@pytest.mark.parametrize("size", [299, 301])
def test_another_size_is_a_change_whatever_the_time(tmp_path: Path, size: int) -> None:
    """Of a file that is larger than Python's small integers."""
    file = tmp_path / "data"
    file.write_text("x" * 300)
    write_manifest(tmp_path, key="k", settings={}, rows=0)
    check_content(tmp_path)
    recorded = file.stat().st_mtime_ns
    file.write_text("x" * size)
    os.utime(file, ns=(recorded, recorded))
    with pytest.raises(ArtifactError, match="data was modified"):
        check_content(tmp_path)


def test_an_artifact_without_a_manifest_has_nothing_to_check(tmp_path: Path) -> None:
    """Another check refuses it."""
    check_content(tmp_path)


def test_a_key_is_what_it_was() -> None:
    """Of a dictionary in any order, with paths."""
    assert (
        compute_key({"b": [2], "a": Path("x")})
        == compute_key({"a": "x", "b": [2]})
        == "1ec8553d2306"
    )


def test_a_library_that_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are recorded."""

    def version(name: str) -> str:
        if name == "torch":
            raise PackageNotFoundError(name)
        return "1"

    monkeypatch.setattr(provenance, "version", version)
    assert list(get_installed_versions()) == [
        name for name in provenance._PACKAGES if name != "torch"
    ]


def test_packages_that_affect_results_are_those_of_the_project() -> None:
    """A name that pip does not know would never be recorded."""
    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())[
        "project"
    ]
    required = [
        *project["dependencies"],
        *project["optional-dependencies"]["cpu"],
        *project["optional-dependencies"]["gpu"],
    ]
    names = {re.split(r"[^A-Za-z0-9_-]", requirement)[0] for requirement in required}
    assert set(provenance._PACKAGES) - names == {
        "winnow",
        "tokenizers",
    }  # the latter comes with transformers
    readers = {"openvino", "openvino-genai", "torch", "transformers", "peft", "bitsandbytes"}
    assert readers <= set(provenance._PACKAGES)


def test_the_revision_is_that_of_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change of a file below src, flows or conf is another state, also of an untracked one;
    one beside them is none.
    """
    monkeypatch.setattr(
        provenance, "__file__", str(tmp_path / "src" / "winnow" / "artifacts" / "provenance.py")
    )
    assert get_git_revision() == "unknown"

    def git(*words: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    for folder in ("src", "flows", "conf"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x").write_text("1")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "x")
    head = git("rev-parse", "--short=12", "HEAD")
    (tmp_path / "notes").write_text("")
    assert get_git_revision() == head
    states = {head}
    for folder in ("src", "flows", "conf"):
        for name in ("x", "y"):  # changed, and untracked
            for text in ("2", "3"):
                (tmp_path / folder / name).write_text(text)
                assert re.fullmatch(rf"{head}\+[0-9a-f]{{8}}", get_git_revision())
                states.add(get_git_revision())
            (tmp_path / folder / name).write_text("1")
        (tmp_path / folder / "y").unlink()
    assert get_git_revision() == head
    assert len(states) == 13
    (tmp_path / "src" / "x").write_text("2")
    unstaged = get_git_revision()
    git("add", ".")
    assert get_git_revision() == unstaged in states  # a change counts whether it is staged or not


def test_a_manifest_needs_a_megabyte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With less the stage ends before anything is written."""
    monkeypatch.setattr(
        "winnow.artifacts.files.shutil.disk_usage", lambda _: SimpleNamespace(free=2**20)
    )
    write_manifest(tmp_path, key="k", settings={}, rows=0)
    monkeypatch.setattr(
        "winnow.artifacts.files.shutil.disk_usage", lambda _: SimpleNamespace(free=2**20 - 1)
    )
    with pytest.raises(DiskFullError):
        write_manifest(tmp_path, key="k", settings={}, rows=0)


def test_a_folder_may_state_the_digest_of_its_content(tmp_path: Path) -> None:
    """Its other files may have any names; files elsewhere count as they are."""

    def digest(name: str, stated: str, other: str) -> str:
        folder = tmp_path / name
        (folder / "index/deep").mkdir(parents=True)
        (folder / "index/deep" / f"{name}.bin").write_text(name)
        (folder / "index" / CONTENT_DIGEST).write_text(stated)
        (folder / "other.txt").write_text(other)
        write_manifest(folder, key="k", settings={}, rows=1)
        return read_content_digest(folder)

    assert digest("a", "x", "y") == digest("b", "x", "y")
    assert len({digest("c", "x", "y"), digest("d", "z", "y"), digest("e", "x", "z")}) == 3


def test_changed_modules_behind_an_artifact_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of its stage and components whose code differs, also where no key changed; not for the
    state that made it.
    """
    target = {"_target_": "winnow.strategies.post_fusion.PostFusion", "revision": 6}
    folder, other = tmp_path / "data/predictions/a", tmp_path / "data/predictions/b"
    for artifact in (folder, other):
        artifact.mkdir(parents=True)
        write_manifest(
            artifact,
            key="k",
            settings={"stage": "sweep", "config": {"list": [{"plan": target}]}},
            rows=0,
        )
    (file,) = (tmp_path / "data/code").iterdir()  # one for both
    recorded = json.loads(file.read_text())
    assert {
        "winnow.strategies.vote",
        "winnow.driver.run",
        "winnow.sweeps.run",
        "flows.sweep",
    } <= recorded.keys()
    assert find_changed_modules(folder, get_git_revision()) == []
    for revision in ("another", "unknown"):
        assert find_changed_modules(folder, revision) == []
        edited = {**recorded, "winnow.driver.run": "000000", "winnow.new": "111111"}
        with monkeypatch.context() as patch:
            patch.setattr(provenance, "compute_module_digests", lambda _, edited=edited: edited)
            assert find_changed_modules(folder, revision) == ["winnow.driver.run", "winnow.new"]
    file.unlink()
    assert find_changed_modules(folder, "another") == []


def test_only_code_behind_artifacts_mixes_them(tmp_path: Path) -> None:
    """Another commit of the same modules does not, other modules of other strategies neither; an
    unrecorded one may.
    """

    def make(name: str, git: str, modules: Mapping[str, str] | None, **versions: str) -> Path:
        folder = tmp_path / "data/predictions" / name
        folder.mkdir(parents=True)
        write_manifest(folder, key="k", settings={}, rows=1)
        body = json.loads((folder / "manifest.json").read_text())
        body |= {
            "git": git,
            "modules": "" if modules is None else name,
            "versions": {**body["versions"], **versions},
        }
        (folder / "manifest.json").write_text(json.dumps(body))
        if modules is not None:
            (tmp_path / "data/code").mkdir(exist_ok=True)
            (tmp_path / "data/code" / f"{name}.json").write_text(json.dumps(modules))
        return folder

    first = make("a", "one", {"winnow.driver": "1", "winnow.vote": "1"})
    documented = make("b", "two", {"winnow.driver": "1", "winnow.cite": "1"})
    edited = make("c", "three", {"winnow.driver": "2"})
    same = make("d", "one", None)
    updated = make("e", "one", {"winnow.driver": "1"}, torch="0.1")
    assert [
        is_code_mixed([first, other]) for other in (first, documented, edited, same, updated)
    ] == [
        False,
        False,
        True,
        False,
        True,
    ]
    assert is_code_mixed([documented, same])


def test_a_damaged_manifest_is_named(artifact: Path) -> None:
    """A cut file is no artifact that was never made."""
    file = artifact / "manifest.json"
    file.write_text(file.read_text()[:50])
    with pytest.raises(ArtifactError, match=rf"{re.escape(str(file))} is damaged"):
        is_done(artifact, "k")
