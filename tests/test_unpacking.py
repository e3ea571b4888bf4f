"""Members of archives: which are copied, and where to."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from tests.test_assets import BODY
from winnow.assets import fetch_asset, is_present
from winnow.downloads import Asset
from winnow.errors import AssetError


def test_members_of_an_archive(tmp_path: Path) -> None:
    """Patterns choose, the fixed part is stripped; a member that points outside is refused."""
    archive = tmp_path / "x.zip"
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("pkg/model/config.json", "{}")
        out.writestr("pkg/model/sub/a.txt", "a")
        out.writestr("pkg/code.py", "raise SystemExit")
    asset = Asset(f"file:{archive}", str(tmp_path / "a"), members=["pkg/model/*"], size=len(BODY))
    assert fetch_asset(asset, tmp_path / "d")
    assert sorted(
        str(p.relative_to(tmp_path / "a")) for p in (tmp_path / "a").rglob("*.*[tn]")
    ) == [
        ".asset.json",
        "config.json",
        "sub/a.txt",
    ]
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("../evil", "x")
    with pytest.raises(AssetError, match="has a path outside the folder"):
        fetch_asset(Asset(f"file:{archive}", str(tmp_path / "b"), size=len(BODY)), tmp_path / "d")
    with pytest.raises(AssetError, match="no file that matches"):
        fetch_asset(
            Asset(f"file:{archive}", str(tmp_path / "c"), members=["none/*"], size=len(BODY)),
            tmp_path / "d",
        )
    assert archive.exists()
    folder = tmp_path / "unpacked"
    (folder / "pkg" / "model").mkdir(parents=True)
    (folder / "pkg" / "model" / "config.json").write_text("{}")
    (folder / "pkg" / "code.py").write_text("raise SystemExit")
    assert fetch_asset(
        Asset(f"file:{folder}", str(tmp_path / "e"), members=["pkg/model/*"], size=len(BODY)),
        tmp_path / "d",
    )
    assert sorted(path.name for path in (tmp_path / "e").rglob("*")) == [
        ".asset.json",
        "config.json",
    ]
    (folder / "linked").symlink_to(folder / "pkg")
    assert fetch_asset(Asset(f"file:{folder}", str(tmp_path / "g"), size=len(BODY)), tmp_path / "d")
    assert (tmp_path / "g" / "linked" / "model" / "config.json").read_text() == "{}"
    with pytest.raises(AssetError, match="is larger than 1 bytes"):
        fetch_asset(Asset(f"file:{folder}", str(tmp_path / "f"), size=1), tmp_path / "d")


def test_a_link_in_an_archive_is_skipped(tmp_path: Path) -> None:
    """Its content would be the name of a file outside."""
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as out:
        out.writestr(link, "/etc/passwd")
        out.writestr("file", "text")
    fetch_asset(
        Asset(f"file:{tmp_path / 'x.zip'}", str(tmp_path / "a"), size=len(BODY)), tmp_path / "d"
    )
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [".asset.json", "file"]


def test_two_members_of_one_name_are_refused(tmp_path: Path) -> None:
    """Their fixed folders are taken off, so that the second would replace the first."""
    folder = tmp_path / "folder"
    for split in ("train", "test"):
        (folder / split).mkdir(parents=True)
        (folder / split / "data.jsonl").write_text(split)
    patterns = ["train/*.jsonl", "test/*.jsonl"]
    asset = Asset(f"file:{folder}", str(tmp_path / "a"), members=patterns, size=len(BODY))
    with pytest.raises(AssetError, match=r"would become data\.jsonl, the second of them 'train/"):
        fetch_asset(asset, tmp_path / "d")
    whole = Asset(f"file:{folder}", str(tmp_path / "b"), members=["t[er]*/*"], size=len(BODY))
    assert fetch_asset(whole, tmp_path / "d")
    assert (tmp_path / "b" / "train" / "data.jsonl").read_text() == "train"


def test_a_link_to_a_folder_above_is_not_followed(tmp_path: Path) -> None:
    """It would be followed forever."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "data.jsonl").write_text("x")
    (folder / "latest").symlink_to(folder)
    assert fetch_asset(Asset(f"file:{folder}", str(tmp_path / "a"), size=len(BODY)), tmp_path / "d")
    assert [path.name for path in (tmp_path / "a").rglob("*.jsonl")] == ["data.jsonl"]


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_local_file_that_changed_is_fetched_again(tmp_path: Path, is_folder: bool) -> None:
    """Its former content would be used under its name; a removed one keeps what was fetched."""
    file = tmp_path / "from" / "data.jsonl"
    file.parent.mkdir()
    file.write_text("former")
    address = f"file:{file.parent if is_folder else file}"
    asset = Asset(address, str(tmp_path / "a"), size=len(BODY))
    assert fetch_asset(asset, tmp_path / "d")
    assert is_present(asset)
    assert not fetch_asset(asset, tmp_path / "d")
    file.write_text("latter")
    assert not is_present(asset)
    assert fetch_asset(asset, tmp_path / "d")
    assert (tmp_path / "a" / "data.jsonl").read_text() == "latter"
    file.unlink()
    file.parent.rmdir()
    assert is_present(asset)
    assert not fetch_asset(asset, tmp_path / "d")


def test_a_present_asset_needs_no_folder_for_downloads(tmp_path: Path) -> None:
    """Shared data may be read-only; a pinned copy stays, whatever becomes of its source."""
    file = tmp_path / "data.jsonl"
    file.write_text("x")
    digest = hashlib.sha256(b"x").hexdigest()
    for name, sha256 in (("a", ""), ("b", digest)):
        asset = Asset(f"file:{file}", str(tmp_path / name), sha256, size=len(BODY))
        assert fetch_asset(asset, tmp_path / "d")
        assert not fetch_asset(asset, Path("/proc/nowhere"))
    file.write_text("y")
    assert is_present(asset)
    assert not fetch_asset(asset, tmp_path / "d")


def test_a_file_that_is_added_to_a_local_folder_is_fetched(tmp_path: Path) -> None:
    """The former files alone are unchanged."""
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "a.txt").write_text("a")
    asset = Asset(f"file:{tmp_path / 'from'}", str(tmp_path / "a"), size=len(BODY))
    assert fetch_asset(asset, tmp_path / "d")
    (tmp_path / "from" / "b.txt").write_text("b")
    assert not is_present(asset)
    assert fetch_asset(asset, tmp_path / "d")
    assert (tmp_path / "a" / "b.txt").read_text() == "b"


def test_a_set_of_characters_is_no_fixed_folder(tmp_path: Path) -> None:
    """It is a pattern, as a star is."""
    (tmp_path / "from" / "t1").mkdir(parents=True)
    (tmp_path / "from" / "t1" / "a.txt").write_text("a")
    asset = Asset(
        f"file:{tmp_path / 'from'}", str(tmp_path / "a"), members=["t[12]/a.txt"], size=len(BODY)
    )
    assert fetch_asset(asset, tmp_path / "d")
    assert (tmp_path / "a" / "t1" / "a.txt").read_text() == "a"
