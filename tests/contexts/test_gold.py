"""Gold passages: those that the data set names, or the first with an answer."""

import pytest

from winnow.contexts.gold import determine_provenance, is_relevant, mark_gold
from winnow.records import Question
from winnow.testing import make_context

CONTEXTS = [
    make_context(1, "a"),
    make_context(2, "b", has_answer=True),
    make_context(3, "c", has_answer=True),
]


@pytest.mark.parametrize(
    ("annotated", "gold", "provenance"),
    [
        ((), [False, True, False], "distant"),
        (("p3",), [False, False, True], "annotated"),
        (("p1", "p3", "p9"), [True, False, True], "annotated"),
        (("p9",), [False, False, False], "none"),
    ],
)
def test_annotation_takes_precedence(
    annotated: tuple[str, ...], gold: list[bool], provenance: str
) -> None:
    """A passage with an answer is gold only if no passage is annotated, even if none of these was
    retrieved.
    """
    question = Question("q", "Who?", ("x",), annotated)
    marked = mark_gold(question, CONTEXTS)
    assert [context.is_gold for context in marked] == gold
    assert [context.passage for context in marked] == [context.passage for context in CONTEXTS]
    assert determine_provenance(question, marked) == provenance


def test_without_an_answer_nothing_is_gold() -> None:
    """No context, and contexts without an answer; a former mark does not stay."""
    question = Question("q", "Who?", ("x",))
    assert mark_gold(question, []) == ()
    assert determine_provenance(question, []) == "none"
    marked = mark_gold(question, [make_context(1, "a", is_gold=True)])
    assert [context.is_gold for context in marked] == [False]


def test_relevant_is_gold_or_with_an_answer() -> None:
    """Either is enough."""
    flags = [(False, False), (True, False), (False, True), (True, True)]
    contexts = [make_context(1, "a", is_gold=gold, has_answer=answer) for gold, answer in flags]
    assert [is_relevant(context) for context in contexts] == [False, True, True, True]
