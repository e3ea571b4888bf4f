"""The best cell against the others."""

from dataclasses import dataclass, replace

import numpy as np

from winnow.metrics.base import MeanMetric, Sample
from winnow.metrics.majority import NotMajorityOfPools
from winnow.reports.best import build_best_table, find_best
from winnow.reports.family import Family
from winnow.testing import make_cell_result

RIGHT = [1.0] * 12
CELLS = [
    make_cell_result("a", 5, "g", [0.0] * 9 + [1.0] * 3),
    make_cell_result("b", 5, "g", RIGHT),
    make_cell_result("c", 10, "h", [0.0, *RIGHT[1:]]),
    make_cell_result("d", 1, "g", [0.0] * 12),
]
"""Cells that differ in strategy, k and placement: pairs that no other table compares."""
VOTES = [make_cell_result("post_fusion", k, "g", [1.0] * 6 + [0.0] * k) for k in (1, 2, 3)]
"""Cells with candidates."""


def test_the_best_cell_is_compared_with_every_other() -> None:
    """Three p-values are corrected with those of the other three pairs of four cells; the closest
    cell comes first.
    """
    best = find_best(Family(CELLS, 0))
    assert best is not None
    assert (best.index, [other.index for other in best.comparisons], list(best.equal)) == (
        1,
        [0, 2, 3],
        [],
    )
    assert [other.is_better for other in best.comparisons] == [True, False, True]
    table = build_best_table(Family(CELLS, 0))
    assert table is not None
    assert [row[0] for row in table.rows] == ["c k=10 h", "a k=5 g", "d k=1 g"]
    assert [row[2:5] for row in table.rows] == [
        ["1.000", "1.000", "12"],
        ["0.004", "0.016", "12"],
        ["<0.001", "0.003", "12"],
    ]
    assert table.rows[0][1].startswith("+8.3 [")
    assert (
        "A is b k=5 g, which has the highest EM of the cells whose prompts do not rest on gold"
        in table.caption
    )
    assert table.num_shown == 1


def test_cells_without_passages_are_not_counted_after_the_closed_book_filter() -> None:
    """Their values follow from the selection; their rows stay, folded as before."""
    closed = replace(CELLS[3], labels=replace(CELLS[3].labels, k=0))
    family = Family([*CELLS[:3], closed], 0)
    counted, filtered = build_best_table(family), build_best_table(family, is_filtered=True)
    assert counted is not None
    assert filtered is not None
    assert "Of the 3 others, it is significantly better than 2," in counted.caption
    assert "Of the 2 others, it is significantly better than 1," in filtered.caption
    assert "Cells without passages are not counted" in filtered.caption
    assert (filtered.rows, filtered.num_shown) == (counted.rows, counted.num_shown)


def test_equal_answers_are_no_tests() -> None:
    """They are named, and do not count in the correction; the first of two best cells
    is the best.
    """
    cells = [*CELLS, make_cell_result("e", 5, "g", RIGHT)]
    best = find_best(Family(cells, 0))
    assert best is not None
    assert (best.index, len(best.comparisons), list(best.equal)) == (1, 3, [4])
    table = build_best_table(Family(cells, 0))
    assert table is not None
    assert table.caption.endswith("The same answers as A, which are not compared: e k=5 g.")


def test_other_selections_of_questions_are_not_compared() -> None:
    """Nor is there a table for one comparison, which another table has."""
    other = replace(CELLS[0], labels=replace(CELLS[0].labels, questions="others"))
    best = find_best(Family([CELLS[1], other], 0))
    assert best is not None
    assert not best.comparisons
    assert build_best_table(Family(CELLS[1:3], 0)) is None


@dataclass(frozen=True)
class Length(MeanMetric):
    """A number that is equal in all questions of a cell, up to a little noise."""

    mean: float = 0.0

    def score(self, sample: Sample) -> float:
        """Return the number."""
        return self.mean + 0.25 * (sample.question.question_id[-1] in "02468")


