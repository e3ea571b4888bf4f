"""Choices and claims: what a reply says, and what CRAG's code takes it to say."""

import json
from dataclasses import replace

import pytest

from winnow.errors import ConfigError
from winnow.metrics.base import Sample
from winnow.metrics.classification import ChoiceAccuracy, ClaimAccuracy, parse_choice, parse_claim
from winnow.testing import make_sample

CHOICES = {"A": "density", "B": "longer years", "C": "years", "D": "All of the above"}


def choice_sample(reply: str, key: str = "B", file_key: str = "B") -> Sample:
    sample = make_sample(reply, 0, (CHOICES[key],))
    meta = json.dumps({"choices": CHOICES, "key": key, "file_key": file_key})
    return replace(sample, question=replace(sample.question, meta=meta), prediction=replace(sample.prediction, reply=reply))


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("B", "B"), ("(b)", "B"), ("B: longer years", "B"), ("The answer is C.", "C"), ("Answer: A", "A"), ("option D\n", "D"),
        ("It is surely longer years, I think", "B"), ("years", "C"), ("all of the above", "D"),
        ("A planet has longer years", "B"),
        ("I choose option C because it fits", "C"), ("density or years", None), ("neither", None), ("", None), ("G", None),
        ("A, B and C are wrong", None), ("Because", None),
    ],
)  # fmt: skip
def test_the_choice_that_a_reply_names(reply: str, letter: str | None) -> None:
    """A letter where letters stand, or the text of one choice alone; an article is no letter."""
    assert parse_choice(reply, CHOICES) == letter


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("true", True), ("True.", True), ("It is not true", False), ("untrue", False), ("REFUTES", False), ("supported", True),
        ("not false", True), ("true or false", None), ("maybe", None), ("", None), ("false, false", False), ("trueish", None),
    ],
)  # fmt: skip
def test_the_verdict_of_a_reply(reply: str, verdict: bool | None) -> None:
    """Whole words in any case; a negation turns them round; both are none."""
    assert parse_claim(reply) is verdict


def test_dialects_differ_where_crags_code_does() -> None:
    """The raw label anywhere: "B" in "But", "true" in "untrue", "True" is not "true", a number where letters are shown."""
    fixed, crag = ChoiceAccuracy("c", "Acc"), ChoiceAccuracy("c", "Acc", dialect="crag")
    cases = (("But years", 0.0, 1.0), ("B", 1.0, 1.0), ("longer years", 1.0, 0.0))
    for reply, expected, theirs in cases:
        assert (fixed.score(choice_sample(reply)), crag.score(choice_sample(reply))) == (expected, theirs)
    assert (fixed.score(choice_sample("B", file_key="2")), crag.score(choice_sample("B", file_key="2"))) == (1.0, 0.0)
    assert (fixed.heading, crag.heading) == ("Acc", "Acc (crag)")
    claim, theirs_claim = ClaimAccuracy("c", "Acc"), ClaimAccuracy("c", "Acc", dialect="crag")
    for reply, answer, expected, theirs in (
        ("untrue", "true", 0.0, 1.0),
        ("True", "true", 1.0, 0.0),
        ("false", "true", 0.0, 0.0),
    ):
        sample = make_sample(reply, 0, (answer,))
        assert (claim.score(sample), theirs_claim.score(sample)) == (expected, theirs)


def test_other_questions_have_no_such_metric() -> None:
    """Undefined is not 0."""
    sample = make_sample("B", 0, ("Ada",))
    assert ChoiceAccuracy("c", "Acc").score(sample) is None
    assert ClaimAccuracy("c", "Acc").score(sample) is None
    with pytest.raises(ConfigError, match="must be fixed or crag; received 'both'"):
        ClaimAccuracy("c", "Acc", dialect="both")  # type: ignore[arg-type]
