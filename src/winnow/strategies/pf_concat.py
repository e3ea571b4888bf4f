"""PF + Concat: Post-Fusion proposes candidates, concatenation chooses among them (Post-Fusion paper, section 3.3)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from winnow.metrics.answer import normalise
from winnow.records import Answer, Context, Decoding, Plan, Question
from winnow.strategies.prompt import Prompt, build_request
from winnow.strategies.replies import UNKNOWN, is_unknown
from winnow.strategies.sampling import request_pools
from winnow.strategies.vote import Vote


@dataclass(frozen=True, slots=True)
class PFConcat:
    """Drops the passages whose every reply is "unknown"; prompts with the rest and the distinct candidate answers."""

    prompt: Prompt
    decoding: Decoding
    vote: Vote = Vote()

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request each passage, then one prompt with those kept; if none is kept the answer is "unknown"."""
        pools = yield from request_pools([build_request(self.prompt, question, [c], self.decoding) for c in contexts])
        known = [(c, [a for a in pool.answers if not is_unknown(a)]) for c, pool in zip(contexts, pools, strict=True)]
        kept = [context for context, answers in known if answers]
        candidates = tuple(answer for _, answers in known for answer in answers)
        if not kept:
            reply = pools[0].replies[0] if pools else ""
            return Answer(UNKNOWN, unknown=True, reply=reply, trace=("kept: 0",))
        distinct: dict[str, str] = {}
        for candidate in candidates:
            distinct.setdefault(normalise(candidate), candidate)
        (pool,) = yield from request_pools(
            [build_request(self.prompt, question, kept, self.decoding, tuple(distinct.values()))]
        )
        answer = self.vote.single(question, pool)
        return replace(answer, candidates=candidates, trace=(f"kept: {len(kept)}", *answer.trace))
