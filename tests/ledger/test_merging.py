"""Calls of another ledger or file are added."""

import itertools
import json
import sqlite3
from pathlib import Path

import pytest

from tests.ledger.filled import filled
from winnow.errors import InputError, LedgerError
from winnow.keys import compute_request_key
from winnow.ledger import merging, tools
from winnow.ledger.postgres import PostgresStore
from winnow.ledger.sqlite import SqliteStore
from winnow.records import Decoding
from winnow.requests import Failed, Generate, Generation, Message, Usage


def test_export_and_import_are_inverse(tmp_path: Path) -> None:
    """Another ledger takes the lines; a second time adds none; a bad line adds nothing at all."""
    filled(tmp_path / "l.sqlite", "m", "abc")
    lines = tmp_path / "calls.jsonl"
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        assert tools.export_calls(ledger, lines) == 3
    with SqliteStore(tmp_path / "other.sqlite") as other:
        assert merging.import_calls(other, lines).added == 3
        assert merging.import_calls(other, lines) == merging.Merge()
        key = compute_request_key("m", Generate((Message("user", "a"),), Decoding()))
        assert other.get([key])[key] == Generation("A", usage=Usage(3, 2))
    lines.write_text(lines.read_text().replace('"kind": "Generate"', '"kind": 3', 1))
    with SqliteStore(tmp_path / "third.sqlite") as third:
        with pytest.raises(InputError, match="line 1"):
            merging.import_calls(third, lines)
        assert len(third) == 0


def test_damaged_calls_are_not_passed_on(tmp_path: Path) -> None:
    """Neither exported nor merged, for a new checksum would make them look whole; size still counts
    them.
    """
    filled(tmp_path / "l.sqlite", "m", "ab")
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        ledger.connection.execute(
            "UPDATE calls SET value = '{broken' WHERE key = (SELECT MIN(key) FROM calls)"
        )
        assert tools.summarize_calls(ledger)[0].calls == 2
        assert tools.export_calls(ledger, tmp_path / "calls.jsonl") == 1
    with SqliteStore(tmp_path / "other.sqlite") as other:
        assert merging.merge_ledger(other, tmp_path / "l.sqlite").added == 1


def test_merge_adds_what_is_missing(tmp_path: Path) -> None:
    """Two machines' work; the other file stays as it was."""
    filled(tmp_path / "one.sqlite", "m", "abc")
    filled(tmp_path / "two.sqlite", "m", "cd")
    with SqliteStore(tmp_path / "one.sqlite") as ledger:
        assert merging.merge_ledger(ledger, tmp_path / "two.sqlite").added == 1
        assert len(ledger) == 4
        with pytest.raises(LedgerError, match="Ledger not found"):
            merging.merge_ledger(ledger, tmp_path / "three.sqlite")
    with SqliteStore(tmp_path / "two.sqlite") as other:
        assert len(other) == 2


def put(path: Path, reply: Generation, created: float) -> bytes:
    """Store a reply to one request at a time."""
    request = Generate((Message("user", "a"),), Decoding())
    key = compute_request_key("m", request)
    with SqliteStore(path) as ledger:
        ledger.put("m", [(key, request, reply, 0.5)])
        ledger.connection.execute("UPDATE calls SET created = ?", (created,))
    return key


@pytest.mark.parametrize("times", [(1.0, 2.0), (2.0, 1.0)])
def test_a_reply_with_text_replaces_an_empty_one(
    tmp_path: Path, times: tuple[float, float]
) -> None:
    """Or a recorded failure, whichever is older: a shard, or the user after pruning, requested it
    again.
    """
    for worse, own, other in itertools.product(
        (Generation(" "), Failed("content filter")), ("worse", "text"), ("worse", "text")
    ):
        if own == other:
            continue
        for path in tmp_path.iterdir():
            path.unlink()
        key = put(tmp_path / "worse.sqlite", worse, times[0])
        put(tmp_path / "text.sqlite", Generation("Paris"), times[1])
        with SqliteStore(tmp_path / f"{own}.sqlite") as ledger:
            merging.merge_ledger(ledger, tmp_path / f"{other}.sqlite")
            assert ledger.get([key])[key].text == "Paris"  # type: ignore[union-attr]


