"""Correct candidates that do not become the answer."""

import numpy as np
import pytest

from winnow.metrics.base import compute_all_values, compute_rows, evaluate
from winnow.metrics.cost import Cost
from winnow.metrics.intervals import UNDEFINED
from winnow.metrics.majority import NotMajority, NotMajorityOfPools
from winnow.testing import make_sample

NM, POOLS = NotMajority("nm", "%NM"), NotMajorityOfPools("nm_pool", "%NM of pools")
TWO = ("Jane Austen", "Austen")


def test_not_majority_needs_a_correct_candidate_and_a_wrong_answer() -> None:
    """Pools that hold a right answer, two of them, and one that holds none."""
    missed = make_sample("Emma", 0, TWO, candidates=("Emma", "austen", "Emma"))
    right = make_sample("Jane Austen", 1, TWO, candidates=("Jane Austen", "Emma"))
    never = make_sample("Emma", 2, TWO, candidates=("Emma", "Woodhouse"))
    assert [NM.score(one) for one in (missed, right, never)] == [1.0, 0.0, 0.0]
    assert [POOLS.compute_terms(one) for one in (missed, right, never)] == [
        (1.0, 1.0),
        (0.0, 1.0),
        (0.0, 0.0),
    ]
    intervals = evaluate([NM, POOLS], [missed, right, never])
    assert (intervals["nm"].mean, intervals["nm"].n) == (pytest.approx(1 / 3), 3)
    assert (intervals["nm_pool"].mean, intervals["nm_pool"].n, intervals["nm_pool"].counts) == (
        0.5,
        2,
        (1.0, 2.0),
    )


def test_undefined_is_no_number() -> None:
    """%NM without any pool, %NM of pools without a right one, dollars without a price."""
    alone = [make_sample("Emma", 0, TWO), make_sample("Jane Austen", 1, TWO)]
    money = Cost("money", "$", "number", 3)
    intervals = evaluate([NM, POOLS, money], alone)
    assert [intervals[name].n for name in ("nm", "nm_pool", "money")] == [0, 0, 0]
    assert [metric.format(intervals[metric.name]) for metric in (NM, POOLS, money)] == [
        UNDEFINED
    ] * 3
    assert np.isnan(compute_all_values(NM, compute_rows([NM], alone)["nm"])).all()


def test_a_question_without_candidates_counts_among_all() -> None:
    """%NM is of all questions as soon as one has candidates; it is undefined for one without
    accepted answers.
    """
    missed = make_sample("Emma", 0, TWO, candidates=("austen",))
    alone = make_sample("Emma", 1, TWO)
    intervals = evaluate([NM, POOLS], [missed, alone])
    assert (intervals["nm"].mean, intervals["nm"].n) == (0.5, 2)
    assert intervals["nm_pool"].counts == (1.0, 1.0)
    assert NM.score(make_sample("Emma", 2, ())) is None


def test_values_are_defined_as_soon_as_one_question_has_candidates() -> None:
    """The others then count as 0, as in the share."""
    samples = [
        make_sample("Emma", 0, TWO, candidates=("Emma", "austen")), make_sample("Emma", 1, TWO),
    ]  # fmt: skip
    assert list(compute_all_values(NM, compute_rows([NM], samples)["nm"])) == [1.0, 0.0]
