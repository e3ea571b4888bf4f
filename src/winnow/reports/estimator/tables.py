"""The tables of an estimator's report, most of which reproduce a table of RE-RAG.

Thresholds are chosen on development questions and evaluated on test questions. A set is the top k
contexts of a question.
"""

import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import yaml

from winnow.errors import ConfigError, suggest_name
from winnow.metrics.calibration import Calibration
from winnow.metrics.comparisons import adjust_p_values, compare, format_p
from winnow.metrics.intervals import UNDEFINED, compute_mean_interval
from winnow.metrics.retrieval import top_k_accuracy
from winnow.metrics.unanswerable import evaluate_abstention, evaluate_detection
from winnow.records import Context
from winnow.reports.estimator.evaluation import Evaluation
from winnow.reports.estimator.scores import (
    ScoredQuestion,
    compute_probabilities,
    get_exact_matches,
    get_log_odds,
    rank_by_estimator,
)
from winnow.reports.tables import TableView

_REPORTED_KS = (1, 5, 10, 20)
"""Values of k in table 2."""
_MAX_PASSAGE_CHARACTERS = 240
"""Maximum number of characters of an example passage. The text of longer passages is cut."""


def load_paper_table(
    part: str, dataset: str
) -> tuple[Sequence[str], Mapping[str, Sequence[float]], str]:
    """Load the values that a table of RE-RAG reports for a data set.

    Args:
        part: Key of the table in papers/re_rag.yaml, such as "table2".
        dataset: Name of the data set.

    Returns:
        Column names, the values of each model by its name, and what the paper says of them besides,
        or "".

    Raises:
        ConfigError: If the table has no values for the data set.
    """
    table = _read_paper()[part]["estimator"]
    datasets = [name for name in table if name not in ("columns", "notes")]
    if dataset not in datasets:
        raise ConfigError(
            f"evaluate_estimator.paper={dataset!r} is not a data set of RE-RAG. Choose one of "
            f"{', '.join(datasets)}." + suggest_name(dataset, datasets)
        )
    return table["columns"], table[dataset], table.get("notes", {}).get(dataset, "")


def _read_paper() -> Any:
    return yaml.safe_load(
        (files("winnow.reports") / "papers" / "re_rag.yaml").read_text(encoding="utf-8")
    )


def build_top_k_table(evaluation: Evaluation) -> TableView:
    """Build a table of the top-k accuracy of retriever and estimator with a paired test (table 2).

    RE-RAG calls this metric recall@k.
    """
    has_answer_flags = {
        "retriever": [
            [context.has_answer for context in question.contexts] for question in evaluation.test
        ],
        "estimator": [
            [context.has_answer for context in rank_by_estimator(question)]
            for question in evaluation.test
        ],
    }
    depth = max(len(question.contexts) for question in evaluation.test)
    ks = [k for k in _REPORTED_KS if k <= depth]
    undefined = [UNDEFINED] * (len(_REPORTED_KS) - len(ks))
    accuracies = {
        name: [top_k_accuracy(flags, k) for k in ks] for name, flags in has_answer_flags.items()
    }
    rows = [
        [
            name,
            *(
                compute_mean_interval(accuracy, seed=evaluation.seed).format_percent()
                for accuracy in accuracies_by_k
            ),
            *undefined,
        ]
        for name, accuracies_by_k in accuracies.items()
    ]
    comparisons = [
        compare(estimator, retriever, seed=evaluation.seed)
        for estimator, retriever in zip(
            accuracies["estimator"], accuracies["retriever"], strict=True
        )
    ]
    adjusted_p_values = adjust_p_values([comparison.p_value for comparison in comparisons])
    differences = [
        f"{comparison.format_difference()} ({comparison.p_text}; {format_p(adjusted_p_value)})"
        for comparison, adjusted_p_value in zip(comparisons, adjusted_p_values, strict=True)
    ]
    rows.append(["difference (p; Holm)", *differences, *undefined])
    caption = f"{len(evaluation.test)} questions, with up to {depth} contexts each"
    columns = ["", *(f"top-{k}" for k in _REPORTED_KS)]
    return _build_table_with_paper(
        "table2",
        evaluation.dataset,
        "Top-k accuracy before and after reranking, there called recall@k",
        caption,
        columns,
        rows,
    )


