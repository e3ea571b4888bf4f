"""The majority vote: the rules that the paper leaves open, by example."""

import math
from dataclasses import replace

import pytest
from msgspec import structs

from winnow.errors import ConfigError
from winnow.strategies.sampling import PromptReplies
from winnow.strategies.vote import Vote, compute_weights
from winnow.testing import make_context, make_question

RANKED = [make_context(n, str(n)) for n in range(1, 7)]


def build_replies(*answers: list[str]) -> list[PromptReplies]:
    """One pool per passage, whose replies are the answers."""
    return [
        PromptReplies(tuple(pool), tuple(f"Answer: {answer}" for answer in pool))
        for pool in answers
    ]


def winner(answers: list[str], vote: Vote | None = None) -> str:
    """The winner over one answer per passage."""
    return (
        (vote or Vote())
        .choose_majority(
            make_question(),
            RANKED[: len(answers)],
            build_replies(*([answer] for answer in answers)),
        )
        .text
    )


def test_answers_group_by_normalized_form() -> None:
    """'The Beatles' and 'beatles' are one candidate, shown as first written; unknown
    does not vote.
    """
    assert (
        winner(["Queen", "The Beatles", "beatles", "unknown", "unknown", "unknown"])
        == "The Beatles"
    )


def test_ties_go_to_the_higher_ranked() -> None:
    """Order is ranking order, not that of the prompt; an inserted passage counts as last."""
    assert winner(["b", "a", "a", "b"]) == "b"
    moved = [make_context(3, "x"), make_context(1, "y"), make_context(9, "z", rank=0)]
    assert (
        Vote()
        .choose_majority(make_question(), moved, build_replies(["third"], ["first"], ["inserted"]))
        .text
        == "first"
    )
    assert (
        Vote()
        .choose_majority(make_question(), moved[::2], build_replies(["third"], ["inserted"]))
        .text
        == "third"
    )


def test_rounding_breaks_no_tie() -> None:
    """The same weights in another order have the same sum, though additions of floats round
    otherwise.
    """
    weights = (-0.6, -0.9, -0.8)
    contexts = [
        replace(c, log_weight=w) for c, w in zip(RANKED, (*weights, *weights[::-1]), strict=True)
    ]
    replies = build_replies(["a"], ["a"], ["a"], ["b"], ["b"], ["b"])
    assert Vote().choose_majority(make_question(), contexts, replies).text == "a"


def test_random_ties_are_seeded() -> None:
    """The same seed and question give the same winner; over seeds both win; a majority
    is no tie.
    """
    assert winner(["a", "b"], Vote("random", seed=1)) == winner(["a", "b"], Vote("random", seed=1))
    assert {winner(["a", "b"], Vote("random", seed=n)) for n in range(20)} == {"a", "b"}
    assert {winner(["a", "b", "b"], Vote("random", seed=n)) for n in range(20)} == {"b"}


def test_unknown_wins_only_if_nothing_else_is_said_unless_it_votes() -> None:
    """As a candidate it can win, in whatever words it came."""
    assert winner(["unknown", "I don't know", "a"]) == "a"
    assert winner(["unknown", "I don't know", "a"], Vote(unknown_votes=True)) == "unknown"
    result = Vote().choose_majority(make_question(), RANKED[:2], build_replies(["unknown"], [""]))
    assert (result.text, result.unknown, result.candidates) == ("unknown", True, ())


def test_samples_of_one_passage_are_votes_of_their_own() -> None:
    """Two samples of one passage outvote one of another; every known answer is a candidate."""
    result = Vote().choose_majority(
        make_question(), RANKED[:2], build_replies(["a", "b"], ["b", "unknown"])
    )
    assert (result.text, result.candidates) == ("b", ("a", "b", "b"))


def test_a_single_reply_is_the_answer_itself() -> None:
    """It is nobody's candidate, so that %NM is not measured; several samples are."""
    assert Vote().choose(make_question(), *build_replies(["Paris"])).candidates == ()
    assert Vote().choose(
        make_question(), *build_replies(["Paris", "paris", "Rome"])
    ).candidates == ("Paris", "paris", "Rome")


def test_an_unknown_rule_is_refused() -> None:
    """By name."""
    with pytest.raises(ConfigError, match="rank or random"):
        Vote("best")  # type: ignore[arg-type]


def test_equal_weights_are_exactly_one() -> None:
    """However small they are, so that rounding breaks no tie."""
    tiny = [replace(context, log_weight=-800.0) for context in RANKED[:2]]
    assert compute_weights(tiny) == [1.0, 1.0]


def test_weights_count_instead_of_heads() -> None:
    """One vote of log-weight log 3 outweighs two of 1; equal weights, however large, leave ties
    ties.
    """
    weighed = [replace(RANKED[0], log_weight=math.log(3)), *RANKED[1:3]]
    assert (
        Vote().choose_majority(make_question(), weighed, build_replies(["a"], ["b"], ["b"])).text
        == "a"
    )
    alike = [replace(c, log_weight=700.0) for c in RANKED[:4]]
    assert (
        Vote()
        .choose_majority(make_question(), alike, build_replies(["b"], ["a"], ["a"], ["b"]))
        .text
        == "b"
    )


def test_weights_that_are_no_numbers_any_more_count() -> None:
    """Beyond a gap of 745 a weight is 0 as a number; the better one still wins, and not the better
    rank.
    """
    contexts = [
        replace(context, log_weight=weight)
        for context, weight in zip(RANKED, (0.0, -752.0, -751.0), strict=False)
    ]
    answer = Vote().choose_majority(
        make_question(), contexts, build_replies(["unknown"], ["rank"], ["weight"])
    )
    assert answer.text == "weight"


def test_the_answer_says_what_it_came_from() -> None:
    """The winner's own reply, the passages of its prompt, and the votes."""
    pools = zip(build_replies(["a"], ["b"], ["B"]), RANKED, strict=False)
    asked = [structs.replace(pool, used=(shown.passage,)) for pool, shown in pools]
    result = Vote().choose_majority(make_question(), RANKED[:3], asked)
    assert (result.text, result.reply, result.trace) == (
        "b",
        "Answer: b",
        ("answered: 1 2 3", "replies: 3", "vote: a 1; b 2"),
    )
    assert [p.passage_id for p in result.used] == ["p2"]


def test_the_samples_of_one_prompt_vote() -> None:
    """Each counts as one, also two of them; the reply shown is the first with the
    winning answer.
    """
    result = Vote().choose(make_question(), PromptReplies(("b", "a", "a"), ("r1", "r2", "r3")))
    assert (result.text, result.reply, result.candidates) == ("a", "r2", ("b", "a", "a"))
    assert result.trace == ("replies: 3", "vote: b 1; a 2")
    assert Vote().choose(make_question(), PromptReplies(("unknown", "a"), ("r1", "r2"))).text == "a"
    silent = Vote().choose(make_question(), PromptReplies(("unknown", ""), ("r1", "r2")))
    assert (silent.text, silent.reply) == ("unknown", "r1")


@pytest.mark.parametrize(
    ("answers", "winning"),
    [(["B", "A", "..."], "B"), (["...", "A", "B"], "A"), (["B", "The", "A"], "B"),
     (["+", "-", "+"], "+"), (["B", "(A)", "a."], "(A)"), (["()", "[]", "A"], "A"),
     (["B", "B.", "**A**", "A", "A:"], "**A**")],
)  # fmt: skip
def test_an_option_is_not_merged_with_what_answers_nothing(
    answers: list[str], winning: str
) -> None:
    """Articles and punctuation are left out of an answer only if something is left of it."""
    assert winner(answers) == winning
