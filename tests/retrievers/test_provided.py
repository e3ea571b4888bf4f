"""Others' retrieval results."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from winnow.errors import InputError
from winnow.records import Hit, Passage
from winnow.retrievers.provided import Provided
from winnow.testing import PASSAGES, make_question

QUESTIONS = [
    make_question("Which rivers flow in France?", question_id="1"),
    make_question("What barks?", question_id="2"),
]


def source() -> Iterator[Passage]:
    return iter(PASSAGES)


def test_provided_serves_a_fid_file(tmp_path: Path) -> None:
    """The file's order and scores; a question that it lacks is named."""
    path = tmp_path / "f.json"
    path.write_text(
        json.dumps(
            [
                {
                    "id": "1",
                    "question": "which rivers flow in France",
                    "answers": ["x"],
                    "ctxs": [{"id": "p", "text": "t", "score": 3}],
                }
            ]
        )
    )
    Provided(str(path)).build(source, tmp_path / "i")
    searcher = Provided(str(path)).open(tmp_path / "i")
    assert searcher.search(QUESTIONS[:1], 10) == [[Hit("p", 3.0)]]
    with pytest.raises(InputError, match="question '2'"):
        searcher.search(QUESTIONS, 10)


def test_a_question_has_one_ranking(tmp_path: Path) -> None:
    """Two rows of one id are an error."""
    path = tmp_path / "f.json"
    path.write_text(
        json.dumps(
            [{"id": "1", "question": "a", "answers": ["x"], "ctxs": [{"id": "p", "text": "t"}]}] * 2
        )
    )
    with pytest.raises(InputError, match=r"two rows for the question id '1' \('a'\)"):
        Provided(str(path)).open(tmp_path / "i")
