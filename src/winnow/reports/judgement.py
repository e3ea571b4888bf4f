"""What an estimator is worth, beside RE-RAG's tables 2, 3, 4, 5 and figures 3 and 4, with curves of our own.

Every table has the retriever's scores as the baseline. Thresholds are chosen on development questions.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
import yaml
from numpy.typing import NDArray

from winnow.errors import ConfigError, nearest
from winnow.metrics.intervals import compare, mean_interval
from winnow.metrics.ranking import recall_at
from winnow.metrics.unanswerable import (
    Calibration,
    area_under_risk,
    best_threshold,
    calibrate,
    classify,
    expected_calibration_error,
    misordered,
    refuse,
    reliability,
    risk_coverage,
)
from winnow.records import Context, Question
from winnow.relevance import probability
from winnow.reports.cells import TableView
from winnow.reports.plots import curve

KS = (1, 5, 10, 20)
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
"""The paper's (table 4)."""
PARTS = ("table2", "table3", "table4", "table5", "figure3", "figure4", "trust")
"""What there is to show: the paper's tables and figures (4 is 3 with the smaller model), and curves of our own."""
OF_ANSWERS = ("table5", "figure3", "figure4")
"""What is of the questions that were answered, and of no others."""
_AS_IT_IS = Calibration()
_PAPERS, _CALIBRATED = "estimator, 0.5 to 0.9", "estimator calibrated on dev, 0.5 to 0.9"
_SCORES = ("retriever", _PAPERS, _CALIBRATED, "estimator, any log-odds")
"""What thresholds are searched on: scores of the retriever, the paper's steps of P("true") as it is and calibrated, quantiles
of the log-odds."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A question with its contexts by the retriever's rank, each with the estimator's log-odds; EM where it was answered."""

    question: Question
    contexts: Sequence[Context]
    em: float | None = None

    def by_estimator(self) -> list[Context]:
        """Return the contexts, best log-odds first."""
        return sorted(self.contexts, key=lambda c: -_odds(c))


@dataclass(frozen=True, slots=True)
class _Sets:
    """The top k of each question by one ranking: the best score, and whether an answer is held."""

    best: NDArray[np.float64]
    holds: NDArray[np.bool_]


def stated(part: str, dataset: str) -> tuple[Sequence[str], Mapping[str, Sequence[float]]]:
    """Return the column names and rows that RE-RAG's table states for a data set."""
    body = yaml.safe_load((files("winnow.reports") / "papers" / "re_rag.yaml").read_text(encoding="utf-8"))
    found = body[part]["judged"]
    known = [name for name in found if name != "columns"]
    if dataset not in known:
        raise ConfigError(f"judgement.paper={dataset!r}: RE-RAG has {', '.join(known)}." + nearest(dataset, known))
    return found["columns"], found[dataset]


def recall_table(judged: Sequence[Judged], dataset: str, seed: int) -> TableView:
    """Return recall@k of both rankings, with a paired test (table 2)."""
    flags = {
        "retriever": [[c.has_answer for c in one.contexts] for one in judged],
        "estimator": [[c.has_answer for c in one.by_estimator()] for one in judged],
    }
    rows = [[name, *(mean_interval(recall_at(ranked, k), seed=seed).percent() for k in KS)] for name, ranked in flags.items()]
    tests = [compare(recall_at(flags["estimator"], k), recall_at(flags["retriever"], k), seed=seed) for k in KS]
    rows.append(
        [
            "difference (p)",
            *(f"{t.signed()} ({t.p_value:.3f})" for t in tests),
        ]
    )
    return _beside(
        "table2",
        dataset,
        "Recall@k before and after reranking",
        f"{len(judged)} questions, the first {max(len(one.contexts) for one in judged)} contexts of each",
        ["", *_names(KS)],
        rows,
    )


