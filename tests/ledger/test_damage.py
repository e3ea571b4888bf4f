"""What a damaged ledger still serves: never a wrong result, never a file that stays unusable, and
what was lost is named.
"""

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from winnow.cli import main
from winnow.errors import LedgerError
from winnow.keys import compute_request_key
from winnow.ledger import claims, recovery, tools
from winnow.ledger.recovery import is_intact
from winnow.ledger.rows import compute_checksum
from winnow.ledger.sqlite import SqliteStore
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Message, Score

FLIPS = int(os.environ.get("WINNOW_FLIPS", "40"))
"""Flipped bits, each in a ledger of its own; 1,000 for docs/reliability.md."""
CALLS = 400
ROWS = [
    (compute_request_key("m", request), request, Generation(f"answer é {n} " * 5), 0.5)
    for n in range(CALLS)
    for request in [Generate((Message("user", f"prompt {n}"),), Decoding())]
]
STORED = {key: result.text for key, _, result, _ in ROWS}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger of 400 calls and a claim."""
    path = tmp_path_factory.mktemp("filled") / "l.sqlite"
    with SqliteStore(path) as ledger:
        ledger.put("m", ROWS)
    return path


def _corrupt(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement, values)


@pytest.mark.parametrize("part", ["header", "first page", "anywhere"])
def test_flipped_bits_serve_no_wrong_result_and_cost_a_few_calls(
    tmp_path: Path, filled: Path, part: str
) -> None:
    """Every file can be opened, what it serves is right, and what it lost can be stored again,
    whatever bit it was.
    """
    size = {"header": 120, "first page": 4096, "anywhere": filled.stat().st_size}[part]
    rng, lost = random.Random(size), 0
    for number in range(FLIPS):
        path = tmp_path / str(number) / "l.sqlite"
        path.parent.mkdir()
        content = bytearray(filled.read_bytes())
        content[rng.randrange(size)] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        with SqliteStore(path) as ledger:
            results = ledger.get(list(STORED))
            assert {key: result.text for key, result in results.items()}.items() <= STORED.items()  # type: ignore[union-attr]
            missing = [row for row in ROWS if row[0] not in results]
            assert ledger.claim([row[0] for row in missing]) == {row[0] for row in missing}
            ledger.put("m", missing)
            assert ledger.get(list(STORED)).keys() == STORED.keys()
            tools.summarize_calls(ledger)
            assert tools.export_calls(ledger, path.with_suffix(".jsonl")) >= CALLS - 1
        tools.repair_ledger(path)
        with SqliteStore(path) as ledger:
            assert tools.find_damaged_calls(ledger) == []
            assert len(ledger.get(list(STORED))) >= CALLS - 1
        lost += len(missing)
        shutil.rmtree(path.parent)
    assert lost <= 2 * FLIPS
    print(f"{FLIPS} flipped bits, {part}: {lost} of {FLIPS * CALLS} calls lost")


@pytest.mark.parametrize(
    ("value", "repairs_checksum"),
    [
        (b'{"score":NaN}', True),
        (b"\xff\xfe{}", False),
        (b'{"text":3}', True),
        (b"[]", True),
        (b'{"odd":1}', True),
        (b"{", True),
    ],
)
def test_a_row_that_cannot_be_read_is_set_aside_and_the_rest_goes_on(
    tmp_path: Path,
    filled: Path,
    value: bytes,
    repairs_checksum: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whatever its bytes, even with a right checksum; `check` names it, and its call is
    made again.
    """
    path = Path(shutil.copy(filled, tmp_path))
    key = ROWS[0][0]
    crc = compute_checksum(key, value) if repairs_checksum else 1
    _corrupt(path, "UPDATE calls SET value = ?, crc = ? WHERE key = ?", value, crc, key)
    with pytest.raises(
        SystemExit, match=rf"1 of {CALLS} calls in .* are damaged \({key.hex()[:12]}\)"
    ):
        main(["ledger", "check", str(path)])
    with SqliteStore(path) as ledger:
        assert len(ledger.get(list(STORED))) == CALLS - 1
        assert ledger.claim([key]) == {key}
        ledger.put("m", ROWS[:1])
        assert len(ledger.get(list(STORED))) == CALLS
    main(["ledger", "check", str(path)])
    assert (
        f"is intact: {CALLS} calls; 1 damaged ones were set aside earlier"
        in capsys.readouterr().out
    )


