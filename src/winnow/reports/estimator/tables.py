"""The tables of an estimator's evaluation. Thresholds are chosen on development questions and evaluated on test questions."""

import math
from collections.abc import Mapping, Sequence
from importlib.resources import files

import yaml

from winnow.errors import ConfigError, nearest
from winnow.metrics.calibration import Calibration
from winnow.metrics.comparisons import compare, format_p, holm
from winnow.metrics.intervals import UNDEFINED, mean_interval
from winnow.metrics.retrieval import top_k_accuracy
from winnow.metrics.unanswerable import abstain, detect_unanswerable
from winnow.records import Context
from winnow.reports.cells import TableView
from winnow.reports.estimator.evaluation import Evaluation
from winnow.reports.estimator.scores import (
    ScoredQuestion,
    by_estimator,
    exact_matches,
    log_odds,
    probabilities,
)

KS = (1, 5, 10, 20)


def reported(part: str, dataset: str) -> tuple[Sequence[str], Mapping[str, Sequence[float]]]:
    """Load the column names and rows that a table of RE-RAG reports for a data set."""
    body = yaml.safe_load((files("winnow.reports") / "papers" / "re_rag.yaml").read_text(encoding="utf-8"))
    table = body[part]["estimator"]
    datasets = [name for name in table if name != "columns"]
    if dataset not in datasets:
        raise ConfigError(
            f"evaluate_estimator.paper={dataset!r}: RE-RAG has {', '.join(datasets)}." + nearest(dataset, datasets)
        )
    return table["columns"], table[dataset]


def top_k_table(e: Evaluation) -> TableView:
    """Build a table of the top-k accuracy of both rankings, which RE-RAG calls recall@k, with a paired test (table 2)."""
    flags = {
        "retriever": [[c.has_answer for c in question.contexts] for question in e.test],
        "estimator": [[c.has_answer for c in by_estimator(question)] for question in e.test],
    }
    rows = [
        [name, *(mean_interval(top_k_accuracy(ranked, k), seed=e.seed).percent() for k in KS)]
        for name, ranked in flags.items()
    ]
    comparisons = [
        compare(top_k_accuracy(flags["estimator"], k), top_k_accuracy(flags["retriever"], k), seed=e.seed) for k in KS
    ]
    adjusted = holm([comparison.p_value for comparison in comparisons])
    texts = [f"{c.signed()} ({c.p_text}; {format_p(p)})" for c, p in zip(comparisons, adjusted, strict=True)]
    rows.append(["difference (p; Holm)", *texts])
    depth = max(len(question.contexts) for question in e.test)
    caption = f"{len(e.test)} questions, the first {depth} contexts of each"
    columns = ["", *(f"top-{k}" for k in KS)]
    return _with_paper_rows(
        "table2", e.dataset, "Top-k accuracy before and after reranking, there called recall@k", caption, columns, rows
    )


