"""Metrics of replies that may have been misread."""

from dataclasses import replace

from winnow.metrics.base import evaluate
from winnow.metrics.replies import CutReplies, EmptyReplies, LongAnswers, Refusals
from winnow.predictions import RoleUsage
from winnow.testing import make_sample

LONG = "one two three four five six seven eight nine ten eleven"


def test_empty_replies_are_counted_by_role() -> None:
    """One of the reader's three, among more calls; a role without a call has none."""
    base = make_sample("Emma")
    usage = (
        RoleUsage("reader", 9, 10, 2, empty=1, replies=3),
        RoleUsage("judge", 1, 5, 1, replies=1),
    )
    used = replace(base, prediction=replace(base.prediction, usage=usage))
    counts = [
        EmptyReplies("empty", "empty", role=role).compute_terms(used)
        for role in ("reader", "judge", "verifier")
    ]  # type: ignore[arg-type]
    assert counts == [(1.0, 3.0), (0.0, 1.0), (0.0, 0.0)]


def test_cut_replies_are_counted_by_role() -> None:
    """One of three of the reader, whose likelihoods are no replies, none of the judge; a role
    without replies is undefined.
    """
    base = make_sample("x")
    usage = (
        RoleUsage("reader", 9, 10, 2, cut=1, replies=3),
        RoleUsage("judge", 1, 5, 1, replies=1),
    )
    used = replace(base, prediction=replace(base.prediction, usage=usage))
    assert CutReplies("cut", "cut").compute_terms(used) == (1.0, 3.0)
    assert CutReplies("cut", "cut", role="judge").compute_terms(used) == (0.0, 1.0)
    metric = CutReplies("cut", "cut", role="verifier")
    assert metric.compute_value(metric.compute_row(used)) is None
    assert evaluate([metric], [used])["cut"].n == 0


def test_long_answers_count_every_candidate() -> None:
    """Ten words are an answer, eleven are not; "unknown" is none."""
    metric = LongAnswers("long", "long")
    assert metric.compute_terms(make_sample(LONG)) == (1.0, 1.0)
    assert metric.compute_terms(make_sample(LONG.removesuffix(" eleven"))) == (0.0, 1.0)
    assert metric.compute_terms(make_sample("x", candidates=("x", LONG, LONG))) == (2.0, 3.0)
    assert metric.compute_terms(make_sample("unknown", unknown=True)) == (0.0, 0.0)


def test_a_refusal_is_unknown_in_other_words() -> None:
    """The word itself and an empty reply are none, nor is an answer."""
    metric = Refusals("refused", "refused")
    replies = {
        "I am not sure.": 1.0,
        "Unknown.": 0.0,
        "": 0.0,
        "It lacks it.\nAnswer: unknown": 0.0,
        "**Answer:** Not given": 1.0,
    }
    assert {
        reply: metric.score(make_sample("unknown", unknown=True, reply=reply)) for reply in replies
    } == replies
    assert metric.score(make_sample("Paris", reply="I am not sure.")) == 0.0
