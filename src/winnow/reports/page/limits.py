"""What limits a sweep's numbers: its metric, its questions, and gold passages that are text."""

from collections.abc import Iterator

from winnow.metrics.answer import exact_match
from winnow.metrics.correctness import ExactMatch
from winnow.reports.best import Best
from winnow.reports.cells import CellResult
from winnow.reports.comparisons import describe_difference
from winnow.reports.family import Family
from winnow.text.containment import has_answer

_CONTAINED_SHARE = 0.1
"""Share of answers that only contain an accepted one, from which the page says so."""


def describe_limits(family: Family, best: Best) -> Iterator[str]:
    """Say what bounds the metric: answers in other words, questions without a stored one, and gold
    passages that are text.
    """
    cell, metric = family.cells[best.index], family.metric
    num_contained = _count_contained(cell) if isinstance(metric, ExactMatch) else 0
    if num_contained >= _CONTAINED_SHARE * cell.num_questions > 0:
        yield (
            f"{num_contained} of {cell.num_questions} answers of the best setting contain an "
            "accepted one among other words, and are no exact match. metric=[accuracy] counts "
            "them as right; a reader that is fine-tuned answers in short (reader=smollm2_tuned)."
        )
    if difference := describe_difference(metric).strip():
        yield difference.replace("A - B", "A difference", 1)
    if num_dropped := sum(cell.columns.truncated):
        yield (
            f"{num_dropped} passages were dropped from prompts of the best setting that were too "
            "long. Gold passages are dropped last, so that these prompts rest on their labels."
        )
    ranked_samples = [
        sample for sample in cell.samples if sample.ranking and sample.question.answers
    ]
    answerable = {
        s.question.question_id
        for s in ranked_samples
        if any(context.has_answer for context in s.ranking)
    }
    if ranked_samples and len(answerable) < len(ranked_samples):
        text = (
            f"{len(ranked_samples) - len(answerable)} of {len(ranked_samples)} questions have no "
            "stored context "
            "that holds an answer."
        )
        if answerable:
            value = cell.select_questions(answerable).format_metric(metric.name, family.seed)
            text += f" On the other {len(answerable)}, the best setting has {value}."
        yield text
    distant = sum(provenance == "distant" for provenance in cell.columns.provenances)
    if distant:
        yield (
            f"The gold passages of {distant} questions are the first stored contexts that contain "
            "an accepted answer as text, because the data set names none. Some contain it by "
            "chance, and do not answer the question."
        )


def _count_contained(cell: CellResult) -> int:
    """Count answers that are not exact matches but contain an accepted one among other words."""
    return sum(
        bool(sample.question.answers)
        and not exact_match(sample.prediction.answer, sample.question.answers)
        and has_answer(sample.prediction.answer, sample.question.answers)
        for sample in cell.samples
    )
