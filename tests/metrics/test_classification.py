"""Choices and claims: what a reply says, and what CRAG's code takes it to say."""

import json
from dataclasses import replace

import pytest

from winnow.errors import ConfigError, InputError
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


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("No, it is not the case that the vaccine is  not proven safe.", "false"),
        ("The claim that The vaccine is not proven safe is true.", "true"),
        ("It is true that the vaccine is not proven safe.", "true"),
    ],
)
def test_words_of_a_repeated_claim_are_no_judgment(reply: str, verdict: str) -> None:
    """They are of the claim, in any case and with any spaces."""
    metric = ClaimAccuracy("c", "Acc")
    sample = make_sample("", 0, (verdict,))
    sample = replace(
        sample,
        question=replace(sample.question, text='"The vaccine is not proven safe."'),
        prediction=replace(sample.prediction, reply=reply),
    )
    assert metric.score(sample) == 1
    other = "true" if verdict == "false" else "false"
    assert metric.score(replace(sample, question=replace(sample.question, answers=(other,)))) == 0


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ({"choices": ["a", "b"], "key": "A"}, "choices in its metadata must be an object"),
        ({"choices": {"text": ["a"], "label": ["A"]}, "key": "A"}, "must be an object of texts"),
        ({"choices": CHOICES}, "key in its metadata must be the key of the right choice"),
    ],
)
def test_choices_of_another_form_are_refused(meta: dict[str, object], message: str) -> None:
    """By their question, as the hub's form or a list is."""
    sample = choice_sample("B")
    sample = replace(sample, question=replace(sample.question, meta=json.dumps(meta)))
    with pytest.raises(InputError, match=message):
        ChoiceAccuracy("c", "Acc").score(sample)


def test_other_questions_have_no_such_metric() -> None:
    """Undefined is not 0."""
    sample = make_sample("B", 0, ("Ada",))
    assert ChoiceAccuracy("c", "Acc").score(sample) is None
    assert ClaimAccuracy("c", "Acc").score(sample) is None
    with pytest.raises(ConfigError, match="must be fixed or crag; received 'both'"):
        ClaimAccuracy("c", "Acc", dialect="both")  # type: ignore[arg-type]
