"""Answers that a model grades."""

from dataclasses import replace

import pytest

from winnow.errors import ConfigError
from winnow.metrics.base import JudgedMetric
from winnow.metrics.judged import JudgedAccuracy
from winnow.testing import make_sample, run_scripted_plan

TWO = ("Jane Austen", "Austen")


def test_a_judge_is_asked_and_its_odd_replies_leave_the_question_out() -> None:
    """A plan of the role "judge"; "Yes." is right, "no" is wrong, prose is undefined."""
    metric = JudgedAccuracy("judged", "judged", template="{question}|{answers}|{answer}")
    assert isinstance(metric, JudgedMetric)
    requests = next(metric.plan(make_sample("Emma", 0, TWO)))
    assert [request.role for request in requests] == ["judge"]
    verdicts = [
        run_scripted_plan(metric.plan(make_sample("Emma", 0, TWO)), [[reply]])
        for reply in ("<think>no</think> Yes.", "no", "It depends", "")
    ]
    assert [verdict for verdict, _ in verdicts] == [1.0, 0.0, None, None]
    assert verdicts[0][1] == [["Who wrote Emma?|Jane Austen; Austen|Emma"]]
    assert requests[0].decoding.samples == 1
    with pytest.raises(
        ConfigError,
        match=r"metric.judged.template must have \{answer\} and \{answers\} and \{question\}",
    ):
        JudgedAccuracy("judged", "judged", template="{question} {answers}")


@pytest.mark.parametrize(
    ("replies", "verdict", "consistency"),
    [
        (["yes", "no", "yes"], 1.0, 2 / 3),
        (["no", "well", "no"], 0.0, 1.0),
        (["yes", "no", "well"], None, 0.5),
        (["well", "", "hm"], None, None),
    ],
)
def test_votes_of_a_judge(
    replies: list[str], verdict: float | None, consistency: float | None
) -> None:
    """The majority of the verdicts; a draw and no verdict are undefined. Votes are numbered samples
    at a temperature.
    """
    metric = JudgedAccuracy(
        "judged", "judged", template="{question}|{answers}|{answer}", votes=3, temperature=0.7
    )
    requests = next(metric.plan(make_sample("Emma", 0, TWO)))
    assert [
        (request.sample, request.decoding.temperature, request.decoding.samples)
        for request in requests
    ] == [
        (0, 0.7, 3),
        (1, 0.7, 3),
        (2, 0.7, 3),
    ]
    assert run_scripted_plan(metric.plan(make_sample("Emma", 0, TWO)), [replies])[0] == verdict
    spread = replace(metric, of="consistency")
    assert run_scripted_plan(spread.plan(make_sample("Emma", 0, TWO)), [replies])[0] == consistency


def test_a_single_vote_is_greedy_and_a_small_majority_is_one() -> None:
    """Verdicts may be marked or punctuated."""
    metric = JudgedAccuracy(
        "judged", "judged", template="{question}|{answers}|{answer}\n", max_new_tokens=7
    )
    (request,) = next(metric.plan(make_sample("Emma", 0, TWO)))
    assert (request.decoding.temperature, request.decoding.max_new_tokens) == (0.0, 7)
    assert request.messages[0].content == "Who wrote Emma?|Jane Austen; Austen|Emma"
    votes = replace(metric, votes=5).plan(make_sample("Emma", 0, TWO))
    assert run_scripted_plan(votes, [["yes"] * 3 + ["no"] * 2])[0] == 1.0
    for reply in ("**Yes**", '"yes"', "yes,", "'Yes'!", "yes;", "Yes: it is"):
        assert run_scripted_plan(metric.plan(make_sample("Emma", 0, TWO)), [[reply]])[0] == 1.0
