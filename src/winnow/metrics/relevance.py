"""Accuracy and AUROC of retrieval evaluators on labeled pairs, and a search for CRAG's thresholds.

A pair is a question with one of its contexts. A pair is relevant if the context is a gold passage
or contains an answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from winnow.errors import InputError
from winnow.metrics.calibration import Floats, check_labels
from winnow.metrics.intervals import Interval, compute_bounds, compute_mean_interval
from winnow.metrics.unanswerable import Labels

_NUM_RESAMPLES, _RESAMPLES_AT_ONCE = 1000, 50


@dataclass(frozen=True, slots=True)
class ThresholdSearch:
    """The thresholds of CRAG's actions that score best on questions, and the score of every
    candidate.

    Attributes:
        upper: Smallest best score of a question that triggers "correct".
        lower: Smallest best score of a question that triggers "ambiguous" instead of "incorrect".
        candidates: (candidates,) Thresholds that were tried, in ascending order.
        upper_scores: (candidates,) Score S of each candidate as the upper threshold.
        lower_scores: (candidates,) Score of each candidate as the lower threshold.
    """

    upper: float
    lower: float
    candidates: Floats
    upper_scores: Floats
    lower_scores: Floats


def search_action_thresholds(
    best_scores: Floats, answerable: Labels, alpha: float = 1.0
) -> ThresholdSearch:
    """Search for the two thresholds of CRAG's actions on questions with known answers.

    The upper threshold maximizes S = (TP + TN) / n_total - alpha FP / n_neg (slides, page "Action
    Trigger"), where a question is positive if one of its contexts is relevant. The slides do not
    say how the lower threshold is chosen. Here it maximizes the mirrored score (TP + TN) / n_total
    - alpha FN / n_pos, because its costly error is to discard relevant contexts. As FP falls with
    the threshold and FN rises, it does not exceed the upper one. The candidates lie halfway between
    successive scores. Of equally good candidates, the one in the middle is chosen.

    Args:
        best_scores: (questions,) Highest relevance score among the contexts of each question.
        answerable: (questions,) Whether any of these contexts is relevant.
        alpha: Weight of the costly error, at least 0.

    Raises:
        InputError: If all questions have the same label, or if alpha is negative.
    """
    check_labels(best_scores, answerable)
    num_positive = int(answerable.sum())
    num_negative = len(answerable) - num_positive
    if not (num_positive and num_negative) or alpha < 0:
        raise InputError(
            "The search for thresholds needs questions with and without a relevant context, and "
            f"alpha of at least 0; received {num_positive} with, {num_negative} without, and "
            f"alpha={alpha}."
        )
    candidates = list_candidates(best_scores)
    above = best_scores[None, :] >= candidates[:, None]
    true_positives = (above & answerable).sum(axis=1)
    false_positives = (above & ~answerable).sum(axis=1)
    accuracy = (true_positives + num_negative - false_positives) / len(answerable)
    upper_scores = accuracy - alpha * false_positives / num_negative
    lower_scores = accuracy - alpha * (num_positive - true_positives) / num_positive
    upper, lower = (_select_middle(candidates, scores) for scores in (upper_scores, lower_scores))
    return ThresholdSearch(upper, lower, candidates, upper_scores, lower_scores)


def choose_accuracy_threshold(scores: Floats, labels: Labels) -> float:
    """Choose the most accurate threshold. Pairs count as relevant if they score at least that."""
    check_labels(scores, labels)
    candidates = list_candidates(scores)
    accuracy = ((scores[None, :] >= candidates[:, None]) == labels).mean(axis=1)
    return _select_middle(candidates, accuracy)


def compute_auroc_interval(
    scores: Floats,
    labels: Labels,
    groups: Sequence[str],
    other: Floats | None = None,
    *,
    seed: int = 0,
) -> Interval:
    """Compute the AUROC over pairs with a 95 % bootstrap interval that resamples whole questions.

    Args:
        scores: (pairs,) Score of each pair.
        labels: (pairs,) Whether the pair is relevant.
        groups: (pairs,) Id of the question of each pair.
        other: (pairs,) Scores of another evaluator. With them, the result is the difference of the
            two areas.
        seed: Seed of the bootstrap.

    Raises:
        InputError: If all pairs have the same label.
    """
    check_labels(scores, labels)
    if labels.all() or not labels.any():
        raise InputError(
            f"AUROC needs relevant and irrelevant pairs; received {int(labels.sum())} relevant of "
            f"{len(labels)}."
        )
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    numbered = np.array([numbers[group] for group in groups])

    def compute_areas(weights: Floats) -> Floats:
        areas = _compute_weighted_areas(scores, labels, weights)
        return areas if other is None else areas - _compute_weighted_areas(other, labels, weights)

    rng, areas = np.random.default_rng(seed), []
    for _ in range(_NUM_RESAMPLES // _RESAMPLES_AT_ONCE):
        draws = rng.integers(0, len(numbers), (_RESAMPLES_AT_ONCE, len(numbers)))
        counts = np.stack([np.bincount(draw, minlength=len(numbers)) for draw in draws])
        areas.append(compute_areas(counts[:, numbered].astype(np.float64)))
    (area,) = compute_areas(np.ones((1, len(labels)))).tolist()
    resampled_areas = np.concatenate(areas)
    low, high = compute_bounds(resampled_areas[~np.isnan(resampled_areas)])
    if low == high and other is None and area in (0.0, 1.0):
        return compute_mean_interval(
            [area] * len(numbers)
        )  # Wilson's, because every resample separates the labels as well
    return Interval(area, low, high, len(numbers))


def _compute_weighted_areas(scores: Floats, labels: Labels, weights: Floats) -> Floats:
    """Compute the area under the ROC curve for each of several weightings of the pairs.

    scikit-learn, which gives the same values, takes a weighting at a time, and a thousand of them
    some seconds.

    Args:
        scores: (pairs,) Scores.
        labels: (pairs,) Whether the pair is relevant.
        weights: (weightings, pairs) How often each pair counts.

    Returns:
        (weightings,) Areas; NaN where only pairs with one of the labels count.
    """
    order = np.argsort(scores, kind="stable")
    sorted_scores, is_relevant = scores[order], labels[order]
    starts = np.flatnonzero(
        np.concatenate([[True], sorted_scores[1:] != sorted_scores[:-1]])
    )  # of pairs with equal scores
    relevant = np.add.reduceat(weights[:, order] * is_relevant, starts, axis=1)
    others = np.add.reduceat(weights[:, order] * ~is_relevant, starts, axis=1)
    below = others.cumsum(axis=1) - others / 2
    with np.errstate(invalid="ignore"):
        areas: Floats = (relevant * below).sum(axis=1) / (relevant.sum(axis=1) * others.sum(axis=1))
    return areas


def list_candidates(scores: Floats) -> Floats:
    """Return the lowest score, midpoints of adjacent distinct scores, and one above the highest."""
    distinct = np.unique(scores)
    candidates: Floats = np.concatenate(
        [distinct[:1], (distinct[1:] + distinct[:-1]) / 2, distinct[-1:] + 1]
    )
    return candidates


def _select_middle(candidates: Floats, scores: Floats) -> float:
    """Return the best candidate, or the middle one of the best ones."""
    best = np.flatnonzero(scores >= scores.max() - 1e-12)
    return float(candidates[best[len(best) // 2]])
