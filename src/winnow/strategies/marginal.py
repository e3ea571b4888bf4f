"""Answer marginalization: the probability of each answer is summed over the passages (RE-RAG, eqs. 2 and 6)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from winnow.contexts import marginalization
from winnow.errors import ConfigError, ReaderError
from winnow.metrics.answer import UNKNOWN, normalise
from winnow.records import Answer, Context, Decoding, Generation, Likelihood, Plan, Question
from winnow.strategies.prompt import Prompt, build_request
from winnow.strategies.replies import extract_answer, is_unknown


@dataclass(frozen=True, slots=True)
class Marginal:
    """Answers from each passage alone, then chooses the answer with the highest marginal likelihood.

    Args:
        prompt: Prompt, which shows one passage at a time.
        decoding: Greedy decoding, as in the paper.
        scoring: "exact" scores every distinct answer under every context, "fast" only under the contexts that produced it.
            Both require a reader that serves Likelihood requests: T5, or a local causal model; "exact" needs up to k times
            as many. "generated" is like "fast", with the log-probabilities of the reply's tokens, which APIs report too; a
            reply that says more than the answer is scored as a whole.
        unknown_votes: Whether "unknown" counts as an answer. If not, it wins only if there is no other answer.

    """

    revision: ClassVar[int] = 3

    prompt: Prompt
    decoding: Decoding
    scoring: Literal["exact", "fast", "generated"] = "exact"
    unknown_votes: bool = False

    def __post_init__(self) -> None:
        """Validate the scoring and the decoding.

        Sampled answers are not supported, because their likelihoods do not reflect how often they are drawn.
        """
        if self.scoring not in ("exact", "fast", "generated"):
            raise ConfigError(f"strategy.plan.scoring must be exact, fast or generated; received {self.scoring!r}.")
        if self.decoding.samples > 1:
            raise ConfigError(f"Marginalization scores one greedy answer per passage; received {self.decoding.samples}.")

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request an answer from each context, then the likelihoods of the answers."""
        decoding = replace(self.decoding, logprobs=True) if self.scoring == "generated" else self.decoding
        replies = yield [build_request(self.prompt, question, [context], decoding) for context in contexts]
        answers = [extract_answer(reply.text) for reply in replies]
        eligible_answers = [self._eligible_answer(answer) for answer in answers]
        candidates = tuple(answer for answer in answers if not is_unknown(answer))
        texts = marginalization.first_spellings([answer for answer in eligible_answers if answer is not None])
        if not texts:
            reply, used = (replies[0].text, (contexts[0].passage,)) if replies else ("", ())
            return Answer(UNKNOWN, unknown=True, candidates=candidates, used=used, reply=reply)
        keys = [None if answer is None else normalise(answer) for answer in eligible_answers]
        pairs = [(key, n) for key in texts for n in range(len(contexts)) if self.scoring == "exact" or keys[n] == key]
        if self.scoring == "generated":
            log_likelihoods = [_log_probability(replies[n]) for _, n in pairs]
        else:
            scores = yield [Likelihood(self.prompt.render(question, [contexts[n]]), texts[key]) for key, n in pairs]
            log_likelihoods = [score.value for score in scores]
        log_weights = marginalization.log_softmax([context.log_weight for context in contexts])
        terms: dict[str, list[float]] = {}
        for (key, n), log_likelihood in zip(pairs, log_likelihoods, strict=True):
            terms.setdefault(key, []).append(log_weights[n] + log_likelihood)
        log_p = {key: marginalization.logsumexp(values) for key, values in terms.items()}
        best = marginalization.most_probable(log_p)
        trace = ("log P: " + "; ".join(f"{texts[key]} {value:.2f}" for key, value in log_p.items()),)
        first = keys.index(best)
        used = (contexts[first].passage,)
        return Answer(texts[best], texts[best] == UNKNOWN, candidates, used, replies[first].text, trace)

    def _eligible_answer(self, answer: str) -> str | None:
        """Return the answer to score: "unknown" for every form of it, or None if "unknown" does not count as an answer."""
        if not is_unknown(answer):
            return answer
        return UNKNOWN if self.unknown_votes else None


def _log_probability(reply: Generation) -> float:
    """Sum the log-probabilities of a reply's tokens."""
    if reply.logprobs is None:
        raise ReaderError(
            "strategy.plan.scoring=generated needs the log-probabilities of the reply's tokens, and the reader returned none. "
            "Use a server that supports `logprobs`, or strategy=post_fusion."
        )
    return sum(reply.logprobs)
