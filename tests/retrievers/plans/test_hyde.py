"""HyDE: passages that a model makes up are averaged with the question."""

import pytest

from tests.plans import play
from winnow.errors import ConfigError, InputError
from winnow.records import Decoding, Hit, Passage
from winnow.requests import Failed, Generate, Generation, Pages, Search
from winnow.retrievers.plans.hyde import Hyde
from winnow.testing import make_context, make_question

PLAN = Hyde("Write: {question}", Decoding(temperature=0.7, samples=3, stop=("\n\n\n",)))
QUESTION = make_question("Who wrote Emma?")
FOUND = Pages((Passage("b", "", "B"), Passage("a", "", "A")), scores=(0.5, 0.25))


def test_the_made_up_passages_are_searched_with_the_question() -> None:
    """One request a sample, of the rewriter; then one search as deep as the rankings, with all
    texts that are not empty.
    """
    replies = iter(["Jane wrote it.", " ", "<think>hm</think>Austen did."])
    serve = lambda request: FOUND if isinstance(request, Search) else Generation(next(replies))
    hits, requests = play(PLAN.plan(QUESTION, [make_context(1, "x")], 7), serve)
    prompts = [request for request in requests if isinstance(request, Generate)]
    assert [(one.messages[0].content, one.sample, one.role) for one in prompts] == [
        ("Write: Who wrote Emma?", sample, "rewriter") for sample in range(3)
    ]
    assert {one.decoding for one in prompts} == {PLAN.decoding}
    assert requests[3] == Search(
        "Who wrote Emma?", 7, ("Jane wrote it.", "Austen did."), role="corpus"
    )
    assert hits == [Hit("b", 0.5), Hit("a", 0.25)]


def test_a_search_that_fails_is_no_ranking() -> None:
    """It would count as a question without a relevant passage."""
    serve = lambda request: Failed("no index") if isinstance(request, Search) else Generation("x")
    with pytest.raises(InputError, match="failed: no index"):
        play(PLAN.plan(QUESTION, [], 7), serve)


def test_a_template_without_the_question_is_refused() -> None:
    """It would make up the same passage for every question."""
    with pytest.raises(ConfigError, match="question"):
        Hyde("Write.", Decoding())


def test_equal_passages_count_as_often_as_they_are_made_up() -> None:
    """The average is over all samples."""
    replies = iter(["x", "x", "y"])
    serve = lambda request: FOUND if isinstance(request, Search) else Generation(next(replies))
    _, requests = play(PLAN.plan(QUESTION, [], 7), serve)
    assert requests[3].averaged == ("x", "x", "y")  # type: ignore[union-attr]
