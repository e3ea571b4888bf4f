"""Selective answering: the quality and number of the answers of which a strategy is confident."""

import re
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from winnow.metrics.answer import exact_match
from winnow.metrics.base import MeanMetric, RatioMetric, Sample
from winnow.text.final import extract_final_text
from winnow.text.normalization import normalize_candidate

Confidence = Literal["agreement", "stated", "likelihood"]
LIKELIHOOD = "likelihood: "
"""Label of the trace entry with the reply's likelihood, its tokens' geometric mean probability."""
REPLIES = "replies: "
"""Label of the trace entry with the number of the candidates' replies, including "unknown"."""
_STATED = re.compile(
    r"^[^\w\n]*confidence(?: level| score)?(?:\s*\([^)\n]*\))?(?: is)?[^\w.]*(?<!-)(\d*\.?\d+)( ?%|"
    r" percent|/100)?[^\w\n]*$",
    re.IGNORECASE | re.MULTILINE,
)
"""Line with a confidence. Next to the answer, it would be part of the answer and make it wrong."""


@dataclass(frozen=True)
class SelectiveAccuracy(RatioMetric):
    """Share of exact matches among the answers of which the strategy is confident, and which are
    not "unknown".

    Confidence by "agreement" is the share of the reader's replies whose answer is equal to it after
    normalization, where a reply "unknown" agrees with no answer. The answers are those that vote,
    from several samples (`decoding=self_consistency`) or from single passages (Post-Fusion).
    "stated" is what the reply says of itself, as in "Confidence: 80" (`prompt=stated`).
    "likelihood" is the geometric mean of the probabilities of the reply's tokens, of strategies
    that answer by a single reply (`decoding=likelihood`). Answers without a confidence are left
    out.

    Args:
        threshold: Lowest confidence, from 0 to 1; 0 takes all answers that have one.
        by: What the confidence is.
    """

    revision: ClassVar[int] = 4

    threshold: Annotated[float, Ge(0), Le(1)] = 0.8
    by: Confidence = "agreement"

    def compute_terms(self, sample: Sample) -> tuple[float, float]:
        """Return whether the answer is a confident exact match, and whether it is confident."""
        confidence = compute_confidence(sample, self.by)
        is_answered = (
            confidence is not None
            and confidence >= self.threshold
            and not sample.prediction.unknown
            and bool(sample.question.answers)
        )
        is_right = (
            is_answered and exact_match(sample.prediction.answer, sample.question.answers) == 1.0
        )
        return float(is_right), float(is_answered)


@dataclass(frozen=True)
class Coverage(MeanMetric):
    """Share of questions with a confident answer that is not "unknown"; see `SelectiveAccuracy`.

    Args:
        threshold: Lowest confidence, from 0 to 1; 0 takes all answers that have one.
        by: What the confidence is.
    """

    revision: ClassVar[int] = 4

    threshold: Annotated[float, Ge(0), Le(1)] = 0.8
    by: Confidence = "agreement"

    def score(self, sample: Sample) -> float | None:
        """Return 1.0 for a confident answer, 0.0 for any other, and None without a confidence."""
        confidence = compute_confidence(sample, self.by)
        return (
            None
            if confidence is None
            else float(confidence >= self.threshold and not sample.prediction.unknown)
        )


def compute_confidence(sample: Sample, by: Confidence) -> float | None:
    """Compute the confidence of an answer, from 0 to 1, or None if it has none of this kind."""
    functions = {
        "agreement": compute_agreement,
        "stated": read_stated,
        "likelihood": read_likelihood,
    }
    return functions[by](sample)


def read_likelihood(sample: Sample) -> float | None:
    """Read the reply's likelihood from the trace: 0 for "unknown", or None if there is none."""
    entry = next((one for one in sample.prediction.trace if one.startswith(LIKELIHOOD)), None)
    if entry is None:
        return None
    return 0.0 if sample.prediction.unknown else float(entry.removeprefix(LIKELIHOOD))


def read_stated(sample: Sample) -> float | None:
    """Read the last confidence in percent on a line of its own in a reply, without its reasoning.

    A number with a decimal point up to 1.0 is a share if no "%" follows. An answer "unknown" has 0,
    with a number or without. Any other is None without a number up to 100; where passages were
    asked one by one, the reply is the answer's.
    """
    if sample.prediction.unknown:
        return 0.0
    stated = _STATED.findall(extract_final_text(sample.prediction.reply))
    text, unit = stated[-1] if stated else ("nan", "")
    value = float(text)
    if "." in text and value <= 1 and not unit:
        return value
    return value / 100 if value <= 100 else None


def compute_agreement(sample: Sample) -> float | None:
    """Compute the share of an answer's replies that agree with it, or None if none are compared.

    A reply "unknown" agrees with no answer. Replies from which no candidate comes, such as a second
    prompt's, do not count.
    """
    prediction = sample.prediction
    entry = next((one for one in prediction.trace if one.startswith(REPLIES)), None)
    num_replies = int(entry.removeprefix(REPLIES)) if entry else 0
    if not num_replies:
        return None
    if prediction.unknown:
        return 0.0
    candidates = [normalize_candidate(candidate) for candidate in prediction.candidates]
    return candidates.count(normalize_candidate(prediction.answer)) / num_replies
