"""Tables on the terminal, and progress where there is none."""

import pytest

from flows.tools.summary import Summary, progress


def test_rows_of_a_group_stand_together(capsys: pytest.CaptureFixture[str]) -> None:
    """A line divides them from those of the next, and there is none without a group, or with a row
    in each.
    """
    rows = [{"strategy": name, "k": str(k)} for name, k in (("a", 1), ("a", 5), ("b", 1))]
    for group, shown, num_lines in (
        ("strategy", rows, 1),
        ("", rows, 0),
        ("strategy", rows[1:], 0),
    ):
        Summary("Title", shown, group=group).show()
        lines = capsys.readouterr().out.splitlines()
        assert sum(line.startswith("├") for line in lines) == num_lines
        assert sum(line.startswith("│") for line in lines) == len(shown)


def test_a_table_that_is_too_wide_is_turned_if_it_fits_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Intervals are not broken; a table of many rows keeps its form."""
    interval = "13.3 [9.9, 17.6]"
    row = {"split": "test", **{f"@{k}": interval for k in range(10)}}
    Summary("Title", [row, {**row, "split": "dev"}]).show()
    lines = capsys.readouterr().out.splitlines()
    assert sum(interval in line for line in lines) == 10
    assert [line.split()[1] for line in lines if line.startswith("│")] == [
        f"@{k}" for k in range(10)
    ]
    Summary("Title", [row] * 10).show()
    parts = [
        line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("│")
    ]
    assert parts == [f"@{k}" for k in range(10)] * 2
    Summary("Title", [row] * 20).show()
    assert sum("test" in line for line in capsys.readouterr().out.splitlines()) == 20


def test_rows_may_lack_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """Of rankings of other depths; each value stands under its own name."""
    Summary("Title", [{"a": 1, "b": 2, "c": 3}, {"a": 4, "c": 6}]).show()
    lines = [line.replace(" ", "") for line in capsys.readouterr().out.splitlines()]
    assert "│1│2│3│" in lines
    assert "│4││6│" in lines


def test_what_several_jobs_share_is_shown_once() -> None:
    """In the order of the first of equal rows."""
    row = {"questions": "a", "split": "test"}
    assert Summary("Title", [row, {**row, "split": "dev"}, dict(row)]).drop_repeated().rows == [
        row,
        {**row, "split": "dev"},
    ]


def test_progress_is_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a log, every half minute: what is done, of how much, after what time, and about how long
    the rest takes.
    """
    now = [100.0]
    monkeypatch.setattr("flows.tools.summary.time.monotonic", lambda: now[0])
    with progress("scoring", 200) as advance:
        for _ in range(8):
            now[0] += 10
            advance(2, "3 of them from the ledger")
    with progress("reading", None) as advance:
        now[0] += 31
        advance()
    assert capsys.readouterr().err.splitlines() == [
        "scoring: 6 of 200 after 30 s, 3 of them from the ledger, about 16 minutes left",
        "scoring: 12 of 200 after 60 s, 3 of them from the ledger, about 16 minutes left",
        "reading: 1 after 31 s",
    ]
