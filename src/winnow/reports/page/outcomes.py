"""Outcomes of questions: where an answer went wrong, from what is stored and without a judge."""

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.metrics.answer import exact_match, f1
from winnow.metrics.base import Sample

_SHARED_WORDS = 0.5
"""F1 from which a wrong answer is said to share words with an accepted one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a question.

    Attributes:
        name: Identifier, which addresses within the page contain.
        title: Short name, for tables.
        meaning: Sentence that explains why the answer has this outcome.
    """

    name: str
    title: str
    meaning: str


OUTCOMES = (
    Outcome(
        "no_answers",
        "no accepted answer",
        "The data set has no accepted answer for this question.",
    ),
    Outcome("right", "right", "The answer equals an accepted one after normalization."),
    Outcome(
        "lost_vote",
        "candidate not chosen",
        "An accepted answer was among the candidates, but the vote, or the reader in the last "
        "round, chose another.",
    ),
    Outcome(
        "shares_words",
        "shares words",
        "The answer is not an accepted one, but shares words with one (F1 of at least 0.5). Some "
        "of these are right in other words, others name something else.",
    ),
    Outcome(
        "closed_book_unknown",
        "unknown, no passages",
        'Without passages, the answer was "unknown".',
    ),
    Outcome(
        "closed_book_wrong", "wrong, no passages", "Without passages, another answer was given."
    ),
    Outcome(
        "not_retrieved_unknown",
        "unknown, not retrieved",
        'The answer was "unknown", and no stored context of this question holds an accepted one.',
    ),
    Outcome(
        "not_retrieved_wrong",
        "wrong, not retrieved",
        "The answer is wrong, and no stored context of this question holds an accepted one.",
    ),
    Outcome(
        "beyond_k",
        "beyond k",
        "A stored context holds an accepted answer, but none of those in the prompt does.",
    ),
    Outcome(
        "prompt_cut",
        "prompt cut",
        "An accepted answer was among the contexts, but passages were dropped from the prompt.",
    ),
    Outcome(
        "reply_cut",
        "reply cut",
        "A reply ended at its maximum length before the answer was complete.",
    ),
    Outcome(
        "unknown",
        "unknown, answer shown",
        'A context in the prompt holds an accepted answer, but the answer was "unknown".',
    ),
    Outcome(
        "wrong",
        "wrong, answer shown",
        "A context in the prompt holds an accepted answer, but another answer was given.",
    ),
)
"""All outcomes. The first that applies to a question is its outcome."""


def classify(sample: Sample) -> str:
    """Return the name of the outcome of a question, which is the first of `OUTCOMES` that applies.

    Args:
        sample: Question with its prediction, ranking, placed contexts and what was shown. Where
            that was not recorded, the placed contexts stand for it, and the page says so.
    """
    prediction, answers = sample.prediction, sample.question.answers
    contexts = sample.placed if sample.shown is None else sample.shown.contexts
    if not answers:
        return "no_answers"
    if exact_match(prediction.answer, answers):
        return "right"
    if any(exact_match(candidate, answers) for candidate in prediction.candidates):
        return "lost_vote"
    if not prediction.unknown and f1(prediction.answer, answers) >= _SHARED_WORDS:
        return "shares_words"
    if not contexts:
        return "closed_book_unknown" if prediction.unknown else "closed_book_wrong"
    if not any(context.has_answer for context in contexts):
        if any(context.has_answer for context in sample.ranking):
            return "beyond_k"
        return "not_retrieved_unknown" if prediction.unknown else "not_retrieved_wrong"
    if prediction.truncated_passages:
        return "prompt_cut"
    if any(usage.cut for usage in prediction.usage if usage.role == "reader"):
        return "reply_cut"
    return "unknown" if prediction.unknown else "wrong"


def classify_all(samples: Sequence[Sample]) -> list[int]:
    """Return the index in `OUTCOMES` of the outcome of each question."""
    indices = {outcome.name: index for index, outcome in enumerate(OUTCOMES)}
    return [indices[classify(sample)] for sample in samples]