def sample_table(judged: Sequence[Judged], count: int) -> TableView:
    """Return contexts to read (table 3): where estimator and answer match disagree most, and some where they agree.

    A high probability without an accepted answer in the text may be a relevant passage in other words; a low one beside
    the answer may be a chance match.
    """
    pairs = [(one, c) for one in judged for c in one.by_estimator()[:3]]
    kinds = (
        ("true, no answer string", [p for p in pairs if not p[1].has_answer], -1),
        ("false, answer string there", [(o, c) for o in judged for c in o.contexts[:10] if c.has_answer], 1),
        ("true, answer string there", [p for p in pairs if p[1].has_answer], -1),
    )
    rows = []
    for kind, found, sign in kinds:
        for one, c in sorted(found, key=lambda pair: sign * _odds(pair[1]))[: max(1, count // 3)]:
            text = c.passage.text if len(c.passage.text) <= 240 else c.passage.text[:237] + "..."
            rows.append(
                [kind, f"{_p(c):.3f}", one.question.text, "; ".join(one.question.answers), f"{c.passage.title}: {text}"]
            )
    columns = ["kind", 'P("true")', "question", "answers", "context"]
    return TableView("Judged contexts (as RE-RAG's table 3)", "the most extreme of each kind", columns, rows)


def set_table(dev: Sequence[Judged], test: Sequence[Judged], k: int, dataset: str, seed: int) -> TableView:
    """Return how well thresholds find sets without an answer (table 4); the retriever's are quantiles of its scores."""
    rows = []
    everything = ("every set called so", math.inf, _sets(test, k, "estimator"))
    for score, threshold, sets in (*_tried(dev, test, k), everything):
        found = classify(sets.best, sets.holds, threshold, seed=seed)
        rows.append([score, _shown(score, threshold), *(e.percent() for e in (found.recall, found.precision, found.f1))])
    lacking = int((~_sets(test, k, "estimator").holds).sum())
    over = f"{lacking} of {len(test)} sets of {k} hold no answer; thresholds by F1 on {len(dev)} dev questions"
    columns = ["score", "threshold", "recall", "precision", "F1"]
    return _beside("table4", dataset, "Sets without an answer", over, columns, rows, gap=1)


def refusal_table(dev: Sequence[Judged], test: Sequence[Judged], k: int, dataset: str, seed: int) -> TableView:
    """Return accuracy on sets with an answer before and after refusing, and the share refused of those without (table 5)."""
    rows, right = [], _ems(test)
    for score, threshold, sets in _tried(dev, test, k):
        found = refuse(sets.best, sets.holds, right, threshold, seed=seed)
        rows.append([score, _shown(score, threshold), *(e.percent() for e in (found.before, found.after, found.refused))])
    columns = ["score", "threshold", "before", "after", "refused"]
    return _beside("table5", dataset, "Refusing sets without an answer", f"{len(test)} sets of {k}", columns, rows, gap=1)


def trust_table(dev: Sequence[Judged], test: Sequence[Judged], k: int) -> TableView:
    """Return the calibration error of P("true"), and the area under the risk-coverage curve where there are answers."""
    rows = []
    for how, scale in (("", _AS_IT_IS), (", calibrated on dev", _scale(_CALIBRATED, dev))):
        error = expected_calibration_error(*_context_trust(test, k, scale))
        rows.append([f'calibration error of P("true") against has_answer, 10 bins{how}', f"{error:.3f}"])
    shown = _top(test, k)
    holds = np.array([c.has_answer for c in shown])
    for score, values in (("retriever", [c.score for c in shown]), ("estimator", [_odds(c) for c in shown])):
        below = f"{misordered(np.array(values), holds):.3f}"
        rows.append([f"chance that the {score} scores a context with an answer below one without", below])
    if told := answered(test):
        ems = _ems(told)
        for score in ("retriever", "estimator"):
            area = area_under_risk(_sets(told, k, score).best, ems)
            rows.append([f"area under risk-coverage, best score of the {score}", f"{area:.3f}"])
        rows.append([f"risk over the {len(told)} answered questions", f"{1 - ems.mean():.3f}"])
    return TableView("What scores are worth", "ours; lower is better", ["measure", "value"], rows)


def share_table(dev: Sequence[Judged], test: Sequence[Judged], k: int, seed: int) -> TableView:
    """Return EM by the share of relevant contexts (figures 3 and 4)."""
    rows = [
        [score, f"{0.2 * fifth:.1f} to {0.2 * fifth + 0.2:.1f}", str(len(ems)), mean_interval(ems, seed=seed).percent()]
        for score, fifth, ems in _by_share(dev, test, k)
    ]
    over = (
        f'share of the top {k} with P("true") over 0.5, of the retriever over its median score; the paper draws curves, whose '
        "values are not stated: accuracy rises with the estimator's share, and drops where no context is relevant"
    )
    return TableView(
        "EM by the share of relevant contexts (RE-RAG, figures 3 and 4)", over, ["score", "share", "n", "EM"], rows
    )


def tables(
    dev: Sequence[Judged], test: Sequence[Judged], k: int, dataset: str, sample: int, seed: int, show: Sequence[str] = PARTS
) -> list[TableView]:
    """Return the tables of the parts to show, in the paper's order; those of answers over the questions that have one.

    Raises:
        ConfigError: if a part is unknown, or nothing is left to show.

    """
    for part in show or [""]:
        if part not in PARTS:
            raise ConfigError(f"judgement.show={part!r}: there are {', '.join(PARTS)}." + nearest(part, PARTS))
    told = answered(test)
    made: dict[str, Callable[[], TableView]] = {
        "table2": lambda: recall_table(test, dataset, seed),
        "table3": lambda: sample_table(test, sample),
        "table4": lambda: set_table(dev, test, k, dataset, seed),
        "table5": lambda: refusal_table(dev, told, k, dataset, seed),
        "figure3": lambda: share_table(dev, told, k, seed),
        "trust": lambda: trust_table(dev, test, k),
    }
    shown = [part for part in PARTS if part in show and (told or part not in OF_ANSWERS)]
    if not shown:
        raise ConfigError(
            f"judgement.show=[{', '.join(show)}] needs answers, and the cell of these settings is not there. "
            "Run `python -m flows.sweep` with the same words, rank_by=estimator and k=judgement.k first."
        )
    return [made[part]() for part in dict.fromkeys("figure3" if part == "figure4" else part for part in shown)]


def plots(dev: Sequence[Judged], test: Sequence[Judged], k: int, seed: int, show: Sequence[str] = PARTS) -> list[str]:
    """Return SVG: reliability, and where there are answers risk-coverage and EM by the share of relevant contexts."""
    drawn = []
    if "trust" in show:
        lines: dict[str, tuple[Sequence[float], Sequence[float]]] = {"perfect": ([0, 1], [0, 1])}
        for name, scale in (("estimator", _AS_IT_IS), ("calibrated on dev", _scale(_CALIBRATED, dev))):
            bins = reliability(*_context_trust(test, k, scale))
            lines[name] = ([b.confidence for b in bins], [b.right for b in bins])
        title = f'Reliability of P("true") over the top {k}'
        drawn.append(curve(title, 'mean P("true") of a bin', "share with an answer", lines))
    told = answered(test)
    if "trust" in show and told:
        lines = {}
        for score in ("retriever", "estimator"):
            coverage, risk = risk_coverage(_sets(told, k, score).best, _ems(told))
            lines[score] = (coverage.tolist(), risk.tolist())
        drawn.append(curve("Risk against coverage", "coverage", "risk (1 - EM)", lines))
    if {"figure3", "figure4"} & set(show) and told:
        points: dict[str, tuple[list[float], list[float]]] = {}
        for score, fifth, ems in _by_share(dev, told, k):
            across, up = points.setdefault(score, ([], []))
            across.append(0.2 * fifth + 0.1)
            up.append(mean_interval(ems, seed=seed).mean)
        drawn.append(curve(f"EM by the share of relevant contexts among {k}", "share of relevant contexts", "EM", points))
    return drawn


def answered(judged: Sequence[Judged]) -> list[Judged]:
    """Return the questions that a cell answered."""
    return [one for one in judged if one.em is not None]


def _by_share(dev: Sequence[Judged], test: Sequence[Judged], k: int) -> Iterator[tuple[str, int, NDArray[np.float64]]]:
    """Yield score, fifth (0 to 4) of the share of the top k that passes, and EMs; the retriever's pass its median score."""
    scale = _scale(_CALIBRATED, dev)
    middle = float(np.median([c.score for one in test for c in one.contexts[:k]]))
    shares = {
        "retriever": [np.mean([c.score > middle for c in one.contexts[:k]]) for one in test],
        "estimator": [np.mean([_odds(c) > 0 for c in one.by_estimator()[:k]]) for one in test],
        "estimator calibrated on dev": [
            np.mean(scale(np.array([_odds(c) for c in one.by_estimator()[:k]])) > 0) for one in test
        ],
    }
    ems = _ems(test)
    for score, values in shares.items():
        place = np.minimum((np.array(values) * 5).astype(int), 4)
        for fifth in range(5):
            if (place == fifth).any():
                yield score, fifth, ems[place == fifth]


def _odds(context: Context) -> float:
    assert context.log_odds is not None
    return context.log_odds


def _p(context: Context) -> float:
    return float(probability(np.array([_odds(context)], dtype=np.float32))[0])


def _ems(judged: Sequence[Judged]) -> NDArray[np.float64]:
    return np.array([one.em or 0.0 for one in judged])


def _tried(dev: Sequence[Judged], test: Sequence[Judged], k: int) -> Iterator[tuple[str, float, _Sets]]:
    """Yield each score with the threshold chosen on the development questions, and the test sets on its scale."""
    for score in _SCORES:
        scale = _scale(score, dev)
        yield score, _chosen(score, dev, k, scale), _sets(test, k, score, scale)


def _scale(score: str, dev: Sequence[Judged]) -> Calibration:
    """Return the calibration that a score stands for, fitted on every judged context of the development questions."""
    if score != _CALIBRATED:
        return _AS_IT_IS
    shown = [c for one in dev for c in one.contexts]
    return calibrate(np.array([_odds(c) for c in shown]), np.array([c.has_answer for c in shown]))


def _sets(judged: Sequence[Judged], k: int, score: str, scale: Calibration = _AS_IT_IS) -> _Sets:
    if score == "retriever":
        tops = [list(one.contexts[:k]) for one in judged]
        best = [max(c.score for c in top) for top in tops]
    else:
        tops = [one.by_estimator()[:k] for one in judged]
        best = [_odds(top[0]) for top in tops]
    return _Sets(scale(np.array(best, dtype=np.float64)), np.array([any(c.has_answer for c in top) for top in tops]))


def _chosen(score: str, dev: Sequence[Judged], k: int, scale: Calibration) -> float:
    """Return the threshold with the best F1 on the development questions, on the scale of `_sets`.

    RE-RAG's loss tells contexts of one question apart, and says nothing of the height that all its log-odds share: where
    that is far from 0, no probability from 0.5 to 0.9 is a threshold; calibrated ones and quantiles of the log-odds are.
    """
    sets = _sets(dev, k, score, scale)
    if score in (_PAPERS, _CALIBRATED):
        return best_threshold(sets.best, sets.holds, [math.log(t / (1 - t)) for t in THRESHOLDS])
    return best_threshold(sets.best, sets.holds, [float(v) for v in np.quantile(sets.best, np.linspace(0.05, 0.95, 19))])


def _shown(score: str, threshold: float) -> str:
    if math.isinf(threshold):
        return "-"
    return f"{1 / (1 + math.exp(-threshold)):.3g}" if score in (_PAPERS, _CALIBRATED) else f"{threshold:.3g}"


def _top(judged: Sequence[Judged], k: int) -> list[Context]:
    return [c for one in judged for c in one.by_estimator()[:k]]


def _context_trust(test: Sequence[Judged], k: int, scale: Calibration) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    shown = _top(test, k)
    chances = probability(scale(np.array([_odds(c) for c in shown])).astype(np.float32))
    return chances.astype(np.float64), np.array([c.has_answer for c in shown])


def _names(ks: Sequence[int]) -> list[str]:
    return [f"recall@{k}" for k in ks]


def _beside(
    part: str, dataset: str, title: str, over: str, columns: Sequence[str], rows: list[list[str]], gap: int = 0
) -> TableView:
    names, theirs = stated(part, dataset)
    assert list(names) == list(columns)[1 + gap :]
    for model, values in theirs.items():
        rows.append([f"{model} (paper, {dataset})", *["-"] * gap, *(f"{value:g}" for value in values)])
    return TableView(f"{title} (RE-RAG, {part})", f"{over}; % with 95 % intervals", columns, rows)
