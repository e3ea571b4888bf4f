"""The ledger: what is stored is found again, by any process, after any kill."""

import math
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from winnow.errors import DiskFullError, LedgerError
from winnow.keys import compute_request_key
from winnow.ledger.rows import decode_result, encode_result
from winnow.ledger.sqlite import SqliteStore
from winnow.records import Decoding, Passage
from winnow.requests import Failed, Generate, Generation, Message, Pages, Score, Usage


def generate(text: str, decoding: Decoding | None = None, sample: int = 0) -> Generate:
    """A request with one user message."""
    return Generate((Message("user", text),), decoding or Decoding(), sample)


def test_a_stored_result_is_found_under_its_key(tmp_path: Path) -> None:
    """Also by another opening of the file; what was not stored is absent."""
    request, result = generate("hello"), Generation("hi", "length", Usage(3, 1))
    key = compute_request_key("m", request)
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        ledger.put("m", [(key, request, result, 0.5)])
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        assert ledger.get([key, b"none"]) == {key: result}
        assert len(ledger) == 1
        assert ledger.compute_mean_seconds("m") == 0.5
        assert ledger.compute_mean_seconds("other") is None


@pytest.mark.parametrize(
    "result",
    [Generation("ü \u2028", "stop", Usage(1, 2)), Score(-1.5), Pages((Passage("1", "t", "x"),))],
)
def test_results_survive_the_round_trip(result: Generation | Score | Pages) -> None:
    """Encode and decode are inverse."""
    assert decode_result(encode_result(result)) == result


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30
)
@given(st.lists(st.text(), min_size=1, max_size=30, unique=True))
def test_any_text_is_kept_as_it_is(tmp_path: Path, texts: list[str]) -> None:
    """Lone surrogates aside, every text comes back."""
    rows = [(compute_request_key("m", generate(t)), generate(t), Generation(t), 0.0) for t in texts]
    with SqliteStore(tmp_path / f"{os.urandom(8).hex()}.sqlite") as ledger:
        ledger.put("m", rows)
        assert ledger.get([row[0] for row in rows]) == {row[0]: row[2] for row in rows}


def test_a_claim_is_won_by_one_and_a_dead_owner_loses_it(tmp_path: Path) -> None:
    """A second process gets nothing while the first lives, and the call once the first is dead."""
    path = tmp_path / "l.sqlite"
    with SqliteStore(path) as first, SqliteStore(path) as second:
        assert first.owner != second.owner
        assert first.claim([b"a", b"b"]) == {b"a", b"b"}
        assert second.claim([b"a", b"c"]) == {b"c"}
    child = multiprocessing.get_context("spawn").Process(target=_claim_and_die, args=(path,))
    child.start()
    child.join()
    with SqliteStore(path) as third:
        assert third.claim([b"z"]) == {b"z"}


def _claim_and_die(path: Path) -> None:
    SqliteStore(path).__enter__().claim([b"z"])
    os.kill(os.getpid(), signal.SIGKILL)


def test_claims_of_many_calls_are_made_and_released_together(tmp_path: Path) -> None:
    """More than a query may name; calls that are stored or that another process has claimed are
    left out.
    """
    path, keys = tmp_path / "l.sqlite", [f"{number}".encode() for number in range(1300)]
    with SqliteStore(path) as first, SqliteStore(path) as second:
        assert first.claim(keys[:1100]) == set(keys[:1100])
        first.put("m", [(key, generate("a"), Generation("A"), 0.0) for key in keys[:600]])
        second.owner = "another-host:1:1:1"
        assert second.claim(keys) == set(keys[1100:])
        first.put("m", [(key, generate("a"), Generation("A"), 0.0) for key in keys[600:1100]])
        assert second.connection.execute("SELECT COUNT(*) FROM claims").fetchone()[0] == 200
        assert first.get(keys).keys() == set(keys[:1100])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_reply_with_a_number_that_json_lacks(bad: float) -> None:
    """NaN is an error wherever it stands, and an infinite log-probability is kept."""
    replies = [
        Generation("a", logprobs=(bad,)),
        Generation("a", token_logprobs={"true": (bad,)}, token_positions={}),
    ]
    replies.append(Generation("a", usage=Usage(bad, 1)))  # type: ignore[arg-type]
    for reply in replies:
        if math.isnan(bad):
            with pytest.raises(LedgerError, match="NaN"):
                encode_result(reply)
        else:
            assert "Infinity" in encode_result(reply)


