"""CRAG, corrective retrieval-augmented generation (Yan et al. 2024), as a strategy over any reader."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from winnow.records import Answer, Context, Decoding, Passage, Plan, Question
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.corrective.actions import Action, Thresholds, compute_relevance_score
from winnow.strategies.corrective.refinement import Knowledge, Refinement
from winnow.strategies.corrective.searching import Findings, KnowledgeSearch
from winnow.strategies.prompt import Prompt
from winnow.strategies.relevance import estimate_relevance
from winnow.strategies.vote import Vote


@dataclass(frozen=True, slots=True)
class Crag:
    """A strategy that evaluates the retrieved passages, refines the relevant ones and searches for what is missing.

    The evaluator is the estimator of the configuration, whose log-odds are scaled to [-1, 1]. The reader is prompted once,
    with the internal knowledge (refined passages) before the external one (refined search results). Without any knowledge it
    is prompted without passages.

    Args:
        prompt: Templates of the prompt.
        decoding: Generation settings.
        thresholds: Thresholds of the action.
        refinement: Selection of strips; None shows whole passages (table 3, without refinement).
        search: Search for external knowledge.
        vote: Majority vote, if the decoding draws several samples.

    """

    revision: ClassVar[int] = 1

    prompt: Prompt
    decoding: Decoding
    thresholds: Thresholds = Thresholds()
    refinement: Refinement | None = Refinement()
    search: KnowledgeSearch = KnowledgeSearch()
    vote: Vote = Vote()

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request relevance, then perhaps strips and a search, and then the answer. The trace records the action."""
        log_odds = yield from estimate_relevance(question, contexts)
        action = self.thresholds.choose([compute_relevance_score(value) for value in log_odds])
        internal, findings = Knowledge(), Findings(Knowledge(), ())
        if action is not Action.INCORRECT:
            internal = yield from self._refine(question, [context.passage for context in contexts])
        if action is not Action.CORRECT:
            findings = yield from self.search.find(question, self.refinement or Refinement())
        strips = (*internal.strips, *findings.knowledge.strips)
        shown = [Context(strip, rank, None, has_answer=False) for rank, strip in enumerate(strips, start=1)]
        answer = yield from Concatenation(self.prompt, self.decoding, self.vote).plan(question, shown)
        trace = (f"action: {action}", *_describe("internal", internal), *_describe("external", findings.knowledge))
        return replace(answer, trace=(*trace, *findings.trace, *answer.trace))

    def _refine(self, question: Question, passages: Sequence[Passage]) -> Plan[Knowledge]:
        """Return the refined passages, or all of them without refinement."""
        if self.refinement is None:
            return Knowledge(tuple(passages), len(passages))
        return (yield from self.refinement.refine(question, passages))


def _describe(name: str, knowledge: Knowledge) -> tuple[str, ...]:
    """Describe what was kept, for the trace."""
    if not knowledge.total:
        return ()
    note = ", none passed the filter" if knowledge.is_fallback else ""
    return (f"{name}: {len(knowledge.strips)} of {knowledge.total} strips{note}",)
