"""Answer marginalization, by hand."""

import math

import pytest

from winnow.contexts import marginalization as marginal


def test_fast_counts_an_answer_only_where_it_was_given() -> None:
    """Weights 1/2, 1/4, 1/4; P_G 0.4, 0.6, 0.8: "paris" has 0.2 + 0.15, "rome" 0.2."""
    weights = [math.log(w) for w in (0.5, 0.25, 0.25)]
    result = marginal.marginalize(
        ["Paris", "the paris", "Rome"], [math.log(p) for p in (0.4, 0.6, 0.8)], weights
    )
    assert {key: math.exp(value) for key, value in result.items()} == pytest.approx(
        {"paris": 0.35, "rome": 0.2}
    )
    assert marginal.select_most_probable(result) == "paris"


def test_softmax_without_overflow() -> None:
    """Scores of 1000 and 1000 + log 3; all weights of minus infinity stay so."""
    assert [
        math.exp(v) for v in marginal.log_softmax([1000.0, 1000.0 + math.log(3)])
    ] == pytest.approx([0.25, 0.75])
    assert marginal.logsumexp([-math.inf, -math.inf]) == -math.inf


def test_distinct_answers_keep_their_first_writing() -> None:
    """By normalized form, in order."""
    assert marginal.collect_spellings(["The Rome", "rome", "Paris"]) == {
        "rome": "The Rome",
        "paris": "Paris",
    }
    assert (
        marginal.select_most_probable_answer(
            ["Paris", "Rome", "rome"], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]
        )
        == "Rome"
    )


def test_options_that_are_articles_are_different_answers() -> None:
    """Nothing is left of "A" and "The" without articles; "a." is "A"."""
    answers = ["A", "The", "a."]
    assert marginal.collect_spellings(answers) == {"a": "A", "the": "The"}
    result = marginal.marginalize(answers, [math.log(0.2)] * 3, [0.0] * 3)
    assert {key: math.exp(value) for key, value in result.items()} == pytest.approx(
        {"a": 0.4, "the": 0.2}
    )
