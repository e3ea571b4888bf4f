"""ROUGE by hand: words in common and their longest common subsequence, of the best
accepted answer.
"""

import json
from dataclasses import replace

import pytest

from winnow.errors import ConfigError, InputError
from winnow.metrics.rouge import Rouge
from winnow.testing import make_sample


def score(metric: Rouge, answer: str, *accepted: str) -> float | None:
    sample = make_sample(answer)
    return metric.score(replace(sample, question=replace(sample.question, answers=accepted)))


def test_subsequences_are_counted() -> None:
    """Of "a b c d" and "a c e", "a c" is in both: precision 2/4, recall 2/3, F 4/7; citations are
    no words.
    """
    metric = Rouge("m", "M", stem=False)
    assert score(metric, "alpha beta gamma delta", "alpha gamma epsilon") == pytest.approx(4 / 7)
    assert score(
        metric, "alpha beta gamma [1] delta [2][3]", "alpha gamma epsilon"
    ) == pytest.approx(4 / 7)
    assert score(metric, "alpha beta gamma delta", "nothing", "alpha beta gamma delta") == 1.0
    assert score(metric, "gamma alpha", "alpha gamma") == pytest.approx(0.5)
    assert score(replace(metric, of="rouge1"), "gamma alpha", "alpha gamma") == 1.0


def test_long_answers_come_first() -> None:
    """Of ASQA, whose accepted answers are short ones."""
    sample = make_sample("Ada was the first one of them")
    question = replace(
        sample.question,
        answers=("Ada",),
        meta=json.dumps({"long_answers": ["Ada was the first one of them"]}),
    )
    assert Rouge("m", "M").score(replace(sample, question=question)) == 1.0


def test_a_long_answer_may_be_a_text() -> None:
    """It would otherwise be read letter by letter; another form is refused by its question."""
    sample = make_sample("The city is Paris.")
    for value, expected in (("The city is Paris.", 1.0), (["a", None], None), (3, None)):
        meta = json.dumps({"long_answers": value})
        other = replace(sample, question=replace(sample.question, meta=meta))
        if expected is None:
            with pytest.raises(InputError, match="long_answers in its metadata must be a list"):
                Rouge("m", "M").score(other)
        else:
            assert Rouge("m", "M").score(other) == expected


def test_stems_are_equal() -> None:
    """With Porter's stemmer, as in ALCE."""
    assert score(Rouge("m", "M"), "rivers flow", "river flows") == 1.0
    assert score(Rouge("m", "M", stem=False), "rivers flow", "river flows") == 0.0


def test_what_is_undefined_and_refused() -> None:
    """Without accepted answers, or without Latin ones; an unknown measure."""
    assert score(Rouge("m", "M"), "alpha") is None
    assert score(Rouge("m", "M"), "Москва", "Москва") is None
    assert score(Rouge("m", "M"), "Moscow", "Москва", "Moscow") == 1.0
    with pytest.raises(ConfigError, match=r"metric\.m\.of"):
        Rouge("m", "M", of="rouge9")  # type: ignore[arg-type]
