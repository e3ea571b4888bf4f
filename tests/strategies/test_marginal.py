"""Marginalization with likelihoods by hand."""

import math
from dataclasses import replace

import pytest

from winnow.errors import ConfigError, ReaderError
from winnow.records import Answer, Decoding
from winnow.requests import Generate, Generation, Likelihood, Score
from winnow.strategies.marginal import Marginal
from winnow.strategies.prompt import Prompt
from winnow.testing import make_context, make_question

PROMPT = Prompt(
    "{contexts} {question}", "{question}", "{contexts} {candidates} {question}", "{text}"
)
CONTEXTS = [
    replace(make_context(n, text), log_weight=math.log(w))
    for n, (text, w) in enumerate([("a", 5.0), ("b", 3.0), ("c", 2.0)], 1)
]


def answer(
    scoring: str, replies: list[str], likelihoods: dict[tuple[str, str], float], **more: bool
) -> tuple[Answer, int]:
    """Play a plan: likelihoods by (passage, answer); return the answer and how many likelihoods it
    asked for.
    """
    plan = Marginal(PROMPT, Decoding(), scoring=scoring, **more).plan(make_question(), CONTEXTS)  # type: ignore[arg-type]
    requests = next(plan)
    assert len(requests) == 3
    try:
        scored = plan.send([Generation(text) for text in replies])
        assert all(isinstance(one, Likelihood) for one in scored)
        plan.send(
            [Score(math.log(likelihoods[r.messages[0].content[0], r.continuation])) for r in scored]
        )
    except StopIteration as stop:
        return stop.value, len(scored) if "scored" in locals() else 0
    raise AssertionError


def test_exact_scores_every_answer_under_every_context() -> None:
    """Weights 0.5, 0.3, 0.2. x: 0.5 * 0.2 + 0.3 * 0.4 + 0.2 * 0.1 = 0.24; y: 0.5 * 0.1 + 0.3 * 0.5
    + 0.2 * 0.6 = 0.32.
    """
    table = {
        ("a", "x"): 0.2,
        ("b", "x"): 0.4,
        ("c", "x"): 0.1,
        ("a", "y"): 0.1,
        ("b", "y"): 0.5,
        ("c", "y"): 0.6,
    }
    result, requests = answer("exact", ["x", "y", "Y"], table)
    assert (result.text, result.unknown, requests) == ("y", False, 6)
    assert result.candidates == ("x", "y", "Y")


def test_fast_scores_an_answer_where_it_was_given() -> None:
    """x: 0.5 * 0.9 = 0.45; y: 0.3 * 0.5 + 0.2 * 0.6 = 0.27."""
    result, requests = answer(
        "fast", ["x", "y", "Y"], {("a", "x"): 0.9, ("b", "y"): 0.5, ("c", "y"): 0.6}
    )
    assert (result.text, requests) == ("x", 3)


def test_generated_scores_an_answer_by_its_own_tokens() -> None:
    """As fast, without a likelihood: x: 0.5 * 0.9 = 0.45; y: 0.3 * 0.8 * 0.9 + 0.2 *
    0.6 = 0.336.
    """
    plan = Marginal(PROMPT, Decoding(), scoring="generated").plan(make_question(), CONTEXTS)
    requests = next(plan)
    assert all(isinstance(one, Generate) and one.decoding.logprobs for one in requests)
    replies = [("x", (0.9,)), ("y", (0.8, 0.9)), ("Y", (0.6,))]
    with pytest.raises(StopIteration) as stop:
        plan.send(
            [Generation(text, logprobs=tuple(map(math.log, values))) for text, values in replies]
        )
    result = stop.value.value
    assert (result.text, result.candidates) == ("x", ("x", "y", "Y"))
    assert result.trace == (
        "replies: 3",
        f"log P: x {math.log(0.45):.2f}; y {math.log(0.336):.2f}",
    )


def test_a_server_without_log_probabilities_is_named() -> None:
    """It never counts as probability 1."""
    plan = Marginal(PROMPT, Decoding(), scoring="generated").plan(make_question(), CONTEXTS)
    next(plan)
    with pytest.raises(ReaderError, match=r"the reader returned none.*strategy=post_fusion"):
        plan.send([Generation("x")] * 3)


def test_log_probabilities_of_reasoning_are_no_likelihood_of_an_answer() -> None:
    """Whether it is in the text or beside it: the answer behind the longest would seem unlikely."""
    sure = (math.log(0.9),)
    for reply in (
        Generation("<think>x or y</think>x", logprobs=sure),
        Generation("x", logprobs=sure, reasoning="x or y"),
    ):
        plan = Marginal(PROMPT, Decoding(), scoring="generated").plan(make_question(), CONTEXTS)
        next(plan)
        with pytest.raises(ReaderError, match=r"begins with reasoning.*strategy=post_fusion"):
            plan.send([Generation("y", logprobs=sure), reply, Generation("y", logprobs=sure)])


def test_unknown_is_an_answer_only_where_it_votes() -> None:
    """By default it wins only where nothing else is said, and costs no likelihood."""
    table = {(c, t): 0.9 if t == "unknown" else 0.1 for c in "abc" for t in ("unknown", "y")}
    assert answer("exact", ["unknown", "I don't know", "y"], table)[0].text == "y"
    result, requests = answer("exact", ["unknown", "unknown", ""], {})
    assert (result.text, result.unknown, result.candidates, requests) == ("unknown", True, (), 0)
    assert answer("exact", ["unknown", "I don't know", "y"], table, unknown_votes=True)[0].unknown


def test_settings_are_checked() -> None:
    """An unknown scoring; samples."""
    with pytest.raises(ConfigError, match="exact, fast or generated; received 'best'"):
        Marginal(PROMPT, Decoding(), scoring="best")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="received 5"):
        Marginal(PROMPT, Decoding(temperature=1.0, samples=5))


def test_reasoning_is_part_of_neither_answer_nor_reply() -> None:
    """Of an answer, and where none is left."""
    result, _ = answer("fast", ["<think>y?</think>x", "<think>x?", "<think>x?"], {("a", "x"): 0.9})
    assert (result.text, result.reply, result.candidates) == ("x", "x", ("x",))
    result, _ = answer("fast", ["<think>x?"] * 3, {})
    assert (result.unknown, result.reply) == (True, "")


@pytest.mark.parametrize(("scoring", "num_likelihoods"), [("fast", 3), ("exact", 9)])
def test_options_that_are_articles_are_different_answers(
    scoring: str, num_likelihoods: int
) -> None:
    """B: 0.5 * 0.5 = 0.25; A: 0.3 * 0.6 = 0.18; The: 0.2 * 0.6 = 0.12, which is no part of A."""
    table = {(passage, text): 1e-9 for passage in "abc" for text in ("B", "A", "The")}
    table |= {("a", "B"): 0.5, ("b", "A"): 0.6, ("c", "The"): 0.6}
    result, requests = answer(scoring, ["B", "A", "The"], table)
    assert (result.text, requests) == ("B", num_likelihoods)
