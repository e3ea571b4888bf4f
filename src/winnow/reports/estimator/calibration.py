"""The table of a relevance estimator's calibration error and the ranking errors of its scores."""

import numpy as np

from winnow.metrics.calibration import Calibration, expected_calibration_error, misranking_rate
from winnow.metrics.unanswerable import compute_area_under_risk
from winnow.reports.estimator.evaluation import Evaluation
from winnow.reports.estimator.scores import (
    compute_probabilities,
    fit_calibration,
    get_exact_matches,
)
from winnow.reports.tables import TableView


def build_calibration_table(evaluation: Evaluation) -> TableView:
    """Build a table of calibration error (estimator) and ranking errors (retriever and estimator).

    If there are answered questions, the table includes the areas under the risk-coverage curves.
    """
    contexts = evaluation.select_top_contexts()
    labels = np.array([context.has_answer for context in contexts])
    rows = []
    for suffix, calibration in (
        ("", Calibration()),
        (", calibrated on dev", fit_calibration(evaluation.dev)),
    ):
        error = expected_calibration_error(compute_probabilities(contexts, calibration), labels)
        rows.append(
            [
                f'calibration error of P("true") against has_answer, 10 bins, first {evaluation.k} '
                f"contexts of the estimator{suffix}",
                f"{error:.3f}",
            ]
        )
    scored_contexts = [context for question in evaluation.test for context in question.contexts]
    has_answer = np.array([context.has_answer for context in scored_contexts])
    retriever, estimator = evaluation.sources[0], evaluation.sources[-1]
    for name, source in (("retriever", retriever), ("estimator", estimator)):
        rate = misranking_rate(
            np.array([source.score(context) for context in scored_contexts]), has_answer
        )
        rows.append(
            [
                f"probability that the {name} scores a context with an answer below one without, "
                "all scored contexts",
                f"{rate:.3f}",
            ]
        )
    if evaluation.answered_questions:
        ems = get_exact_matches(evaluation.answered_questions)
        for name, source in (("retriever", retriever), ("estimator", estimator)):
            best_scores, _ = source.score_sets(evaluation.answered_questions, evaluation.k)
            area = compute_area_under_risk(best_scores, ems)
            rows.append([f"area under risk-coverage, best score of the {name}", f"{area:.3f}"])
        rows.append(
            [
                f"risk over the {len(evaluation.answered_questions)} answered questions",
                f"{1 - ems.mean():.3f}",
            ]
        )
    caption = "These measures are not in the paper. Lower is better."
    return TableView("Calibration and ranking of the scores", caption, ["measure", "value"], rows)
