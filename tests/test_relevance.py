"""Rows of the relevance artifact."""

import numpy as np
import pytest

from winnow.relevance import probability, relevance_rows
from winnow.testing import context, question


def test_probabilities_of_log_odds() -> None:
    """0 is one half; odds of 3 are 3/4; the ends do not overflow."""
    found = probability(np.array([0.0, np.log(3.0), 1e4, -1e4], dtype=np.float32))
    assert found.tolist() == pytest.approx([0.5, 0.75, 1.0, 0.0])


def test_a_row_a_context() -> None:
    """In their order, under the question's id."""
    rows = list(relevance_rows(question(), [context(1, "a"), context(2, "b")], [0.0, -1e4]))
    assert [(r["question_id"], r["passage_id"], r["log_odds"], r["p_true"]) for r in rows] == [
        ("q1", "p1", 0.0, 0.5),
        ("q1", "p2", -1e4, 0.0),
    ]
