"""Damage: relevant contexts are replaced step by step."""

from dataclasses import replace

import pytest

from winnow.contexts.damage import Damage
from winnow.errors import ConfigError
from winnow.records import Context, Question
from winnow.testing import make_context, make_question


def ranking(labels: str) -> list[Context]:
    """Contexts p1 ... which are relevant where `labels` has a "+"."""
    return [
        replace(make_context(n, f"text {n}"), has_answer=label == "+")
        for n, label in enumerate(labels, start=1)
    ]


def ids(share: float, labels: str, k: int, question: Question | None = None) -> list[str]:
    placed = Damage(share).place(question or make_question(), ranking(labels), k)
    return [context.passage.passage_id for context in placed.contexts]


def test_all_or_none() -> None:
    """The irrelevant contexts from beyond k take the places, in their order; a relevant one beyond
    k is passed over.
    """
    assert ids(0.0, "+-+-+-", 3) == ["p1", "p2", "p3"]
    assert ids(1.0, "+-+-+-", 3) == ["p4", "p2", "p6"]
    assert (
        sum(name in ("p1", "p2", "p3") for name in ids(1.0, "+++-", 3)) == 2
    )  # only one is left to replace with
    assert ids(1.0, "+", 3) == ["p1"]
    assert ids(1.0, "", 3) == []


def test_a_larger_share_replaces_more() -> None:
    """What a smaller share replaces, a larger one replaces too; on average the share is met."""
    replaced = dict.fromkeys((0.25, 0.5, 0.75), 0)
    for number in range(200):
        question = replace(make_question(), question_id=f"q{number}")
        shown = {
            share: set(ids(share, "+" * 5 + "-" * 5, 5, question)) for share in (0.25, 0.5, 0.75)
        }
        kept = {
            share: {name for name in names if int(name[1:]) <= 5} for share, names in shown.items()
        }
        assert kept[0.75] <= kept[0.5] <= kept[0.25]
        few = {share: set(ids(share, "+++-", 3, question)) - {"p4"} for share in (0.25, 0.5, 0.75)}
        assert few[0.75] <= few[0.5] <= few[0.25]
        for share in replaced:
            replaced[share] += 5 - len(kept[share])
    assert [count / 1000 for count in replaced.values()] == pytest.approx(
        [0.25, 0.5, 0.75], abs=0.05
    )


def test_a_gold_passage_is_relevant_and_rank_0_is_not_shown() -> None:
    """A gold passage without the answer's text is replaced too; one that was not retrieved is no
    context.
    """
    gold = make_context(1, "gold", is_gold=True)
    missing = make_context(9, "missing", is_gold=True, rank=0)
    placed = Damage(1.0).place(make_question(), [gold, make_context(2, "other"), missing], 1)
    assert [context.passage.passage_id for context in placed.contexts] == ["p2"]
    assert placed.gold_position == 0


def test_shares_are_checked() -> None:
    """From 0 to 1."""
    for share in (-0.1, 1.1):
        with pytest.raises(ConfigError, match="must be at least 0 and at most 1; received"):
            Damage(share)


def test_damage_rests_on_labels_unless_nothing_is_replaced() -> None:
    """And says in words what it does."""
    assert (Damage(0.5).uses_gold, Damage(0.5).words) == (
        True,
        "with 50 % of the relevant ones replaced",
    )
    assert (Damage(0.0).uses_gold, Damage(0.0).words) == (False, "as retrieved")
    assert not Damage(0.5).moves_gold