@pytest.mark.parametrize(("mine", "theirs", "kept"), [(1.0, 2.0, "A"), (2.0, 1.0, "B")])
def test_of_two_results_of_a_call_the_elder_is_kept(
    tmp_path: Path, mine: float, theirs: float, kept: str
) -> None:
    """By merge and import alike; they are counted and listed. Another library or token count is no
    other result.
    """
    key = put(tmp_path / "one.sqlite", Generation("A"), mine)
    put(tmp_path / "two.sqlite", Generation("B"), theirs)
    put(tmp_path / "three.sqlite", Generation("A", usage=Usage(9, 9), model="torch 2"), theirs)
    with SqliteStore(tmp_path / "two.sqlite") as other:
        tools.export_calls(other, tmp_path / "calls.jsonl")
    with SqliteStore(tmp_path / "one.sqlite") as ledger:
        assert merging.merge_ledger(ledger, tmp_path / "three.sqlite") == merging.Merge()
        merge = merging.merge_ledger(ledger, tmp_path / "two.sqlite")
        assert merge == merging.Merge(
            0, [merging.Conflict(key, "Generate", "m", kept_other=kept == "B")]
        )
        assert "1 calls have other results" in merge.describe()
        assert (
            f"{key.hex()[:12]}  Generate  m: {'the other' if kept == 'B' else 'this'} ledger's "
            "result is kept" in merge.describe()
        )
        (result,) = ledger.get([key]).values()
        assert isinstance(result, Generation)
        assert result.text == kept
    with SqliteStore(tmp_path / "one.sqlite") as ledger:
        imported = merging.import_calls(ledger, tmp_path / "calls.jsonl")
        assert bool(imported.conflicts) == (kept == "A")
    put(tmp_path / "four.sqlite", Generation("A"), mine)
    with SqliteStore(tmp_path / "four.sqlite") as other:
        tools.export_calls(other, tmp_path / "mine.jsonl")
    for order in (
        ("mine.jsonl", "calls.jsonl"),
        ("calls.jsonl", "mine.jsonl"),
    ):  # both in one file
        (tmp_path / "both.jsonl").write_text(
            "".join((tmp_path / name).read_text() for name in order)
        )
        with SqliteStore(tmp_path / f"{order[0]}.sqlite") as ledger:
            both = merging.import_calls(ledger, tmp_path / "both.jsonl")
            assert (both.added, len(both.conflicts)) == (1, 1)
            (result,) = ledger.get([key]).values()
            assert isinstance(result, Generation)
            assert result.text == kept


def test_a_file_that_cannot_be_read_is_named_itself(tmp_path: Path) -> None:
    """Not the intact ledger that it is added to."""
    (tmp_path / "notes.txt").write_text("no ledger " * 1000)
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        with pytest.raises(LedgerError, match=r"to merge, .*notes\.txt, cannot be read"):
            merging.merge_ledger(ledger, tmp_path / "notes.txt")
        assert len(ledger) == 0


REQUEST = Generate((Message("user", "x"),), Decoding())


def test_reasoning_tokens_are_no_other_result(tmp_path: Path) -> None:
    """One server counts them and another one does not."""
    for name, usage in (("one", Usage(3, 2, 1)), ("two", Usage(3, 2, 2))):
        with SqliteStore(tmp_path / name) as ledger:
            ledger.put("m", [(b"k" * 32, REQUEST, Generation("A", usage=usage), 1.0)])
    with SqliteStore(tmp_path / "one") as ledger:
        assert merging.merge_ledger(ledger, tmp_path / "two") == merging.Merge()


def test_a_bad_line_adds_nothing_to_a_database_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose batches are transactions of their own."""

    class Database(PostgresStore):
        inserted = 0

        def read_rows(self, keys: object) -> dict:  # type: ignore[override,type-arg]
            return {}

        def delete(self, keys: object) -> None: ...

        def insert_missing(self, rows: list[object]) -> None:  # type: ignore[override]
            self.inserted += len(rows)

    filled(tmp_path / "l.sqlite", "m", "ab")
    lines = tmp_path / "calls.jsonl"
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        tools.export_calls(ledger, lines)
    lines.write_text(lines.read_text() + "{}\n")
    monkeypatch.setattr(merging, "_ROWS_AT_ONCE", 1)
    database = Database("postgresql://me@host/db")
    with pytest.raises(InputError, match="line 3"):
        merging.import_calls(database, lines)
    assert database.inserted == 0


@pytest.mark.parametrize("value", ["[]", '{"score":null}', '{"score":"high"}', "[" * 100_000])
def test_a_line_without_a_result_is_refused(tmp_path: Path, value: str) -> None:
    """By its line, before another one is added."""
    filled(tmp_path / "l.sqlite", "m", "ab")
    lines = tmp_path / "calls.jsonl"
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        tools.export_calls(ledger, lines)
    first, second = lines.read_text().splitlines()
    lines.write_text(f"{first}\n{json.dumps({**json.loads(second), 'value': value})}\n")
    with SqliteStore(tmp_path / "other.sqlite") as other:
        with pytest.raises(InputError, match="line 2"):
            merging.import_calls(other, lines)
        assert len(other) == 0


def test_a_ledger_that_is_damaged_further_on_is_named_itself(tmp_path: Path) -> None:
    """Its first page is whole."""
    other = tmp_path / "other.sqlite"
    filled(other, "m", "".join(map(chr, range(0x4E00, 0x4E00 + 400))))
    with sqlite3.connect(other) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = db.execute("PRAGMA page_size").fetchone()
    body = other.read_bytes()
    half = len(body) // size // 2 * size
    other.write_bytes(body[:half] + b"\xff" * (len(body) - half))
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        with pytest.raises(LedgerError, match=r"to merge, .*other\.sqlite, cannot be read"):
            merging.merge_ledger(ledger, other)
        assert len(ledger) == 0
