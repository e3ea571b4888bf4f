"""PF + Concat: concatenation chooses among Post-Fusion's candidates (Post-Fusion, section 3.3)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from winnow.records import Answer, Context, Decoding, Question
from winnow.requests import Plan
from winnow.strategies.prompt import Prompt, build_request
from winnow.strategies.sampling import request_replies
from winnow.strategies.unknown import is_unknown
from winnow.strategies.vote import Vote, count_replies, describe_answered
from winnow.text.normalization import UNKNOWN, normalize_candidate


@dataclass(frozen=True, slots=True)
class PFConcat:
    """A strategy that requests an answer per passage, then one from a prompt with these candidates.

    The second prompt lists each distinct candidate once. It omits the passages whose replies are
    all "unknown".

    Args:
        prompt: Templates of both prompts.
        decoding: Generation settings.
        vote: Majority vote over the samples of the second prompt.
    """

    revision: ClassVar[int] = 7

    prompt: Prompt
    decoding: Decoding
    vote: Vote = Vote()

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request an answer from each context alone, then one from the contexts with candidates.

        If there are no candidates, the answer is "unknown".
        """
        requests = [
            build_request(self.prompt, question, [context], self.decoding) for context in contexts
        ]
        replies_by_context = yield from request_replies(requests)
        trace_entries = (describe_answered(replies_by_context), count_replies(replies_by_context))
        candidates_by_context = [
            [answer for answer in replies.answers if not is_unknown(answer)]
            for replies in replies_by_context
        ]
        kept_contexts = [
            context
            for context, answers in zip(contexts, candidates_by_context, strict=True)
            if answers
        ]
        candidates = tuple(answer for answers in candidates_by_context for answer in answers)
        if not kept_contexts:
            first = replies_by_context[0] if replies_by_context else None
            reply, used_passages = (first.replies[0], first.used) if first else ("", ())
            return Answer(
                UNKNOWN,
                unknown=True,
                used=used_passages,
                reply=reply,
                trace=(*trace_entries, "kept: 0"),
            )
        distinct_candidates: dict[str, str] = {}
        for candidate in candidates:
            distinct_candidates.setdefault(normalize_candidate(candidate), candidate)
        final_request = build_request(
            self.prompt,
            question,
            kept_contexts,
            self.decoding,
            tuple(distinct_candidates.values()),
        )
        (final_replies,) = yield from request_replies([final_request])
        answer = self.vote.choose(question, final_replies)
        return replace(
            answer,
            candidates=candidates,
            trace=(*trace_entries, f"kept: {len(kept_contexts)}", *answer.trace),
        )