def test_repair_sets_aside_what_no_run_has_met(
    tmp_path: Path, filled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two damaged values and an engine's name that is no text."""
    path = Path(shutil.copy(filled, tmp_path))
    _corrupt(path, "UPDATE calls SET value = 'x' WHERE key IN (?, ?)", ROWS[1][0], ROWS[2][0])
    _corrupt(path, "UPDATE calls SET engine = CAST(x'ff' AS TEXT) WHERE key = ?", ROWS[3][0])
    main(["ledger", "repair", str(path)])
    main(["ledger", "check", str(path)])
    main(["ledger", "size", str(path)])
    output = capsys.readouterr().out
    assert "2 damaged calls set aside" in output
    assert f"intact: {CALLS - 2} calls" in output


def test_nan_is_never_stored(tmp_path: Path) -> None:
    """It would fail every later run; infinite log-probabilities and the word are kept."""
    request, path = ROWS[0][1], tmp_path / "l.sqlite"
    with SqliteStore(path) as ledger:
        with pytest.raises(LedgerError, match="contains NaN and was not stored"):
            ledger.put("m", [(b"k", request, Score(float("nan")), 0.0)])
        ledger.claim([b"k", b"l", b"m"])
        rows = [
            (b"k", request, Score(float("-inf")), 0.0),
            (b"m", request, Score(float("nan")), 0.0),
        ]
        with pytest.raises(LedgerError, match="contains NaN"):
            ledger.put("m", [*rows, (b"l", request, Generation("NaN"), 0.0)])
        assert ledger.get([b"k", b"l", b"m"]) == {
            b"k": Score(float("-inf")),
            b"l": Generation("NaN"),
        }
        with SqliteStore(path) as other:
            assert other.claim([b"m"]) == {b"m"}


def test_a_newer_ledger_is_refused_and_left_alone(tmp_path: Path, filled: Path) -> None:
    """Rather than recovered, which would drop what this version does not know."""
    path = Path(shutil.copy(filled, tmp_path))
    _corrupt(path, "CREATE TABLE later (x)")
    _corrupt(path, f"PRAGMA user_version = {7 * 999_983}")
    before = path.read_bytes()
    with (
        pytest.raises(LedgerError, match=r"A newer version of Winnow wrote this ledger \(schema 7"),
        SqliteStore(path),
    ):
        pass
    assert path.read_bytes() == before


def test_a_file_without_a_call_or_a_header_is_no_ledger(tmp_path: Path, filled: Path) -> None:
    """A ledger whose first bytes were overwritten is one."""
    (tmp_path / "notes.txt").write_text("not a ledger" * 2000)
    with pytest.raises(LedgerError, match="is not a ledger"), SqliteStore(tmp_path / "notes.txt"):
        pass
    path = Path(shutil.copy(filled, tmp_path))
    with path.open("r+b") as file:
        file.write(b"garbage" * 10)
    with SqliteStore(path) as ledger:
        assert len(ledger.get(list(STORED))) == CALLS


def test_claims_lapse_by_their_lease_where_a_process_has_no_start_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As without /proc; an owner that cannot be read has ended."""
    monkeypatch.setattr(claims, "read_start_time", lambda _: "")
    with SqliteStore(tmp_path / "l.sqlite") as first, SqliteStore(tmp_path / "l.sqlite") as second:
        assert first.claim([b"a", b"b"]) == {b"a", b"b"}
        assert second.claim([b"a", b"b"]) == set()
        first.connection.execute("UPDATE claims SET expires = 0 WHERE key = ?", (b"a",))
        first.connection.execute("UPDATE claims SET owner = 'garbage' WHERE key = ?", (b"b",))
        assert second.claim([b"a", b"b"]) == {b"a", b"b"}


def test_a_ledger_with_further_tables_is_intact(tmp_path: Path, filled: Path) -> None:
    """Those of ANALYZE, and an index or a view of a user's own."""
    path = Path(shutil.copy(filled, tmp_path))
    for statement in (
        "ANALYZE",
        "CREATE INDEX mine ON calls (engine)",
        "CREATE VIEW totals AS SELECT COUNT(*) FROM calls",
    ):
        _corrupt(path, statement)
        assert is_intact(path)
    with SqliteStore(path) as ledger:
        assert len(ledger) == CALLS
    assert not list(tmp_path.glob("*.damaged-*"))


def test_a_recovery_keeps_what_was_set_aside(tmp_path: Path, filled: Path) -> None:
    """The count of damaged calls goes on."""
    path = Path(shutil.copy(filled, tmp_path))
    _corrupt(path, "UPDATE calls SET value = 'x' WHERE key = ?", ROWS[0][0])
    with SqliteStore(path) as ledger:
        ledger.get([ROWS[0][0]])
    with path.open("r+b") as file:
        file.write(b"garbage" * 5)
    with SqliteStore(path) as ledger:
        assert tools.count_set_aside_calls(ledger) == 1


def test_a_call_that_another_process_made_again_is_not_set_aside(
    tmp_path: Path, filled: Path
) -> None:
    """Between the reading of a damaged row and its removal."""
    path = Path(shutil.copy(filled, tmp_path))
    with SqliteStore(path) as ledger:
        ledger.set_aside([ROWS[0][0]])
        assert len(ledger) == CALLS


def test_a_file_that_cannot_be_opened_is_not_damaged(
    tmp_path: Path, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many open files, a disk that fails: the error is told, and nothing is recovered."""
    path = Path(shutil.copy(filled, tmp_path))
    error = sqlite3.OperationalError("unable to open database file")
    error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(recovery, "_connect", fail)
    with pytest.raises(LedgerError, match="cannot be opened"), SqliteStore(path):
        pass
    assert not list(tmp_path.glob("*.damaged-*"))


def test_several_processes_on_a_damaged_ledger_recover_it_once(
    tmp_path: Path, filled: Path
) -> None:
    """The others wait, and use the recovered file."""
    path = Path(shutil.copy(filled, tmp_path))
    with path.open("r+b") as file:
        file.write(b"garbage" * 10)
    code = (
        "import sys; from winnow.ledger.sqlite import SqliteStore\nwith SqliteStore(sys.argv[1]) "
        "as ledger: print(len(ledger))"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [process.communicate()[0].strip() for process in started] == [str(CALLS)] * 3
    assert (
        len(
            [
                file
                for file in tmp_path.glob("*.damaged-*")
                if file.name.rpartition("-")[2].isdigit()
            ]
        )
        == 1
    )


def test_a_key_of_another_type_is_damaged(tmp_path: Path, filled: Path) -> None:
    """It is named by its bytes, the file is rebuilt without its row, and the call is made again."""
    path = tmp_path / "l.sqlite"
    shutil.copy(filled, path)
    key = b"k" * 32
    _corrupt(path, "UPDATE calls SET key = CAST(? AS TEXT) WHERE key = ?", key, ROWS[0][0])
    with SqliteStore(path) as ledger:
        assert ledger.get([key, ROWS[0][0]]) == {}
        assert tools.find_damaged_calls(ledger) == [key]
    assert tools.repair_ledger(path) == 1
    with SqliteStore(path) as ledger:
        assert tools.find_damaged_calls(ledger) == []
        assert len(ledger.get(list(STORED))) == CALLS - 1
