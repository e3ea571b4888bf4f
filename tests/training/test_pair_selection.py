"""Selection of labeled pairs for a relevance evaluator."""

import pytest

from winnow.errors import ConfigError
from winnow.testing import make_context, make_question
from winnow.training.groups import Group
from winnow.training.pair_selection import PairSelection


def make_group(number: int, relevant: int, irrelevant: int) -> Group:
    """A question with relevant passages, which contain the answer, and irrelevant ones."""
    question = make_question(f"q{number}?", [f"answer{number}"], question_id=str(number))
    texts = [f"answer{number} {n}" for n in range(relevant)] + [
        f"other {number} {n}" for n in range(irrelevant)
    ]
    contexts = [
        make_context(100 * number + n, text, has_answer=n < relevant, is_gold=n < relevant)
        for n, text in enumerate(texts)
    ]
    return Group(question, tuple(contexts))


GROUPS = [make_group(number, relevant=3, irrelevant=4) for number in range(8)]


def test_at_most_so_many_of_each_kind() -> None:
    """A question without one of the kinds is left out."""
    lacking = [make_group(8, relevant=0, irrelevant=4), make_group(9, relevant=2, irrelevant=0)]
    selected = PairSelection(positives=2, hard_negatives=3).select([*GROUPS, *lacking])
    assert [group.question.question_id for group in selected] == [
        str(number) for number in range(8)
    ]
    for group in selected:
        labels = [context.is_gold for context in group.contexts]
        assert labels == [True] * 2 + [False] * 3
        assert len({context.passage.passage_id for context in group.contexts}) == 5


def test_random_negatives_are_of_other_questions_and_have_no_answer() -> None:
    """They were not retrieved for the question, so that they have no rank."""
    selected = PairSelection(positives=1, hard_negatives=0, random_negatives=4).select(GROUPS)
    assert len(selected) == len(GROUPS)
    for group in selected:
        number = int(group.question.question_id)
        negatives = group.contexts[1:]
        assert len(negatives) == 4
        for context in negatives:
            assert int(context.passage.passage_id[1:]) // 100 != number
            assert f"answer{number}" not in context.passage.text
            assert (context.rank, context.has_answer, context.is_gold) == (0, False, False)


def test_a_passage_of_another_question_with_the_answer_is_no_negative() -> None:
    """Even if it was retrieved as irrelevant there."""
    trap = Group(
        make_question("t?", ["zebra"], question_id="t"),
        (make_context(1, "zebra", has_answer=True, is_gold=True),),
    )
    other = Group(
        make_question("o?", ["lion"], question_id="o"),
        (make_context(2, "a Zebra"), make_context(3, "an owl")),
    )
    (selected,) = PairSelection(positives=1, hard_negatives=0, random_negatives=5).select(
        [trap, other]
    )
    assert [context.passage.text for context in selected.contexts] == ["zebra", "an owl"]


def test_the_choice_depends_on_seed_and_question() -> None:
    """Not on the order of the questions."""
    selection = PairSelection(positives=1, hard_negatives=2)
    forward, backward = selection.select(GROUPS), selection.select(GROUPS[::-1])
    assert forward == backward[::-1]
    assert forward != PairSelection(positives=1, hard_negatives=2, seed=14).select(GROUPS)


@pytest.mark.parametrize("numbers", [(0, 1, 1), (1, 0, 0), (1, -1, 1), (1, 1, -1)])
def test_there_must_be_pairs_of_both_kinds(numbers: tuple[int, int, int]) -> None:
    """The error states what was received."""
    with pytest.raises(ConfigError, match=f"positives={numbers[0]}, hard_negatives={numbers[1]}"):
        PairSelection(*numbers)
