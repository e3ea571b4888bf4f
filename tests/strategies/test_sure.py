"""SuRe: candidates, a summary of each, and verdicts on the summaries."""

from typing import Any

import pytest

from tests.plans import PROMPT, play
from winnow.errors import ConfigError
from winnow.records import Decoding
from winnow.requests import Generate, Generation
from winnow.strategies.sure import SuRe
from winnow.testing import make_context, make_question

QUESTION = make_question("Which {city}?")
PLACED = [make_context(1, "one"), make_context(2, "two")]
TEMPLATES = {
    "candidates": "{contexts} C {question}",
    "summary": "{contexts} S {question} {candidate}",
    "support": "V {question} {candidate} {summary}",
    "comparison": "R {question} {first} {second}",
}


def _play(*replies: str, **settings: Any) -> tuple[Any, list[Generate]]:
    served = iter(replies)
    plan = SuRe(PROMPT, Decoding(max_new_tokens=8), **TEMPLATES, **settings).plan(QUESTION, PLACED)
    return play(plan, lambda _: Generation(next(served)))  # type: ignore[return-value]


def test_each_candidate_has_a_summary_and_each_pair_of_summaries_is_compared_twice() -> None:
    """Exact prompts and limits of three rounds; verdicts read the summaries, which were made of all
    passages.
    """
    answer, requests = _play(
        "(a) Paris, (b) {Rome}\nmore",
        "P is it. [DONE] x",
        "R is it.",
        "False",
        "True.",
        "Passage 2",
        "passage 1, surely",
    )
    assert [request.messages[-1].content for request in requests] == [
        "<one>\n<two> C Which {city}?",
        "<one>\n<two> S Which {city}? Paris",
        "<one>\n<two> S Which {city}? {Rome}",
        "V Which {city}? Paris P is it.",
        "V Which {city}? {Rome} R is it.",
        "R Which {city}? P is it. R is it.",
        "R Which {city}? R is it. P is it.",
    ]
    assert [request.decoding.max_new_tokens for request in requests] == [8, 256, 256, 8, 8, 8, 8]
    assert [request.role for request in requests] == ["reader"] * 3 + ["verifier"] * 4
    ids = tuple(context.passage.passage_id for context in PLACED)
    assert [passage.sources for passage in requests[-1].passages] == [ids, ids]
    assert (answer.text, answer.candidates, answer.reply) == (
        "{Rome}",
        ("Paris", "{Rome}"),
        "R is it.",
    )
    assert answer.trace == ("Paris: 0", "{Rome}: 2")
    assert answer.used == tuple(context.passage for context in PLACED)


@pytest.mark.parametrize(
    ("verdicts", "scores", "best"),
    [
        (["true", "true", "neither", "?"], ("a: 1.5", "b: 1.5"), "a"),
        (["no", "no", "Passage 1", "Passage 1"], ("a: 1", "b: 1"), "a"),
        (["no", "true", "Passage 1", "Passage 2"], ("a: 1", "b: 1"), "a"),
        (["<think>true</think> no", "no", "?", "Passage 1"], ("a: 0.5", "b: 1"), "b"),
    ],
)
def test_scores_add_up_and_the_first_of_the_best_counts(
    verdicts: list[str], scores: tuple[str, ...], best: str
) -> None:
    """A verdict that names neither passage is half a point, and reasoning is none."""
    answer, _ = _play("(1) a (2) b", "s", "t", *verdicts)
    assert (answer.trace, answer.text) == (scores, best)


def test_candidates_are_counted_once_and_up_to_the_limit() -> None:
    """A single one is summarized and judged too, as published."""
    answer, requests = _play("(a) Rome (b) rome (c) Paris", "s", "true", max_candidates=1)
    assert (answer.text, len(requests)) == ("Rome", 3)
    answer, requests = _play("(a) Rome (b) rome", "s", "no")
    assert (answer.text, len(requests)) == ("Rome", 3)


