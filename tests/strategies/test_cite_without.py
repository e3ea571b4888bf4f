"""Answers without the passages that were cited, and without others."""

from dataclasses import replace

import pytest

from winnow.errors import ConfigError
from winnow.metrics.citation_use import Changed
from winnow.records import Decoding, Passage
from winnow.requests import Generate, Generation
from winnow.strategies.cite_without import CiteWithout, Removed
from winnow.strategies.prompt import Prompt
from winnow.testing import make_context, make_question, make_sample, run_scripted_plan

PROMPT = Prompt(
    "{contexts} Q {question}",
    "Q {question}",
    "{contexts} C {candidates} Q {question}",
    "[{number}] {text}",
)
CONTEXTS = [
    make_context(number, text) for number, text in enumerate(("one", "two", "three"), start=1)
]


def play(
    replies: list[str], removed: Removed = "cited", count: int = 3
) -> tuple[str, tuple[str, ...], list[list[str]]]:
    """The answer, its trace, and the prompts of each round."""
    plan = CiteWithout(PROMPT, Decoding(), removed=removed).plan(
        make_question("Who?"), CONTEXTS[:count]
    )
    answer, prompts = run_scripted_plan(plan, [[reply] for reply in replies])
    return answer.text, answer.trace, prompts


def test_the_cited_passage_is_removed_and_the_others_are_numbered_anew() -> None:
    """The first answer stays; the trace has the second one."""
    text, trace, prompts = play(["Paris [2]. [2]", "Rome [1]"])
    assert text == "Paris."
    assert prompts[1] == ["[1] one\n[2] three Q Who?"]
    assert trace[-2:] == ("without 2: Rome", "changed: yes")
    assert play(["Paris [2]", "the paris [1]"])[1][-1] == "changed: no"


def test_as_many_uncited_passages_are_removed() -> None:
    """Drawn by the seed; the cited one is in both prompts."""
    _, trace, prompts = play(["Paris [2]", "Paris [1]"], "uncited")
    assert prompts[1] in (["[1] two\n[2] three Q Who?"], ["[1] one\n[2] two Q Who?"])
    assert trace[-1] == "changed: no"


@pytest.mark.parametrize("removed", ["cited", "uncited"])
def test_only_passages_that_were_shown_are_removed(removed: Removed) -> None:
    """The prompt was too long for the third one: it is neither cited nor among the others."""
    plan = CiteWithout(PROMPT, Decoding(), removed=removed).plan(make_question("Who?"), CONTEXTS)
    next(plan)
    shown = tuple(context.passage for context in CONTEXTS[:2])
    (request,) = plan.send([Generation("Paris [1]", dropped=1, passages=shown)])
    assert isinstance(request, Generate)
    assert request.messages[-1].content == f"[1] {'two' if removed == 'cited' else 'one'} Q Who?"


def test_a_citation_of_a_passage_that_was_not_shown_is_none() -> None:
    """The third number has no passage in the prompt."""
    plan = CiteWithout(PROMPT, Decoding()).plan(make_question("Who?"), CONTEXTS)
    next(plan)
    with pytest.raises(StopIteration):
        plan.send(
            [
                Generation(
                    "Paris [3]",
                    dropped=1,
                    passages=tuple(context.passage for context in CONTEXTS[:2]),
                )
            ]
        )


@pytest.mark.parametrize(
    ("reply", "count"), [("Paris", 3), ("Paris [9]", 3), ("Paris [1][2]", 3), ("Paris [1]", 1)]
)
def test_without_a_citation_or_enough_others_nothing_is_asked_again(reply: str, count: int) -> None:
    """One round, for both kinds, so that both are compared on the same questions; the metric is
    undefined.
    """
    kinds: tuple[Removed, ...] = ("cited", "uncited")
    for removed in kinds:
        _, trace, prompts = play([reply], removed, count)
        assert len(prompts) == 1
        assert Changed("m", "m").score(make_sample("Paris", trace=trace)) is None


def test_the_metric_reads_the_trace() -> None:
    """A changed answer counts 1."""
    metric = Changed("m", "m")
    assert [
        metric.score(make_sample("x", trace=("vote: x", f"changed: {word}")))
        for word in ("yes", "no")
    ] == [1.0, 0.0]
    with pytest.raises(ConfigError, match="must be cited or uncited"):
        CiteWithout(PROMPT, Decoding(), removed="all")  # type: ignore[arg-type]


def test_texts_of_one_passage_are_told_apart() -> None:
    """A processor may give several with one id; the first did not fit, and the second is cited."""
    one, first, second = (
        replace(make_context(number, text), passage=Passage(name, "", text))
        for number, name, text in ((1, "p", "Alpha"), (2, "q", "Gamma"), (3, "q", "Beta"))
    )
    plan = CiteWithout(PROMPT, Decoding()).plan(make_question("Who?"), [one, first, second])
    next(plan)
    shown = (one.passage, second.passage)
    (request,) = plan.send([Generation("Paris [2]", dropped=1, passages=shown)])
    assert isinstance(request, Generate)
    assert request.messages[-1].content == "[1] Alpha Q Who?"


def test_options_that_are_articles_are_different_answers() -> None:
    """Nothing is left of "A" and "The" without articles."""
    assert play(["A [2]", "The [1]"])[1][-1] == "changed: yes"
    assert play(["A [2]", "a. [1]"])[1][-1] == "changed: no"


def test_passages_that_are_cut_are_removed_as_well() -> None:
    """The prompt shows other texts than those that were retrieved; numbers in brackets too."""
    contexts = [make_context(n, text) for n, text in ((1, "one [7]"), (2, "two more"))]
    for max_words, shown in ((None, "one (7)"), (1, "one")):
        plan = CiteWithout(PROMPT, Decoding(), max_words).plan(make_question("Who?"), contexts)
        answer, prompts = run_scripted_plan(plan, [["Paris [2]"], ["Rome [1]"]])
        assert prompts[1] == [f"[1] {shown} Q Who?"]
        assert answer.trace[-2:] == ("without 2: Rome", "changed: yes")
