"""A damaged ledger file is recognized, recovered to what can be read, and said to be."""

import os
from pathlib import Path

import pytest

from winnow.errors import LedgerError
from winnow.keys import compute_request_key
from winnow.ledger import sqlite
from winnow.ledger.recovery import is_intact, recover
from winnow.ledger.sqlite import SqliteStore
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Message

CALLS = 3000


def filled(path: Path) -> dict[bytes, Generation]:
    """A ledger of 3,000 calls."""
    rows = []
    for n in range(CALLS):
        request = Generate((Message("user", f"prompt {n}"),), Decoding())
        rows.append(
            (compute_request_key("m", request), request, Generation(f"answer {n} " * 5), 0.0)
        )
    with SqliteStore(path) as ledger:
        ledger.put("m", rows)
    return {key: result for key, _, result, _ in rows}


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_truncated_file_keeps_what_is_before_the_cut(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, share: float
) -> None:
    """At least a third of what the rest of the file holds comes back, every result is right, new
    calls can be stored.

    SQLite's pages lie in the order in which they were split, so that a cut takes inner pages along.
    """
    path = tmp_path / "l.sqlite"
    stored = filled(path)
    os.truncate(path, int(path.stat().st_size * share))
    assert not is_intact(path)
    with SqliteStore(path) as ledger:
        rows = ledger.get(list(stored))
        assert len(ledger) == len(rows) > CALLS * share / 3
        assert all(stored[key] == result for key, result in rows.items())
        missing = next(key for key in stored if key not in rows)
        ledger.put("m", [(missing, Generate((), Decoding()), stored[missing], 0.0)])
    assert f"{len(rows)} calls were recovered" in caplog.text
    assert is_intact(path)
    assert len(list(tmp_path.glob("l.sqlite.damaged-*"))) == 1


def test_overwritten_pages_cost_only_what_was_on_them(tmp_path: Path) -> None:
    """Two pages of garbage in the middle; nearly all calls survive."""
    path = tmp_path / "l.sqlite"
    stored = filled(path)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2 // 4096 * 4096)
        file.write(os.urandom(2 * 4096))
    assert not is_intact(path)
    rows = recover(path)
    assert CALLS * 0.9 < rows.num_calls < CALLS
    with SqliteStore(path) as ledger:
        assert all(stored[key] == result for key, result in ledger.get(list(stored)).items())


def test_a_damaged_file_that_another_process_has_open_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says which file and what to do."""
    monkeypatch.setattr(sqlite, "_RECOVERY_SECONDS", 0.1)
    path = tmp_path / "l.sqlite"
    filled(path)
    with SqliteStore(path):
        os.truncate(path, path.stat().st_size // 2)
        with pytest.raises(LedgerError, match="another process has it open"), SqliteStore(path):
            pass


def test_whole_new_and_empty_files_are_sound(tmp_path: Path) -> None:
    """Nothing to recover."""
    path = tmp_path / "l.sqlite"
    assert is_intact(path)
    path.touch()
    assert is_intact(path)
    filled(path)
    assert is_intact(path)
