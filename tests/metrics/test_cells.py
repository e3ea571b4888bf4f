"""The measures of a cell."""

import pytest

from winnow.metrics.cells import by_name, measure, prediction, priced
from winnow.placement import Placement
from winnow.records import Answer, Outcome, Price, Usage
from winnow.testing import context, question


def _row(answer: Answer) -> dict[str, object]:
    asked = question()
    placed = Placement().place(asked, [context(1, "x", is_gold=True)], 1)
    made = prediction(asked, placed, Outcome("tag", answer, Usage(10, 2), 3, 1))
    return {name: getattr(made, name) for name in made.__slots__}


def test_not_majority_needs_the_right_answer_in_the_pool_and_a_wrong_one_chosen() -> None:
    """NM is true only if the pool holds the answer and the vote misses it."""
    assert _row(Answer("Emma Woodhouse", False, ("Jane Austen", "Emma Woodhouse")))["not_majority"] is True
    assert _row(Answer("Jane Austen", False, ("Jane Austen",)))["not_majority"] is False
    assert _row(Answer("unknown", True, ()))["not_majority"] is False


def test_wrong_majorities_of_pools_that_hold_the_answer() -> None:
    """Over all questions one in three, over pools with a right answer one in two; over no such pool there is no number."""
    rows = [
        _row(Answer("Emma", False, ("Jane Austen", "Emma"))),
        _row(Answer("Jane Austen", False, ("Jane Austen",))),
        _row(Answer("unknown", True, ())),
    ]
    found = measure(rows)
    assert found["nm"].mean == pytest.approx(1 / 3)
    assert (found["nm_pool"].mean, found["nm_pool"].n) == (0.5, 2)
    assert by_name("nm_pool").show(measure(rows[2:])["nm_pool"]) == "-"


def test_money_and_tokens_together() -> None:
    """Ten tokens in at 2 dollars and two out at 5 dollars a million are 0.03 dollars a thousand questions."""
    rows = priced([_row(Answer("x", False))], Price(2.0, 5.0))
    assert measure(rows)["money"].mean == pytest.approx(0.03)
    assert by_name("tokens").estimate(rows).mean == 12.0
    assert measure([_row(Answer("x", False))])["money"].n == 0


def test_measures_over_rows() -> None:
    """One right and one unknown answer: EM 0.5, %Unk 0.5; what was spent is carried along."""
    rows = [_row(Answer("Jane Austen", False)), _row(Answer("unknown", True))]
    found = measure(rows)
    assert (found["em"].mean, found["unk"].mean, found["tokens_in"].mean, found["calls"].mean) == (0.5, 0.5, 10.0, 3.0)
    assert rows[0]["truncated_passages"] == 1
    assert rows[0]["gold_position"] == 1
