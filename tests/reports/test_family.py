"""The family of tests: each pair of different results is one test, and all p-values of a page are
corrected together.
"""

from dataclasses import replace

from tests.reports.test_best import CELLS
from winnow.metrics.comparisons import adjust_p_values
from winnow.reports.best import find_best
from winnow.reports.comparisons import compare_by_factor
from winnow.reports.family import Family
from winnow.testing import make_cell_result


def test_the_family_has_pairs_of_different_results_alone() -> None:
    """A twin adds no test, and neither do cells of other questions, whose answers may
    be the same.
    """
    assert Family(CELLS, 0).num_tests == 6
    twin = replace(CELLS[0], labels=replace(CELLS[0].labels, strategy="twin"))
    doubled = Family([*CELLS, twin], 0)
    assert (doubled.num_tests, doubled.first_equal) == (6, [0, 1, 2, 3, 0])
    other = replace(CELLS[0], labels=replace(CELLS[0].labels, questions="others"))
    mixed = Family([*CELLS, other], 0)
    assert (mixed.num_tests, mixed.first_equal, mixed.compare(0, 4)) == (6, [0, 1, 2, 3, 4], None)
    assert not mixed.are_equal(0, 4)
    num_questions = CELLS[0].num_questions
    assert (Family(CELLS, 0).num_questions, mixed.num_questions) == (
        num_questions,
        2 * num_questions,
    )


def test_a_pair_has_one_p_value_wherever_it_is_shown() -> None:
    """By hand: six exact tests, corrected together; the twin has its cell's, and a turned pair the
    turned difference.
    """
    twin = replace(CELLS[0], labels=replace(CELLS[0].labels, strategy="twin"))
    family = Family([*CELLS, twin], 0)
    raw = {
        (0, 1): 2 / 2**9,
        (0, 2): 2 / 2**8,
        (0, 3): 2 / 2**3,
        (1, 2): 1.0,
        (1, 3): 2 / 2**12,
        (2, 3): 2 / 2**11,
    }
    expected = dict(zip(raw, adjust_p_values(list(raw.values())), strict=True))
    for (first, second), p_value in expected.items():
        compared, turned = family.compare(first, second), family.compare(second, first)
        assert compared is not None
        assert turned is not None
        assert abs(compared[1] - p_value) < 1e-12
        assert (turned[1], turned[0].difference) == (compared[1], -compared[0].difference)
    assert family.compare(4, 1) == family.compare(0, 1)
    assert family.compare(4, 0) is None, "the same answers are no test"
    shown = {
        pair.indices: pair.adjusted_p_value
        for one in compare_by_factor(family)
        for pair in one.pairs
    }
    best = find_best(family)
    assert best is not None
    assert {other.index: other.adjusted_p_value for other in best.comparisons}[0] == shown[1, 0]
    family.compare_all()
    assert {tuple(sorted(pair)) for pair in family.compared} == set(raw)


def test_a_metric_that_one_cell_lacks_makes_no_test() -> None:
    """Nor an error."""
    family = Family([CELLS[0], make_cell_result("e", 5, "g", [])], 0)
    assert (family.num_tests, family.compare(0, 1)) == (0, None)
