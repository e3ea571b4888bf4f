"""The page on retrieval evaluators, from scores written by hand."""

from dataclasses import replace

import pytest

from winnow.reports.evaluator import EvaluatedContexts, build_evaluator_report, find_thresholds
from winnow.strategies.corrective.evaluators import Evaluation
from winnow.testing import make_context, make_question
from winnow.training.groups import Group
from winnow.training.pair_selection import PairSelection


def evaluated(prefix: str, *, scored: bool = True, failed: int = 0) -> list[EvaluatedContexts]:
    """Six questions where only the estimator ranks the relevant passage first, and two without an
    answer.
    """
    items = []
    for number in range(8):
        question = replace(make_question(), question_id=f"{prefix}{number}")
        contexts = [make_context(rank, f"{prefix} {number} {rank}") for rank in (1, 2)]
        contexts = [
            replace(context, score=3.0 - context.rank if scored else None) for context in contexts
        ]
        if number < 6:
            contexts[1] = replace(contexts[1], has_answer=True)
        items.append(
            EvaluatedContexts(
                question, tuple(contexts), (-0.8, 0.9 if number < 6 else -0.7), failed
            )
        )
    return items


@pytest.mark.parametrize("scored", [True, False])
def test_the_page_by_hand(scored: bool) -> None:
    """Accuracy, actions and a judge without a verdict; rankings without scores are compared by
    rank.
    """
    dev, test = evaluated("d", scored=scored), evaluated("t", scored=scored, failed=1)
    pairs = [
        PairSelection(1, 1, 0).select([Group(item.question, item.contexts) for item in part])
        for part in (dev, test)
    ]
    verdicts = {"judge": [Evaluation((1.0, -1.0), failed=1) for _ in pairs[1]]}
    thresholds = find_thresholds(dev, 1.0)
    assert -0.7 < thresholds.lower <= thresholds.upper < 0.9
    report = build_evaluator_report(dev, test, *pairs, verdicts, thresholds, 0, 1.0, {})
    pair_table, action_table, _ = report.tables
    rows = {row[0]: row for row in pair_table.rows}
    assert rows["estimator"][2].startswith(
        "100.0 [61.0, 100.0]"
    )  # Wilson's interval of 6 of 6 questions
    assert rows["estimator"][3].startswith("100.0 [61.0, 100.0]")
    assert rows["retriever's score"][2].startswith("50.0")
    assert rows["retriever's score"][3].startswith("0.0 [0.0, 39.0]")
    assert rows["judge"][1:3] == ["its verdict; none in 6 replies", "100.0 [61.0, 100.0]"]
    assert rows["T5-large (CRAG, PopQA)"][2] == "84.3"
    assert [row[1:4] for row in action_table.rows[:2]] == [
        ["an answer", "6", "6 (100.0 %)"],
        ["no answer", "2", "0 (0.0 %)"],
    ]
    assert report.notes == [
        "The estimator gave no number for 8 of 32 contexts, which count as irrelevant."
    ]
    assert len([plot for plot in report.plots if plot.title]) == 2


def test_scores_that_are_no_probabilities_have_no_calibration() -> None:
    """A regression without a bound may exceed 1; the page says so, after all its calls
    were made.
    """
    dev, test = evaluated("d"), evaluated("t")
    test[0] = replace(test[0], scores=(-0.8, 1.02))
    pairs = [
        PairSelection(1, 1, 0).select([Group(item.question, item.contexts) for item in part])
        for part in (dev, test)
    ]
    report = build_evaluator_report(dev, test, *pairs, {}, find_thresholds(dev, 1.0), 0, 1.0, {})
    assert [table.title for table in report.tables] == [
        "Evaluators on held-out pairs (CRAG, table 4)",
        "Actions",
    ]
    assert len(report.plots) == 1
    (note,) = report.notes
    assert note.startswith("1 of 16 scores are not between -1 and 1")


@pytest.mark.parametrize(("dev_scored", "test_scored"), [(True, False), (False, True)])
def test_the_retriever_is_compared_by_one_scale(dev_scored: bool, test_scored: bool) -> None:
    """A threshold of scores says nothing of ranks: one context without a score is enough."""
    dev, test = evaluated("d", scored=dev_scored), evaluated("t", scored=test_scored)
    pairs = [
        PairSelection(1, 1, 0).select([Group(item.question, item.contexts) for item in part])
        for part in (dev, test)
    ]
    report = build_evaluator_report(dev, test, *pairs, {}, find_thresholds(dev, 1.0), 0, 1.0, {})
    rows = {row[0]: row for row in report.tables[0].rows}
    ranks, _, _ = build_evaluator_report(
        *(evaluated(name, scored=False) for name in "dt"),
        *pairs,
        {},
        find_thresholds(dev, 1.0),
        0,
        1.0,
        {},
    ).tables
    assert rows["retriever's score"] == {row[0]: row for row in ranks.rows}["retriever's score"]
