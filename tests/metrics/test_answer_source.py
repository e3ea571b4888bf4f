"""Where answers come from."""

from dataclasses import replace

import pytest

from winnow.errors import ConfigError
from winnow.metrics.answer_source import AnswerSource
from winnow.metrics.base import Sample, Shown, evaluate
from winnow.testing import make_context, make_sample

CONTEXTS = (
    make_context(1, "Emma is by Jane Austen.", is_gold=True),
    make_context(2, "Charlotte Brontë wrote Jane Eyre."),
    make_context(3, "Nothing of it."),
)


def sample(answer: str, **fields: object) -> Sample:
    """An answer to a question whose accepted answers are "Jane Austen" and "Austen"."""
    return make_sample(answer, answers=("Jane Austen", "Austen"), contexts=CONTEXTS, **fields)


@pytest.mark.parametrize(
    ("answer", "source", "outcome"),
    [
        ("Jane Austen", "gold", "right"),
        ("jane", "gold", "wrong"),
        ("Charlotte Bronte", "other", "wrong"),
        ("charlotte brontë", "other", "wrong"),
        ("Title 2", "other", "wrong"),
        ("Mary Shelley", "none", "wrong"),
    ],
)
def test_each_answer_has_one_source_and_one_outcome(answer: str, source: str, outcome: str) -> None:
    """A gold passage counts before another one; titles count; accents do, as for `has_answer`."""
    expected = "none" if answer == "Charlotte Bronte" else source
    for kind in ("gold", "other", "none"):
        for result in ("any", "right", "wrong"):
            metric = AnswerSource("m", "m", source=kind, outcome=result)  # type: ignore[arg-type]
            assert metric.score(sample(answer)) == float(
                kind == expected and result in ("any", outcome)
            )


def test_right_without_a_passage_is_the_readers_own() -> None:
    """The accepted answer stands in no passage."""
    own = replace(sample("Austen"), shown=Shown(CONTEXTS[1:]))
    assert AnswerSource("m", "m", source="none", outcome="right").score(own) == 1.0
    assert AnswerSource("m", "m", source="other", outcome="right").score(own) == 0.0


def test_what_has_no_source_is_undefined() -> None:
    """Unknown answers, those without a word, and prompts without passages; they count
    in no share.
    """
    metric = AnswerSource("m", "m", source="none")
    undefined = [
        sample("unknown", unknown=True),
        sample("?!"),
        sample("\N{EM DASH}"),
        sample("The"),
        replace(sample("Ada"), shown=Shown()),
        replace(sample("Ada"), shown=None),
    ]
    assert [metric.score(one) for one in undefined] == [None] * 6
    value = evaluate([metric], [*undefined, sample("Ada"), sample("Austen")])["m"]
    assert (value.mean, value.n) == (0.5, 2)


@pytest.mark.parametrize("settings", [{"source": "web"}, {"outcome": "unknown"}])
def test_unknown_kinds_are_refused(settings: dict[str, str]) -> None:
    """With the value received."""
    with pytest.raises(ConfigError, match=f"received .*'{next(iter(settings.values()))}'"):
        AnswerSource("m", "m", **settings)  # type: ignore[arg-type]


def test_every_prompt_of_a_question_counts() -> None:
    """Not the last one alone: an answer that only an earlier prompt had is not the reader's own."""
    asked = replace(sample("Charlotte Brontë"), shown=Shown(CONTEXTS, CONTEXTS[2:]))
    assert AnswerSource("m", "m", source="other").score(asked) == 1.0
