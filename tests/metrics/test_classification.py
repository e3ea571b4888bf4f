"""Choices and claims: what a reply says, and what CRAG's code takes it to say."""

import json
from dataclasses import replace

import pytest

from winnow.errors import ConfigError
from winnow.metrics.base import Sample
from winnow.metrics.classification import ChoiceAccuracy, ClaimAccuracy
from winnow.testing import make_sample

CHOICES = {"A": "density", "B": "longer years", "C": "years", "D": "All of the above"}


def choice_sample(reply: str, key: str = "B", file_key: str = "B") -> Sample:
    sample = make_sample(reply, 0, (CHOICES[key],))
    meta = json.dumps({"choices": CHOICES, "key": key, "file_key": file_key})
    return replace(
        sample,
        question=replace(sample.question, meta=meta),
        prediction=replace(sample.prediction, reply=reply),
    )


def test_dialects_differ_where_crags_code_does() -> None:
    """The raw label anywhere: "B" in "But", "true" in "untrue", "True" is not "true", a number
    where letters are shown.
    """
    fixed, crag = ChoiceAccuracy("c", "Acc"), ChoiceAccuracy("c", "Acc", dialect="crag")
    cases = (("But years", 0.0, 1.0), ("B", 1.0, 1.0), ("longer years", 1.0, 0.0))
    for reply, expected, theirs in cases:
        assert (fixed.score(choice_sample(reply)), crag.score(choice_sample(reply))) == (
            expected,
            theirs,
        )
    assert (
        fixed.score(choice_sample("B", file_key="2")),
        crag.score(choice_sample("B", file_key="2")),
    ) == (1.0, 0.0)
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
