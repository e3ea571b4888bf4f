"""The table of an estimator's calibration and of the ranking errors of its scores."""

import numpy as np

from winnow.metrics.calibration import Calibration, expected_calibration_error, misranking_rate
from winnow.metrics.unanswerable import area_under_risk
from winnow.reports.cells import TableView
from winnow.reports.estimator.evaluation import Evaluation
from winnow.reports.estimator.scores import exact_matches, fit_calibration, probabilities


def calibration_table(e: Evaluation) -> TableView:
    """Build a table of the estimator's calibration error and of ranking errors of retriever and estimator.

    Areas under the risk-coverage curve are included if there are answered questions.
    """
    contexts = e.top_contexts()
    labels = np.array([c.has_answer for c in contexts])
    rows = []
    for suffix, calibration in (("", Calibration()), (", calibrated on dev", fit_calibration(e.dev))):
        error = expected_calibration_error(probabilities(contexts, calibration), labels)
        rows.append([f'calibration error of P("true") against has_answer, 10 bins{suffix}', f"{error:.3f}"])
    retriever, estimator = e.sources[0], e.sources[-1]
    for name, source in (("retriever", retriever), ("estimator", estimator)):
        rate = misranking_rate(np.array([source.score(c) for c in contexts]), labels)
        rows.append([f"probability that the {name} scores a context with an answer below one without", f"{rate:.3f}"])
    if e.answered:
        ems = exact_matches(e.answered)
        for name, source in (("retriever", retriever), ("estimator", estimator)):
            area = area_under_risk(source.sets(e.answered, e.k)[0], ems)
            rows.append([f"area under risk-coverage, best score of the {name}", f"{area:.3f}"])
        rows.append([f"risk over the {len(e.answered)} answered questions", f"{1 - ems.mean():.3f}"])
    return TableView("Calibration and ranking of the scores", "ours; lower is better", ["measure", "value"], rows)
