"""State files of batches."""

import json
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from winnow.artifacts.owners import get_process_name, read_start_time
from winnow.errors import ReaderError
from winnow.keys import compute_request_key
from winnow.readers.openai_batch_state import (
    StateFiles,
    pack_request,
    read_packed_requests,
    unpack_request,
)
from winnow.records import Decoding, Passage
from winnow.requests import Generate, Message


def test_a_request_has_its_key_again(tmp_path: Path) -> None:
    """After its way through a file, also where the key depends on a passage; other passages are not
    written.
    """
    passages = (Passage("p", "T", "Ada </s>"), Passage("q", "T", "Bea"))
    requests = [
        Generate(
            (Message("system", "s"), Message("user", "u")),
            Decoding(5, 0.7, 0.9, 3),
            2,
            passages=passages,
        ),
        Generate((Message("user", "u"),), Decoding(logprobs=True)),
    ]
    packed = {
        compute_request_key("m", request).hex(): pack_request(request) for request in requests
    }
    files = StateFiles(tmp_path, "m", 600)
    files.write(tmp_path / "state.json", {"requests": packed})
    (state,) = files.read().values()
    read = read_packed_requests(state)
    assert (
        [compute_request_key("m", unpack_request(one)).hex() for one in read.values()]
        == list(read)
        == list(packed)
    )
    assert unpack_request(packed[next(iter(packed))]).passages == passages[:1]


def test_a_batch_belongs_to_one_process_at_a_time(tmp_path: Path) -> None:
    """Another process's batch is left to it while it runs, and taken over when it has ended. A
    process on another host has ended if it did not poll for ten minutes.
    """
    files, path = StateFiles(tmp_path, "m", 600), tmp_path / "a.json"
    files.write(path, {"name": "a"})
    assert list(files.read()) == [path]
    assert StateFiles(tmp_path, "other model", 600).read() == {}
    with subprocess.Popen(["sleep", "60"]) as process:
        started = read_start_time(process.pid)
        owner = f"{process.pid}-{started}@{socket.gethostname()}"
        path.write_text(json.dumps({"engine": "m", "owner": owner, "name": "a"}))
        assert files.read() == {}
        process.kill()
        process.wait()
        assert files.read()[path]["name"] == "a"
    path.write_text(json.dumps({"engine": "m", "owner": "1-2@elsewhere", "name": "a"}))
    assert files.read() == {}
    os.utime(path, (time.time() - 601,) * 2)
    assert list(files.read()) == [path]
    assert json.loads(path.read_text())["owner"] == get_process_name()
    os.utime(path, (0, 0))
    files.read()
    assert time.time() - path.stat().st_mtime < 60


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """Whatever it holds in place of a state."""
    for text in ("{", "[]", "{}"):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(
            ReaderError, match=r"a\.json is not the state of a batch .*`rm .*a\.json`"
        ):
            StateFiles(tmp_path, "m", 600).read()
