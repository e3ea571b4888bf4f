"""SQuAD's JSON."""

import json
from pathlib import Path

import pytest

from winnow.datasets.squad import Squad
from winnow.errors import InputError


def test_answerable_questions_with_their_title(tmp_path: Path) -> None:
    """Impossible questions are left out; equal answers collapse."""
    qas = [
        {"id": "1", "question": "Who?", "answers": [{"text": "Ann"}, {"text": "Ann"}]},
        {"id": "2", "question": "What?", "answers": [], "is_impossible": True},
    ]
    path = tmp_path / "s.json"
    path.write_text(
        json.dumps({"data": [{"title": "T", "paragraphs": [{"context": "c", "qas": qas}]}]})
    )
    (row,) = Squad(str(path))
    assert (row.question_id, row.answers, json.loads(row.meta)) == ("1", ("Ann",), {"title": "T"})
    path.write_text("{}")
    with pytest.raises(InputError, match="`data`"):
        list(Squad(str(path)))
