"""A false answer in the gold passage: of the same kind, the same in every cell, and nowhere else
the true one.
"""

from dataclasses import replace

import pytest

from winnow.contexts.counterfactual import Counterfactual
from winnow.errors import ConfigError
from winnow.records import Context, Passage, Question
from winnow.testing import make_context
from winnow.text.containment import has_answer

ANSWERS = (
    "Charlotte Bronte",
    "Emily Bronte",
    "1847",
    "1848",
    "a blue moon",
    "Jane Austen",
    "Jane Austen Leigh",
    "Fay Weldon",
)
QUESTION = Question("q1", "Who wrote Emma?", ("Jane Austen", "Austen"))
GOLD = Context(
    Passage("g", "Jane  Austen", "Emma is by JANE AUSTEN; Austen's novel. Fay Weldon filmed it."),
    2,
    0.5,
    True,
    is_gold=True,
)


def place(
    question: Question = QUESTION, gold: Context = GOLD, k: int = 3, **rules: object
) -> list[Context]:
    """The passages of a ranking in which the gold passage is second, and another one has the
    answer, too.
    """
    named = make_context(5, "a novelist")
    named = replace(named, passage=replace(named.passage, title="Austen"))
    others = [
        make_context(1, "nothing"),
        replace(make_context(3, "by Austen"), has_answer=True),
        named,
        make_context(4, "nothing"),
    ]
    contexts = [others[0], gold, *others[1:]]
    rule = Counterfactual(**{"answers": ANSWERS, **rules})  # type: ignore[arg-type]
    return list(rule.place(question, contexts, k).contexts)


def test_every_form_of_the_answer_is_replaced_and_no_other_passage_has_it() -> None:
    """Whatever its case and blanks, as whole words, in title and text; a passage that has the
    answer gives way to the next.
    """
    gold, *others = place()
    assert gold.substitute in (
        "Charlotte Bronte",
        "Emily Bronte",
    ), "a name that is no part of the answer, nor in the passage"
    assert gold.passage.title == gold.substitute
    assert (
        gold.passage.text
        == f"Emma is by {gold.substitute}; {gold.substitute}'s novel. Fay Weldon filmed it."
    )
    assert (gold.is_gold, gold.has_answer, gold.passage.passage_id) == (True, False, "g")
    assert [one.passage.passage_id for one in others] == ["p1", "p4"]
    assert not any(one.substitute for one in others)
    assert not any(
        has_answer(f"{one.passage.title} {one.passage.text}", QUESTION.answers)
        for one in [gold, *others]
    )


def test_the_draw_is_that_of_seed_and_question() -> None:
    """Equal for every k, order and search of a question; another seed or question draws anew."""
    first = place()[0].substitute
    assert {place(k=1)[0].substitute, place(order="last")[-1].substitute} == {first}
    assert place(replace(QUESTION, question_id="q1/search 2"))[0].substitute == first
    assert len({place(seed=seed)[0].substitute for seed in range(8)}) == 2
    assert {
        place(replace(QUESTION, text=f"Who wrote it? {n}"))[0].substitute for n in range(8)
    } == {
        "Charlotte Bronte",
        "Emily Bronte",
    }


def test_kinds_are_kept() -> None:
    """A year becomes another year; a lone kind has no substitute."""
    year = Context(Passage("g", "Jane Eyre", "It appeared in 1847."), 2, 0.5, True, is_gold=True)
    assert place(Question("q", "When?", ("1847",)), year)[0].passage.text == "It appeared in 1848."
    text = Context(Passage("g", "t", "once in a blue moon"), 2, 0.5, True, is_gold=True)
    assert place(Question("q", "How often?", ("a blue moon",)), text)[0].substitute == ""


@pytest.mark.parametrize(
    "gold",
    [
        replace(GOLD, is_gold=False),
        replace(GOLD, passage=Passage("g", "Emma", "It has no answer.")),
    ],
)
def test_what_cannot_be_changed_stays(gold: Context) -> None:
    """No gold passage, or no answer in it: it stays, unmarked."""
    shown = place(QUESTION, gold)
    assert not any(context.substitute for context in shown)
    assert len(shown) == 3


def test_rules_are_described_and_checked() -> None:
    """In the words of tables; the position is checked as that of other placements."""
    rule = Counterfactual("last")
    assert rule.words == "with the gold passage last, with a false answer in it"
    assert rule.uses_gold
    assert rule.moves_gold
    assert not Counterfactual("retrieved").moves_gold
    with pytest.raises(ConfigError, match=r"placement\.rule\.order"):
        Counterfactual("middle")  # type: ignore[arg-type]


def test_substitutes_are_told_from_answers_by_their_letters() -> None:
    """Metrics look for letters: "13" has "3", and an article has no letter that counts; yes and no
    have no substitute.
    """
    three = Context(Passage("g", "t", "There are 3 of them."), 2, 0.5, True, is_gold=True)
    assert (
        place(Question("q", "How many?", ("3",)), three, answers=("13", "30", "7"))[0].substitute
        == "7"
    )
    text = Context(Passage("g", "t", "once in a blue moon"), 2, 0.5, True, is_gold=True)
    assert (
        place(Question("q", "How often?", ("a blue moon",)), text, answers=("the", "a red sun"))[
            0
        ].substitute
        == "a red sun"
    )
    no = Context(Passage("g", "t", "She had no children."), 2, 0.5, True, is_gold=True)
    assert (
        place(Question("q", "Had she any?", ("no",)), no, answers=("yes", "no"))[0].substitute == ""
    )


def test_of_several_gold_passages_the_one_with_the_answer_is_changed() -> None:
    """As questions of several hops have them; the other one is left out."""
    hop = Context(Passage("h", "Emma", "Emma is a novel."), 1, 0.9, False, is_gold=True)
    rule = Counterfactual(answers=ANSWERS)
    first, second = rule.place(QUESTION, [hop, GOLD, make_context(3, "nothing")], 2).contexts
    assert (first.passage.passage_id, bool(first.substitute), second.passage.passage_id) == (
        "g",
        True,
        "p3",
    )


def test_an_answer_without_letters_does_not_block_the_substitutes() -> None:
    """Its normalized form is empty, and every text contains an empty one."""
    question = replace(QUESTION, answers=(*QUESTION.answers, "---"))
    gold = next(context for context in place(question) if context.is_gold)
    assert gold.substitute


def test_decomposed_letters_are_the_same_answer() -> None:
    """By the rules that decide whether a passage has the answer."""
    question = Question("q1", "Who died?", ("Jos\u00e9 Mart\u00ed",))
    gold = replace(GOLD, passage=Passage("g", "", "In 1895 Jose\u0301 Marti\u0301 died."))
    changed, *_ = place(question, gold)
    assert changed.substitute
    assert changed.passage.text == f"In 1895 {changed.substitute} died."
