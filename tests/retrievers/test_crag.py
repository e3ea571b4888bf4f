"""Published contexts are found by the question's text."""

from dataclasses import replace
from pathlib import Path

import pytest

from winnow.errors import InputError
from winnow.retrievers.crag import CragContexts
from winnow.testing import make_question


def search(path: Path, *texts: str, depth: int = 5) -> list[list[str]]:
    questions = [replace(make_question(text), question_id=str(n)) for n, text in enumerate(texts)]
    return [[hit.passage_id for hit in hits] for hits in CragContexts(str(path)).open(path).search(questions, depth)]


def test_by_text_and_not_by_row(tmp_path: Path) -> None:
    """In another order, with other case, and with choices below the question; equal rows twice are one."""
    path = tmp_path / "t.txt"
    path.write_text("a? [SEP] x // 1\na? [SEP] x // 2\nb? [SEP] y // 3\na? [SEP] x // 1\na? [SEP] x // 2\n")
    assert search(path, "B?", "a?\nA: one") == [["t.txt:3"], ["t.txt:1", "t.txt:2"]]
    assert search(path, "a?", depth=1) == [["t.txt:1"]]


def test_what_is_missing_or_ambiguous_is_refused(tmp_path: Path) -> None:
    """Two people of one name have other contexts."""
    path = tmp_path / "t.txt"
    path.write_text("a? [SEP] 1\nb? [SEP] 2\na? [SEP] 3\n")
    with pytest.raises(InputError, match="no row for question '0' \\('c\\?'\\)"):
        search(path, "c?")
    with pytest.raises(InputError, match="2 rows with different contexts for question '1'"):
        search(path, "b?", "a?")
