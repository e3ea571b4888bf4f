"""Links to artifacts that DVC tracks, and the way back to their own places."""

import json
import threading
from pathlib import Path

import pytest

from flows.tools.dvc import CALLS, TRACKED, restore_artifacts, track_artifacts
from winnow.artifacts.provenance import describe_files, write_manifest
from winnow.errors import ConfigError
from winnow.ledger.sqlite import SqliteStore
from winnow.ledger.tools import export_calls
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Message

LEDGER = "data/ledger.sqlite"


@pytest.fixture
def artifact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished artifact of the project in the current folder."""
    monkeypatch.chdir(tmp_path)
    folder = Path("data/index/bm25-0123456789ab")
    (folder / "part").mkdir(parents=True)
    (folder / "part" / "file.txt").write_text("one")
    write_manifest(folder, key="0123456789ab", settings={"stage": "index"}, rows=1)
    return folder


def remove(folder: Path) -> None:
    """Remove a folder with its content."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


def test_only_a_folder_of_a_stage_is_replaced(artifact: Path) -> None:
    """A wrong target leaves a user's folder as it is; artifacts outside the project are refused."""
    Path("results").mkdir()
    Path("results/thesis.md").write_text("mine")
    for target in ("results", "data", "tracked", "tracked/a/b", ".", "/tmp", "tracked/.."):
        with pytest.raises(ConfigError, match="--track takes a folder directly below tracked/"):
            track_artifacts(Path(target), [artifact])
    with pytest.raises(ConfigError, match="outside the project's folder"):
        track_artifacts(TRACKED / "index", [Path("/usr/share")])
    assert Path("results/thesis.md").read_text() == "mine"
    assert artifact.is_dir()


def test_a_tracked_folder_holds_one_version_and_leads_back(
    artifact: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files are hard links; several processes restore an artifact at once."""
    track_artifacts(TRACKED / "index", [Path(artifact)])
    link = TRACKED / "index" / artifact / "part" / "file.txt"
    assert link.samefile(artifact / "part" / "file.txt")
    remove(artifact)
    processes = [threading.Thread(target=restore_artifacts, args=(LEDGER,)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert link.samefile(artifact / "part" / "file.txt")
    assert capsys.readouterr().out.count("restored from tracked") == 1
    track_artifacts(TRACKED / "index", [])
    assert list((TRACKED / "index").iterdir()) == []
    assert [path.name for path in TRACKED.iterdir() if path.name != ".lock"] == ["index"]


def test_a_changed_or_newer_version_is_named(
    artifact: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tracked file that was edited is not taken for the artifact; an artifact that was rebuilt
    stays and is named.
    """
    track_artifacts(TRACKED / "index", [artifact])
    remove(artifact)
    tracked = TRACKED / "index" / artifact
    (tracked / "part" / "file.txt").write_text("changed")
    restore_artifacts(LEDGER)
    assert "is not restored" in capsys.readouterr().out
    assert not artifact.exists()
    (artifact / "part").mkdir(parents=True)
    (artifact / "part" / "file.txt").write_text("rebuilt")
    write_manifest(artifact, key="0123456789ab", settings={"stage": "index"}, rows=1)
    restore_artifacts(LEDGER)
    assert "`dvc repro --force index` tracks the present one" in capsys.readouterr().out
    assert (artifact / "part" / "file.txt").read_text() == "rebuilt"


def test_an_incomplete_asset_is_not_restored(
    artifact: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after a `dvc pull` that was interrupted; it can then be downloaded again."""
    asset = Path("assets/texts")
    asset.mkdir(parents=True)
    (asset / "a.txt").write_text("a")
    (asset / ".asset.json").write_text(
        json.dumps({"address": "file:x", "files": describe_files(asset)})
    )
    track_artifacts(TRACKED / "acquire", [asset])
    remove(asset)
    restore_artifacts(LEDGER)
    assert (asset / "a.txt").read_text() == "a"
    remove(asset)
    (TRACKED / "acquire" / asset / "a.txt").unlink()
    restore_artifacts(LEDGER)
    assert not asset.exists()
    assert "`dvc pull` restores tracked files" in capsys.readouterr().out


def test_tracked_calls_are_imported_into_a_new_ledger(artifact: Path) -> None:
    """Also if the ledger was removed after the artifact had been linked."""
    calls = Path("data/calls/sweep-0123456789ab")
    request = Generate((Message("user", "q"),), Decoding())
    with SqliteStore("other.sqlite") as ledger:
        ledger.put("engine", [(b"k" * 32, request, Generation("reply", "stop"), 0.1)])
        export_calls(ledger, calls / CALLS)
    write_manifest(calls, key="0123456789ab", settings={"stage": "calls"}, rows=1)
    track_artifacts(TRACKED / "calls", [calls])
    for path in (calls / CALLS, calls / "manifest.json"):
        path.unlink()
    calls.rmdir()
    for _ in range(2):
        restore_artifacts(LEDGER)
        with SqliteStore(LEDGER) as ledger:
            assert ledger.get([b"k" * 32])[b"k" * 32] == Generation("reply", "stop")
        Path(LEDGER).unlink()
