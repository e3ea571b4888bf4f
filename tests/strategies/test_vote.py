"""The majority vote: the rules that the paper leaves open, by example."""

import math
from dataclasses import replace

import pytest

from winnow.errors import ConfigError
from winnow.strategies.vote import Vote
from winnow.testing import context, question

RANKED = [context(n, str(n)) for n in range(1, 7)]


def elect(pool: list[str], vote: Vote | None = None) -> str:
    """The winner over one answer a passage."""
    return (vote or Vote()).elect(question(), RANKED[: len(pool)], [[answer] for answer in pool]).text


def test_answers_group_by_normalised_form() -> None:
    """'The Beatles' and 'beatles' are one candidate, shown as first written; unknown does not vote."""
    assert elect(["Queen", "The Beatles", "beatles", "unknown", "unknown", "unknown"]) == "The Beatles"


def test_ties_go_to_the_higher_ranked() -> None:
    """Order is ranking order, not that of the prompt; an inserted passage counts as last."""
    assert elect(["b", "a", "a", "b"]) == "b"
    moved = [context(3, "x"), context(1, "y"), context(9, "z", rank=0)]
    assert Vote().elect(question(), moved, [["third"], ["first"], ["inserted"]]).text == "first"
    assert Vote().elect(question(), moved[::2], [["third"], ["inserted"]]).text == "third"


def test_random_ties_are_seeded() -> None:
    """The same seed and question give the same winner; over seeds both win; a majority is no tie."""
    assert elect(["a", "b"], Vote("random", seed=1)) == elect(["a", "b"], Vote("random", seed=1))
    assert {elect(["a", "b"], Vote("random", seed=n)) for n in range(20)} == {"a", "b"}
    assert {elect(["a", "b", "b"], Vote("random", seed=n)) for n in range(20)} == {"b"}


def test_unknown_wins_only_if_nothing_else_is_said_unless_it_votes() -> None:
    """As a candidate it can win, in whatever words it came."""
    assert elect(["unknown", "I don't know", "a"]) == "a"
    assert elect(["unknown", "I don't know", "a"], Vote(unknown_votes=True)) == "unknown"
    found = Vote().elect(question(), RANKED[:2], [["unknown"], [""]])
    assert (found.text, found.unknown, found.candidates) == ("unknown", True, ())


def test_samples_of_one_passage_are_votes_of_their_own() -> None:
    """Two samples of one passage outvote one of another; every known answer is a candidate."""
    found = Vote().elect(question(), RANKED[:2], [["a", "b"], ["b", "unknown"]])
    assert (found.text, found.candidates) == ("b", ("a", "b", "b"))


def test_a_single_reply_is_the_answer_itself() -> None:
    """It is nobody's candidate, so that %NM is not measured; several samples are."""
    assert Vote().single(question(), ["Paris"]).candidates == ()
    assert Vote().single(question(), ["Paris", "paris", "Rome"]).candidates == ("Paris", "paris", "Rome")


def test_an_unknown_rule_is_refused() -> None:
    """By name."""
    with pytest.raises(ConfigError, match="rank or random"):
        Vote("best")  # type: ignore[arg-type]


def test_weights_count_instead_of_heads() -> None:
    """One vote of log-weight log 3 outweighs two of 1; equal weights, however large, leave ties ties."""
    weighed = [replace(RANKED[0], log_weight=math.log(3)), *RANKED[1:3]]
    assert Vote().elect(question(), weighed, [["a"], ["b"], ["b"]]).text == "a"
    alike = [replace(c, log_weight=700.0) for c in RANKED[:4]]
    assert Vote().elect(question(), alike, [["b"], ["a"], ["a"], ["b"]]).text == "b"
