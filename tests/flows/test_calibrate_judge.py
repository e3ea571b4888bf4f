"""A judge and people: answers are written to be labeled, and labels correct the rate."""

import json
from pathlib import Path

import pytest
from conftest import Run

from flows import calibrate_judge as module
from flows.settings.door import compose
from winnow.errors import ConfigError
from winnow.reports.calibration import sample_answers
from winnow.testing import make_cell_result


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


def test_labels_of_other_questions_are_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the command's other steps, which the slow test runs."""
    cells = [make_cell_result("a", 1, "retrieved", [1, 0, 1, 0])]
    for name, value in (("resolve_cells", []), ("require_finished", None), ("read_results", cells)):
        monkeypatch.setattr(module, name, lambda *_, value=value, **__: value)
    monkeypatch.setattr(module, "open_report_folder", lambda _: tmp_path)
    row = {**sample_answers(cells, 1, 13)[0], "label": True, "question": "Another?"}
    (tmp_path / "labels.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(ConfigError, match="labels are of other questions"):
        module.calibrate_judge([compose(["metric=[em]"])])
    assert [file.name for file in tmp_path.iterdir()] == ["labels.jsonl"]


@pytest.mark.parametrize(("is_named", "num_added"), [(True, 0), (False, 3)])
def test_a_named_file_asks_for_no_other_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_named: bool, num_added: int
) -> None:
    """It has a sample of its own; the file of the command grows to the sample of the settings."""
    cells = [make_cell_result("a", 1, "retrieved", [1, 0, 1, 0])]
    for name, value in (("resolve_cells", []), ("require_finished", None), ("read_results", cells)):
        monkeypatch.setattr(module, name, lambda *_, value=value, **__: value)
    out = tmp_path / "report"
    out.mkdir()
    monkeypatch.setattr(module, "open_report_folder", lambda _: out)
    file = tmp_path / "own.jsonl" if is_named else out / "labels.jsonl"
    row = {**sample_answers(cells, 1, 13)[0], "label": True}
    file.write_text(json.dumps(row) + "\n")
    words = ["calibrate_judge.sample=4", "calibrate_judge.seed=13", "metric=[em]"]
    words += [f"calibrate_judge.labels={file}"] if is_named else []
    module.calibrate_judge([compose(words)])
    more = out / "labels_more.jsonl"
    assert (len(more.read_text().splitlines()) if more.is_file() else 0) == num_added
