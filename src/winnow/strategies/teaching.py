"""Supervision of a relevance estimator by a frozen generator (RE-RAG).

The generator computes the likelihood of an accepted answer given each context, and answers from
each context itself.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from winnow.records import Context, Decoding, Question
from winnow.requests import Plan
from winnow.strategies.prompt import Prompt, build_likelihood, build_request
from winnow.strategies.unknown import is_unknown
from winnow.targets import require_targets
from winnow.text.answers import extract_answer


@dataclass(frozen=True, slots=True)
class ScoredReply:
    """The answer in a reply to one context, with its log-probability in nats."""

    text: str
    log_p: float


@dataclass(frozen=True, slots=True)
class Teacher:
    """A frozen generator that supervises a relevance estimator.

    Each method is a generator function that yields requests and receives their results (see
    `winnow.requests.Plan`).

    Args:
        prompt: Templates of the prompt, which contains one context at a time.
        decoding: Generation settings of the generator's own answers.
    """

    prompt: Prompt
    decoding: Decoding

    def request_likelihoods(
        self, question: Question, contexts: Sequence[Context]
    ) -> Plan[tuple[float, ...]]:
        """Request log P(first training target | question, context) for every context."""
        answer = require_targets(question)[0]
        scores = yield [
            build_likelihood(self.prompt, question, [context], answer) for context in contexts
        ]
        return tuple(score.value for score in scores)

    def request_scored_replies(
        self, question: Question, contexts: Sequence[Context]
    ) -> Plan[tuple[ScoredReply, ...]]:
        """Request the generator's answer from each context, then each answer's log-probability.

        An "unknown" answer gets the log-probability -inf, so that it has no weight, as in
        `winnow.strategies.marginal`.
        """
        generations = yield [
            build_request(self.prompt, question, [context], self.decoding) for context in contexts
        ]
        answers = [extract_answer(generation.text) for generation in generations]
        scores = yield [
            build_likelihood(self.prompt, question, [context], answer)
            for context, answer in zip(contexts, answers, strict=True)
        ]
        return tuple(
            ScoredReply(answer, -math.inf if is_unknown(answer) else score.value)
            for answer, score in zip(answers, scores, strict=True)
        )
