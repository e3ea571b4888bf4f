"""Hybrid retrieval."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.retrievers.plans.test_queries import QUESTION
from winnow.errors import ConfigError
from winnow.modeling.sentence_encoder import SentenceEncoder
from winnow.records import Hit, Passage, Question
from winnow.retrievers.bm25 import BM25
from winnow.retrievers.dense import Dense
from winnow.retrievers.hybrid import Hybrid, _HybridSearcher, fuse_rankings
from winnow.testing import PASSAGES, make_question

QUESTIONS = [
    make_question("Which rivers flow in France?", question_id="1"),
    make_question("What barks?", question_id="2"),
]


def source() -> Iterator[Passage]:
    return iter(PASSAGES)


def test_fusion_by_hand() -> None:
    """At constant 1: x is first and second, 1/2 + 1/3; y second and absent, 1/3; z absent and
    first, 1/2.
    """
    hits = fuse_rankings([[Hit("x", 9), Hit("y", 8)], [Hit("z", 3), Hit("x", 2)]], rrf_k=1)
    assert [hit.passage_id for hit in hits] == ["x", "z", "y"]
    assert hits[0].score == pytest.approx(5 / 6)


def test_hybrid_builds_members_once(tmp_path: Path, encoder: SentenceEncoder) -> None:
    """Both members' folders are there; a second build leaves them alone."""
    hybrid = Hybrid({"bm25": BM25(), "dense": Dense(encoder)})
    hybrid.build(source, tmp_path)
    hybrid.build(lambda: iter(()), tmp_path)
    assert {hit.passage_id for hit in hybrid.open(tmp_path).search(QUESTIONS, 4)[0]} == {
        "a",
        "b",
        "c",
        "d",
    }
    with pytest.raises(ConfigError, match="two or more"):
        Hybrid({"bm25": BM25()})


class _Listed:
    """A searcher whose ranking is a list."""

    def __init__(self, ids: str) -> None:
        self.ids = ids

    def search(self, questions: Sequence[Question], depth: int) -> list[list[Hit]]:
        """Return the beginning of the list for every question."""
        return [[Hit(id_, 1.0) for id_ in self.ids[:depth]] for _ in questions]


def test_a_shallow_search_finds_the_first_of_a_deeper_one() -> None:
    """A passage that one member ranks low counts at every depth."""
    rng = random.Random(1)
    letters = [*"abcdefghijklmnopqrst"]
    for _ in range(50):
        members = [_Listed("".join(rng.sample(letters, 20))) for _ in range(2)]
        searcher = _HybridSearcher(members, 60)  # type: ignore[arg-type]
        (deep,) = searcher.search(QUESTIONS[:1], 20)
        assert [hits[:3] for hits in searcher.search(QUESTIONS, 3)] == [deep[:3]] * 2


class _Many:
    def search(self, questions, depth):  # type: ignore[no-untyped-def]
        return [[Hit(f"{n:03}", 1.0) for n in range(min(depth, 250))] for _ in questions]


def test_a_deep_search_is_as_deep() -> None:
    """Deeper than the least depth of the fusion."""
    searcher = _HybridSearcher([_Many(), _Many()], 60)  # type: ignore[list-item]
    for depth, number in ((3, 3), (150, 150), (1000, 250)):
        (hits,) = searcher.search([QUESTION], depth)
        assert len(hits) == number