def build_examples_table(evaluation: Evaluation) -> TableView:
    """Build table 3 of example contexts, mainly where estimator and answer matching disagree most.

    A context with a high probability but without an accepted answer may state the answer in other
    words. A context with a low probability but with an accepted answer may contain the answer by
    chance.
    """
    estimator_top = [
        (question, context)
        for question in evaluation.test
        for context in rank_by_estimator(question)[:3]
    ]
    retriever_top = [
        (question, context) for question in evaluation.test for context in question.contexts[:10]
    ]
    kinds = (
        ("true, no answer string", [pair for pair in estimator_top if not pair[1].has_answer], -1),
        ("false, answer string there", [pair for pair in retriever_top if pair[1].has_answer], 1),
        ("true, answer string there", [pair for pair in estimator_top if pair[1].has_answer], -1),
    )
    rows = []
    for kind, pairs, sign in kinds:
        most_extreme = sorted(pairs, key=lambda pair: sign * get_log_odds(pair[1]))[
            : max(1, evaluation.examples // 3)
        ]
        rows += [[kind, *_format_example(question, context)] for question, context in most_extreme]
    rows += [
        [
            f"{row['kind']} (paper, {evaluation.dataset})",
            *(str(row[name]) for name in ("probability", "question", "answers", "context")),
        ]
        for row in _read_paper()["table3"]["examples"].get(evaluation.dataset, ())
    ]
    columns = ["kind", 'P("true")', "question", "answers", "context"]
    return TableView(
        "Scored contexts (as RE-RAG's table 3)",
        "The most extreme contexts of each kind.",
        columns,
        rows,
    )


def _format_example(scored: ScoredQuestion, context: Context) -> list[str]:
    """Format a scored context as a row: its probability, question, accepted answers and passage."""
    question, passage = scored.question, context.passage
    is_short = len(passage.text) <= _MAX_PASSAGE_CHARACTERS
    text = passage.text if is_short else passage.text[: _MAX_PASSAGE_CHARACTERS - 3] + "..."
    probability = float(compute_probabilities([context], Calibration())[0])
    return [
        f"{probability:.3f}",
        question.text,
        "; ".join(question.answers),
        f"{passage.title}: {text}",
    ]


def build_detection_table(evaluation: Evaluation) -> TableView:
    """Build a table of how well thresholds detect sets without an answer (table 4)."""
    rows, counts = [], []
    for source in evaluation.sources:
        threshold = source.choose_threshold(evaluation.dev, evaluation.k)
        best_scores, answerable = source.score_sets(evaluation.test, evaluation.k)
        counts.append(f"{int((~answerable).sum())} of those of {source.name}")
        scores = evaluate_detection(best_scores, answerable, threshold, seed=evaluation.seed)
        intervals = (scores.recall, scores.precision, scores.f1)
        rows.append(
            [
                source.name,
                source.format_threshold(threshold),
                *(interval.format_percent() for interval in intervals),
            ]
        )
    # `best_scores` and `answerable` are those of the last source, the log-odds of the estimator
    all_flagged = evaluate_detection(best_scores, answerable, math.inf, seed=evaluation.seed)
    intervals = (all_flagged.recall, all_flagged.precision, all_flagged.f1)
    rows.append(
        [
            "every set of the estimator flagged",
            UNDEFINED,
            *(interval.format_percent() for interval in intervals),
        ]
    )
    caption = (
        f"A set is the top {evaluation.k} contexts of a score. Of {len(evaluation.test)} sets have "
        f"no answer: {'; '.join(counts)}. The thresholds have the best F1 on "
        f"{len(evaluation.dev)} dev questions. Scores of the retriever are as it computes them, "
        "and their thresholds quantiles; if they are cosines, the paper's thresholds from 0.5 to "
        "0.9 have a row"
    )
    columns = ["score", "threshold", "recall", "precision", "F1"]
    return _build_table_with_paper(
        "table4", evaluation.dataset, "Sets without an answer", caption, columns, rows, blank=1
    )


def build_abstention_table(evaluation: Evaluation) -> TableView:
    """Build a table of the effect of abstaining on sets classified as unanswerable (table 5)."""
    rows, ems = [], get_exact_matches(evaluation.answered_questions)
    for source in evaluation.sources:
        threshold = source.choose_threshold(evaluation.dev, evaluation.k)
        abstention = evaluate_abstention(
            *source.score_sets(evaluation.answered_questions, evaluation.k),
            ems,
            threshold,
            seed=evaluation.seed,
        )
        intervals = (
            abstention.accuracy_before,
            abstention.accuracy_after,
            abstention.abstention_rate,
        )
        rows.append(
            [
                source.name,
                source.format_threshold(threshold),
                *(interval.format_percent() for interval in intervals),
            ]
        )
    columns = ["score", "threshold", "before", "after", "abstained"]
    caption = (
        f"{len(evaluation.answered_questions)} sets, the top {evaluation.k} contexts of each "
        "score. The answers are from the estimator's sets; the row of the retriever says what "
        "its sets, from which no answer was made, would abstain from"
    )
    return _build_table_with_paper(
        "table5",
        evaluation.dataset,
        "Abstaining on sets without an answer",
        caption,
        columns,
        rows,
        blank=1,
    )


def build_share_table(evaluation: Evaluation) -> TableView:
    """Build a table of EM by the share of relevant contexts among the top k (figures 3 and 4)."""
    rows = [
        [
            name,
            f"{0.2 * fifth:.1f} to {0.2 * fifth + 0.2:.1f}",
            str(len(ems)),
            compute_mean_interval(ems, seed=evaluation.seed).format_percent(),
        ]
        for name, fifth, ems in evaluation.group_by_share()
    ]
    caption = (
        f"The share is of the top {evaluation.k} contexts that count as relevant: those with "
        'P("true") over 0.5, or, for the retriever, with a score over its median. The answers '
        "are from the estimator's top contexts. The paper draws curves without values: the "
        "accuracy rises with the estimator's share, and drops if no context is relevant."
    )
    title = "EM by the share of relevant contexts (RE-RAG, figures 3 and 4)"
    return TableView(title, caption, ["score", "share", "n", "EM"], rows)


def _build_table_with_paper(
    part: str,
    dataset: str,
    title: str,
    caption: str,
    columns: Sequence[str],
    rows: list[list[str]],
    blank: int = 0,
) -> TableView:
    """Build a table of our rows, followed by the rows of the paper.

    Args:
        part: Table of the paper, such as "table2".
        dataset: Data set of the paper.
        title: Title of the table.
        caption: Explanation of what the table covers.
        columns: Column names.
        rows: Our rows.
        blank: Number of columns after the first in which the rows of the paper have no value.
    """
    paper_columns, paper_rows, note = load_paper_table(part, dataset)
    assert len(paper_columns) == len(columns) - 1 - blank
    for model, values in paper_rows.items():
        rows.append(
            [
                f"{model} (paper, {dataset})",
                *[UNDEFINED] * blank,
                *(f"{value:g}" for value in values),
            ]
        )
    caption += f"; paper: {note}" if note else ""
    return TableView(
        f"{title} (RE-RAG, {part})", f"{caption}; values in % with 95 % intervals", columns, rows
    )