def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path) -> None:
    """The message names the file and what to do; the file stays."""
    path = tmp_path / "l.sqlite"
    path.write_bytes(b"this is not a database, it only looks like a file" * 100)
    with (
        pytest.raises(LedgerError, match=r"is not a ledger.*Move the file away"),
        SqliteStore(path),
    ):
        pass
    assert path.exists()


def test_a_full_disk_is_named_and_what_was_stored_stays(tmp_path: Path) -> None:
    """SQLite's own limit stands in for the disk: the error says what to do, the earlier call is
    still there.
    """
    request = generate("a")
    key = compute_request_key("m", request)
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        ledger.put("m", [(key, request, Generation("x"), 0.0)])
        ledger.connection.execute("PRAGMA max_page_count = 4")
        with pytest.raises(DiskFullError, match="could not be written"):
            ledger.put(
                "m", [(os.urandom(32), request, Generation("y" * 4000), 0.0) for _ in range(50)]
            )
        assert len(ledger) == 1


def test_a_flipped_bit_is_noticed_and_the_call_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A result that fails its checksum is dropped with a word, never returned."""
    request = generate("a")
    key = compute_request_key("m", request)
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        ledger.put("m", [(key, request, Generation("Paris"), 0.0)])
        ledger.connection.execute("UPDATE calls SET value = replace(value, 'Paris', 'Parit')")
        assert ledger.get([key]) == {}
        assert len(ledger) == 0
    assert "1 damaged calls were set aside" in caplog.text


def test_a_closed_ledger_says_so(tmp_path: Path) -> None:
    """Use outside `with` is an error by name."""
    with pytest.raises(LedgerError, match="not open"):
        len(SqliteStore(tmp_path / "l.sqlite"))


def test_many_processes_may_open_a_new_ledger_at_once(tmp_path: Path) -> None:
    """Eight at the same moment, twenty times each: SQLite refuses some of them, which then try
    again.
    """
    code = (
        "import sys; from winnow.ledger.sqlite import SqliteStore\n"
        "for n in range(20):\n    with SqliteStore(f'{sys.argv[1]}/{n}.sqlite'): pass"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stderr=subprocess.PIPE)
        for _ in range(8)
    ]
    assert [process.communicate()[1] for process in running] == [b""] * 8


def test_claims_of_dead_owners_are_released(tmp_path: Path) -> None:
    """A process that has ended, and an expired lease of another host; those of the living stay."""
    with (
        SqliteStore(tmp_path / "l.sqlite") as ledger,
        SqliteStore(tmp_path / "l.sqlite") as living,
    ):
        living.claim([b"kept"])
        with ledger.transaction() as db:
            host = ledger.owner.rsplit(":", 3)[0]
            rows = [(b"dead", f"{host}:999999999:1:0", 9e12), (b"expired", "elsewhere:1:1:0", 1.0)]
            db.executemany("INSERT INTO claims VALUES (?,?,?)", rows)
        assert ledger.release_lapsed_claims() == 2
        assert ledger.claim([b"dead", b"expired", b"kept"]) == {b"dead", b"expired"}


def test_every_kind_of_result_survives(tmp_path: Path) -> None:
    """Log-probabilities of named tokens and failures too."""
    results = [Generation("x", token_logprobs={"true": (-0.5, -1.0)}), Failed("time-out")]
    assert [decode_result(encode_result(one)) for one in results] == results
