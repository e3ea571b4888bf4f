"""A judge and people: answers are written to be labeled, and labels correct the rate."""

import json
from pathlib import Path

import pytest
from conftest import Run


@pytest.mark.slow
def test_labels_are_asked_for_and_used(prepared: Run, tmp_path: Path) -> None:
    """The first run writes the answers, which no later run overwrites; labels that contradict every
    verdict turn the rate.
    """
    words = ("k=1", "metric=[em]")
    prepared("sweep", *words)
    asked = prepared("calibrate_judge", *words, "calibrate_judge.sample=6").stdout
    file = tmp_path / "reports/towns/labels.jsonl"
    assert f"Set `label` in {file.relative_to(tmp_path)} to true or false" in asked
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(rows) == len({row["question_id"] for row in rows}) == 6
    waiting = prepared("calibrate_judge", *words, check=False).stderr
    assert "has no label: 6 answers wait for one" in waiting
    file.write_text(
        "".join(
            json.dumps({**row, "label": row["answer"] not in row["accepted"]}) + "\n"
            for row in rows[:5]
        )
    )
    printed = prepared("calibrate_judge", *words).stdout
    assert "EM and 5 labels of people, 95 % intervals" in printed
    (cell,) = json.loads((tmp_path / "reports/towns/calibration.json").read_text())["rows"]
    assert (cell["labels"], cell["no verdict"], cell["judge"]["mean"]) == (5, 0, 0.0)
    assert cell["corrected"]["mean"] == 1.0
    assert cell["corrected"]["low"] > cell["judge"]["high"]
    assert cell["precision"] is None, "the judge calls no answer right"
    assert cell["agreement"]["mean"] == 0.0
    other = {**rows[5], "answer": "an answer of another cell", "label": True}
    file.write_text(file.read_text() + json.dumps(other))
    more = file.parent / "labels_more.jsonl"
    printed = prepared("calibrate_judge", *words).stdout
    assert f"Label them in {more.relative_to(tmp_path)}" in printed
    assert [json.loads(line) for line in more.read_text().splitlines()] == [rows[5]]
    labeled = json.dumps({**rows[5], "label": "true"})
    more.write_text(labeled)
    for _ in range(2):
        assert "EM and 7 labels of people" in prepared("calibrate_judge", *words).stdout
        assert more.read_text() == labeled
    missing = prepared(
        "calibrate_judge", *words, "calibrate_judge.labels=none.jsonl", check=False
    ).stderr
    assert "there is no file none.jsonl" in missing
