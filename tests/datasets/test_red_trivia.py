"""Red-Trivia's YAML lists."""

from pathlib import Path

import pytest

from winnow.datasets.red_trivia import RedTrivia
from winnow.errors import InputError


def test_values_are_text_and_questions_unique(tmp_path: Path) -> None:
    """007 stays 007 and No stays No; the author is no question; a question of two lists is taken
    once.
    """
    (tmp_path / "a.yaml").write_text("AUTHOR: me\nWhich agent?:\n- 007\nYes or no?:\n- No\n")
    (tmp_path / "b.yaml").write_text("Which agent?:\n- Bond\nWhat?:\n- x\n")
    questions = list(RedTrivia(str(tmp_path), ["a", "b"]))
    assert [q.answers for q in questions] == [("007",), ("No",), ("x",)]
    assert len({q.question_id for q in questions}) == 3


def test_an_entry_that_is_no_list_is_named(tmp_path: Path) -> None:
    """File, entry and what was received."""
    (tmp_path / "a.yaml").write_text("What?: x\n")
    with pytest.raises(InputError, match=r"a\.yaml, entry 1 \('What\?'\).*received 'x'"):
        list(RedTrivia(str(tmp_path), ["a"]))
