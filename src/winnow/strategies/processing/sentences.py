"""Sentence selection: RECOMP's extractive compression (Xu et al. 2024) and relevance filters."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from winnow.records import Context, Question
from winnow.requests import Plan
from winnow.strategies.corrective.evaluators import EstimatedRelevance, Evaluator
from winnow.strategies.corrective.refinement import Refinement
from winnow.strategies.corrective.segments import SentenceGroups
from winnow.strategies.processing.derived import derive_context


@dataclass(frozen=True, slots=True)
class SentenceSelection:
    """A context processor that keeps the most relevant sentences by the rules of CRAG's refinement.

    A context of which no sentence is kept is left out.

    Args:
        refinement: Division into sentences or strips, and rules of the selection.
        evaluator: What gives a sentence its relevance score.
    """

    revision: ClassVar[int] = 1

    refinement: Refinement = Refinement(SentenceGroups(size=1), threshold=None)
    evaluator: Evaluator = EstimatedRelevance()

    def process(self, question: Question, contexts: Sequence[Context]) -> Plan[tuple[Context, ...]]:
        """Request every sentence's relevance, and return the contexts with the kept sentences."""
        knowledge = yield from self.refinement.refine(
            question, [context.passage for context in contexts], self.evaluator
        )
        by_id = {context.passage.passage_id: context for context in contexts}
        return tuple(
            derive_context(
                question, [by_id[source] for source in strip.sources], strip.text, strip.title
            )
            for strip in knowledge.strips
        )
