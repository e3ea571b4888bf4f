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
    grown, words = words, (*words, "calibrate_judge.sample=6")
    asked = prepared("calibrate_judge", *words).stdout
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
    more = file.parent / "labels_more.jsonl"
    assert f"1 answers to label were added to {more.relative_to(tmp_path)}" in printed
    other = {**rows[5], "answer": "an answer of another cell", "label": True}
    file.write_text(file.read_text() + json.dumps(other))
    printed = prepared("calibrate_judge", *words).stdout
    assert "1 answers have no label" in printed
    assert [json.loads(line) for line in more.read_text().splitlines()] == [rows[5]]
    labeled = json.dumps({**rows[5], "label": "true"})
    more.write_text(labeled)
    for _ in range(2):
        assert "EM and 7 labels of people" in prepared("calibrate_judge", *words).stdout
        assert more.read_text() == labeled
    printed = prepared("calibrate_judge", *grown).stdout
    assert "4 answers to label were added" in printed
    assert len(more.read_text().splitlines()) == 5
    missing = prepared(
        "calibrate_judge", *words, "calibrate_judge.labels=none.jsonl", check=False
    ).stderr
    assert "there is no file none.jsonl" in missing
    changed = {**rows[0], "question": "Another question?", "label": True}
    file.write_text(json.dumps(changed))
    refused = prepared("calibrate_judge", *words, check=False).stderr
    assert "The labels are of other questions: question of " in refused
    assert "Another question?" in refused
