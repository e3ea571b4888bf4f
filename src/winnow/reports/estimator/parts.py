"""The parts of an estimator's report: tables and plots by name, in the order of the paper."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from winnow.errors import ConfigError, nearest
from winnow.metrics.calibration import Calibration, reliability
from winnow.metrics.intervals import mean_interval
from winnow.metrics.unanswerable import risk_coverage
from winnow.reports.cells import TableView
from winnow.reports.estimator import tables
from winnow.reports.estimator.calibration import calibration_table
from winnow.reports.estimator.evaluation import Evaluation
from winnow.reports.estimator.scores import exact_matches, fit_calibration, probabilities
from winnow.reports.plots import curve


@dataclass(frozen=True, slots=True)
class Part:
    """A table of the report with its plots.

    Attributes:
        names: Names by which the part is selected, such as the tables and figures of the paper that it reproduces.
        table: Function that builds the table.
        plots: Functions that draw the plots; an empty string is no plot.
        needs_answers: Whether the part covers only questions that a cell answered.

    """

    names: tuple[str, ...]
    table: Callable[[Evaluation], TableView]
    plots: tuple[Callable[[Evaluation], str], ...] = ()
    needs_answers: bool = False


def reliability_plot(e: Evaluation) -> str:
    """Draw the reliability diagram of P("true"), before and after calibration."""
    contexts = e.top_contexts()
    labels = np.array([c.has_answer for c in contexts])
    lines: dict[str, tuple[Sequence[float], Sequence[float]]] = {"perfect": ([0, 1], [0, 1])}
    for name, calibration in (("estimator", Calibration()), ("calibrated on dev", fit_calibration(e.dev))):
        bins = reliability(probabilities(contexts, calibration), labels)
        lines[name] = ([point.confidence for point in bins], [point.accuracy for point in bins])
    title = f'Reliability of P("true") over the top {e.k}'
    return curve(title, 'mean P("true") of a bin', "share with an answer", lines)


def risk_coverage_plot(e: Evaluation) -> str:
    """Draw risk against coverage by the best score of retriever and estimator; without answers, return an empty string."""
    if not e.answered:
        return ""
    lines = {}
    for name, source in (("retriever", e.sources[0]), ("estimator", e.sources[-1])):
        coverage, risk = risk_coverage(source.sets(e.answered, e.k)[0], exact_matches(e.answered))
        lines[name] = (coverage.tolist(), risk.tolist())
    return curve("Risk against coverage", "coverage", "risk (1 - EM)", lines)


def share_plot(e: Evaluation) -> str:
    """Draw EM against the share of relevant contexts."""
    lines: dict[str, tuple[list[float], list[float]]] = {}
    for name, fifth, ems in e.by_share():
        x, y = lines.setdefault(name, ([], []))
        x.append(0.2 * fifth + 0.1)
        y.append(mean_interval(ems, seed=e.seed).mean)
    return curve(f"EM by the share of relevant contexts among {e.k}", "share of relevant contexts", "EM", lines)


PARTS = (
    Part(("table2",), tables.top_k_table),
    Part(("table3",), tables.examples_table),
    Part(("table4",), tables.detection_table),
    Part(("table5",), tables.abstention_table, needs_answers=True),
    Part(("figure3", "figure4"), tables.share_table, (share_plot,), needs_answers=True),
    Part(("calibration",), calibration_table, (reliability_plot, risk_coverage_plot)),
)
NAMES = tuple(name for part in PARTS for name in part.names)


def choose_parts(names: Sequence[str] | None, evaluation: Evaluation) -> list[Part]:
    """Select the named parts, or all if `names` is None. Without answers, the parts that need them are left out.

    Raises:
        ConfigError: If a name is unknown, or if no part remains.

    """
    requested = NAMES if names is None else names
    for name in requested or [""]:
        if name not in NAMES:
            raise ConfigError(f"evaluate_estimator.show={name!r}: there are {', '.join(NAMES)}." + nearest(name, NAMES))
    parts = [part for part in PARTS if set(part.names) & set(requested) and (evaluation.answered or not part.needs_answers)]
    if not parts:
        raise ConfigError(
            f"evaluate_estimator.show=[{', '.join(requested)}] needs answers, and the cell of these settings is missing. Run "
            "`python -m flows.sweep` with the same settings, rank_by=estimator and k=evaluate_estimator.k first."
        )
    return parts
