"""Distractors: what stands beside the gold passage changes in kind, not in number or length."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from winnow.contexts.distractors import Distractors, Kind
from winnow.contexts.placement import Placement
from winnow.errors import ConfigError, InputError
from winnow.records import Context, Passage, Question
from winnow.testing import make_context, make_question

QUESTION = Question("q1", "Where?", ("Oslo",))
POOL = [Passage(f"r{n}", "", f"random text number {n} with eight words here") for n in range(40)]


def ranking(labels: str) -> list[Context]:
    """Contexts p1 ...: "g" is gold, "+" contains an answer, "-" does not, "s" does not and is
    shorter than the others.
    """
    return [
        replace(
            make_context(
                n,
                "short" if label == "s" else f"passage {n} has six words altogether",
                is_gold=label == "g",
            ),
            has_answer=label in "g+",
        )
        for n, label in enumerate(labels, start=1)
    ]


def select(
    kind: Kind, labels: str, k: int, words: int | None = None, pool: Sequence[Passage] = POOL
) -> list[Context]:
    return list(Distractors(kind, words).replace_contexts(QUESTION, ranking(labels), k, pool))


def ids(contexts: Sequence[Context]) -> list[str]:
    return [context.passage.passage_id for context in contexts]


def test_hard_and_easy_distractors_are_the_first_and_last_without_an_answer() -> None:
    """The gold passage keeps its rank, a second passage with the answer goes, and ranks are those
    of what was replaced.
    """
    hard = select("hard", "-g+-----", 3)
    assert ids(hard) == ["p1", "p2", "p4", "p5"]
    assert [context.rank for context in hard] == [1, 2, 3, 4]
    assert ids(select("easy", "-g+-----", 3)) == ["p8", "p2", "p7", "p6"]
    assert [context.is_gold for context in hard] == [False, True, False, False]


def test_hard_and_easy_distractors_are_never_the_same() -> None:
    """Each kind has a half of the ranking; random ones fill up what a half lacks, so that the
    number stays.
    """
    hard, easy = (ids(select(kind, "g-----", 4)) for kind in ("hard", "easy"))
    assert hard[:4] == ["p1", "p2", "p3", "p4"]
    assert easy[:3] == ["p1", "p6", "p5"]
    assert len(hard) == len(easy) == 5
    assert hard[4].startswith("r")
    assert all(name.startswith("r") for name in easy[3:])


def test_a_gold_passage_below_k_stays_out_of_the_prompt() -> None:
    """It is as one that was not retrieved; it can be inserted."""
    chosen = select("hard", "-+++++g", 2, pool=POOL[:1])
    assert ids(chosen) == ["p1", "r0", "p7"]
    assert [context.rank for context in chosen] == [1, 2, 0]
    assert Placement().place(QUESTION, chosen, 2).gold_position == 0
    assert Placement("insert", "last").place(QUESTION, chosen, 2).gold_position == 2


def test_too_few_distractors_are_an_error() -> None:
    """A prompt with fewer passages would not be compared with others of k."""
    with pytest.raises(
        InputError, match=r"'q1' has only 2 of 5 distractors in a pool of 1 passages"
    ):
        select("hard", "-+++++g", 5, pool=POOL[:1])
    with pytest.raises(InputError, match="has only 1 of 3 distractors"):
        select("random", "g---", 3, pool=POOL[:1])
    with pytest.raises(InputError, match="has only 1 of 2 distractors"):
        select(
            "random", "g---", 2, pool=POOL[:1]
        )  # without the gold passage, a prompt would have one
    with pytest.raises(InputError, match="has only 0 of 2 distractors"):
        select("random", "--gg", 2, pool=[])
    assert select("hard", "", 3) == []


def test_a_title_with_an_answer_is_no_distractor() -> None:
    """Prompts show titles."""
    titled = [
        replace(context, passage=replace(context.passage, title="Oslo"))
        for context in ranking("--")
    ]
    contexts = [*titled, *ranking("------")[2:]]
    chosen = Distractors("hard", None).replace_contexts(
        QUESTION, contexts, 2, [Passage("x", "In Oslo", "text"), *POOL]
    )
    assert ids(chosen) == ["p3", "p4"]
    with pytest.raises(InputError, match="has only 0 of 2 distractors"):
        Distractors("random", None).replace_contexts(
            QUESTION, contexts, 2, [Passage("x", "In Oslo", "text")]
        )


def test_retrieved_contexts_are_kept() -> None:
    """With a second passage with an answer, and in full."""
    assert select("retrieved", "-g+-", 2) == ranking("-g+-")


def test_random_distractors_come_from_other_questions() -> None:
    """They are no context of the question, contain no answer, depend on question and seed, and have
    no score.
    """
    pool = [
        *POOL,
        *(Passage(f"o{n}", "", "The capital is Oslo") for n in range(200)),
        Passage("p1", "", "own"),
    ]
    drawn = select("random", "g---", 3, pool=pool)
    assert ids(drawn)[0] == "p1"
    assert drawn[0].is_gold
    assert all(name.startswith("r") for name in ids(drawn)[1:])
    assert len(set(ids(drawn))) == 4
    assert [context.score for context in drawn[1:]] == [None] * 3
    assert drawn == select("random", "g---", 3, pool=pool)
    rule = Distractors("random", None)
    other = replace(QUESTION, question_id="q2")
    assert ids(rule.replace_contexts(other, ranking("g---"), 3, pool)) != ids(drawn)
    assert ids(replace(rule, seed=14).replace_contexts(QUESTION, ranking("g---"), 3, pool)) != ids(
        drawn
    )


def test_distractors_of_every_kind_are_equally_long() -> None:
    """Short passages are passed over, long ones are cut, and the gold passage is left whole."""
    for kind in ("hard", "easy", "random"):
        chosen = select(kind, "s-g-s--", 3, words=5)
        assert [len(context.passage.text.split()) for context in chosen if not context.is_gold] == [
            5,
            5,
            5,
        ]
        assert (
            next(context for context in chosen if context.is_gold).passage.text
            == "passage 3 has six words altogether"
        )
    assert ids(select("hard", "s-gs---", 2, words=5)) == ["p2", "p5", "p3"]


@pytest.mark.parametrize("kind", ["hard", "easy", "random"])
@pytest.mark.parametrize("order", ["retrieved", "first", "last", "shuffled", 2])
def test_every_placement_has_the_gold_passage_and_k_contexts(kind: Kind, order: str | int) -> None:
    """A gold passage that was not retrieved is inserted as ever."""
    missing = replace(make_context(9, "gold text", is_gold=True, rank=0), has_answer=True)
    for contexts in (ranking("---g----"), [*ranking("--------"), missing]):
        chosen = Distractors(kind, None).replace_contexts(make_question(), contexts, 3, POOL)
        placed = Placement("insert", order).place(make_question(), chosen, 3)  # type: ignore[arg-type]
        assert len(placed.contexts) == 3
        assert [context.is_gold for context in placed.contexts].count(True) == 1


def test_settings_are_checked() -> None:
    """Unknown kinds, and passages without a word."""
    with pytest.raises(
        ConfigError, match=r"kind must be retrieved, hard, easy or random; received 'medium'"
    ):
        Distractors("medium")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="words must be at least 1, or null; received 0"):
        Distractors("hard", 0)
    with pytest.raises(ConfigError, match=r"null for kind=retrieved.*received 60"):
        Distractors("retrieved", 60)


def test_a_share_is_hard_and_the_others_are_random() -> None:
    """Of the k - 1 beside a gold passage: exact numbers, nested over shares, and nothing else
    changes.
    """
    labels = "g" + "-" * 30
    chosen = {}
    for share in (0.0, 0.25, 0.5, 1.0):
        rule = Distractors("hard", None, share)
        contexts = rule.replace_contexts(QUESTION, ranking(labels), 9, POOL)
        chosen[share] = {
            name for name in ids(contexts)[:9] if name.startswith("p") and name != "p1"
        }
        assert len(contexts[:9]) == 9
    assert [len(chosen[share]) for share in (0.0, 0.25, 0.5, 1.0)] == [0, 2, 4, 8]
    assert chosen[0.25] < chosen[0.5] < chosen[1.0]
    assert ids(
        Distractors("hard", None, 1.0).replace_contexts(QUESTION, ranking(labels), 9, POOL)
    ) == ids(select("hard", labels, 9))
    assert (
        len(Distractors("hard", None, 0.5).replace_contexts(QUESTION, ranking("g---"), 1, POOL))
        >= 1
    )


@pytest.mark.parametrize(
    ("kind", "share"), [("random", 0.5), ("retrieved", 0.0), ("hard", 1.5), ("hard", -0.1)]
)
def test_a_share_needs_a_kind_beside_random(kind: Kind, share: float) -> None:
    """And is from 0 to 1."""
    with pytest.raises(ConfigError, match=r"distractors\.rule\.share"):
        Distractors(kind, None, share)
