"""CRAG, corrective retrieval-augmented generation (Yan et al. 2024), a strategy over any reader."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from winnow.records import Answer, Context, Decoding, Passage, Question
from winnow.requests import Plan
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.corrective.actions import Action, Thresholds
from winnow.strategies.corrective.evaluators import EstimatedRelevance, Evaluator
from winnow.strategies.corrective.refinement import Knowledge, Refinement
from winnow.strategies.corrective.searching import KnowledgeSearch
from winnow.strategies.prompt import Prompt
from winnow.strategies.vote import Vote


@dataclass(frozen=True, slots=True)
class CorrectiveRetrieval:
    """The correction of passages: evaluate, refine relevant ones and search for what is missing.

    Args:
        evaluator: Evaluator of passages and strips.
        thresholds: Thresholds of the action.
        refinement: Selection of strips.
        refine: Whether the retrieved passages are refined; otherwise they are shown whole (table 3,
            without refinement). What a search gave is refined in both cases, if `search.selection`
            says so.
        search: Search for external knowledge.
    """

    revision: ClassVar[int] = 2

    evaluator: Evaluator = EstimatedRelevance()
    thresholds: Thresholds = Thresholds()
    refinement: Refinement = Refinement()
    refine: bool = True
    search: KnowledgeSearch = KnowledgeSearch()

    def correct(
        self, question: Question, passages: Sequence[Passage]
    ) -> Plan[tuple[tuple[Passage, ...], tuple[str, ...]]]:
        """Return internal, then external knowledge, and a trace of the action and what was kept."""
        evaluation = yield from self.evaluator.evaluate(question, passages)
        action = self.thresholds.choose(evaluation.scores)
        internal, external, trace = Knowledge(), Knowledge(), [f"action: {action}"]
        if evaluation.failed:
            trace.append(f"evaluation failed: {evaluation.failed} of {len(passages)} passages")
        if action is not Action.INCORRECT:
            internal = yield from self._refine(question, passages)
            trace += _describe("internal", internal)
        if action is not Action.CORRECT:
            findings = yield from self.search.find(question, self.refinement, self.evaluator)
            external = findings.knowledge
            trace += [*_describe("external", external), *findings.trace]
        return (*internal.strips, *external.strips), tuple(trace)

    def _refine(self, question: Question, passages: Sequence[Passage]) -> Plan[Knowledge]:
        """Return the refined passages, or all of them without refinement."""
        if not self.refine:
            return Knowledge.from_passages(passages)
        return (yield from self.refinement.refine(question, passages, self.evaluator))


@dataclass(frozen=True, slots=True)
class Crag:
    """A strategy that corrects what was retrieved and prompts the reader once with the result.

    Without any knowledge, the reader is prompted without passages.

    Args:
        prompt: Templates of the prompt.
        decoding: Generation settings.
        correction: Correction of the retrieved passages.
        vote: Majority vote, if the decoding draws several samples.
    """

    revision: ClassVar[int] = 4

    prompt: Prompt
    decoding: Decoding
    correction: CorrectiveRetrieval = CorrectiveRetrieval()
    vote: Vote = Vote()

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request the correction and then the answer. The trace records the action."""
        knowledge, trace = yield from self.correction.correct(
            question, [context.passage for context in contexts]
        )
        strips = [
            Context(passage, rank, None, has_answer=False)
            for rank, passage in enumerate(knowledge, start=1)
        ]
        answer = yield from Concatenation(self.prompt, self.decoding, self.vote).plan(
            question, strips
        )
        return replace(answer, trace=(*trace, *answer.trace))


def _describe(name: str, knowledge: Knowledge) -> list[str]:
    """Describe what was kept, for the trace."""
    if not knowledge.total:
        return []
    note = ", none passed the filter" if knowledge.is_fallback else ""
    failure_note = f", evaluation failed: {knowledge.failed}" if knowledge.failed else ""
    return [f"{name}: {knowledge.kept} of {knowledge.total} strips{note}{failure_note}"]
