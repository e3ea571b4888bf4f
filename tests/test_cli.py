"""`winnow ledger` from the command line."""

from pathlib import Path

import pytest

from tests.ledger.filled import filled
from winnow.cli import main
from winnow.ledger.sqlite import SqliteStore
from winnow.records import Decoding
from winnow.requests import Failed, Generate, Generation, Score

ROOT = Path(__file__).resolve().parents[1]


def test_every_tool_is_reached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Size, export, import, merge, check and prune, in the order in which one might use them."""
    one, two, lines = (str(tmp_path / name) for name in ("one.sqlite", "two.sqlite", "calls.jsonl"))
    with SqliteStore(one) as ledger:
        ledger.put("m", [(b"k", Generate((), Decoding()), Generation("x"), 0.0)])
    main(["ledger", "size", one])
    main(["ledger", "export", one, lines])
    main(["ledger", "import", two, lines])
    main(["ledger", "merge", one, two])
    main(["ledger", "check", one])
    main(["ledger", "prune", one, "--engine", "m", "--before", "2999-01-01"])
    output = capsys.readouterr().out.splitlines()
    assert output[0].startswith("m  Generate: 1 calls")
    assert output[2:] == [
        f"1 calls written to {lines}",
        "1 calls added",
        "0 calls added",
        f"{one} is intact: 1 calls",
        "1 calls deleted",
    ]


def test_a_missing_ledger_is_named(tmp_path: Path) -> None:
    """No file is made by asking for its size."""
    with pytest.raises(SystemExit, match="There is no ledger at"):
        main(["ledger", "size", str(tmp_path / "none.sqlite")])
    assert not list(tmp_path.iterdir())


def test_replies_without_text_are_pruned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of white space too; other results stay."""
    path = str(tmp_path / "l.sqlite")
    results = {
        b"a": Generation("x"),
        b"b": Generation(""),
        b"c": Generation(" \n"),
        b"d": Generation("0"),
        b"e": Score(1.0),
    }
    with SqliteStore(path) as ledger:
        ledger.put(
            "m", [(key, Generate((), Decoding()), result, 0.0) for key, result in results.items()]
        )
    main(["ledger", "prune", path, "--empty"])
    assert capsys.readouterr().out.strip() == "2 calls deleted"
    with SqliteStore(path) as ledger:
        assert set(ledger.get(list(results))) == {b"a", b"d", b"e"}


def test_pruning_reaches_the_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sweep merges their ledgers again, which would bring back what is deleted here alone."""
    paths = [tmp_path / "l.sqlite", tmp_path / "shards/ledger-1-of-2.sqlite"]
    paths[1].parent.mkdir()
    for path in paths:
        with SqliteStore(path) as ledger:
            rows = [(b"a", Failed("refused")), (b"b", Generation("x"))]
            ledger.put("m", [(key, Generate((), Decoding()), one, 0.0) for key, one in rows])
    main(["ledger", "prune", str(paths[0]), "--failed"])
    assert "1 calls deleted. A sweep merges" in capsys.readouterr().out
    main(["ledger", "prune", str(paths[0]), "--failed", "--shards"])
    assert capsys.readouterr().out.strip() == f"0 calls deleted, 1 in {paths[1]}"
    for path in paths:
        with SqliteStore(path) as ledger:
            assert set(ledger.get([b"a", b"b"])) == {b"b"}


def test_gc_runs_in_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Elsewhere it says where to run it."""
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit) as end:
        main(["gc", "--help"])
    assert end.value.code == 0
    assert "--remove" in capfd.readouterr().out
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["gc"])
    assert end.value.code == 1
    assert "run it in the folder that contains flows/" in capfd.readouterr().err


def test_a_ledger_may_be_named_by_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in paths.ledger; a database is refused where only files are meant."""
    monkeypatch.chdir(tmp_path)
    filled(tmp_path / "l.sqlite", "m", "abc")
    main(["ledger", "size", "sqlite:///l.sqlite"])
    assert "3 calls in all" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="is for files of SQLite"):
        main(["ledger", "size", "postgresql://me@host/db"])
