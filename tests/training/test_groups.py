"""Questions with their contexts: what is refused, and which answer is learnt."""

from dataclasses import replace

import pytest

from winnow.errors import InputError
from winnow.targets import select_targets
from winnow.testing import make_context, make_question
from winnow.training.groups import Group, describe_groups, shuffle_indices

ONE = (make_context(1, "a"),)


def test_what_nothing_can_be_learnt_from_is_refused() -> None:
    """No context; empty answers only, once one is learned; likelihoods of another ranking."""
    with pytest.raises(InputError, match="'q1' has no contexts"):
        Group(make_question(), ())
    with pytest.raises(InputError, match="'q1' has no answer that is not blank"):
        Group(make_question(answers=["", " "]), ONE).sample_target(0, 0)
    with pytest.raises(InputError, match="has 2 answer_log_probs but 1 contexts"):
        Group(make_question(), ONE, answer_log_probs=(0.0, 1.0))


def test_the_target_of_the_data_set_is_learnt() -> None:
    """In every epoch, whatever the aliases are."""
    group = Group(replace(make_question(answers=["a", "b"]), target="b"), ONE)
    assert {group.sample_target(1, epoch) for epoch in range(20)} == {"b"}


def test_emoji_and_disambiguation_pages_are_no_targets() -> None:
    """Nor are aliases without letters and digits; if there is nothing else, they are."""
    odd = ["\N{BALLOON}", "Balloon \N{BALLOON}", "Balloon (disambiguation)", "!!!"]
    assert select_targets(make_question(answers=[*odd, "Balloon", "99"])) == ("Balloon", "99")
    assert select_targets(make_question(answers=[*odd, " "])) == tuple(odd)


def test_targets_and_orders_are_of_the_seed_and_epoch() -> None:
    """Every accepted answer comes in time; empty ones never; an order holds each group once."""
    group = Group(make_question(answers=["a", "b", ""]), ONE)
    assert {group.sample_target(1, epoch) for epoch in range(20)} == {"a", "b"}
    assert group.sample_target(1, 3) == group.sample_target(1, 3)
    assert sorted(shuffle_indices(9, 1, 0)) == list(range(9))
    assert shuffle_indices(9, 1, 0) == shuffle_indices(9, 1, 0) != shuffle_indices(9, 1, 1)


def test_groups_are_told_apart_by_all_that_is_learnt() -> None:
    """Questions, answers, contexts and the values of a teacher."""
    group = Group(make_question("q?", ("a",)), ONE, (-1.0,))
    others = [
        replace(group, question=replace(group.question, answers=("b",))),
        replace(group, contexts=(*ONE, make_context(2, "b")), answer_log_probs=(-1.0, -2.0)),
        replace(group, answer_log_probs=(-2.0,)),
    ]
    assert all(describe_groups([group]) != describe_groups([other]) for other in others)
    assert describe_groups([group]) == describe_groups([replace(group)])
