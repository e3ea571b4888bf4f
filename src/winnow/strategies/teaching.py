"""Supervision of an estimator by a frozen generator: likelihoods of an accepted answer, and scored replies (RE-RAG)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from winnow.records import Context, Decoding, Likelihood, Plan, Question
from winnow.strategies.prompt import Prompt, build_request
from winnow.strategies.replies import extract_answer, is_unknown
from winnow.targets import targets


@dataclass(frozen=True, slots=True)
class ScoredReply:
    """An answer from one context, with its log-probability in nats."""

    text: str
    log_p: float


@dataclass(frozen=True, slots=True)
class Teacher:
    """Plans that request likelihoods and answers of a frozen generator, from each context alone."""

    prompt: Prompt
    decoding: Decoding

    def likelihoods(self, question: Question, contexts: Sequence[Context]) -> Plan[tuple[float, ...]]:
        """Request log P(first target | question, context) for every context."""
        answer = targets(question)[0]
        scores = yield [Likelihood(self.prompt.render(question, [context]), answer) for context in contexts]
        return tuple(score.value for score in scores)

    def replies(self, question: Question, contexts: Sequence[Context]) -> Plan[tuple[ScoredReply, ...]]:
        """Request the generator's answer from every context, then its log-probability.

        An "unknown" gets the log-probability -inf, so that it has no weight, as in `winnow.strategies.marginal`.
        """
        generations = yield [build_request(self.prompt, question, [context], self.decoding) for context in contexts]
        texts = [extract_answer(generation.text) for generation in generations]
        scores = yield [
            Likelihood(self.prompt.render(question, [context]), text) for context, text in zip(contexts, texts, strict=True)
        ]
        return tuple(
            ScoredReply(text, -math.inf if is_unknown(text) else score.value)
            for text, score in zip(texts, scores, strict=True)
        )
