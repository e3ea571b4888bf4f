"""Citation quality of a reply that cites numbered documents as [n] (RAGE, section 3.2).

Three dialects differ in what counts as a citation, and in repeated citations and numbers without a
document:

| | recognized | a number without a document | a repeated citation |
|---|---|---|---|
| rage | [3] | is ignored | counts once |
| paper | [3] | is wrong | counts each time in the precision |
| strict | [3], [1, 2], [1-3], [doc 1], full-width digits and brackets | is wrong | counts once |

"rage" is RAGE's released code, whose table 1 has the F1 of mean precision and mean recall; "paper"
is the text of its paper.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from winnow.metrics.base import Columns, Input, MeanMetric, Metric, RatioMetric, Row, Sample
from winnow.metrics.intervals import Interval, compute_bounds, resample_joint_sums, widen_bounds
from winnow.records import Context, Question
from winnow.text.citations import Dialect, find_citations, split_cited_sentences

Measure = Literal["precision", "recall", "f1", "reward", "valid", "distinct", "invalid", "repeated"]


@dataclass(frozen=True, slots=True)
class CitationScore:
    """Quality of the citations of one reply.

    Attributes:
        precision: Share of the citations that are right, 0 without any.
        recall: Share of the relevant documents that are cited, 0 without any.
        f1: Harmonic mean of precision and recall.
        distinct: Number of distinct documents that are cited.
        invalid: Number of citations of a number without a document.
        repeated: Number of citations of a document that was cited before.
    """

    precision: float
    recall: float
    f1: float
    distinct: int = 0
    invalid: int = 0
    repeated: int = 0


def mark_relevant(question: Question, contexts: Sequence[Context]) -> list[bool]:
    """Return which contexts are gold passages or, if none are annotated, contain an answer."""
    has_gold = bool(question.gold_passage_ids)
    return [context.is_gold if has_gold else context.has_answer for context in contexts]


def score_citations(
    reply: str, relevance: Sequence[bool], dialect: Dialect = "rage"
) -> CitationScore:
    """Compute the quality of the citations of a reply.

    Recall is 0 if no document is relevant. RAGE's released code crashes in that case.

    Args:
        reply: Reply that cites documents as [n], where n starts at 1.
        relevance: Whether each document is relevant, in the order of their numbers.
        dialect: "rage", "paper" or "strict"; see the module's table.
    """
    citations = find_citations(reply, len(relevance), dialect)
    valid = [number for number in citations if 1 <= number <= len(relevance)]
    distinct = set(valid)
    relevant = {number for number in distinct if relevance[number - 1]}
    if dialect == "paper":
        num_right, num_cited = sum(number in relevant for number in citations), len(citations)
    elif dialect == "strict":
        num_right, num_cited = len(relevant), len(set(citations))
    else:
        num_right, num_cited = len(relevant), len(distinct)
    precision = num_right / num_cited if num_cited else 0.0
    recall = len(relevant) / sum(relevance) if any(relevance) else 0.0
    return CitationScore(
        precision,
        recall,
        _compute_f1(precision, recall),
        len(distinct),
        len(citations) - len(valid),
        len(valid) - len(distinct),
    )


score = score_citations
"""The name under which other people's scripts call the function."""


def _compute_f1(precision: float, recall: float) -> float:
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


