"""Queries and findings of the search for knowledge."""

import pytest

from tests.plans import play
from tests.strategies.corrective.serving import ESTIMATED, ONE_SENTENCE, QUESTION, serve
from winnow.errors import ConfigError
from winnow.records import Passage
from winnow.requests import Failed, Generate, Pages, Search, Snapshot
from winnow.strategies.corrective.refinement import Refinement
from winnow.strategies.corrective.searching import KnowledgeSearch

PASSAGES = (Passage("w", "", "Eve sang. Nobody came."),)
REFINEMENT = Refinement(ONE_SENTENCE)


def test_results_are_refined_or_whole() -> None:
    """Without selection every result is knowledge, and nothing is evaluated."""
    scores = {"Eve sang.": 0.7, "Nobody came.": -0.7}
    for selection, texts, calls in (
        (True, ["Eve sang."], 3),
        (False, ["Eve sang. Nobody came."], 1),
    ):
        plan = KnowledgeSearch(3, selection=selection).find(QUESTION, REFINEMENT, ESTIMATED)
        findings, served = play(plan, serve(scores, Pages(PASSAGES)))
        assert [strip.text for strip in findings.knowledge.strips] == texts
        assert (findings.trace, len(served)) == ((), calls)
        assert isinstance(served[0], Search)
        assert (served[0].query, served[0].n) == ("who?", 3)


def test_pages_that_could_not_be_read_are_counted() -> None:
    """The others are used."""
    pages = Pages(
        PASSAGES,
        (
            Snapshot("https://a.example", "now", "x"),
            Snapshot("https://b.example", "now", note="404"),
        ),
    )
    plan = KnowledgeSearch(selection=False).find(QUESTION, REFINEMENT, ESTIMATED)
    findings, _ = play(plan, serve({}, pages))
    assert findings.trace == ("pages not read: 1 of 2",)


@pytest.mark.parametrize(
    ("reply", "query", "trace"),
    [
        ("\n query: Ada, author\nquestion: next", "Ada, author", "query: Ada, author"),
        (" ".join(["word"] * 30), " ".join(["word"] * 30), f"query: {' '.join(['word'] * 30)}"),
        (" ".join(["word"] * 31), "who?", "rewriting: no keywords"),
        ("<think>Who is Bob?</think>\nAda", "Ada", "query: Ada"),
        (" \n", "who?", "rewriting: no keywords"),
        ("Query: a, b", "a, b", "query: a, b"),
        ("**Query:** a, b", "a, b", "query: a, b"),
        ('"a, b"', "a, b", "query: a, b"),
        (Failed("moderated"), "who?", "rewriting failed: moderated"),
    ],
)
def test_the_rewriter_writes_the_query(reply: str | Failed, query: str, trace: str) -> None:
    """The first line of its reply; where that is prose, silence or a refusal, the question is the
    query.
    """
    search = KnowledgeSearch(rewriting="keywords of {question}\nquery:")
    findings, served = play(
        search.find(QUESTION, REFINEMENT, ESTIMATED), serve({}, Pages(()), lambda _: reply)
    )
    rewriting, request = served
    assert isinstance(rewriting, Generate)
    assert isinstance(request, Search)
    assert (rewriting.messages[0].content, rewriting.role, rewriting.may_fail) == (
        "keywords of who?\nquery:",
        "rewriter",
        True,
    )
    assert request.query == query
    assert findings.trace == (trace, "search: no result")


def test_settings_that_find_nothing_are_refused() -> None:
    """Each with the value received or the field that lacks."""
    with pytest.raises(ConfigError, match="n must be at least 1; received 0"):
        KnowledgeSearch(n=0)
    with pytest.raises(ConfigError, match=r"must have the field \{question\}"):
        KnowledgeSearch(rewriting="keywords")
