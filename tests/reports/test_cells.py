"""Cells: labels, rows and what a subset keeps."""

from dataclasses import replace

import numpy as np
import pytest

from winnow.metrics.base import RatioMetric, Sample
from winnow.metrics.comparisons import compare
from winnow.metrics.intervals import UNDEFINED
from winnow.metrics.judged import JudgedAccuracy
from winnow.reports.cells import (
    CellResult,
    can_compare,
    compare_cells,
    get_common_values,
    get_unit,
    have_equal_results,
)
from winnow.reports.tables import build_metrics_table
from winnow.testing import make_cell_result


def test_a_subset_keeps_labels_and_metrics() -> None:
    """Samples are selected together with their rows, judged ones and groups included."""
    cell = make_cell_result("s", 5, "g", [1.0, 0.0, 1.0])
    part = cell.select_questions({"q1"})
    assert (part.labels, len(part.samples)) == (cell.labels, 1)
    assert part.get_values("em") == {"q1": 0.0}
    assert cell.format_metric("em", 0).startswith("66.7")
    assert cell.format_metric("no such metric", 0) == UNDEFINED


def _reorder(cell: CellResult, order: list[int]) -> CellResult:
    """Return a cell with the same answers to the same questions in another order."""
    return replace(cell, samples=[cell.samples[index] for index in order])


def test_what_is_kept_of_samples_is_selected_with_them() -> None:
    """Every column, judged rows and groups; a selection can be selected from, and reads its samples
    from the whole.
    """
    whole = replace(
        make_cell_result("s", 5, "g", [1.0, 0.0, 1.0, 1.0]),
        judged={"judged": [{"judged": 1.0}, None, {"judged": 0.0}, {"judged": 0.5}]},
        groups=["a", "b", "a", "b"],
    )
    for index, sample in enumerate(whole.samples):
        object.__setattr__(sample.prediction, "trace", (f"t{index}",))
        object.__setattr__(sample.prediction, "truncated_passages", index)
    part = whole.select_group("b")
    assert part.columns.traces == (("t1",), ("t3",))
    assert part.columns.truncated == (1, 3)
    assert part.columns.question_ids == ("q1", "q3")
    assert part.columns.answers == ("unknown", "x")
    assert part.columns.provenances == ("distant", "distant")
    assert part.columns.rows["judged"].is_defined.tolist() == [False, True]
    assert part.columns.rows["judged"].columns["judged"].tolist() == [0.5]
    assert part.compute_values("tokens_in").tolist() == [101.0, 103.0]
    assert [sample.question.question_id for sample in part.samples] == ["q1", "q3"]
    assert (part.groups, part.num_questions) == (["b", "b"], 2)
    last = part.select_questions({"q3", "q9"})
    assert last.get_values("em") == {"q3": 1.0}
    assert [sample.question.question_id for sample in last.samples[:]] == ["q3"]
    assert last.samples[0] is whole.samples[3]
    assert whole.get_values("em") == {"q0": 1.0, "q1": 0.0, "q2": 1.0, "q3": 1.0}
    with pytest.raises(AssertionError, match="other samples"):
        replace(part, samples=whole.samples).compute_interval("em", 0)


def test_cells_are_paired_by_question_whatever_their_order() -> None:
    """Values, answers and tests are those of the same questions; a question of one cell alone does
    not count.
    """
    first = make_cell_result("a", 5, "g", [1.0, 1.0, 0.0, 0.0, 1.0])
    second = make_cell_result("b", 5, "g", [1.0, 0.0, 0.0, 1.0, 0.0])
    order = [3, 0, 4, 2, 1]
    shuffled = _reorder(second, order)
    assert compare_cells(first, shuffled, "em", 0) == compare_cells(first, second, "em", 0)
    assert have_equal_results(second, shuffled, "em")
    assert not have_equal_results(first, second, "em")
    assert not have_equal_results(first, shuffled, "em")
    assert not have_equal_results(second, second.select_questions({"q1"}), "em")
    values = get_common_values(first, shuffled.select_questions({"q1", "q4"}), "em", 0)
    assert values is not None
    assert [one.tolist() for one in values] == [[1.0, 1.0], [0.0, 0.0]]
    assert (
        get_common_values(first.select_questions({"q0"}), second.select_questions({"q1"}), "em", 0)
        is None
    )
    assert can_compare(first, shuffled)
    assert not can_compare(first.select_questions({"q0"}), second.select_questions({"q1"}))
    assert not can_compare(first.select_questions(()), first.select_questions(()))
    assert not can_compare(first, replace(second, labels=replace(second.labels, questions="other")))


