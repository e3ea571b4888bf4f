"""Published contexts are found by the question's text."""

from dataclasses import replace
from pathlib import Path

import pytest

from winnow.errors import InputError
from winnow.retrievers.crag import CragContexts
from winnow.testing import make_question


def search(path: Path, *texts: str, depth: int = 5) -> list[list[str]]:
    questions = [replace(make_question(text), question_id=str(n)) for n, text in enumerate(texts)]
    return [
        [hit.passage_id for hit in hits]
        for hits in CragContexts(str(path)).open(path).search(questions, depth)
    ]


def test_by_text_and_not_by_row(tmp_path: Path) -> None:
    """In another order, with other case, and with choices below the question; equal rows twice are
    one.
    """
    path = tmp_path / "t.txt"
    path.write_text(
        "a? [SEP] x // 1\na? [SEP] x // 2\nb? [SEP] y // 3\na? [SEP] x // 1\na? [SEP] x // 2\n"
    )
    assert search(path, "B?", "a?\nA: one") == [["t.txt:3"], ["t.txt:1", "t.txt:2"]]
    assert search(path, "a?", depth=1) == [["t.txt:1"]]


def test_what_is_missing_or_ambiguous_is_refused(tmp_path: Path) -> None:
    """Two people of one name have other contexts."""
    path = tmp_path / "t.txt"
    path.write_text("a? [SEP] 1\nb? [SEP] 2\na? [SEP] 3\n")
    with pytest.raises(
        InputError, match=r"no row for 1 of 2 questions, such as '1' \('c\?'\).*missing=empty"
    ):
        search(path, "b?", "c?")
    questions = [replace(make_question(text), question_id=text) for text in ("b?", "c?")]
    hits = CragContexts(str(path), missing="empty").open(path).search(questions, 5)
    assert [[hit.passage_id for hit in found] for found in hits] == [["t.txt:2"], []]
    with pytest.raises(InputError, match="2 rows with different contexts for question '1'"):
        search(path, "b?", "a?")
