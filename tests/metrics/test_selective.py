"""Answers that a strategy is confident of: how many, and how many of them are right."""

from dataclasses import replace

import pytest

from winnow.errors import ConfigError
from winnow.metrics.base import Sample, evaluate
from winnow.metrics.selective import (
    LIKELIHOOD,
    REPLIES,
    Coverage,
    SelectiveAccuracy,
    compute_agreement,
    read_likelihood,
    read_stated,
)
from winnow.testing import make_sample

SAMPLES = [
    make_sample("x", 0, candidates=("x", "The X!", "x", "y", "x"), trace=(f"{REPLIES}5",)),
    make_sample("y", 1, candidates=("y", "y", "y", "y"), trace=("kept: 4", f"{REPLIES}4"), calls=9),
    make_sample("x", 2, candidates=("x", "y", "z"), trace=(f"{REPLIES}3",)),
    make_sample("unknown", 3, unknown=True, trace=(f"{REPLIES}5",)),
    make_sample("x", 4),
    make_sample("unknown", 5, unknown=True),
]


def test_agreement_is_of_all_replies() -> None:
    """After normalization; other calls do not count. Without a vote there is none; that of a vote
    for "unknown" is 0.
    """
    assert [compute_agreement(sample) for sample in SAMPLES] == [
        0.8,
        1.0,
        pytest.approx(1 / 3),
        0.0,
        None,
        None,
    ]


def test_replies_that_are_unknown_agree_with_no_answer() -> None:
    """One answer beside four refusals, or from one of nine passages, is not a confident one."""
    for replies in (5, 9):
        lone = make_sample("x", candidates=("x",), trace=(f"{REPLIES}{replies}",))
        assert compute_agreement(lone) == 1 / replies
        assert Coverage("c", "c").score(lone) == 0.0
    single = make_sample(
        "unknown", unknown=True, trace=(f"{REPLIES}1",)
    )  # Post-Fusion on one passage
    assert (compute_agreement(single), Coverage("c", "c").score(single)) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("threshold", "accuracy", "coverage"),
    [(0.8, 1 / 2, 2 / 4), (0.0, 2 / 3, 3 / 4), (1.0, 0.0, 1 / 4)],
)
def test_fewer_answers_are_better_ones(threshold: float, accuracy: float, coverage: float) -> None:
    """A refusal is never confident; answers and refusals without a vote count in neither."""
    metrics = [
        SelectiveAccuracy("a", "a", threshold=threshold),
        Coverage("c", "c", threshold=threshold),
    ]
    values = evaluate(metrics, SAMPLES)
    assert (values["a"].mean, values["c"].mean, values["c"].n) == (
        pytest.approx(accuracy),
        pytest.approx(coverage),
        4,
    )


def say(reply: str, answer: str = "x", number: int = 0, *, unknown: bool = False) -> Sample:
    """An answer with its reply."""
    sample = make_sample(answer, number, unknown=unknown)
    return replace(sample, prediction=replace(sample.prediction, reply=reply))


@pytest.mark.parametrize(
    ("reply", "confidence"),
    [
        ("x\nConfidence: 80", 0.8),
        ("x\n**Confidence:** 80 %", 0.8),
        ("x\nConfidence: 80.", 0.8),
        ("x\nConfidence level: 7.5", 0.075),
        ("x\nConfidence (0-100): 90/100", 0.9),
        ("x\nConfidence:\n0.9", 0.9),
        ("x\nConfidence - 80", 0.8),
        ("x\nConfidence: .8", 0.8),
        ("x\nConfidence: 0.5%", 0.005),
        ("x\nConfidence: 1.0 %", 0.01),
        ("x\nConfidence: -5", None),
        ("x (confidence 80)", None),
        ("x. Confidence: 80", None),
        ("<think>Confidence: 10</think>x\nconfidence = 100%", 1.0),
        ("x\nConfidence: 20\n\nConfidence: 90", 0.9),
        ("x\nConfidence: high", None),
        ("x\nConfidence: 800", None),
        ("x\nConfidence: 1990s", None),
        ("x", None),
    ],
)
def test_a_stated_confidence_is_read(reply: str, confidence: float | None) -> None:
    """In percent; prose and other numbers are none."""
    assert read_stated(say(reply)) == confidence


def test_stated_confidence_selects_answers() -> None:
    """An answer without a number is left out, and one that is unknown is never confident."""
    samples = [
        say("x\nConfidence: 90", "x", 0),
        say("y\nConfidence: 85", "y", 1),
        say("x\nConfidence: 10", "x", 2),
        say("x", "x", 3),
        say("unknown", "unknown", 4, unknown=True),
    ]
    values = evaluate(
        [SelectiveAccuracy("a", "a", by="stated"), Coverage("c", "c", by="stated")], samples
    )
    assert (values["a"].mean, values["a"].n) == (0.5, 2)
    assert (values["c"].mean, values["c"].n) == (0.5, 4)
    with pytest.raises(ConfigError, match=r"metric\.a\.by"):
        Coverage("a", "a", by="felt")  # type: ignore[arg-type]


def test_a_likelihood_is_read_from_the_trace() -> None:
    """None without a record; an answer "unknown" has 0, however probable it is."""
    traced = [
        replace(
            sample,
            prediction=replace(sample.prediction, trace=("other: 1", f"{LIKELIHOOD}{value}")),
        )
        for sample, value in (
            (say("x"), "0.9"),
            (say("y", "y", 1), "0.25"),
            (say("unknown", "unknown", 2, unknown=True), "1"),
        )
    ]
    assert [read_likelihood(sample) for sample in [*traced, say("x", "x", 3)]] == [
        0.9,
        0.25,
        0.0,
        None,
    ]
    values = evaluate(
        [SelectiveAccuracy("a", "a", by="likelihood"), Coverage("c", "c", by="likelihood")], traced
    )
    assert (values["a"].mean, values["c"].mean) == (1.0, 1 / 3)


def test_options_that_are_articles_agree_with_their_like_alone() -> None:
    """Nothing is left of "A" and "+" without articles and punctuation."""
    sample = make_sample("A", candidates=("A", "+", "a.", "B"), trace=(f"{REPLIES}4",))
    assert compute_agreement(sample) == pytest.approx(2 / 4)


def test_a_vote_for_unknown_is_no_confident_answer() -> None:
    """Also where "unknown" is a candidate (`unknown_votes`), on which all replies agree."""
    sample = make_sample(
        "unknown", unknown=True, candidates=("unknown",) * 3, trace=(f"{REPLIES}3",)
    )
    assert compute_agreement(sample) == 0.0
    assert Coverage("c", "c").score(sample) == 0.0
