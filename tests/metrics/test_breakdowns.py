"""Breakdowns: by metadata, by the gold passage's rank, by the retriever's score, by the form of the
answer.
"""

from dataclasses import replace

import pytest

from winnow.errors import ConfigError
from winnow.metrics.base import Sample, Shown, collect_inputs
from winnow.metrics.breakdowns import (
    AnswerType,
    GoldRank,
    MetaField,
    RetrievalScore,
    Sufficiency,
    TraceEntry,
    classify_answer,
)
from winnow.metrics.unknown import Unknown
from winnow.predictions import Prediction
from winnow.records import Question
from winnow.testing import make_context


def _sample(meta: str, answer: str, *contexts: object) -> Sample:
    answers = (answer, "another")
    return Sample(
        Question("q", "?", answers, meta=meta), Prediction("q", "x", False), ranking=contexts
    )  # type: ignore[arg-type]


def test_by_meta_field() -> None:
    """A question without the field is "none"; a field that no question has is refused with those
    there are.
    """
    samples = [_sample('{"list": "art"}', "a"), _sample("{}", "a")]
    assert MetaField("list", "topic", "list").assign_groups(samples) == ["art", "none"]
    with pytest.raises(
        ConfigError,
        match=(
            r"breakdown.field='prop' is not in the metadata of the questions. Available fields: "
            r"list."
        ),
    ):
        MetaField("list", "topic", "prop").assign_groups(samples)


def test_by_an_entry_of_the_trace() -> None:
    """The text behind the label in its first entry; strategies that record none are "none"."""
    traces = (
        ("action: correct", "action: later"),
        ("query: x", "action: ambiguous"),
        ("reaction: no",),
        (),
    )
    samples = [
        Sample(Question("q", "?", ("a",)), Prediction("q", "x", False, trace=trace))
        for trace in traces
    ]
    assert TraceEntry("action", "action").assign_groups(samples) == [
        "correct",
        "ambiguous",
        "none",
        "none",
    ]


def test_by_sufficiency() -> None:
    """One passage with an answer suffices, wherever it stands; what was retrieved but not shown
    does not count.
    """
    without, with_answer = make_context(1, "a"), make_context(2, "b", has_answer=True)
    shown = [(without, with_answer), (without,), ()]
    sample = _sample("{}", "a", with_answer)
    samples = [replace(sample, placed=(with_answer,), shown=Shown(contexts)) for contexts in shown]
    samples.append(replace(sample, placed=(with_answer,)))
    assert Sufficiency("s", "s").assign_groups(samples) == [
        "answer shown",
        "answer not shown",
        "no passages",
        "not recorded",
    ]


def test_by_gold_rank() -> None:
    """Edges are inclusive; the best of several gold passages counts; inserted ones were not
    retrieved.
    """
    rows = [
        [make_context(1, "a", is_gold=True), make_context(2, "b", is_gold=True)],
        [make_context(5, "a", is_gold=True)],
        [make_context(6, "a", is_gold=True)],
        [make_context(20, "a", is_gold=True)],
        [make_context(21, "a", is_gold=True)],
        [make_context(7, "a", is_gold=True, rank=0)],
        [make_context(8, "a")],
        [make_context(101, "a", is_gold=True)],
        [make_context(500, "a", is_gold=True)],
    ]
    samples = [_sample("{}", "a", *row) for row in rows]
    names = [
        "1",
        "2-5",
        "6-20",
        "6-20",
        "21-100",
        "not retrieved",
        "no gold passage",
        "over 100",
        "over 100",
    ]
    assert GoldRank("gold_rank", "rank").assign_groups(samples) == names
    for bounds in ((), (5, 3), (2, 2), (0, 3)):
        with pytest.raises(ConfigError, match="must be ranks from 1 in ascending order"):
            GoldRank("gold_rank", "rank", upper_bounds=bounds)
    assert GoldRank("gold_rank", "rank", upper_bounds=(3, 4)).assign_groups(samples[:2]) == [
        "1-3",
        "over 4",
    ]
    assert collect_inputs([GoldRank("g", "g"), Unknown("u", "%Unk")]) == {"ranking", "prediction"}


def test_by_retrieval_score() -> None:
    """Bins of equal size from the lowest score; equal scores share one; questions without a ranking
    are apart.
    """
    retrieved = [_sample("{}", "a", make_context(number, "a")) for number in range(1, 9)]
    nothing = _sample("{}", "a", make_context(9, "a", rank=0))
    scores = RetrievalScore("score", "score")
    groups = scores.assign_groups([*retrieved, nothing])
    assert groups == ["4 of 4"] * 2 + ["3 of 4"] * 2 + ["2 of 4"] * 2 + ["1 of 4"] * 2 + [
        "nothing retrieved"
    ]
    assert RetrievalScore("score", "score", num_bins=2).assign_groups(retrieved[:3]) == [
        "2 of 2",
        "1 of 2",
        "1 of 2",
    ]
    thirds = ["3 of 3"] * 2 + ["2 of 3"] * 2 + ["1 of 3"] * 2
    assert RetrievalScore("score", "score", num_bins=3).assign_groups(retrieved[:6]) == thirds
    assert scores.assign_groups([retrieved[0], retrieved[0]]) == ["1 of 4"] * 2
    assert scores.assign_groups([nothing]) == ["nothing retrieved"]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("Yes", "yes/no"),
        ("1984", "year"),
        ("3,000 m", "text"),
        ("42", "number"),
        ("Bank of England", "name"),
        ("dog", "text"),
        ("Henry 8", "name"),
        ("1st Baron", "name"),
        ("Apollo11", "name"),
        ("14 December 1972 UTC", "date"),
        ("May 5, 1990", "date"),
        ("Theresa May", "name"),
        ("iPhone", "text"),
    ],
)
def test_by_answer_type(answer: str, kind: str) -> None:
    """By the form of the first accepted answer alone."""
    assert classify_answer(answer) == kind
    assert AnswerType("t", "t").assign_groups([_sample("{}", answer)]) == [kind]
