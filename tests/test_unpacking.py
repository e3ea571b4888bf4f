"""Members of archives: which are copied, and where to."""

import zipfile
from pathlib import Path

import pytest

from tests.test_assets import BODY
from winnow.assets import Asset, fetch_asset
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