class _WordsPerToken(RatioMetric):
    """A ratio that is undefined for every second question."""

    def compute_terms(self, sample: Sample) -> tuple[float, float]:
        number = int(sample.question.question_id[1:])
        return float(number), float(number % 2)


def test_questions_without_a_value_in_one_cell_are_left_out_of_both() -> None:
    """Whether the order of the questions is the same or not."""
    first = replace(make_cell_result("a", 5, "g", [1.0] * 6), metrics=[_WordsPerToken("r", "r")])
    second = _reorder(first, [5, 4, 3, 2, 1, 0])
    for other in (first, second):
        values = get_common_values(first, other, "r", 0)
        assert values is not None
        assert [one.tolist() for one in values] == [[1.0, 3.0, 5.0]] * 2
    assert str(first.compute_values("r").tolist()) == "[nan, 1.0, nan, 3.0, nan, 5.0]"
    assert first.get_values("r") == {"q1": 1.0, "q3": 3.0, "q5": 5.0}


def test_a_value_that_is_undefined_in_one_cell_alone_leaves_the_question_out() -> None:
    """In cells with the same order of questions, and where nothing is left."""
    first, second = (
        replace(
            make_cell_result("a", 5, "g", [1.0] * 3),
            metrics=[JudgedAccuracy("j", "j", template="{question} {answers} {answer}")],
            judged={"j": rows},
        )
        for rows in ([{"j": 1.0}, None, {"j": 0.0}], [None, {"j": 1.0}, {"j": 1.0}])
    )
    values = get_common_values(first, second, "j", 0)
    assert values is not None
    assert [one.tolist() for one in values] == [[0.0], [1.0]]
    only = replace(second, judged={"j": [None, {"j": 1.0}, None]})
    assert get_common_values(first, only, "j", 0) is None
    assert compare_cells(first, only, "j", 0) is None


def test_equal_answers_are_no_equal_results() -> None:
    """Values of the metric count too, undefined ones as equal."""
    first, second = (
        replace(make_cell_result("a", 5, "g", [1.0, 0.0]), judged={"x": rows}) for rows in ([], [])
    )
    assert have_equal_results(first, second, "em")
    assert have_equal_results(first, second, "nm")
    cost = make_cell_result("a", 10, "g", [1.0, 0.0])
    samples = [replace(one, prediction=replace(one.prediction, usage=())) for one in cost.samples]
    assert have_equal_results(first, replace(cost, samples=samples), "em")
    assert not have_equal_results(first, replace(cost, samples=samples), "tokens_in")


def test_equal_answers_in_another_order_need_equal_values_too() -> None:
    """Undefined values are equal to each other."""
    cost = make_cell_result("a", 10, "g", [1.0, 0.0, 1.0])
    samples = [replace(one, prediction=replace(one.prediction, usage=())) for one in cost.samples]
    shuffled = replace(cost, samples=samples[::-1])
    assert have_equal_results(cost, shuffled, "em")
    assert not have_equal_results(cost, shuffled, "tokens_in")
    assert np.isnan(cost.compute_values("nm_pool")).any()
    assert have_equal_results(cost, replace(cost, samples=samples), "nm_pool")


def test_cells_of_as_many_other_questions_say_so() -> None:
    """The number alone does not tell."""
    first = make_cell_result("a", 5, "g", [1.0, 0.0, 1.0])
    table = build_metrics_table(
        "t", "c.", [first.select_questions({"q0", "q1"}), first.select_questions({"q1", "q2"})], 0
    )
    assert (
        "The rows are over different questions. Tables of differences pair the questions that two "
        "cells share." in table.caption
    )
    assert [row[table.columns.index("questions")] for row in table.rows] == ["2", "2"]
    other = replace(first, labels=replace(first.labels, questions="another limit"))
    table = build_metrics_table("t", "c.", [first.select_questions({"q0"}), other], 0)
    assert table.caption.endswith("share if these are selected alike.")
    assert build_metrics_table("t", "c.", [first, first], 0).caption == "c."


@pytest.mark.parametrize(
    ("unit", "digits", "text"),
    [("percent", 0, "+0.6 [+0.6, +0.6]"), ("number", 0, "+0.0"), ("number", 3, "+0.006 [+0.006")],
)
def test_a_difference_is_printed_in_the_digits_of_its_metric(
    unit: str, digits: int, text: str
) -> None:
    """With a decimal at least; dollars would be 0.0 otherwise."""
    metric = replace(
        make_cell_result("a", 1, "none", [1, 0]).metrics[0],
        unit=unit,  # type: ignore[arg-type]
        digits=digits,
    )
    comparison = replace(compare([1.0, 0.0], [0.0, 0.0]), difference=0.006, low=0.006, high=0.006)
    assert comparison.format_difference(get_unit(metric)).startswith(text)
