"""PF + Concat: Post-Fusion finds candidates, concatenation distils them (Post-Fusion paper, section 3.3)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from winnow.metrics.answer import normalise
from winnow.records import Answer, Context, Decoding, Plan, Question
from winnow.strategies.prompt import Prompt, ask
from winnow.strategies.replies import UNKNOWN, is_unknown
from winnow.strategies.sampling import pools
from winnow.strategies.vote import Vote


@dataclass(frozen=True, slots=True)
class PFConcat:
    """Drops the passages whose every reply is "unknown"; asks again with the rest and the distinct candidate answers."""

    prompt: Prompt
    decoding: Decoding
    vote: Vote = Vote()

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan:
        """Ask for each passage, then once with what is left; if nothing is left the answer is "unknown"."""
        found = yield from pools([ask(self.prompt, question, [context], self.decoding) for context in contexts])
        known = [(c, [a for a in pool if not is_unknown(a)]) for c, pool in zip(contexts, found, strict=True)]
        kept = [context for context, answers in known if answers]
        candidates = tuple(answer for _, answers in known for answer in answers)
        if not kept:
            return Answer(UNKNOWN, unknown=True)
        distinct: dict[str, str] = {}
        for answer in candidates:
            distinct.setdefault(normalise(answer), answer)
        (pool,) = yield from pools([ask(self.prompt, question, kept, self.decoding, tuple(distinct.values()))])
        return replace(self.vote.single(question, pool), candidates=candidates)