def test_equal_answers_may_have_other_values() -> None:
    """Such as grades of a judge, or numbers of tokens; numbers are not shown in percent."""
    cells = [
        replace(
            make_cell_result(name, 5, "g", RIGHT),
            metrics=[Length("length", "Length", "number", mean=mean)],
        )
        for name, mean in (("a", 2.0), ("b", 5.0), ("c", 4.0))
    ]
    best = find_best(Family(cells, 0))
    assert best is not None
    assert (best.index, [other.index for other in best.comparisons], list(best.equal)) == (
        1,
        [0, 2],
        [],
    )
    table = build_best_table(Family(cells, 0))
    assert table is not None
    assert [(row[0], row[1].split()[0]) for row in table.rows] == [
        ("c k=5 g", "+1.0"),
        ("a k=5 g", "+3.0"),
    ]
    assert table.columns[1] == "Length: A - B"


def test_a_metric_may_be_undefined() -> None:
    """Then there is no best cell."""
    cells = [make_cell_result("a", 5, "g", []), make_cell_result("b", 5, "g", [])]
    assert find_best(Family(cells, 0)) is None
    assert build_best_table(Family(cells, 0)) is None


def test_the_selection_of_the_best_is_no_finding() -> None:
    """Of ten cells that are equally good, the best is significantly above another in at most 5 % of
    the sweeps.
    """
    random, num_sweeps = np.random.default_rng(0), 200
    num_false = 0
    for _ in range(num_sweeps):
        difficulty = random.beta(1, 1, 60)
        cells = [
            make_cell_result(f"s{n}", 5, "g", (random.random(60) < difficulty).astype(float))
            for n in range(10)
        ]
        best = find_best(Family(cells, 0))
        assert best is not None
        num_false += any(other.is_better for other in best.comparisons)
    assert num_false <= 0.05 * num_sweeps


def test_the_caption_says_what_is_compared() -> None:
    """A ratio is compared by the questions' own values, and the best cell may be that of a lucky
    training.
    """
    ratio = [
        replace(cell, metrics=[NotMajorityOfPools("nm_pool", "%NM of pools")]) for cell in VOTES
    ]
    table = build_best_table(Family(ratio, 0))
    assert table is not None
    assert "A - B is the mean difference of the questions' own %NM of pools" in table.caption
    for seeds, is_said in (("1212", True), ("7777", False)):
        trained = [
            replace(cell, labels=replace(cell.labels, seed=seed))
            for cell, seed in zip(CELLS, seeds, strict=True)
        ]
        table = build_best_table(Family(trained, 0))
        assert table is not None
        assert ("A is the model of one training seed" in table.caption) == is_said


def test_only_compared_cells_make_pairs() -> None:
    """A cell of other questions is in no pair, so that it makes no correction larger."""
    other = replace(
        make_cell_result("z", 5, "g", [0.0] * 12),
        labels=replace(CELLS[0].labels, questions="others"),
    )
    expected, ours = find_best(Family(CELLS, 0)), find_best(Family([*CELLS, other, other], 0))
    assert expected is not None
    assert ours is not None
    assert [one.adjusted_p_value for one in ours.comparisons] == [
        one.adjusted_p_value for one in expected.comparisons
    ]


def test_the_best_cell_needs_no_gold_labels() -> None:
    """A control with the gold passage in it is higher, and nobody can deploy it; among controls
    alone, the best is one.
    """
    a, b, c = ([1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0])
    controls = [make_cell_result(name, 5, "gold_first", ems) for name, ems in (("a", a), ("b", b))]
    retrieved = [
        make_cell_result(name, 5, "retrieved", ems)
        for name, ems in (("a", c), ("b", [0.0] * 4), ("c", [0.0] * 3 + [1.0]))
    ]
    best = find_best(Family([*controls, *retrieved], 0))
    assert best is not None
    assert (best.index, [other.index for other in best.comparisons], best.is_deployable) == (
        2,
        [3, 4],
        True,
    )
    table = build_best_table(Family([*controls, *retrieved], 0))
    assert table is not None
    assert (
        "A is a k=5 retrieved, which has the highest EM of the cells whose prompts do not rest on "
        "gold" in table.caption
    )
    assert "The same value with other answers: c k=5 retrieved." in table.caption
    alone = find_best(Family(controls, 0))
    assert alone is not None
    assert (alone.index, alone.is_deployable) == (0, False)
