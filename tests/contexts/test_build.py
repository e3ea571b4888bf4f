"""Contexts are built from rankings by a pure function."""

from pathlib import Path

from winnow.artifacts.rankings import RankedHit, Rankings
from winnow.contexts.build import build_contexts, build_ranked_contexts
from winnow.records import Passage, Question

PASSAGES = {
    n: Passage(n, f"T{n}", text)
    for n, text in {"1": "x", "2": "Jane Austen", "3": "y", "4": "gold"}.items()
}
HITS = [RankedHit("1", 1, 3.0, False), RankedHit("2", 2, 2.0, True), RankedHit("3", 3, 1.0, False)]
QUESTION = Question("q1", "Who?", ("Jane Austen",))


def test_as_retrieved() -> None:
    """Ranks, scores and the distant gold passage."""
    contexts = build_contexts(QUESTION, HITS, PASSAGES, {})
    assert [(c.passage.passage_id, c.rank, c.score, c.is_gold) for c in contexts] == [
        ("1", 1, 3.0, False),
        ("2", 2, 2.0, True),
        ("3", 3, 1.0, False),
    ]


def test_by_log_odds_scored_ones_first() -> None:
    """New ranks; an unscored hit stays behind the scored ones."""
    contexts = build_contexts(QUESTION, HITS, PASSAGES, {"1": -1.0, "3": 2.0}, "estimator")
    assert [(c.passage.passage_id, c.rank, c.log_odds) for c in contexts] == [
        ("3", 1, 2.0),
        ("1", 2, -1.0),
        ("2", 3, None),
    ]


def test_an_annotated_gold_passage_comes_last_with_rank_0() -> None:
    """Two of them, one of which was retrieved."""
    annotated = Question("q1", "Who?", ("gold",), ("4", "1"))
    contexts = build_contexts(annotated, HITS, PASSAGES, {"4": 0.5})
    assert [(c.passage.passage_id, c.rank, c.is_gold, c.has_answer) for c in contexts][-1] == (
        "4",
        0,
        True,
        True,
    )
    assert [c.is_gold for c in contexts] == [True, False, False, True]


def test_each_order_is_built_from_the_same_rankings() -> None:
    """The contexts of one order are not those that were kept for the other."""
    rankings = Rankings(Path(), {"q1": HITS}, PASSAGES, {"q1": {"1": -1.0, "3": 2.0}})
    by_retriever = build_ranked_contexts(rankings, QUESTION, "retriever")
    by_estimator = build_ranked_contexts(rankings, QUESTION, "estimator")
    orders = [
        [context.passage.passage_id for context in contexts]
        for contexts in (by_retriever, by_estimator)
    ]
    assert orders == [["1", "2", "3"], ["3", "1", "2"]]
