"""What prompts showed, as contexts with the flags that metrics read."""

from winnow.contexts.shown import build_shown
from winnow.metrics.base import Shown
from winnow.records import Context, Passage, Question
from winnow.steps import Step
from winnow.testing import make_context

QUESTION = Question("q", "who?", ("Ada", "Lovelace"), ("g",))
GOLD = Context(Passage("g", "T", "Ada wrote it. It rained."), 0, None, has_answer=True, is_gold=True)
OTHER = make_context(2, "nothing")
KNOWN = (OTHER, GOLD)


def prompt(number: int, *passages: Passage, role: str = "reader") -> Step:
    """A prompt of a round."""
    return Step(number, "generate", role, passages, finish="stop")


def test_placed_and_retrieved_contexts_keep_their_flags() -> None:
    """Distinct ones of all prompts in order; the last prompt in its own order."""
    steps = [prompt(1, OTHER.passage), prompt(2, GOLD.passage, OTHER.passage)]
    assert build_shown(QUESTION, steps, (), KNOWN) == Shown((OTHER, GOLD), (GOLD, OTHER))


def test_only_prompts_of_the_reader_show() -> None:
    """Not those of a judge, and not what a search found but no prompt had."""
    steps = [Step(1, "search", "search", (GOLD.passage,), "q", "found"), prompt(2, GOLD.passage, role="judge")]
    assert build_shown(QUESTION, steps, (), KNOWN) == Shown((), ())


def test_parts_are_gold_by_their_source_and_have_answers_by_their_own_text() -> None:
    """The strip with the answer and the one without are both of the gold passage."""
    strips = [Passage(f"g#{n}", "T", text, ("g",)) for n, text in enumerate(("Ada wrote it.", "It rained."))]
    shown = build_shown(QUESTION, [prompt(1, *strips)], (), KNOWN)
    assert [(c.has_answer, c.is_gold, c.rank) for c in shown.last] == [(True, True, 0), (False, True, 0)]
    joined = Passage("p2#0", "", "nothing Lovelace", ("p2", "g"))
    (context,) = build_shown(QUESTION, [prompt(1, joined)], (), KNOWN).last
    assert (context.has_answer, context.is_gold, context.rank) == (True, True, 2)


def test_searched_passages_have_flags_too() -> None:
    """One that the rankings lack, with an answer; an annotated gold passage by its id; a cut text by what is left of it."""
    page, gold = Passage("https://x", "X", "by Lovelace"), Passage("g", "T", "It rained.")
    shown = build_shown(QUESTION, [prompt(1, page, gold)], (), (OTHER,))
    assert [(c.has_answer, c.is_gold, c.rank) for c in shown.contexts] == [(True, False, 0), (False, True, 0)]
    (cut,) = build_shown(QUESTION, [prompt(1, gold)], (), KNOWN).contexts
    assert (cut.passage.text, cut.has_answer, cut.is_gold) == ("It rained.", False, True)


def test_the_prompt_of_the_reply_is_the_one_that_the_strategy_names() -> None:
    """The last prompt with exactly these passages, or else the passages themselves; without a name, the last prompt."""
    one, cut = OTHER.passage, Passage("p2", "T", "noth")
    steps = [prompt(1, one), prompt(1, cut), prompt(1, GOLD.passage)]
    assert [c.passage for c in build_shown(QUESTION, steps, ("p2",), KNOWN).last] == [cut]
    assert [c.passage for c in build_shown(QUESTION, steps, ("g", "p2"), KNOWN).last] == [GOLD.passage, cut]
    assert [c.passage for c in build_shown(QUESTION, steps, (), KNOWN).last] == [GOLD.passage]
    assert [c.passage for c in build_shown(QUESTION, [*steps, prompt(2)], (), KNOWN).last] == []
    assert [c.passage for c in build_shown(QUESTION, [], ("p2",), KNOWN).last] == [one]
