"""State files of batches."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from winnow.artifacts.owners import get_host_name, get_process_name, read_start_time
from winnow.errors import ReaderError
from winnow.keys import compute_request_key
from winnow.readers import batch_state
from winnow.readers.batch_state import StateFiles
from winnow.records import Decoding, Passage
from winnow.requests import Generate, Message, Tool, ToolCall

SEARCH = Tool("search", "Search the web.", "{}")


def test_a_request_has_its_key_again(tmp_path: Path) -> None:
    """After its way through a file, also where the key depends on a passage or on tools; other
    passages are not written.
    """
    passages = (Passage("p", "T", "Ada </s>"), Passage("q", "T", "Bea"))
    requests = [
        Generate(
            (Message("system", "s"), Message("user", "u")),
            Decoding(5, 1, 0.9, 3),  # a whole number, as settings may have it
            2,
            passages=passages,
        ),
        Generate((Message("user", "u"),), Decoding(logprobs=True, stop=("\n",))),
        Generate((Message("user", "u"),), Decoding(), tools=(SEARCH,)),
        Generate(
            (
                Message("user", "u"),
                Message("assistant", "", (ToolCall("search", '{"query": "q"}', "1"),)),
                Message("tool", "found", call_id="1"),
            ),
            Decoding(),
            tools=(SEARCH,),
        ),
    ]
    sent = {compute_request_key("m", request).hex(): request for request in requests}
    files = StateFiles(tmp_path, "m", 600)
    files.save_id(files.add(sent), "batch-1")
    (batch,) = files.read()
    assert batch.id == "batch-1"
    read = dict(batch.requests)
    assert [compute_request_key("m", one).hex() for one in read.values()] == list(read)
    assert list(read) == list(sent)
    assert read[next(iter(sent))].passages == passages[:1]


def test_a_batch_belongs_to_one_process_at_a_time(tmp_path: Path) -> None:
    """Another process's batch is left to it while it runs, and taken over when it has ended. A
    process on another host has ended if it did not poll for ten minutes.
    """
    files = StateFiles(tmp_path, "m", 600)
    path = files.add({}).path
    assert [batch.path for batch in files.read()] == [path]
    assert StateFiles(tmp_path, "other model", 600).read() == []
    state = json.loads(path.read_text())
    with subprocess.Popen(["sleep", "60"]) as process:
        started = read_start_time(process.pid)
        owner = f"{process.pid}-{started}@{get_host_name()}"
        path.write_text(json.dumps(state | {"owner": owner}))
        assert files.read() == []
        process.kill()
        process.wait()
        assert [batch.path for batch in files.read()] == [path]
    path.write_text(json.dumps(state | {"owner": "1-2@elsewhere"}))
    assert files.read() == []
    os.utime(path, (time.time() - 601,) * 2)
    assert [batch.path for batch in files.read()] == [path]
    assert json.loads(path.read_text())["owner"] == get_process_name()
    os.utime(path, (0, 0))
    files.read()
    assert time.time() - path.stat().st_mtime < 60


def test_a_batch_that_is_released_belongs_to_the_next_process(tmp_path: Path) -> None:
    """Though this one lives, as a notebook does; nothing is written without a batch."""
    files = StateFiles(tmp_path, "m", 600)
    files.release()
    assert list(tmp_path.iterdir()) == []
    path = files.add({}).path
    files.release()
    assert json.loads(path.read_text())["owner"] == ""
    assert [batch.path for batch in files.read()] == [path]
    assert json.loads(path.read_text())["owner"] == get_process_name()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """Whatever it holds in place of a state."""
    for text in ("{", "[]", "{}"):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(
            ReaderError, match=r"a\.json is not the state of a batch .*`rm .*a\.json`"
        ):
            StateFiles(tmp_path, "m", 600).read()


def test_a_batch_whose_file_is_deleted_meanwhile_is_not_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process was given the results; the others are released."""
    states = StateFiles(tmp_path, "m", 60.0)
    gone, kept = states.add({}), states.add({})
    parse = batch_state._parse

    def parse_after_deletion(path: Path) -> object:
        gone.path.unlink(missing_ok=True)
        return parse(path)

    monkeypatch.setattr(batch_state, "_parse", parse_after_deletion)
    states.release()
    assert not gone.path.exists()
    assert parse(kept.path)[2] == ""
