"""Labels of people: what is written to be labeled, what a file may hold, and the comparison of
cells with it.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from winnow.errors import ConfigError
from winnow.metrics.agreement import compute_agreement, correct_rate
from winnow.metrics.intervals import Interval
from winnow.reports.calibration import (
    Labels,
    build_calibration_rows,
    check_questions,
    describe_labels,
    draw_questions,
    list_missing,
    read_labels,
    sample_answers,
)
from winnow.testing import make_cell_result

CELLS = [
    make_cell_result("a", 1, "retrieved", [1, 1, 0, 0, 1, 0, 1, 0]),
    make_cell_result("b", 1, "retrieved", [1, 0, 0, 0, 1, 1, 1, 0]),
]
"""The answer is "x" where it is right and "unknown" where it is wrong; they differ in q1 and q5."""


def test_distinct_answers_to_a_random_sample_are_labeled_once() -> None:
    """Two cells with the same answer ask for one label; the seed chooses and orders the
    questions.
    """
    rows = sample_answers(CELLS, 8, 0)
    assert len(rows) == 8 + 2
    assert {row["question_id"] for row in rows} == {f"q{n}" for n in range(8)}
    assert {row["answer"] for row in rows if row["question_id"] == "q1"} == {"x", "unknown"}
    assert all(row["label"] is None and row["question"] and row["accepted"] for row in rows)
    few = sample_answers(CELLS, 3, 0)
    assert few == rows[: len(few)], "a larger sample contains the smaller one"
    assert len({row["question_id"] for row in few}) == 3
    assert few == sample_answers(CELLS, 3, 0)
    assert (
        len(
            {
                tuple(row["question_id"] for row in sample_answers(CELLS[:1], 3, seed))
                for seed in range(9)
            }
        )
        > 1
    )
    assert len(sample_answers(CELLS, 99, 0)) == 10, "all there are"


def _write(path: Path, *rows: object) -> Path:
    path.write_text(
        "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows),
        encoding="utf-8",
    )
    return path


def _row(label: object, number: int = 0, answer: str = "x") -> dict[str, object]:
    return {"question_id": f"q{number}", "answer": answer, "label": label}


def test_labels_are_read_as_people_write_them(tmp_path: Path) -> None:
    """Words and numbers; null is no label, and an equal label twice is one."""
    rows = [_row(True), _row(1), _row("No", 1), _row(0.0, 2), _row("right", 3), _row(None, 4), ""]
    odd = json.dumps(_row(True, 5, "a\u2028b"), ensure_ascii=False)
    labels = read_labels([_write(tmp_path / "l.jsonl", *rows, odd)])
    assert labels.values == {
        ("q0", "x"): 1.0,
        ("q1", "x"): 0.0,
        ("q2", "x"): 0.0,
        ("q3", "x"): 1.0,
        ("q5", "a\u2028b"): 1.0,
    }
    assert len(labels.open_keys) == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([_row("maybe")], "line 1: label 'maybe' is none of true, false"),
        ([_row(0.5)], r"line 1: label 0\.5 is none of"),
        ([_row([1])], r"line 1: label \[1\] is none of"),
        (
            [_row(True), _row(False)],
            "line 2: the answer 'x' to 'q0' has another label in a line above",
        ),
        (
            [_row(True), "{"],
            "line 2: expected an object with question_id, answer and label; received {",
        ),
        ([{"question_id": "q0", "label": 1}], "line 1: expected an object"),
        (["[1]"], "line 1: expected an object"),
        ([_row(None), _row(None, 1)], "has no label: 2 answers wait for one"),
        ([], "has no label: 0 answers wait for one"),
    ],
)
def test_other_lines_are_refused_by_number(
    tmp_path: Path, rows: list[object], message: str
) -> None:
    """Nothing is guessed and nothing is left out."""
    with pytest.raises(ConfigError, match=message):
        read_labels([_write(tmp_path / "l.jsonl", *rows)])


def test_cells_are_compared_by_question_and_answer() -> None:
    """A label counts for each cell that gave its answer, and for no other answer to the
    question.
    """
    labels = Labels(
        {
            ("q0", "x"): 1.0,
            ("q1", "x"): 0.0,
            ("q2", "unknown"): 0.0,
            ("q3", "unknown"): 1.0,
            ("q9", "x"): 1.0,
        },
        {("q5", "x"), ("q6", "x")},
    )
    first, second = build_calibration_rows(CELLS, labels, 0)
    assert (first["labels"], second["labels"]) == (4, 3)
    partial = second["corrected"]
    assert isinstance(partial, Interval)
    assert partial.n == 0, (
        "its answer to q1 has no label, so that the labeled ones are no random sample"
    )
    (missing,) = list_missing(CELLS, labels)
    assert (missing["question_id"], missing["answer"], missing["label"]) == ("q1", "unknown", None)
    human = np.array([1, 0, 0, 1, np.nan, np.nan, np.nan, np.nan])
    verdicts = np.array([1, 1, 0, 0, 1, 0, 1, 0], dtype=float)
    assert first["corrected"] == correct_rate(verdicts, human, 0)
    assert first["kappa"] == compute_agreement(verdicts, human, 0).kappa
    corrected, judge = first["corrected"], first["judge"]
    assert isinstance(corrected, Interval)
    assert isinstance(judge, Interval)
    assert (judge.mean, corrected.mean) == (0.5, 0.5)
    notes = [
        note
        for note in describe_labels(CELLS, labels, len(list_missing(CELLS, labels)), 0)
        if "of the random sample" not in note
    ]
    assert "1 of 5 labels are of answers that no cell gave, such as 'x' to q9." in notes[0]
    assert "2 answers in the file have no label yet" in notes[1]
    assert "1 answers have no label, although other answers to their questions have one" in notes[2]
    lopsided = Labels({("q0", "x"): 1.0}, set())
    assert any(
        "no label of answers with the verdict wrong; 50 %" in note
        for note in describe_labels(CELLS[:1], lopsided, 0, 0)
    )
    other = replace(CELLS[1], labels=replace(CELLS[1].labels, questions="another selection"))
    for compare in (
        lambda: build_calibration_rows([CELLS[0], other], labels, 0),
        lambda: sample_answers([CELLS[0], other], 3, 0),
    ):
        with pytest.raises(ConfigError, match="different selections of questions"):
            compare()
    none, _ = build_calibration_rows(CELLS, Labels({("q9", "x"): 1.0}, set()), 0)
    undefined = [value for value in none.values() if isinstance(value, Interval)]
    assert [value.n for value in undefined] == [8, 0, 0, 0, 0, 0, 0], "only the judge's own rate"


def test_every_column_is_that_of_its_name() -> None:
    """By hand: three verdicts "right", of which people share one, and one "wrong" with which they
    agree.
    """
    labels = Labels(
        {("q0", "x"): 1.0, ("q1", "x"): 0.0, ("q2", "unknown"): 0.0, ("q4", "x"): 0.0},
        {("q5", "x")},
    )
    (row,) = build_calibration_rows(CELLS[:1], labels, 0)
    alone, means = row["people, labels alone"], []
    assert isinstance(alone, Interval)
    assert (alone.mean, alone.n, row["no verdict"]) == (0.25, 4, 0)
    for name in ("agreement", "precision", "recall"):
        value = row[name]
        assert isinstance(value, Interval)
        means.append(value.mean)
    assert means == pytest.approx([1 / 2, 1 / 3, 1])
    notes = describe_labels(CELLS[:1], labels, 0, 0)
    assert any("1 answers in the file have no label yet" in note for note in notes)
    foreign = describe_labels(CELLS, Labels({(f"z{n}", "x"): 1.0 for n in range(5)}, set()), 0, 0)[
        0
    ]
    assert foreign.count(" to z") == 3, "three are named"


@pytest.mark.parametrize(
    ("label", "value"),
    [("true", 1.0), ("False", 0.0), ("1", 1.0), ("0", 0.0), ("yes", 1.0), ("no", 0.0),
     ("right", 1.0), ("wrong", 0.0)],
)  # fmt: skip
def test_labels_may_be_words(tmp_path: Path, label: str, value: float) -> None:
    """As a spreadsheet writes them."""
    assert read_labels([_write(tmp_path / "l.jsonl", _row(label))]).values == {("q0", "x"): value}


def test_an_answer_with_a_label_in_another_file_is_not_open(tmp_path: Path) -> None:
    """It waits for no label."""
    files = [
        _write(tmp_path / "l.jsonl", _row(None), _row(None, 1)),
        _write(tmp_path / "more.jsonl", _row("true")),
    ]
    for paths in (files, files[::-1]):
        labels = read_labels(paths)
        assert (labels.values, labels.open_keys) == ({("q0", "x"): 1.0}, {("q1", "x")})


def test_labels_of_other_questions_are_refused(tmp_path: Path) -> None:
    """Ids may be numbers of lines, which another file has as well; a file may lack the texts."""
    rows = [{**row, "label": True} for row in sample_answers(CELLS, 2, 0)]
    labels = read_labels([_write(tmp_path / "a.jsonl", *rows, _row(True, 5), _row(True, 99))])
    check_questions(CELLS, labels)
    for name, value in (("question", "Another?"), ("accepted", ["zzz"])):
        changed = read_labels([_write(tmp_path / "b.jsonl", {**rows[0], name: value})])
        with pytest.raises(ConfigError, match=f"{name} of '{rows[0]['question_id']}' is "):
            check_questions(CELLS, changed)


def test_labels_of_another_selection_are_no_random_sample() -> None:
    """The labeled questions are named that the settings do not draw."""
    drawn = draw_questions(CELLS, 0)
    labels = Labels({(drawn[0], "x"): 1.0, (drawn[1], "unknown"): 1.0, (drawn[7], "x"): 1.0}, set())
    notes = [one for one in describe_labels(CELLS, labels, 0, 0) if "random sample" in one]
    assert notes[0].startswith(f"1 of 3 labeled questions, such as {drawn[7]}, are not of the")
    labels = Labels({key: 1.0 for key in labels.values if key[0] != drawn[7]}, set())
    assert not any("random sample" in one for one in describe_labels(CELLS, labels, 0, 0))


def test_the_sample_does_not_depend_on_the_order_of_the_questions() -> None:
    """Shards and splits may order them otherwise, and labels are of the same sample."""
    reverse = [replace(cell, samples=cell.samples[::-1]) for cell in CELLS]
    own, other = (
        {row["question_id"] for row in sample_answers(cells, 3, 0)} for cells in (CELLS, reverse)
    )
    assert own == other


def test_labels_of_a_question_that_no_cell_has_do_not_hide_others(tmp_path: Path) -> None:
    """The files may begin with one."""
    row = {**sample_answers(CELLS, 1, 0)[0], "label": True, "question": "Another?"}
    labels = read_labels([_write(tmp_path / "a.jsonl", _row(True, 99), row)])
    with pytest.raises(ConfigError, match="labels are of other questions"):
        check_questions(CELLS, labels)
