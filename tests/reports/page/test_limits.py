"""What bounds the numbers of the best setting."""

from collections.abc import Sequence
from dataclasses import replace

from winnow.metrics.base import Shown
from winnow.records import Context
from winnow.reports.cells import CellResult
from winnow.reports.family import Family
from winnow.reports.page.story import build_story
from winnow.testing import make_cell_result, make_context

LOW, HIGH, CLOSE = (
    make_cell_result(name, 5, "retrieved", [float(n < right) for n in range(40)])
    for name, right in (("concatenation", 4), ("post_fusion", 30), ("pf_concat", 29))
)


def list_limits(*cells: CellResult) -> Sequence[str]:
    """Return what the page says of the best of some cells."""
    return build_story(Family(cells, 0)).limits


def _give(
    cell: CellResult, number: int, contexts: list[Context], ranking: list[Context]
) -> CellResult:
    """The cell with contexts and a ranking for one question."""
    samples = list(cell.samples)
    samples[number] = replace(
        samples[number], placed=contexts, shown=Shown(tuple(contexts)), ranking=ranking
    )
    return replace(cell, samples=samples)


def test_the_limits_of_the_best_cell() -> None:
    """Questions whose ranking has no answer, and gold passages that are only text."""
    found, other = make_context(9, "x", is_gold=True, has_answer=True), make_context(1, "y")
    best = _give(_give(HIGH, 0, [found], [other, found]), 1, [other], [other])
    answerable, distant = list_limits(LOW, best, CLOSE)
    assert answerable.startswith(
        "1 of 2 questions have no stored context that holds an answer. On the other 1, the best"
    )
    assert "setting has 100.0 [" in answerable
    assert distant.startswith(
        "The gold passages of 20 questions are the first stored contexts that contain"
    )
    annotated = [
        replace(sample, prediction=replace(sample.prediction, provenance="annotated"))
        for sample in HIGH.samples
    ]
    assert list_limits(replace(HIGH, samples=annotated)) == []


def test_questions_without_accepted_answers_limit_nothing() -> None:
    """No ranking can hold an answer of a question that has none."""
    other = make_context(1, "y")
    best = _give(_give(HIGH, 0, [other], [other]), 1, [other], [other])
    assert any("have no stored context" in text for text in list_limits(LOW, best, CLOSE))
    open_ = [
        replace(sample, question=replace(sample.question, answers=())) for sample in best.samples
    ]
    limits = list_limits(LOW, replace(best, samples=open_), CLOSE)
    assert not any("have no stored context" in text for text in limits)


def test_answers_in_other_words_are_counted() -> None:
    """A reader that was not tuned writes sentences: 0 % exact match, though four of forty have the
    answer in them.
    """
    samples = [
        replace(
            sample,
            prediction=replace(
                sample.prediction, answer=f"I think it is x, for {n}" if n < 4 else "who knows"
            ),
        )
        for n, sample in enumerate(HIGH.samples)
    ]
    texts = list_limits(replace(HIGH, samples=samples))
    assert texts[0].startswith(
        "4 of 40 answers of the best setting contain an accepted one among other words"
    )
    rest = list_limits(replace(HIGH, samples=[*samples[:3], *HIGH.samples[3:]]))
    assert not any("among other words" in text for text in rest)


def test_dropped_passages_bound_the_best_setting() -> None:
    """They are counted over its questions."""
    sample = HIGH.samples[0]
    cut = replace(sample, prediction=replace(sample.prediction, truncated_passages=2))
    limits = list_limits(replace(HIGH, samples=[cut, *HIGH.samples[1:]]))
    assert any(limit.startswith("2 passages were dropped from prompts") for limit in limits)
