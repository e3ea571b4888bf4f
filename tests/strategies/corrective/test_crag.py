"""CRAG with scores, search results and replies written by hand."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.plans import PROMPT, play
from tests.strategies.corrective.serving import ONE_SENTENCE, QUESTION, serve
from winnow.records import Decoding, Passage
from winnow.requests import Failed, Generate, Pages, Request, Search
from winnow.strategies.corrective.crag import CorrectiveRetrieval, Crag
from winnow.strategies.corrective.refinement import Refinement
from winnow.strategies.corrective.searching import KnowledgeSearch
from winnow.testing import make_context

TEXT = "Ada wrote it. It rained. Bob read it."
SCORES = {TEXT: 0.9, "Ada wrote it.": 0.8, "It rained.": -0.9, "Bob read it.": 0.2}
WEB = Pages((Passage("w", "", "Eve sang. Nobody came."),))
WEB_SCORES = {"Eve sang.": 0.7, "Nobody came.": -0.7}


def make_crag(**settings: Any) -> Crag:
    """A strategy whose strips are sentences that are not joined."""
    correction = CorrectiveRetrieval(refinement=Refinement(ONE_SENTENCE, top=2, join="none"))
    return Crag(PROMPT, Decoding(), replace(correction, **settings))


def last_prompt(served: Sequence[Request]) -> str:
    request = served[-1]
    assert isinstance(request, Generate)
    return request.messages[-1].content


def test_a_correct_retrieval_is_refined_and_nothing_is_searched() -> None:
    """The relevant strips in their order; the trace counts them, and `used` names them."""
    answer, served = play(make_crag().plan(QUESTION, [make_context(1, TEXT)]), serve(SCORES))
    assert not any(isinstance(request, Search) for request in served)
    assert last_prompt(served) == "<Ada wrote it.>\n<Bob read it.> Q who?"
    assert answer.trace[:2] == ("action: correct", "internal: 2 of 3 strips")
    assert [strip.passage_id.partition("#")[2] for strip in answer.used] == ["0", "2"]
    assert answer.text == "Ada"


def test_an_incorrect_retrieval_is_replaced_by_a_search() -> None:
    """The passages do not reach the prompt, nor are they divided into strips."""
    answer, served = play(
        make_crag().plan(QUESTION, [make_context(1, TEXT)]),
        serve({TEXT: -0.95, **WEB_SCORES}, WEB),
    )
    assert last_prompt(served) == "<Eve sang.> Q who?"
    assert answer.trace[:2] == ("action: incorrect", "external: 1 of 2 strips")
    assert [request.query for request in served if isinstance(request, Search)] == ["who?"]


def test_an_ambiguous_retrieval_is_refined_and_supplemented() -> None:
    """Internal knowledge stands before external knowledge."""
    answer, served = play(
        make_crag().plan(QUESTION, [make_context(1, TEXT)]),
        serve({**SCORES, TEXT: 0.1, **WEB_SCORES}, WEB),
    )
    assert last_prompt(served) == "<Ada wrote it.>\n<Bob read it.>\n<Eve sang.> Q who?"
    assert answer.trace[:3] == (
        "action: ambiguous",
        "internal: 2 of 3 strips",
        "external: 1 of 2 strips",
    )


@pytest.mark.parametrize(
    ("pages", "note"),
    [(Failed("time-out"), "search failed: time-out"), (Pages(()), "search: no result")],
)
def test_a_search_that_gives_nothing_is_recorded_and_the_question_answered(
    pages: Pages | Failed, note: str
) -> None:
    """Without any knowledge by the question alone, and otherwise by what was retrieved."""
    answer, served = play(
        make_crag().plan(QUESTION, [make_context(1, TEXT)]), serve({TEXT: -0.95}, pages)
    )
    assert last_prompt(served) == "Q who?"
    assert note in answer.trace
    answer, served = play(
        make_crag().plan(QUESTION, [make_context(1, TEXT)]), serve({**SCORES, TEXT: 0.0}, pages)
    )
    assert last_prompt(served) == "<Ada wrote it.>\n<Bob read it.> Q who?"
    assert note in answer.trace


def test_the_best_strip_is_kept_if_none_passes() -> None:
    """And the trace counts it; passages without a sentence and questions without passages give no
    strip.
    """
    low = {**SCORES, "Ada wrote it.": -0.6, "It rained.": -0.7, "Bob read it.": -0.8}
    answer, served = play(make_crag().plan(QUESTION, [make_context(1, TEXT)]), serve(low))
    assert last_prompt(served) == "<Ada wrote it.> Q who?"
    assert "internal: 1 of 3 strips, none passed the filter" in answer.trace
    answer, served = play(make_crag().plan(QUESTION, [make_context(1, " ")]), serve({" ": 0.9}))
    assert last_prompt(served) == "Q who?"
    answer, served = play(make_crag().plan(QUESTION, []), serve(WEB_SCORES, WEB))
    assert answer.trace[0] == "action: incorrect"


def test_the_rewriter_writes_the_query() -> None:
    """Its keywords are searched for, and the trace has them."""
    crag = make_crag(search=KnowledgeSearch(rewriting="keywords of {question}\nquery:"))
    plan = crag.plan(QUESTION, [make_context(1, TEXT)])
    results = serve(
        {TEXT: -0.95, **WEB_SCORES},
        WEB,
        lambda request: "Ada, author" if request.role == "rewriter" else "Ada",
    )
    answer, served = play(plan, results)
    assert [request.query for request in served if isinstance(request, Search)] == ["Ada, author"]
    assert "query: Ada, author" in answer.trace
    assert last_prompt(served) == "<Eve sang.> Q who?"


def test_what_table_3_removes() -> None:
    """Without refinement whole passages, without selection whole pages."""
    for search, web in (
        (KnowledgeSearch(selection=False), "Eve sang. Nobody came."),
        (KnowledgeSearch(), "Eve sang."),
    ):
        crag = make_crag(refine=False, search=search)
        _, served = play(
            crag.plan(QUESTION, [make_context(1, TEXT)]), serve({TEXT: 0.0, **WEB_SCORES}, WEB)
        )
        assert last_prompt(served) == f"<{TEXT}>\n<{web}> Q who?"


def test_a_passage_without_a_score_is_irrelevant_and_counted() -> None:
    """The question is answered all the same."""
    scores: dict[str, float | None] = {**SCORES, TEXT: None, "Ada wrote it.": None, **WEB_SCORES}
    answer, served = play(make_crag().plan(QUESTION, [make_context(1, TEXT)]), serve(scores, WEB))
    assert answer.trace[:2] == ("action: incorrect", "evaluation failed: 1 of 1 passages")
    assert last_prompt(served) == "<Eve sang.> Q who?"
    other = make_context(2, "Other.")
    answer, _ = play(
        make_crag().plan(QUESTION, [make_context(1, TEXT), other]),
        serve({**scores, "Other.": 0.9}, WEB),
    )
    assert "internal: 2 of 4 strips, evaluation failed: 1" in answer.trace
