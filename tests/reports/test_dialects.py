"""Answers on which two rules of a metric differ."""

from dataclasses import replace

from winnow.metrics.base import Sample
from winnow.metrics.correctness import F1, ExactMatch
from winnow.reports.cells import CellResult
from winnow.reports.dialects import MAX_ROWS, build_dialect_tables
from winnow.testing import make_cell_result, make_sample

METRICS = [ExactMatch("em", "EM"), ExactMatch("em_crag", "EM", dialect="crag"), F1("f1", "F1")]


def cell(answers: list[str], strategy: str = "s") -> CellResult:
    """A cell whose questions all accept "Paris" or "Lutetia"."""
    samples = [
        make_sample(answer, number, ("Paris", "Lutetia")) for number, answer in enumerate(answers)
    ]
    return replace(
        make_cell_result(strategy, 5, "retrieved", [1.0]), samples=samples, metrics=METRICS
    )


def test_only_differences_are_listed() -> None:
    """Containment accepts more, and case counts for it; metrics with one rule have no table."""
    (table,) = build_dialect_tables(
        [cell(["Paris", "in Paris", "rome", "lutetia"]), cell(["Paris"], "t")]
    )
    assert table.title == "Answers on which the rules of EM differ"
    assert table.columns[-2:] == ["EM", "EM (crag)"]
    assert [list(row) for row in table.rows] == [
        ["s", "5", "retrieved", "q1", "in Paris", "Paris; Lutetia", "0.0", "100.0"],
        ["s", "5", "retrieved", "q3", "lutetia", "Paris; Lutetia", "100.0", "0.0"],
    ]
    assert table.caption.startswith("2 of 5 answers")


def test_no_difference_is_no_table_and_many_are_cut() -> None:
    """The caption says how many there are, and long replies are shortened."""
    assert build_dialect_tables([cell(["Paris", "rome"])]) == []
    assert build_dialect_tables([replace(cell(["in Paris"]), metrics=METRICS[1:])]) == []
    (table,) = build_dialect_tables([cell(["Paris " + "x" * 200] * (MAX_ROWS + 7))])
    assert len(table.rows) == MAX_ROWS
    assert table.caption.startswith(
        f"The first {MAX_ROWS} of {MAX_ROWS + 7} of {MAX_ROWS + 7} answers"
    )
    assert table.rows[0][4].endswith("x…")


def test_a_rule_that_leaves_an_answer_undefined_does_not_differ() -> None:
    """Of three rules, two defined ones differ; the undefined one is shown as empty."""
    samples = [make_sample(answer, number, ("x",)) for number, answer in enumerate(("x", "in x"))]
    metrics = [
        ExactMatch("em", "EM"),
        ExactMatch("em_crag", "EM", dialect="crag"),
        _Undefined("em_none", "EM"),
    ]
    cell = replace(make_cell_result("s", 5, "retrieved", [1.0]), samples=samples, metrics=metrics)
    (table,) = build_dialect_tables([cell])
    assert [row[3:4] + row[6:] for row in table.rows] == [["q1", "0.0", "100.0", ""]]
    assert build_dialect_tables([replace(cell, metrics=[metrics[0], metrics[2]])]) == []


class _Undefined(ExactMatch):
    """A rule that has no value."""

    def score(self, sample: Sample) -> float | None:  # type: ignore[override]
        return None
