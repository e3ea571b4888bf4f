"""Sufficiency of the passages in a prompt, with a scripted judge."""

from dataclasses import replace

import pytest

from winnow.errors import ConfigError
from winnow.metrics.base import Sample, Shown
from winnow.metrics.sufficiency import SufficientContext
from winnow.records import Passage
from winnow.requests import Generation
from winnow.testing import make_context, make_sample, run_scripted_plan

METRIC = SufficientContext("s", "S", template="{question}|{passages}", passage="{text}")


def sample(**fields: object) -> Sample:
    """A question whose reader saw two passages."""
    return replace(
        make_sample("Ada", **fields),
        shown=Shown(tuple(make_context(rank, f"text {rank}") for rank in (1, 2))),
    )


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ('Both say so. {"Sufficient Context": 1}', 1.0),
        ("```json\n{'Sufficient Context': 0}\n```", 0.0),
        ('First {"Sufficient Context": 1}, but then {"Sufficient Context": 0}', 0.0),
        ("sufficient context: 1", 1.0),
        ('<think>{"Sufficient Context": 1}</think> I cannot say.', None),
        ("Insufficient Context: 1", None),
        ("The context is sufficient.", None),
        ('{"Sufficient Context": 10}', None),
        ('{"Sufficient Context": 0.9}', None),
        ("Sufficient Context (0 or 1): 1", 1.0),
        ("**Sufficient Context:** 0.", 0.0),
        ("There is not sufficient context. 1 passage is about dogs.", None),
        ("I check whether there is sufficient context:\n1. Passage 1 names no author, and", None),
        ("", None),
    ],
)
def test_the_last_verdict_counts(reply: str, verdict: float | None) -> None:
    """In any quotes; prose, reasoning and a cut reply have none."""
    score, prompts = run_scripted_plan(METRIC.plan(sample(unknown=True)), [[reply]])
    assert score == verdict
    assert prompts == [["Who wrote Emma?|text 1\n\ntext 2"]], "whatever the answer was"


def test_a_reply_that_was_cut_has_no_verdict() -> None:
    """It may quote both forms of the verdict before it decides."""
    plan = METRIC.plan(sample())
    next(plan)
    with pytest.raises(StopIteration) as stop:
        plan.send(
            [
                Generation(
                    'I end with {"Sufficient Context": 1} or {"Sufficient Context": 0}', "length"
                )
            ]
        )
    assert stop.value.value is None


def test_without_passages_nothing_is_asked() -> None:
    """As for a cell whose prompts were not recorded; a template needs its fields."""
    assert run_scripted_plan(METRIC.plan(replace(sample(), shown=None)), []) == (None, [])
    assert run_scripted_plan(METRIC.plan(replace(sample(), shown=Shown())), []) == (None, [])
    with pytest.raises(ConfigError, match=r"metric\.s\.template"):
        SufficientContext("s", "S", template="{question}")


def test_passages_are_written_by_their_template() -> None:
    """With their titles, without blank ends; the request goes to the judge."""
    titled = replace(
        METRIC, template=" {question}|{passages}\n", passage="{title}: {text}\n", max_new_tokens=7
    )
    prompts = run_scripted_plan(titled.plan(sample()), [[""]])[1]
    assert prompts == [["Who wrote Emma?|Title 1: text 1\n\nTitle 2: text 2"]]
    (request,) = next(titled.plan(sample()))
    assert (request.role, request.decoding.max_new_tokens) == ("judge", 7)
    with pytest.raises(ConfigError, match=r"metric\.s\.passage"):
        replace(METRIC, passage="{title}")


def test_a_passage_without_a_title_has_no_separator() -> None:
    """As in the prompt of the reader."""
    metric = SufficientContext(
        "s", "S", template="{passages} {question}", passage="{title}: {text}"
    )
    untitled = replace(make_context(1, "one"), passage=Passage("p1", "", "one"))
    shown = replace(make_sample("Ada"), shown=Shown((untitled, make_context(2, "two"))))
    _, prompts = run_scripted_plan(metric.plan(shown), [["Sufficient Context: 1"]])
    assert prompts[0][0].startswith("one\n\nTitle 2: two ")
