"""Ranking by the likelihood of the question."""

from dataclasses import replace

import pytest

from tests.plans import play
from winnow.errors import ConfigError
from winnow.records import Hit, Passage
from winnow.requests import Likelihood, Message, Score
from winnow.retrievers.plans.query_likelihood import QueryLikelihood
from winnow.testing import make_context, make_question


def test_passages_are_ordered_by_the_likelihood_of_the_question() -> None:
    """All in one round; equal ones stay in their order, and those beyond the top follow without
    scores.
    """
    scores = iter([-5.0, -1.0, -5.0])
    contexts = [make_context(n, f"t{n}") for n in (1, 2, 3, 4)]
    plan = QueryLikelihood("{title}: {text}", top=3).plan(make_question("Who?"), contexts, 10)
    hits, requests = play(plan, lambda _: Score(next(scores)))
    assert hits == [Hit("p2", -1.0), Hit("p1", -5.0), Hit("p3", -5.0), Hit("p4", None)]
    first = requests[0]
    assert isinstance(first, Likelihood)
    assert (first.messages, first.continuation) == ((Message("user", "Title 1: t1"),), "Who?")
    assert (first.include_eos, first.role, first.passages) == (
        False,
        "reranker",
        (contexts[0].passage,),
    )


def test_long_passages_are_cut() -> None:
    """A prompt that is too long would end the run."""
    contexts = [make_context(1, "a b c d")]
    _, (request,) = play(
        QueryLikelihood("{text}", max_words=2).plan(make_question(), contexts, 1),
        lambda _: Score(0.0),
    )
    assert request.messages[0].content == "a b"  # type: ignore[union-attr]


def test_a_template_without_the_text_is_refused() -> None:
    """Every passage would have the same likelihood."""
    with pytest.raises(ConfigError, match="text"):
        QueryLikelihood("{title}")
    with pytest.raises(ConfigError, match="top"):
        QueryLikelihood("{text}", top=0)


def test_a_ranking_is_as_deep_as_asked() -> None:
    """Also where fewer passages are ordered than there are."""
    contexts = [make_context(n, f"t{n}") for n in (1, 2, 3, 4)]
    hits, _ = play(
        QueryLikelihood("{text}", top=3).plan(make_question("Who?"), contexts, 2),
        lambda _: Score(0.0),
    )
    assert [hit.passage_id for hit in hits] == ["p1", "p2"]


def test_a_passage_without_a_title_has_no_separator() -> None:
    """It would be a prompt of another form than the others."""
    untitled = replace(make_context(1, "t1"), passage=Passage("p1", "", "t1"))
    plan = QueryLikelihood("{title}: {text}").plan(make_question(), [untitled], 1)
    _, (request,) = play(plan, lambda _: Score(0.0))
    assert request.messages[0].content == "t1"  # type: ignore[union-attr]
