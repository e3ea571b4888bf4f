"""BM25."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from winnow.errors import ConfigError
from winnow.records import Passage
from winnow.retrievers.bm25 import BM25
from winnow.testing import PASSAGES, make_question

QUESTIONS = [make_question("Which rivers flow in France?", question_id="1"), make_question("What barks?", question_id="2")]


def source() -> Iterator[Passage]:
    return iter(PASSAGES)


def test_bm25_stems_and_ranks(tmp_path: Path) -> None:
    """A stem finds its word ("rivers"); passages without a shared term are no hits."""
    BM25().build(source, tmp_path)
    hits = BM25().open(tmp_path).search(QUESTIONS, 100)
    assert hits[0][0].passage_id == "c"
    assert hits[1][0].passage_id == "d"
    assert [len(hits) for hits in hits] == [2, 1]
    assert BM25().open(tmp_path).search([make_question("xyzzy?")], 100) == [[]]
    scores = [hit.score for hit in hits[0]]
    assert scores == sorted(scores, reverse=True)
    assert len(BM25().open(tmp_path).search(QUESTIONS, 1)[0]) == 1
    with pytest.raises(ConfigError, match="0 <= b <= 1"):
        BM25(b=2)
