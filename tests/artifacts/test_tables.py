"""Records to rows and back."""

from pathlib import Path

import pytest

from winnow.artifacts import contracts, parquet
from winnow.artifacts.tables import build_prediction_row, build_relevance_rows, read_predictions
from winnow.predictions import Prediction, RoleUsage
from winnow.testing import make_context, make_question


def test_a_row_per_context() -> None:
    """In their order, under the question's id."""
    rows = list(
        build_relevance_rows(
            make_question(), [make_context(1, "a"), make_context(2, "b")], [0.0, -1e4]
        )
    )
    assert [(r["question_id"], r["passage_id"], r["log_odds"], r["p_true"]) for r in rows] == [
        ("q1", "p1", 0.0, 0.5),
        ("q1", "p2", -1e4, 0.0),
    ]


def test_predictions_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    """Every field, usage by role included; totals are over all roles."""
    usage = (RoleUsage("reader", 2, 100, 5, 0.5), RoleUsage("judge", 1, 30, 1, 0.25))
    written = Prediction(
        "q1", "Paris", False, ("Paris", "Rome"), "Answer: Paris", ("vote: Paris 2",), ("p1", "p2"),
        ("p2",), 2, "distant", 1, usage,
    )  # fmt: skip
    path = tmp_path / "predictions.parquet"
    parquet.write(path, contracts.PREDICTIONS, [build_prediction_row(written)])
    (back,) = read_predictions(path)
    assert back == written
    assert (back.calls, back.tokens_in, back.tokens_out) == (3, 130, 6)
    assert back.seconds == pytest.approx(0.75)
