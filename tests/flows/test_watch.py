"""Watching a sweep: what the ledger and finished cells say of one that is not finished."""

import re
from pathlib import Path

import pytest
from conftest import Run

WORDS = ("grid={strategy:[concatenation,post_fusion],k:[1,2]}", "metric=[em,tokens]")


@pytest.mark.slow
def test_a_part_is_counted_and_measured_as_the_sweep_would(prepared: Run, tmp_path: Path) -> None:
    """Four of ten questions have calls in the ledger: of each cell, of no other; then all are
    finished.
    """
    before = prepared("watch", *WORDS, "watch.every=null").stdout
    assert "0 of 40 questions answered in all cells; none since this command began." in before
    part = _read_rows(prepared("sweep", *WORDS, "sweep.limit=4").stdout)
    text = prepared("watch", *WORDS, "watch.every=null").stdout
    assert "16 of 40 questions answered in all cells" in text
    numbers = re.search(
        r"They request (\d+) calls: (\d+) made, (\d+) % shared; [\d,]+ tokens\.", text
    )
    assert numbers
    assert int(numbers[1]) == 4 * (1 + 1 + 1 + 2), (
        "one prompt of concatenation, one for each passage of Post-Fusion"
    )
    assert int(numbers[2]) == 4 * (1 + 1 + 1), (
        "that of the first passage is the same for both, and for both k"
    )
    assert int(numbers[3]) == 40
    assert "They request" not in before
    rows = _read_rows(text)
    assert [row[3] for row in rows] == ["4 of 10"] * 4
    assert [row[4] for row in rows] == [row[4] for row in part] == ["0.0 [0.0, 49.0]"] * 4, (
        "EM of four questions"
    )
    whole = _read_rows(prepared("sweep", *WORDS).stdout)
    finished = prepared("watch", *WORDS, "watch.every=0.1").stdout
    assert "40 of 40 questions answered in all cells." in finished, "it ends by itself"
    assert "They request 50 calls: 30 made, 40 % shared" in finished
    (tmp_path / "data/ledger.sqlite").unlink()
    moved = prepared("watch", *WORDS, "watch.every=null").stdout
    assert "This ledger lacks calls of finished cells" in moved
    assert [row[4] for row in _read_rows(moved)] == [row[4] for row in whole]
    assert [row[4] for row in _read_rows(finished)] == [row[4] for row in whole]
    refused = prepared(
        "watch", *WORDS[:1], "metric=[tokens]", "watch.every=null", check=False
    ).stderr
    assert (
        "flows.watch needs a metric of answers alone, such as em; received metric=[tokens]."
        in refused
    )


def _read_rows(text: str) -> list[list[str]]:
    """The rows of a table, without the star of the best one."""
    return [
        [part.strip(" *") for part in line.strip("│").split("│")]
        for line in text.splitlines()
        if re.match("│", line)
    ]
