"""What rounds of retrieval find: evidence by round, the first hit, and repeated queries.

A round counts if it prompts the reader; searches between prompts belong to the next one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge

from winnow.metrics.base import Input, MeanMetric, RatioMetric, Sample
from winnow.records import Context

Evidence = Literal["gold", "answer"]


def _iter_evidence(sample: Sample, of: Evidence) -> Iterator[set[str]]:
    """Yield each round's evidence: gold passage ids, or "answer" if a passage contains one."""
    gold = set(sample.question.gold_passage_ids)
    for contexts in sample.shown.rounds if sample.shown else ():
        if of == "gold":
            yield {name for context in contexts for name in _list_names(context) if name in gold}
        else:
            yield {"answer"} if any(context.has_answer for context in contexts) else set()


def _list_names(context: Context) -> tuple[str, ...]:
    """Return the id of a passage, and the ids of those that it was made of."""
    return (context.passage.passage_id, *context.passage.sources)


@dataclass(frozen=True)
class EvidenceRecall(MeanMetric):
    """Share of the evidence of a question that its prompts have *shown*, up to a round.

    Undefined where it is not known what was shown, and without annotated gold passages ("gold") or
    accepted answers ("answer").

    Args:
        of: "gold" is the share of the annotated gold passages; "answer" is 1 if a passage contains
            an accepted answer.
        rounds: Number of rounds that count, or None for all. A question with fewer rounds has shown
            what it has shown.
    """

    inputs: ClassVar[frozenset[Input]] = frozenset({"shown"})

    of: Evidence = "answer"
    rounds: Annotated[int, Ge(1)] | None = None

    def score(self, sample: Sample) -> float | None:
        """Return the share of the evidence."""
        gold = set(sample.question.gold_passage_ids)
        evidence = gold if self.of == "gold" else sample.question.answers
        if sample.shown is None or not evidence:
            return None
        shown_evidence = set().union(*list(_iter_evidence(sample, self.of))[: self.rounds])
        return len(shown_evidence) / (len(gold) if self.of == "gold" else 1)


@dataclass(frozen=True)
class FirstHit(MeanMetric):
    """Number of the round that has *shown* the first evidence, from 1. Undefined if none has, or if
    it is not known.

    Args:
        of: Evidence, as in `EvidenceRecall`: one annotated gold passage, or one passage with an
            accepted answer.
    """

    inputs: ClassVar[frozenset[Input]] = frozenset({"shown"})

    of: Evidence = "answer"

    def score(self, sample: Sample) -> float | None:
        """Return the number of the first round with evidence."""
        rounds = enumerate(_iter_evidence(sample, self.of), start=1)
        return next((float(number) for number, is_hit in rounds if is_hit), None)


@dataclass(frozen=True)
class Rounds(MeanMetric):
    """Number of rounds in which the reader was prompted. Undefined where it is not known what was
    *shown*.
    """

    inputs: ClassVar[frozenset[Input]] = frozenset({"shown"})

    def score(self, sample: Sample) -> float | None:
        """Return the number of rounds."""
        return None if sample.shown is None else float(len(sample.shown.rounds))


@dataclass(frozen=True)
class RepeatedQueries(RatioMetric):
    """Share of the queries that were searched for before for the same question, up to case and
    white space.
    """

    inputs: ClassVar[frozenset[Input]] = frozenset({"shown"})

    def compute_terms(self, sample: Sample) -> tuple[float, float]:
        """Return the numbers of repeated queries and of all queries."""
        queries = (
            [" ".join(query.lower().split()) for query in sample.shown.queries]
            if sample.shown
            else []
        )
        return float(len(queries) - len(set(queries))), float(len(queries))
