"""PF + Concat: Post-Fusion proposes candidates, from which concatenation chooses (Post-Fusion paper, section 3.3)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from winnow.metrics.answer import UNKNOWN, normalise
from winnow.records import Answer, Context, Decoding, Plan, Question
from winnow.strategies.prompt import Prompt, build_request
from winnow.strategies.replies import is_unknown
from winnow.strategies.sampling import request_pools
from winnow.strategies.vote import Vote


@dataclass(frozen=True, slots=True)
class PFConcat:
    """Answers from each passage alone, then prompts with the distinct candidates and their passages.

    Passages whose replies are all "unknown" are dropped.
    """

    revision: ClassVar[int] = 3

    prompt: Prompt
    decoding: Decoding
    vote: Vote = Vote()

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request an answer from each context, then one from the contexts with candidates.

        If there are no candidates, the answer is "unknown".
        """
        pools = yield from request_pools([build_request(self.prompt, question, [c], self.decoding) for c in contexts])
        candidates_by_pool = [[answer for answer in pool.answers if not is_unknown(answer)] for pool in pools]
        contexts_with_candidates = [context for context, answers in zip(contexts, candidates_by_pool, strict=True) if answers]
        candidates = tuple(answer for answers in candidates_by_pool for answer in answers)
        if not contexts_with_candidates:
            reply, used = (pools[0].replies[0], pools[0].used) if pools else ("", ())
            return Answer(UNKNOWN, unknown=True, used=used, reply=reply, trace=("kept: 0",))
        distinct: dict[str, str] = {}
        for candidate in candidates:
            distinct.setdefault(normalise(candidate), candidate)
        (pool,) = yield from request_pools(
            [build_request(self.prompt, question, contexts_with_candidates, self.decoding, tuple(distinct.values()))]
        )
        answer = self.vote.choose(question, pool)
        return replace(answer, candidates=candidates, trace=(f"kept: {len(contexts_with_candidates)}", *answer.trace))
