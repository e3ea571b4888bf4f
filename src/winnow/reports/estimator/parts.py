"""The parts of an estimator's report, each a table with its plots, and their selection by name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from winnow.errors import ConfigError, suggest_name
from winnow.metrics.calibration import Calibration, compute_reliability
from winnow.metrics.intervals import compute_mean_interval
from winnow.metrics.unanswerable import compute_risk_coverage
from winnow.reports.estimator import tables
from winnow.reports.estimator.calibration import build_calibration_table
from winnow.reports.estimator.evaluation import Evaluation
from winnow.reports.estimator.scores import (
    compute_probabilities,
    fit_calibration,
    get_exact_matches,
)
from winnow.reports.plots import Plot, plot_curves
from winnow.reports.tables import TableView


@dataclass(frozen=True, slots=True)
class Part:
    """A table of the report with its plots.

    Attributes:
        names: Names by which the part is selected. Most are tables and figures of the paper that
            the part reproduces.
        table: Function that builds the table.
        plots: Functions that build the plots. They return None if there is nothing to plot.
        needs_answers: Whether the part covers only questions that have a predicted answer.
    """

    names: tuple[str, ...]
    table: Callable[[Evaluation], TableView]
    plots: tuple[Callable[[Evaluation], Plot | None], ...] = ()
    needs_answers: bool = False


def plot_reliability(evaluation: Evaluation) -> Plot:
    """Draw the reliability diagram of the estimator's P("true") before and after calibration."""
    contexts = evaluation.select_top_contexts()
    labels = np.array([context.has_answer for context in contexts])
    lines: dict[str, tuple[Sequence[float], Sequence[float]]] = {"perfect": ([0, 1], [0, 1])}
    for name, calibration in (
        ("estimator", Calibration()),
        ("calibrated on dev", fit_calibration(evaluation.dev)),
    ):
        bins = compute_reliability(compute_probabilities(contexts, calibration), labels)
        lines[name] = ([point.confidence for point in bins], [point.accuracy for point in bins])
    title = f'Reliability of P("true") over the top {evaluation.k}'
    return plot_curves(title, 'mean P("true") of a bin', "share with an answer", lines)


def plot_risk_coverage(evaluation: Evaluation) -> Plot | None:
    """Draw the retriever's and estimator's risk-coverage curves, by each question's best score.

    Returns:
        Plot, or None if no question has a predicted answer.
    """
    if not evaluation.answered_questions:
        return None
    lines = {}
    for name, source in (
        ("retriever", evaluation.sources[0]),
        ("estimator", evaluation.sources[-1]),
    ):
        best_scores, _ = source.score_sets(evaluation.answered_questions, evaluation.k)
        coverage, risk = compute_risk_coverage(
            best_scores, get_exact_matches(evaluation.answered_questions)
        )
        lines[name] = (coverage.tolist(), risk.tolist())
    return plot_curves("Risk against coverage", "coverage", "risk (1 - EM)", lines)


def plot_em_by_share(evaluation: Evaluation) -> Plot:
    """Draw EM against the share of relevant contexts among the top k."""
    lines: dict[str, tuple[list[float], list[float]]] = {}
    for name, fifth, ems in evaluation.group_by_share():
        x, y = lines.setdefault(name, ([], []))
        x.append(0.2 * fifth + 0.1)
        y.append(compute_mean_interval(ems, seed=evaluation.seed).mean)
    return plot_curves(
        f"EM by the share of relevant contexts among {evaluation.k}",
        "share of relevant contexts",
        "EM",
        lines,
    )


PARTS = (
    Part(("table2",), tables.build_top_k_table),
    Part(("table3",), tables.build_examples_table),
    Part(("table4",), tables.build_detection_table),
    Part(("table5",), tables.build_abstention_table, needs_answers=True),
    Part(("figure3", "figure4"), tables.build_share_table, (plot_em_by_share,), needs_answers=True),
    Part(("calibration",), build_calibration_table, (plot_reliability, plot_risk_coverage)),
)
"""All parts, in the order of the paper."""
PART_NAMES = tuple(name for part in PARTS for name in part.names)
"""Names by which parts can be selected."""


def choose_parts(names: Sequence[str] | None, evaluation: Evaluation) -> list[Part]:
    """Select the parts of a report in the order of the paper.

    Parts that need predicted answers are left out if no question has one.

    Args:
        names: Names of the parts, or None for all parts.
        evaluation: Questions and settings of the report.

    Raises:
        ConfigError: If a name is unknown, or if no part remains.
    """
    requested_names = PART_NAMES if names is None else names
    for name in requested_names or [""]:
        if name not in PART_NAMES:
            choices = ", ".join(PART_NAMES)
            raise ConfigError(
                f"evaluate_estimator.show={name!r} is unknown. Choose from {choices}."
                + suggest_name(name, PART_NAMES)
            )
    parts = [
        part
        for part in PARTS
        if set(part.names) & set(requested_names)
        and (evaluation.answered_questions or not part.needs_answers)
    ]
    if not parts:
        raise ConfigError(
            f"evaluate_estimator.show=[{', '.join(requested_names)}] needs answers, and the cell "
            "of "
            "these settings is missing. First run `python -m flows.sweep` with the same "
            "settings, rank_by=estimator and k set to evaluate_estimator.k."
        )
    return parts
