"""Records to rows and back."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from winnow.artifacts import contracts, parquet
from winnow.artifacts.tables import (
    build_prediction_row,
    build_question_rows,
    build_relevance_rows,
    read_predictions,
)
from winnow.errors import InputError
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


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"answers": "plan B"}, "answers must be a tuple of texts; received 'plan B'"),
        ({"answers": ("a", None)}, "answers must be"),
        ({"answers": None}, "answers must be a tuple of texts; received None"),
        ({"gold_passage_ids": "p0"}, "gold_passage_ids must be"),
        ({"question_id": 7}, "question_id must be a text; received int"),
    ],
)
def test_a_question_of_another_form_is_refused(fields: dict[str, Any], message: str) -> None:
    """A text for the answers would be its letters, which every passage has."""
    question = replace(make_question(question_id="q1"), **fields)
    with pytest.raises(InputError, match=message):
        list(build_question_rows([question]))


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
