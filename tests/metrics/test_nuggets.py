"""Nuggets that an answer supports, by the published formulas."""

import json
from collections.abc import Sequence

import pytest

from winnow.errors import ConfigError, InputError
from winnow.metrics.base import Sample
from winnow.metrics.nuggets import Nuggets
from winnow.records import Question
from winnow.testing import make_sample, run_scripted_plan

IMPORTANCES = ("vital", "vital", "okay", "okay", "okay")


def sample(importances: Sequence[str] = IMPORTANCES, *, unknown: bool = False) -> Sample:
    """An answer to a question with nuggets."""
    nuggets = [
        {"text": f"nugget {number}", "importance": one} for number, one in enumerate(importances, 1)
    ]
    return Sample(
        Question("q", "Why?", ("x",), meta=json.dumps({"nuggets": nuggets})),
        make_sample("Because.", unknown=unknown).prediction,
    )


def play(metric: Nuggets, one: Sample, *replies: str) -> tuple[float | None, list[list[str]]]:
    """The value, and the prompts of each round."""
    value, prompts = run_scripted_plan(metric.plan(one), [list(replies)] if replies else [])
    return value, prompts


REPLY = "1. support\n2. partial_support\n3: Support\n4 - not_support\n5. partial_support."


@pytest.mark.parametrize(
    ("of", "value"),
    [
        ("all", (1 + 0.5 + 1 + 0 + 0.5) / 5),
        ("all_strict", 2 / 5),
        ("vital", 1.5 / 2),
        ("vital_strict", 1 / 2),
        ("weighted", (1.5 + 0.5 * 1.5) / (2 + 0.5 * 3)),
        ("weighted_strict", (1 + 0.5 * 1) / (2 + 0.5 * 3)),
    ],
)
def test_the_six_measures(of: str, value: float) -> None:
    """Two vital and three okay nuggets, of which two are supported and two in part."""
    found, prompts = play(Nuggets("m", "m", of=of), sample(), REPLY)  # type: ignore[arg-type]
    assert found == pytest.approx(value)
    assert "1. nugget 1\n2. nugget 2" in prompts[0][0]


def test_the_importance_is_a_word_in_any_case() -> None:
    """Another one is refused, rather than taken for okay; a nugget without one is okay."""
    reply = "support\nnot_support"
    assert play(Nuggets("m", "m", of="weighted"), sample(["Vital ", "okay"]), reply)[
        0
    ] == pytest.approx(1 / 1.5)
    with pytest.raises(
        InputError,
        match="Question 'q': the importance of a nugget is vital or okay; received 'high'",
    ):
        play(Nuggets("m", "m", of="weighted"), sample(["high", "okay"]), reply)


def test_ten_nuggets_are_asked_about_at_once() -> None:
    """A list of twelve takes two requests of one round."""
    replies = ["\n".join(["support"] * 10), "not_support\nsupport"]
    value, prompts = play(Nuggets("m", "m", of="all"), sample(["okay"] * 12), *replies)
    assert value == pytest.approx(11 / 12)
    assert len(prompts[0]) == 2


def test_what_is_missing_is_no_zero_but_in_the_dialect() -> None:
    """Prose, a list too short, no vital nugget, no nuggets; an unknown answer supports none and is
    not judged.
    """
    for reply in (
        "It does.",
        "1. support\n2. support",
        "1. support\n1. support\n3. support\n4. support\n5. support",
    ):
        assert play(Nuggets("m", "m"), sample(), reply)[0] is None
        assert play(Nuggets("m", "m", dialect="nuggetizer"), sample(), reply)[0] == 0.0
    assert play(Nuggets("m", "m"), sample(["okay"]), "support")[0] is None
    assert play(Nuggets("m", "m", dialect="nuggetizer"), sample(["okay"]), "support")[0] == 0.0
    assert play(Nuggets("m", "m"), sample([]))[0] is None
    assert play(Nuggets("m", "m"), sample(unknown=True)) == (0.0, [])


def test_unknown_measures_are_refused() -> None:
    """With the value received."""
    with pytest.raises(ConfigError, match="received 'best'"):
        Nuggets("m", "m", of="best")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "nuggets", [["a text"], [{"importance": "vital"}], [{"text": 1}], {"a": 1}, "text"]
)
def test_nuggets_of_another_form_are_refused_by_their_question(nuggets: object) -> None:
    """Such as a list of texts; no nuggets at all are none."""
    prediction = make_sample("Because.").prediction
    one = Sample(Question("q", "Why?", ("x",), meta=json.dumps({"nuggets": nuggets})), prediction)
    with pytest.raises(InputError, match="Question 'q': its nuggets are a list of objects"):
        play(Nuggets("m", "m"), one)
    for meta in ("{}", "[]", "null", '{"nuggets": null}'):
        none = Sample(Question("q", "Why?", ("x",), meta=meta), prediction)
        assert play(Nuggets("m", "m"), none)[0] is None


def test_a_nugget_outside_a_list_is_refused() -> None:
    """Its keys would be read as nuggets."""
    meta = json.dumps({"nuggets": {"text": "a fact", "importance": "vital"}})
    one = Sample(Question("q", "Why?", ("x",), meta=meta), make_sample("Because.").prediction)
    with pytest.raises(InputError, match="Question 'q': its nuggets are a list of objects"):
        play(Nuggets("m", "m"), one)