def _compute_f1s(
    precisions: NDArray[np.float64], recalls: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Compute the F1 of each pair of precision and recall, which is 0 if both are."""
    totals = precisions + recalls
    scores: NDArray[np.float64] = np.divide(
        2 * precisions * recalls, totals, out=np.zeros_like(totals), where=totals > 0
    )
    return scores


def _list_relevance(sample: Sample) -> list[bool]:
    """Return whether each passage in the prompt of the reply is relevant, in prompt order."""
    return mark_relevant(sample.question, sample.shown.last) if sample.shown else []


def _score(sample: Sample, dialect: Dialect) -> CitationScore | None:
    """Score citations, or return None if the prompt is not recorded or has no relevant passage."""
    relevance = _list_relevance(sample)
    return score_citations(sample.prediction.reply, relevance, dialect) if any(relevance) else None


@dataclass(frozen=True)
class Citation(MeanMetric):
    """Precision, recall, F1 or counts of the citations of a reply, over the passages that its
    prompt has *shown*.

    The n-th document is the n-th passage that the prompt of the reply has *shown*. Relevant are the
    annotated gold passages and their parts or, for a question without any, the passages with an
    answer. The metric is undefined for a question whose prompt has no relevant passage, and where
    the steps of a cell were not recorded.

    Args:
        of: Measure to return. "reward" is the mean of precision and recall (RAGE, section 4.3);
            "distinct", "invalid" and "repeated" are numbers of citations, and "valid" is 1 if a
            reply cites a document and no number without one.
        dialect: "rage", "paper" or "strict"; see the module's table.
    """

    revision: ClassVar[int] = 3
    inputs: ClassVar[frozenset[Input]] = frozenset({"prediction", "shown"})

    of: Measure = "f1"
    dialect: Dialect = "rage"

    @property
    def heading(self) -> str:
        """Return the title, followed by the dialect in parentheses."""
        return f"{self.title} ({self.dialect})"

    def score(self, sample: Sample) -> float | None:
        """Compute the citation measure, or return None if the prompt has no relevant passage."""
        scores = _score(sample, self.dialect)
        if scores is None:
            return None
        if self.of == "reward":
            return (scores.precision + scores.recall) / 2
        return (
            float(scores.distinct > 0 and not scores.invalid)
            if self.of == "valid"
            else float(getattr(scores, self.of))
        )


@dataclass(frozen=True)
class CitationF1OfMeans(Metric):
    """F1 of the mean precision and the mean recall of citations of *shown* passages, which RAGE's
    table 1 has.

    A question's own value, by which cells are compared, is its F1.

    Args:
        dialect: "rage", "paper" or "strict"; see the module's table.
    """

    revision: ClassVar[int] = 2
    inputs: ClassVar[frozenset[Input]] = frozenset({"prediction", "shown"})

    dialect: Dialect = "rage"

    def __post_init__(self) -> None:
        find_citations("", 0, self.dialect)

    @property
    def heading(self) -> str:
        """Return the title, followed by the dialect in parentheses."""
        return f"{self.title} ({self.dialect})"

    def compute_row(self, sample: Sample) -> Row | None:
        """Return precision and recall, or None if the prompt contains no relevant passage."""
        scores = _score(sample, self.dialect)
        return None if scores is None else {"precision": scores.precision, "recall": scores.recall}

    def compute_values(self, columns: Columns) -> NDArray[np.float64]:
        """Return the F1 of each question."""
        return _compute_f1s(columns["precision"], columns["recall"])

    def aggregate(self, columns: Columns, seed: int = 0) -> Interval:
        """Compute the F1 of the means and its bootstrap interval, wider if few questions differ."""
        terms = np.stack([columns["precision"], columns["recall"]])
        bounds = compute_bounds(_compute_f1s(*resample_joint_sums(terms, seed) / terms.shape[1]))
        f1 = float(_compute_f1(*terms.mean(axis=1)))
        return Interval(f1, *widen_bounds(bounds, f1, terms), terms.shape[1])


@dataclass(frozen=True)
class WrongCitations(RatioMetric):
    """Share of the distinct cited *shown* documents that are of one wrong kind, in mixtures
    (`winnow.retrievers.mixture`).

    Args:
        kind: "irrelevant" for documents that were drawn at random, "seemingly_relevant" for near
            neighbors of the question.
        dialect: "rage", "paper" or "strict", of which "strict" recognizes more citations.
    """

    revision: ClassVar[int] = 2
    inputs: ClassVar[frozenset[Input]] = frozenset({"prediction", "shown"})

    kind: Literal["irrelevant", "seemingly_relevant"] = "irrelevant"
    dialect: Dialect = "rage"

    def compute_terms(self, sample: Sample) -> tuple[float, float]:
        """Return the numbers of distinct cited documents of the kind, and of all kinds."""
        documents = sample.shown.last if sample.shown else ()
        relevance = _list_relevance(sample)
        citations = find_citations(sample.prediction.reply, len(documents), self.dialect)
        valid = {number for number in citations if 1 <= number <= len(documents)}
        wrong = {number for number in valid if not relevance[number - 1]}
        unscored = {number for number in wrong if documents[number - 1].score is None}
        return float(len(unscored if self.kind == "irrelevant" else wrong - unscored)), float(
            len(valid)
        )


@dataclass(frozen=True)
class UncitedSentences(RatioMetric):
    """Share of the sentences of a reply that have no citation, not even of a number without a
    document.

    A sentence ends at ".", "!", "?" or a line break; a citation that follows belongs to it.
    """

    revision: ClassVar[int] = 3

    def compute_terms(self, sample: Sample) -> tuple[float, float]:
        """Return the numbers of sentences without a citation and of all sentences."""
        sentences = split_cited_sentences(sample.prediction.reply)
        uncited = [part for part in sentences if not find_citations(part, 0, "strict")]
        return float(len(uncited)), float(len(sentences))


@dataclass(frozen=True)
class ReplyWords(MeanMetric):
    """Number of words of a reply between white space, with its citations (RAGE's answer length; an
    empty reply has 0 here).
    """

    revision: ClassVar[int] = 1

    def score(self, sample: Sample) -> float:
        """Return the number of words."""
        return float(len(sample.prediction.reply.split()))
