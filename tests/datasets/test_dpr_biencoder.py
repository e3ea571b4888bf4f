"""DPR's training files."""

import json
from pathlib import Path

import pytest

from winnow.datasets.dpr_biencoder import DprBiencoder
from winnow.errors import InputError


def rows() -> list[dict[str, object]]:
    """One question with two positives, one in TriviaQA's spelling, one without."""
    return [
        {
            "question": "q1",
            "answers": ["a"],
            "positive_ctxs": [{"passage_id": "7", "title": "T"}, {"passage_id": "8"}],
        },
        {"question": "q2", "answers": ["b"], "positive_ctxs": [{"psg_id": 9, "title": "U"}]},
        {"question": "q3", "answers": ["c"], "positive_ctxs": []},
    ]


def test_questions_with_a_positive_passage(tmp_path: Path) -> None:
    """Its first one is the gold passage; a question without one is left out, the numbers stay."""
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(rows()))
    questions = list(DprBiencoder(str(path)))
    assert [(q.question_id, q.text, q.answers, q.gold_passage_ids) for q in questions] == [
        ("1", "q1", ("a",), ("7",)),
        ("2", "q2", ("b",), ("9",)),
    ]
    assert json.loads(questions[0].meta) == {"title": "T"}
    assert [q.gold_passage_ids for q in DprBiencoder(str(path), gold=False)] == [(), ()]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "a list of questions"),
        ([{"question": "q"}], "positive_ctxs"),
        ([{"positive_ctxs": [{}]}], "with an id"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, body: object, message: str) -> None:
    """It says where and what was expected."""
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(body))
    with pytest.raises(InputError, match=message):
        list(DprBiencoder(str(path)))
