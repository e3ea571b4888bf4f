"""Summaries of contexts by the rewriter."""

from dataclasses import replace
from typing import Any

import pytest

from tests.plans import play
from winnow.errors import ConfigError
from winnow.records import Decoding, Passage
from winnow.requests import Generate, Generation
from winnow.strategies.processing.summary import Summary
from winnow.testing import make_context, make_question

QUESTION = make_question("Which city?", ["Paris"])
CONTEXTS = (make_context(1, "one"), make_context(2, "two"), make_context(3, "three"))
TEMPLATE = "Q: {question} D: {contexts} S:"


def _process(
    replies: list[Any], contexts: Any = CONTEXTS, **settings: Any
) -> tuple[Any, list[Generate]]:
    served = iter(replies)
    plan = Summary(TEMPLATE, Decoding(max_new_tokens=9), **settings).process(QUESTION, contexts)
    return play(plan, lambda _: Generation(next(served)))  # type: ignore[return-value]


def test_one_summary_replaces_all_contexts() -> None:
    """Its prompt shows them, it names them as its sources, and reasoning is no part of it."""
    (only,), (request,) = _process(["<think>Hm.</think> Paris is one. "])
    assert request.messages[-1].content == "Q: Which city? D: one\ntwo\nthree S:"
    assert (request.role, request.decoding.max_new_tokens) == ("rewriter", 9)
    assert request.passages == tuple(context.passage for context in CONTEXTS)
    ids = tuple(context.passage.passage_id for context in CONTEXTS)
    assert only.passage == Passage("+".join(ids), "", "Paris is one.", ids)
    assert only.has_answer


def test_each_context_may_have_a_summary_under_its_title() -> None:
    """All are requested at once; one whose summary is empty is left out."""
    contexts, requests = _process(["ONE", " ", "Paris"], of="each", passage="{title}: {text}")
    assert [request.messages[-1].content for request in requests] == [
        f"Q: Which city? D: {context.passage.title}: {context.passage.text} S:"
        for context in CONTEXTS
    ]
    assert [(one.passage.title, one.passage.text, one.rank) for one in contexts] == [
        (CONTEXTS[0].passage.title, "ONE", 1),
        (CONTEXTS[2].passage.title, "Paris", 3),
    ]
    assert [one.has_answer for one in contexts] == [False, True]


def test_an_empty_summary_leaves_all_contexts_out() -> None:
    """As RECOMP's model writes where they do not help; no context needs no request."""
    assert _process([""])[0] == ()
    assert _process([], contexts=()) == ((), [])


def test_the_lowest_ranked_contexts_are_dropped_from_a_long_prompt_and_gold_ones_last() -> None:
    """By the driver, which counts them; the summary names those that were read."""
    gold = replace(CONTEXTS[2], is_gold=True)
    _, (request,) = _process(["s"], contexts=(gold, CONTEXTS[0], CONTEXTS[1]))
    shorter = request.drop_passage()
    assert shorter is not None
    shortest = shorter.drop_passage()
    assert shortest is not None
    assert [one.messages[-1].content for one in (request, shorter, shortest)] == [
        "Q: Which city? D: three\none\ntwo S:",
        "Q: Which city? D: three\none S:",
        "Q: Which city? D: three S:",
    ]
    assert shortest.drop_passage() is None
    plan = Summary(TEMPLATE, Decoding()).process(QUESTION, (gold, *CONTEXTS[:2]))
    (only,), _ = play(plan, lambda _: Generation("s", dropped=2, passages=shortest.passages))
    assert only.passage.sources == (gold.passage.passage_id,)


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_contexts_stay_where_no_summary_could_be_written(finish: str) -> None:
    """A reply of reasoning alone that was cut, or one that was filtered, does not say that they do
    not help.
    """
    plan = Summary(TEMPLATE, Decoding()).process(QUESTION, CONTEXTS)
    assert play(plan, lambda _: Generation("<think>Hm", finish=finish))[0] == CONTEXTS


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"template": "{question}"}, "context.plan.template"),
        ({"passage": "{title}"}, "context.plan.passage"),
        ({"of": "some"}, "context.plan.of must be all or each; received 'some'"),
        ({"decoding": Decoding(samples=2, temperature=1.0)}, "context.plan.decoding.samples=2"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    """By their names."""
    with pytest.raises(ConfigError, match=message):
        Summary(**({"template": TEMPLATE, "decoding": Decoding()} | settings))


def test_a_context_without_a_title_has_no_separator() -> None:
    """As in the prompt of the reader."""
    untitled = replace(make_context(1, "one"), passage=Passage("p1", "", "one"))
    _, (request,) = _process(["Paris"], (untitled, CONTEXTS[1]), passage="{title}: {text}")
    assert request.messages[-1].content == "Q: Which city? D: one\nTitle 2: two S:"