def test_a_reply_without_candidates_is_no_answer() -> None:
    """Nothing further is requested."""
    answer, requests = _play("Paris")
    assert (answer.text, answer.unknown, answer.stop, len(requests)) == (
        "unknown",
        True,
        "no candidate",
        1,
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"summary": "{question}"}, "strategy.plan.summary"),
        ({"comparison": "{question}"}, "strategy.plan.comparison"),
        ({"max_candidates": 0}, "max_candidates must be at least 1; received 0"),
        ({"decoding": Decoding(samples=2, temperature=1.0)}, "sure"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    """By their names."""
    with pytest.raises(ConfigError, match=message):
        SuRe(**({"prompt": PROMPT, "decoding": Decoding(), **TEMPLATES} | settings))


def test_a_candidate_that_was_cut_is_left_out() -> None:
    """Unless it is the only one."""
    for text, expected in (("(a) Rome (b) 14 October 1", "rome"), ("(a) 14 Octo", "14 octo")):
        replies = iter([Generation(text, "length"), *[Generation("true")] * 2])
        plan = SuRe(PROMPT, Decoding(max_new_tokens=8), **TEMPLATES).plan(QUESTION, PLACED)
        answer, requests = play(plan, lambda _, replies=replies: next(replies))
        assert (answer.text.lower(), len(requests)) == (expected, 3)


def test_a_verdict_that_names_both_passages_is_for_the_first_one() -> None:
    """In both orders, Paris is preferred to Rome."""
    answer, _ = _play(
        "(a) Rome (b) Paris", "r", "p", "True", "True",
        "Passage 2 says more than Passage 1.", "Passage 1 says more than passage 2.",
    )  # fmt: skip
    assert (answer.text, answer.trace) == ("Paris", ("Rome: 1", "Paris: 2"))


def test_a_cut_candidate_does_not_take_the_place_of_another() -> None:
    """The first two of three stay."""
    replies = iter([Generation("(a) Rome (b) Paris (c) Os", "length"), *[Generation("true")] * 6])
    plan = SuRe(PROMPT, Decoding(max_new_tokens=8), **TEMPLATES, max_candidates=2)
    answer, _ = play(plan.plan(QUESTION, PLACED), lambda _: next(replies))
    assert answer.candidates == ("Rome", "Paris")


def test_the_answer_names_the_passages_of_the_prompt_of_its_summary() -> None:
    """A summary's prompt is longer than the one for candidates, so that more may not fit."""
    one, two = (context.passage for context in PLACED)
    results = iter(
        [
            Generation("(a) Paris"),
            Generation("P is it.", dropped=1, passages=(one,)),
            Generation("True"),
        ]
    )
    plan = SuRe(PROMPT, Decoding(max_new_tokens=8), **TEMPLATES).plan(QUESTION, PLACED)
    answer, requests = play(plan, lambda _: next(results))
    assert answer.used == (one,)
    assert requests[-1].passages[0].sources == (one.passage_id,)
    results = iter(
        [
            Generation("(a) Paris", dropped=1, passages=(one,)),
            Generation("P is it."),
            Generation("True"),
        ]
    )
    plan = SuRe(PROMPT, Decoding(max_new_tokens=8), **TEMPLATES).plan(QUESTION, PLACED)
    assert play(plan, lambda _: next(results))[0].used == (one, two)


def test_a_reply_without_candidates_is_stored_without_its_reasoning() -> None:
    """As the other replies that metrics read."""
    answer, _ = _play("<think>Let me look at [1].</think>\nI have no answer.")
    assert (answer.unknown, answer.reply) == (True, "I have no answer.")


def test_the_passages_are_those_of_the_chosen_answer() -> None:
    """Not of the first summary; without a candidate, those of the only prompt."""
    one, two = (context.passage for context in PLACED)
    results = iter(
        [
            Generation("(a) Paris (b) Rome"),
            Generation("P is it.", dropped=1, passages=(one,)),
            Generation("R is it.", dropped=1, passages=(two,)),
            *map(Generation, ("False", "True", "Passage 2", "Passage 1")),
        ]
    )
    plan = SuRe(PROMPT, Decoding(max_new_tokens=8), **TEMPLATES).plan(QUESTION, PLACED)
    answer, _ = play(plan, lambda _: next(results))
    assert (answer.text, answer.used) == ("Rome", (two,))
    plan = SuRe(PROMPT, Decoding(max_new_tokens=8), **TEMPLATES).plan(QUESTION, PLACED)
    none, _ = play(plan, lambda _: Generation("No idea.", dropped=1, passages=(one,)))
    assert (none.unknown, none.used) == (True, (one,))
