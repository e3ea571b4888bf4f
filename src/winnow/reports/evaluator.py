"""The report on CRAG evaluators: held-out accuracy (table 4), action thresholds and calibration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from winnow.contexts.gold import is_relevant
from winnow.metrics.calibration import Floats, compute_reliability, expected_calibration_error
from winnow.metrics.comparisons import Comparison, adjust_p_values, compare, format_p
from winnow.metrics.intervals import UNDEFINED, Interval, compute_mean_interval
from winnow.metrics.relevance import (
    ThresholdSearch,
    choose_accuracy_threshold,
    compute_auroc_interval,
    search_action_thresholds,
)
from winnow.metrics.unanswerable import Labels
from winnow.records import Context, Question
from winnow.reports.plots import Plot, plot_curves
from winnow.reports.report import Report
from winnow.reports.reported import load_paper_part
from winnow.reports.tables import TableView
from winnow.strategies.corrective.actions import Action, Thresholds
from winnow.strategies.corrective.evaluators import Evaluation
from winnow.training.groups import Group


@dataclass(frozen=True, slots=True)
class EvaluatedContexts:
    """A question, its contexts, their relevance scores in [-1, 1], and how many have no score."""

    question: Question
    contexts: tuple[Context, ...]
    scores: tuple[float, ...]
    failed: int = 0

    @property
    def best_score(self) -> float:
        """Return the highest score."""
        return max(self.scores)

    @property
    def is_answerable(self) -> bool:
        """Return whether any of the contexts is relevant."""
        return any(map(is_relevant, self.contexts))


def find_thresholds(dev: Sequence[EvaluatedContexts], alpha: float) -> ThresholdSearch:
    """Search for the action thresholds on development questions; `alpha` weighs costly errors."""
    best_scores = np.array([item.best_score for item in dev])
    return search_action_thresholds(
        best_scores, np.array([item.is_answerable for item in dev]), alpha
    )


def build_evaluator_report(
    dev: Sequence[EvaluatedContexts],
    test: Sequence[EvaluatedContexts],
    dev_pairs: Sequence[Group],
    test_pairs: Sequence[Group],
    verdicts: Mapping[str, Sequence[Evaluation]],
    thresholds: ThresholdSearch,
    seed: int,
    alpha: float,
    provenance: Mapping[str, str],
) -> Report:
    """Build the report.

    Args:
        dev: Development questions, on which thresholds are chosen.
        test: Test questions, on which they are evaluated.
        dev_pairs: Pairs of the development questions, as many relevant as irrelevant.
        test_pairs: Pairs of the test questions.
        verdicts: Evaluations of the test pairs by each judge.
        thresholds: Thresholds of the actions, found on the development questions.
        seed: Seed of the bootstrap.
        alpha: Weight of the costly errors in the search for thresholds.
        provenance: Description of data, evaluator and code, by topic.
    """
    tables = [
        _build_pairs_table(dev, test, dev_pairs, test_pairs, verdicts, seed),
        _build_action_table(test, thresholds),
    ]
    plots = [_plot_thresholds(thresholds, alpha)]
    num_failed, total = (
        sum(item.failed for item in (*dev, *test)),
        sum(len(item.scores) for item in (*dev, *test)),
    )
    notes = (
        [
            f"The estimator gave no number for {num_failed} of {total} contexts, which count as "
            "irrelevant."
        ]
        if num_failed
        else []
    )
    scores = [score for item in test for score in item.scores]
    num_outside = sum(abs(score) > 1 for score in scores)
    if num_outside:
        notes.append(
            f"{num_outside} of {len(scores)} scores are not between -1 and 1, so that (score + 1) "
            "/ 2 is not a probability. No calibration is shown."
        )
    else:
        tables.append(_build_calibration_table(test))
        plots.append(_plot_reliability(test))
    return Report("Winnow: retrieval evaluators", notes, tables, plots, provenance)


def _build_pairs_table(
    dev: Sequence[EvaluatedContexts],
    test: Sequence[EvaluatedContexts],
    dev_pairs: Sequence[Group],
    test_pairs: Sequence[Group],
    verdicts: Mapping[str, Sequence[Evaluation]],
    seed: int,
) -> TableView:
    """Build the table of accuracy and AUROC on pairs, comparing each evaluator to the retriever."""
    labels, dev_labels = _list_labels(test_pairs), _list_labels(dev_pairs)
    groups = [group.question.question_id for group in test_pairs for _ in group.contexts]
    contexts = [context for group in (*dev_pairs, *test_pairs) for context in group.contexts]
    has_scores = all(context.score is not None for context in contexts)
    sources: dict[str, tuple[Floats, float, str]] = {}
    for name, dev_scores, test_scores in (
        (
            "retriever's score",
            _list_retriever_scores(dev_pairs, has_scores=has_scores),
            _list_retriever_scores(test_pairs, has_scores=has_scores),
        ),
        ("estimator", _list_scores(dev, dev_pairs), _list_scores(test, test_pairs)),
    ):
        threshold = choose_accuracy_threshold(dev_scores, dev_labels)
        sources[name] = test_scores, threshold, f"{threshold:.6g} (dev)"
    for name, evaluations in verdicts.items():
        num_failed = sum(evaluation.failed for evaluation in evaluations)
        note = f"its verdict; none in {num_failed} replies" if num_failed else "its verdict"
        sources[name] = (
            np.array([score for evaluation in evaluations for score in evaluation.scores]),
            0.0,
            note,
        )
    right = {
        name: _average_by_group((scores >= cutoff) == labels, groups)
        for name, (scores, cutoff, _) in sources.items()
    }
    baseline, *others = sources
    comparisons: dict[str, Comparison] = {
        name: compare(right[name], right[baseline], seed=seed) for name in others
    }
    adjusted_p_values = dict(
        zip(others, adjust_p_values([comparisons[name].p_value for name in others]), strict=True)
    )
    area = partial(compute_auroc_interval, labels=labels, groups=groups, seed=seed)
    rows = []
    for name, (scores, _, note) in sources.items():
        row = [
            name,
            note,
            compute_mean_interval(right[name], seed=seed).format_percent(),
            area(scores).format_percent(),
        ]
        if name == baseline:
            rows.append([*row, UNDEFINED, UNDEFINED, UNDEFINED])
            continue
        change = area(scores, other=sources[baseline][0])
        difference = comparisons[name]
        p_values = f"{difference.p_text} ({format_p(adjusted_p_values[name])})"
        rows.append([*row, difference.format_difference(), p_values, _format_signed(change)])
    paper = load_paper_part("crag", "table4", "PopQA", "T5-large and ChatGPT")
    blank = [UNDEFINED] * 4
    rows += [
        [f"{value.where['strategy']} (CRAG, PopQA)", "", value.format(), *blank]
        for value in paper.reported
    ]
    columns = [
        "evaluator",
        "threshold",
        "accuracy",
        "AUROC",
        "accuracy - retriever's",
        "p (Holm)",
        "AUROC - retriever's",
    ]
    caption = (
        f"{len(labels)} pairs of {len(test_pairs)} questions, half of them with an answer; % with "
        "95 % intervals"
    )
    return TableView("Evaluators on held-out pairs (CRAG, table 4)", caption, columns, rows)


def _build_action_table(test: Sequence[EvaluatedContexts], search: ThresholdSearch) -> TableView:
    """Build the table of actions on test questions, with thresholds from dev and the slides."""
    rows = []
    for name, thresholds in (
        ("found on dev", Thresholds(search.upper, search.lower)),
        ("slides", Thresholds()),
    ):
        actions = [(thresholds.choose(item.scores), item.is_answerable) for item in test]
        for answerable in (True, False):
            total = sum(label is answerable for _, label in actions)
            shares = [sum(pair == (action, answerable) for pair in actions) for action in Action]
            texts = [
                f"{count} ({100 * count / total:.1f} %)" if total else UNDEFINED for count in shares
            ]
            label = "an answer" if answerable else "no answer"
            rows.append(
                [
                    f"{name}: {thresholds.upper:.8g}, {thresholds.lower:.8g}",
                    label,
                    str(total),
                    *texts,
                ]
            )
    caption = "Number of test questions by what their contexts hold and by the action"
    return TableView(
        "Actions", caption, ["thresholds (upper, lower)", "contexts hold", "n", *Action], rows
    )


def _build_calibration_table(test: Sequence[EvaluatedContexts]) -> TableView:
    """Build the table of the calibration error over all test contexts."""
    confidence, labels = _list_confidences(test)
    error = expected_calibration_error(confidence, labels)
    rows = [["calibration error of (score + 1) / 2, 10 bins", f"{error:.3f}"]]
    rows.append(["share of relevant contexts", f"{100 * labels.mean():.1f} %"])
    return TableView("Calibration", f"All {len(labels)} test contexts", ["measure", "value"], rows)


def _plot_thresholds(search: ThresholdSearch, alpha: float) -> Plot:
    """Draw the score S of every candidate for both thresholds."""
    inside = search.candidates <= 1
    x = ((search.candidates[inside] + 1) / 2).tolist()
    lines = {
        "upper": (x, search.upper_scores[inside].tolist()),
        "lower": (x, search.lower_scores[inside].tolist()),
    }
    return plot_curves(
        f"Score of thresholds on dev (alpha = {alpha:g})", "(threshold + 1) / 2", "S", lines
    )


def _plot_reliability(test: Sequence[EvaluatedContexts]) -> Plot:
    """Draw the reliability diagram of the scores, scaled to [0, 1]."""
    bins = compute_reliability(*_list_confidences(test))
    lines: dict[str, tuple[list[float], list[float]]] = {"perfect": ([0, 1], [0, 1])}
    lines["estimator"] = ([point.confidence for point in bins], [point.accuracy for point in bins])
    return plot_curves(
        "Reliability of the evaluator",
        "mean (score + 1) / 2 of a bin",
        "share of relevant contexts",
        lines,
    )


def _list_confidences(
    test: Sequence[EvaluatedContexts],
) -> tuple[Floats, Labels]:
    """Return the scores of all contexts, scaled to [0, 1], and whether each is relevant."""
    confidence = np.array([(score + 1) / 2 for item in test for score in item.scores])
    return confidence, np.array(
        [is_relevant(context) for item in test for context in item.contexts]
    )


def _list_labels(pairs: Sequence[Group]) -> Labels:
    """Return whether each pair is relevant."""
    return np.array([is_relevant(context) for group in pairs for context in group.contexts])


def _list_retriever_scores(pairs: Sequence[Group], *, has_scores: bool) -> Floats:
    """Return the retriever's scores of the pairs, or negative ranks without scores."""
    contexts = [context for group in pairs for context in group.contexts]
    return np.array(
        [
            context.get_retriever_score() if has_scores else -float(context.rank)
            for context in contexts
        ]
    )


def _list_scores(evaluated: Sequence[EvaluatedContexts], pairs: Sequence[Group]) -> Floats:
    """Return the relevance scores of the pairs."""
    scores = {
        (item.question.question_id, context.passage.passage_id): score
        for item in evaluated
        for context, score in zip(item.contexts, item.scores, strict=True)
    }
    ids = [
        (group.question.question_id, context.passage.passage_id)
        for group in pairs
        for context in group.contexts
    ]
    return np.array([scores[pair] for pair in ids])


def _average_by_group(values: Labels, groups: Sequence[str]) -> list[float]:
    """Return the mean of the values of each question."""
    by_group: dict[str, list[float]] = {}
    for value, group in zip(values.tolist(), groups, strict=True):
        by_group.setdefault(group, []).append(float(value))
    return [sum(members) / len(members) for members in by_group.values()]


def _format_signed(interval: Interval) -> str:
    return f"{100 * interval.mean:+.1f} [{100 * interval.low:+.1f}, {100 * interval.high:+.1f}]"
