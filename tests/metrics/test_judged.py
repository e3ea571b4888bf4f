"""Answers that a model grades."""

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
    with pytest.raises(ConfigError, match=r"metric.judged.template must have \{answer\} and \{answers\} and \{question\}"):
        JudgedAccuracy("judged", "judged", template="{question} {answers}")
