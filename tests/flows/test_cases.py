"""What the closed-book filter did to the questions of cells, in words."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import pytest

from flows.project.cases import describe_bias, describe_selection
from winnow.artifacts import contracts, parquet
from winnow.sweeps.spec import CellSpec, QuestionSelection


@dataclass(frozen=True)
class Spec:
    """The part of a cell's specification that says which questions it answers."""

    questions: QuestionSelection
    config: dict[str, Any] = field(default_factory=lambda: {"closed_book": {}})


def make_specs(
    folder: Path, kept: list[bool], keeps: Literal["unknown", "known"] = "unknown"
) -> list[CellSpec]:
    """Two cells whose filter kept some questions."""
    path = folder / "closed_book.parquet"
    rows = (
        {"question_id": str(n), "answer": "x", "em": 0.0, "f1": 0.0, "kept": flag}
        for n, flag in enumerate(kept)
    )
    parquet.write(path, contracts.CLOSED_BOOK, rows)
    selection = QuestionSelection(folder / "questions.parquet", "test", None, path, keeps)
    return cast("list[CellSpec]", [Spec(selection), Spec(selection)])


@pytest.mark.parametrize(
    ("kept", "keeps", "bias", "note"),
    [
        ([True, True, True], "unknown", "", None),
        (
            [True, False, False],
            "unknown",
            (
                "low by selection, because questions that are answered right without passages were "
                "left out (2)"
            ),
            (
                "2 questions to which the reader's answer without passages is an exact match were "
                "left out"
            ),
        ),
        (
            [True, False, False],
            "known",
            (
                "high by selection, because questions that are answered wrong without passages "
                "were left out (1)"
            ),
            (
                "1 questions to which the reader's answer without passages is no exact match were "
                "left out"
            ),
        ),
    ],
)
def test_a_filter_is_mentioned_where_it_left_questions_out(
    tmp_path: Path,
    kept: list[bool],
    keeps: Literal["unknown", "known"],
    bias: str,
    note: str | None,
) -> None:
    """One that kept all questions biases nothing."""
    specs = make_specs(tmp_path, kept, keeps)
    assert describe_bias(specs) == bias
    notes = describe_selection(specs)
    assert len(notes) == (note is not None)
    assert all(text.startswith(note or "") for text in notes)


def test_without_a_filter_nothing_is_said(tmp_path: Path) -> None:
    """Nor where it is off."""
    specs = cast(
        "list[CellSpec]", [Spec(QuestionSelection(tmp_path / "questions.parquet", "test"))]
    )
    assert describe_bias(specs) == ""
    assert describe_selection(specs) == []
