"""Queries that a model writes, and the fusion of their rankings."""

import pytest

from tests.plans import play
from winnow.errors import ConfigError
from winnow.records import Decoding, Hit, Passage
from winnow.requests import Generation, Pages, Search
from winnow.retrievers.plans.queries import WrittenQueries, list_queries
from winnow.testing import make_question

QUESTION = make_question("Who wrote Emma?")


def _serve(reply: str, rankings: dict[str, str]) -> object:
    def serve(request: object) -> object:
        if not isinstance(request, Search):
            return Generation(reply)
        ids = rankings[request.query]
        return Pages(
            tuple(Passage(id_, "", id_) for id_ in ids),
            scores=tuple(float(9 - n) for n in range(len(ids))),
        )

    return serve


def test_one_query_takes_the_place_of_the_question() -> None:
    """Further lines of the reply are not searched for; scores are those of the search."""
    plan = WrittenQueries("Query for {question}", Decoding())
    hits, requests = play(
        plan.plan(QUESTION, [], 5), _serve("1. author Emma\n2. other", {"author Emma": "ab"})
    )  # type: ignore[arg-type]
    assert requests[0].messages[0].content == "Query for Who wrote Emma?"  # type: ignore[union-attr]
    assert (requests[0].role, requests[1]) == ("rewriter", Search("author Emma", 5, role="corpus"))
    assert hits == [Hit("a", 9.0), Hit("b", 8.0)]


def test_rankings_of_several_queries_are_fused_with_that_of_the_question() -> None:
    """By reciprocal ranks: b is second, first and third; what is beyond the depth is left out."""
    plan = WrittenQueries("{n} for {question}", Decoding(), n=2, with_question=True)
    rankings = {"Who wrote Emma?": "ab", "x": "bc", "y": "dcb"}
    hits, requests = play(plan.plan(QUESTION, [], 3), _serve("x\ny\nz", rankings))  # type: ignore[arg-type]
    assert requests[0].messages[0].content == "2 for Who wrote Emma?"  # type: ignore[union-attr]
    assert [one.query for one in requests[1:]] == ["Who wrote Emma?", "x", "y"]  # type: ignore[union-attr]
    assert [hit.passage_id for hit in hits] == ["b", "c", "a"]
    assert hits[0].score == pytest.approx(1 / 62 + 1 / 61 + 1 / 63)


def test_a_reply_without_a_query_leaves_the_question() -> None:
    """So that no question is without a ranking."""
    hits, _ = play(
        WrittenQueries("{question}", Decoding()).plan(QUESTION, [], 5),
        _serve(" \n", {"Who wrote Emma?": "a"}),
    )  # type: ignore[arg-type]
    assert [hit.passage_id for hit in hits] == ["a"]


@pytest.mark.parametrize(
    ("reply", "queries"),
    [
        ('1. "Emma author"\n2) Emma novel\n', ["Emma author", "Emma novel"]),
        ("- a\n• b\n* a", ["a", "b"]),
        ("Query: a\nQuestion 2: b", ["a", "b"]),
        ("<think>1. no</think>\n1984 novel\n2001: a film", ["1984 novel", "2001: a film"]),
        (
            "3.5 inch floppy disk\n-2 degrees\n1.5 litres",
            ["3.5 inch floppy disk", "-2 degrees", "1.5 litres"],
        ),
        (
            "1. Query: who wrote Emma\n**2.** Sub-question 2: who was she",
            ["who wrote Emma", "who was she"],
        ),
        ("Here are two queries:\n```\nemma\n```\n---", ["emma"]),
        ("", []),
    ],
)
def test_marks_are_no_part_of_a_query(reply: str, queries: list[str]) -> None:
    """Numbers of lists, bullets, labels and quotation marks go; years stay."""
    assert list_queries(reply) == queries


def test_samples_are_refused() -> None:
    """Which of them is searched for would be left open."""
    with pytest.raises(ConfigError, match=r"decoding\.samples must be 1"):
        WrittenQueries("{question}", Decoding(temperature=1.0, samples=2))
    with pytest.raises(ConfigError, match="n must be at least 1"):
        WrittenQueries("{question}", Decoding(), n=0)


def test_a_query_that_is_the_question_counts_once_and_k_is_that_of_the_plan() -> None:
    """And each search is as deep as the rankings."""
    plan = WrittenQueries("{question}", Decoding(), n=3, with_question=True, rrf_k=1)
    rankings = {"Who wrote Emma?": "ab", "x": "bc"}
    hits, requests = play(plan.plan(QUESTION, [], 3), _serve("Who wrote Emma?\nx", rankings))  # type: ignore[arg-type]
    assert requests[1:] == [Search(query, 3, role="corpus") for query in rankings]
    expected = {"b": 1 / 3 + 1 / 2, "a": 1 / 2, "c": 1 / 3}
    assert {hit.passage_id: hit.score for hit in hits} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("n", "with_question", "reply"), [(1, True, ""), (4, True, ""), (4, False, "Who wrote Emma?")]
)
def test_scores_of_one_ranking_are_on_the_scale_of_several(
    n: int, with_question: bool, reply: str
) -> None:
    """Weights and breakdowns compare scores of all questions of a cell."""
    plan = WrittenQueries("{question}", Decoding(), n=n, with_question=with_question)
    hits, _ = play(plan.plan(QUESTION, [], 5), _serve(reply, {"Who wrote Emma?": "ab"}))  # type: ignore[arg-type]
    assert hits == [Hit("a", pytest.approx(1 / 61)), Hit("b", pytest.approx(1 / 62))]