def examples_table(e: Evaluation) -> TableView:
    """Build a table of example contexts (table 3), mostly those for which estimator and answer matching disagree most.

    A context with a high probability but without an accepted answer may be relevant in other words. One with a low
    probability but with an accepted answer may be a chance match.
    """
    estimator_top = [(question, c) for question in e.test for c in by_estimator(question)[:3]]
    retriever_top = [(question, c) for question in e.test for c in question.contexts[:10]]
    kinds = (
        ("true, no answer string", [pair for pair in estimator_top if not pair[1].has_answer], -1),
        ("false, answer string there", [pair for pair in retriever_top if pair[1].has_answer], 1),
        ("true, answer string there", [pair for pair in estimator_top if pair[1].has_answer], -1),
    )
    rows = []
    for kind, pairs, sign in kinds:
        extreme = sorted(pairs, key=lambda pair: sign * log_odds(pair[1]))[: max(1, e.examples // 3)]
        rows += [[kind, *_example_row(question, context)] for question, context in extreme]
    columns = ["kind", 'P("true")', "question", "answers", "context"]
    return TableView("Scored contexts (as RE-RAG's table 3)", "the most extreme of each kind", columns, rows)


def _example_row(scored: ScoredQuestion, context: Context) -> list[str]:
    passage = context.passage
    text = passage.text if len(passage.text) <= 240 else passage.text[:237] + "..."
    probability = float(probabilities([context], Calibration())[0])
    return [f"{probability:.3f}", scored.question.text, "; ".join(scored.question.answers), f"{passage.title}: {text}"]


def detection_table(e: Evaluation) -> TableView:
    """Build a table of how well thresholds detect sets without an answer (table 4)."""
    rows = []
    for source in e.sources:
        threshold = source.threshold(e.dev, e.k)
        scores = detect_unanswerable(*source.sets(e.test, e.k), threshold, seed=e.seed)
        intervals = (scores.recall, scores.precision, scores.f1)
        rows.append([source.name, source.format(threshold), *(interval.percent() for interval in intervals)])
    best_scores, answerable = e.sources[-1].sets(e.test, e.k)
    all_flagged = detect_unanswerable(best_scores, answerable, math.inf, seed=e.seed)
    intervals = (all_flagged.recall, all_flagged.precision, all_flagged.f1)
    rows.append(["every set flagged", UNDEFINED, *(interval.percent() for interval in intervals)])
    unanswerable = int((~answerable).sum())
    caption = f"{unanswerable} of {len(e.test)} sets of {e.k} have no answer; thresholds by F1 on {len(e.dev)} dev questions"
    columns = ["score", "threshold", "recall", "precision", "F1"]
    return _with_paper_rows("table4", e.dataset, "Sets without an answer", caption, columns, rows, blank=1)


def abstention_table(e: Evaluation) -> TableView:
    """Build a table of the effect of abstaining on sets that are classified as unanswerable (table 5)."""
    rows, correct = [], exact_matches(e.answered)
    for source in e.sources:
        threshold = source.threshold(e.dev, e.k)
        abstention = abstain(*source.sets(e.answered, e.k), correct, threshold, seed=e.seed)
        intervals = (abstention.before, abstention.after, abstention.abstained)
        rows.append([source.name, source.format(threshold), *(interval.percent() for interval in intervals)])
    columns = ["score", "threshold", "before", "after", "abstained"]
    caption = f"{len(e.answered)} sets of {e.k}"
    return _with_paper_rows("table5", e.dataset, "Abstaining on sets without an answer", caption, columns, rows, blank=1)


def share_table(e: Evaluation) -> TableView:
    """Build a table of EM by the share of relevant contexts (figures 3 and 4)."""
    rows = [
        [name, f"{0.2 * fifth:.1f} to {0.2 * fifth + 0.2:.1f}", str(len(ems)), mean_interval(ems, seed=e.seed).percent()]
        for name, fifth, ems in e.by_share()
    ]
    caption = (
        f'share of the top {e.k} contexts with P("true") over 0.5, or for the retriever with a score over its median; the '
        "paper draws curves without values: accuracy rises with the estimator's share, and drops if no context is relevant"
    )
    title = "EM by the share of relevant contexts (RE-RAG, figures 3 and 4)"
    return TableView(title, caption, ["score", "share", "n", "EM"], rows)


def _with_paper_rows(
    part: str, dataset: str, title: str, caption: str, columns: Sequence[str], rows: list[list[str]], blank: int = 0
) -> TableView:
    """Build a table of our rows and the paper's, which have no value in the first `blank` columns after the name."""
    paper_columns, paper_rows = reported(part, dataset)
    assert len(paper_columns) == len(columns) - 1 - blank
    for model, values in paper_rows.items():
        rows.append([f"{model} (paper, {dataset})", *[UNDEFINED] * blank, *(f"{value:g}" for value in values)])
    return TableView(f"{title} (RE-RAG, {part})", f"{caption}; % with 95 % intervals", columns, rows)
