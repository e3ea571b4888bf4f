"""Contexts that were made of others."""

from dataclasses import replace

from winnow.records import Passage
from winnow.strategies.processing.derived import derive_context
from winnow.testing import make_context, make_question

QUESTION = make_question("Which city?", ["Paris"])


def test_a_text_of_one_context_keeps_all_but_the_text() -> None:
    """Whether it contains an answer is looked up in it."""
    context = replace(
        make_context(2, "Paris is large."),
        is_gold=True,
        has_answer=True,
        log_odds=1.5,
        log_weight=-0.5,
    )
    derived = derive_context(QUESTION, [context], "It is large.", "T")
    id_ = context.passage.passage_id
    assert derived == replace(
        context, passage=Passage(id_, "T", "It is large.", (id_,)), has_answer=False
    )
    assert derive_context(QUESTION, [context], "So is Paris.").has_answer


def test_a_text_of_several_contexts_names_each_once() -> None:
    """It has the rank and the scores of the first one, an id of its own, and is gold if one of them
    is.
    """
    first, second = make_context(3, "a"), replace(make_context(1, "b"), is_gold=True)
    derived = derive_context(QUESTION, [first, second, first], "x")
    ids = (first.passage.passage_id, second.passage.passage_id)
    assert derived.passage == Passage("+".join(ids), "", "x", ids)
    assert (derived.rank, derived.score, derived.is_gold) == (3, first.score, True)
    assert not derive_context(QUESTION, [first], "x").is_gold
