"""What prompts showed, as contexts with the flags that metrics read."""

from collections.abc import Sequence

from winnow.contexts.shown import build_shown
from winnow.metrics.base import Shown
from winnow.records import Context, Passage, Question
from winnow.steps import TOO_LONG, Step
from winnow.testing import make_context

QUESTION = Question("q", "who?", ("Ada", "Lovelace"), ("g",))
GOLD = Context(
    Passage("g", "T", "Ada wrote it. It rained."), 0, None, has_answer=True, is_gold=True
)
OTHER = make_context(2, "nothing")
KNOWN = (OTHER, GOLD)


def prompt(number: int, *passages: Passage, role: str = "reader") -> Step:
    """A prompt of a round."""
    return Step(number, "generate", role, passages, finish="stop")


def shown_of(passage: Passage, known: Sequence[Context]) -> Sequence[Context]:
    """The context of one passage in one prompt."""
    shown = build_shown(QUESTION, [prompt(1, passage)], (), known)
    assert shown is not None
    assert shown.contexts == shown.last
    return shown.last


def test_placed_and_retrieved_contexts_keep_their_flags() -> None:
    """Distinct ones of all prompts in order; the last prompt in its own order."""
    steps = [prompt(1, OTHER.passage), prompt(2, GOLD.passage, OTHER.passage)]
    assert build_shown(QUESTION, steps, (), KNOWN) == Shown(
        (OTHER, GOLD), (GOLD, OTHER), ((OTHER,), (GOLD, OTHER))
    )


def test_prompts_whose_answers_are_only_scored_show_too() -> None:
    """Choices may be scored after a reply to the question alone."""
    steps = [prompt(1), Step(2, "likelihood", "reader", (GOLD.passage,))]
    assert build_shown(QUESTION, steps, (), KNOWN) == Shown((GOLD,), (), ((), (GOLD,)))


def test_only_prompts_of_the_reader_show() -> None:
    """Not those of a judge, and not what a search found but no prompt had."""
    steps = [
        Step(1, "search", "search", (GOLD.passage,), "q", "found"),
        prompt(2, GOLD.passage, role="judge"),
    ]
    assert build_shown(QUESTION, [*steps, prompt(3)], (), KNOWN) == Shown((), (), ((),), ("q",))


def test_a_prompt_that_was_too_long_showed_nothing() -> None:
    """No model read it; without another one, nothing is known of what was shown."""
    long = Step(1, "generate", "reader", (GOLD.passage,), finish=TOO_LONG)
    assert build_shown(QUESTION, [long, prompt(2, OTHER.passage)], (), KNOWN) == Shown(
        (OTHER,), (OTHER,), ((OTHER,),)
    )
    assert build_shown(QUESTION, [long], (), KNOWN) is None


def test_parts_are_gold_by_their_source_and_have_answers_by_their_own_text() -> None:
    """The strip with the answer and the one without are both of the gold passage."""
    strips = [
        Passage(f"g#{n}", "T", text, ("g",))
        for n, text in enumerate(("Ada wrote it.", "It rained."))
    ]
    shown = build_shown(QUESTION, [prompt(1, *strips)], (), KNOWN)
    assert shown is not None
    assert [(c.has_answer, c.is_gold, c.rank) for c in shown.last] == [
        (True, True, 0),
        (False, True, 0),
    ]
    joined = Passage("p2#0", "", "nothing Lovelace", ("p2", "g"))
    (context,) = shown_of(joined, KNOWN)
    assert (context.has_answer, context.is_gold, context.rank) == (True, True, 2)


def test_searched_passages_have_flags_too() -> None:
    """One that the rankings lack, with an answer; an annotated gold passage by its id; a cut text
    by what is left of it.
    """
    page, gold = Passage("https://x", "X", "by Lovelace"), Passage("g", "T", "It rained.")
    shown = (*shown_of(page, (OTHER,)), *shown_of(gold, (OTHER,)))
    assert [(c.has_answer, c.is_gold, c.rank) for c in shown] == [
        (True, False, 0),
        (False, True, 0),
    ]
    (cut,) = shown_of(gold, KNOWN)
    assert (cut.passage.text, cut.has_answer, cut.is_gold) == ("It rained.", False, True)


def test_the_prompt_of_the_reply_has_the_passages_that_the_strategy_names() -> None:
    """With their texts, also where another prompt has others under the same ids; without a name,
    the last prompt.
    """
    one, cut = OTHER.passage, Passage("p2", "T", "noth")
    steps = [prompt(1, one), prompt(1, cut), prompt(1, GOLD.passage)]

    def last(steps: list[Step], *used: Passage) -> list[Passage]:
        shown = build_shown(QUESTION, steps, used, KNOWN)
        assert shown is not None
        return [context.passage for context in shown.last]

    assert last(steps, one) == [one]
    assert last(steps, cut) == [cut]
    assert last(steps, GOLD.passage, cut) == [GOLD.passage, cut]
    assert last(steps) == [GOLD.passage]
    assert last([*steps, prompt(2)]) == []
    assert last([], one) == [one]
    scored = Step(3, "likelihood", "reader", (one, cut))
    assert last([*steps, scored]) == [GOLD.passage]
    assert last([scored]) == [one, cut]
    assert build_shown(QUESTION, [], (one,), KNOWN) == Shown((), (OTHER,))


def test_what_is_not_known_is_not_no_passage() -> None:
    """Answers of another system, and those that another role wrote."""
    assert build_shown(QUESTION, [], (), KNOWN) is None
    assert build_shown(QUESTION, [prompt(1, GOLD.passage, role="rewriter")], (), KNOWN) is None
    assert build_shown(QUESTION, [prompt(1)], (), KNOWN) == Shown((), (), ((),))


def test_flags_of_parts_hold_by_annotation_and_by_mark() -> None:
    """A gold passage that is only marked, a second source that is gold, and one that is annotated
    but was not retrieved.
    """
    distant = Question("q", "who?", ("Ada",))
    marked = make_context(3, "Ada wrote it.", has_answer=True, is_gold=True)
    for sources in (("p3",), ("p2", "p3")):
        strip = Passage("s", "", "it rained", sources)
        shown = build_shown(distant, [prompt(1, strip)], (), (OTHER, marked))
        assert shown is not None
        assert shown.last[0].is_gold
    (absent,) = shown_of(Passage("s", "", "it rained", ("p2", "g")), (OTHER,))
    assert (absent.is_gold, absent.rank) == (True, 2)
    (other,) = shown_of(Passage("s", "", "it rained", ("p2",)), (OTHER,))
    assert not other.is_gold


def test_an_answer_names_only_passages_that_a_prompt_showed() -> None:
    """What was dropped from the prompt, or was never in it, is not what led to the reply."""
    steps = [prompt(1, OTHER.passage, GOLD.passage), prompt(2, OTHER.passage)]
    assert build_shown(
        QUESTION, steps, (GOLD.passage, Passage("x", "", "never shown")), KNOWN
    ) == Shown((OTHER, GOLD), (GOLD,), ((OTHER, GOLD), (OTHER,)))
    assert build_shown(QUESTION, steps, (Passage("x", "", "never shown"),), KNOWN) == Shown(
        (OTHER, GOLD), (OTHER,), ((OTHER, GOLD), (OTHER,))
    )
    assert build_shown(QUESTION, [], (GOLD.passage,), KNOWN) == Shown((), (GOLD,)), (
        "an answer of another system"
    )
