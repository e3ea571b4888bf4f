"""Answer marginalization: sum each answer's probability over passages (RE-RAG, eqs. 2 and 6)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from winnow.contexts import marginalization
from winnow.errors import ConfigError, ReaderError
from winnow.identity.values import check_values
from winnow.metrics.selective import REPLIES
from winnow.records import Answer, Context, Decoding, Question
from winnow.requests import Generation, Plan
from winnow.strategies.prompt import Prompt, build_likelihood, build_request
from winnow.strategies.unknown import is_unknown
from winnow.text.answers import extract_answer
from winnow.text.final import extract_final_text
from winnow.text.normalization import UNKNOWN, normalize_candidate


@dataclass(frozen=True, slots=True)
class Marginal:
    """A strategy that answers from each passage alone and picks by the highest marginal likelihood.

    Args:
        prompt: Templates of the prompt, which shows one passage at a time.
        decoding: Generation settings with a single sample. The paper decodes greedily.
        scoring: How the likelihoods of the answers are obtained. "exact" scores every distinct
            answer under every context. "fast" scores an answer only under the contexts that
            produced it, which needs up to k times fewer requests. Both need a reader that serves
            Likelihood requests: a T5 or a local causal model. "generated" also considers only the
            contexts that produced the answer, and sums the log-probabilities of the reply's tokens,
            which APIs report too. A reply that contains more than the answer is then scored as a
            whole.
        unknown_votes: Whether "unknown" counts as an answer. If not, it wins only if there is no
            other answer.
    """

    revision: ClassVar[int] = 6

    prompt: Prompt
    decoding: Decoding
    scoring: Literal["exact", "fast", "generated"] = "exact"
    unknown_votes: bool = False

    def __post_init__(self) -> None:
        """Validate the scoring method and the decoding.

        Sampled answers are not supported, because their likelihoods do not reflect how often they
        are drawn.
        """
        if self.decoding.samples > 1:
            raise ConfigError(
                "Answer marginalization scores one greedy answer per passage, so that "
                f"decoding.samples must be 1; received {self.decoding.samples}. Set "
                "decoding=greedy."
            )
        check_values("strategy.plan", self)

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request an answer from each context, then the likelihoods of the answers."""
        decoding = (
            replace(self.decoding, logprobs=True) if self.scoring == "generated" else self.decoding
        )
        replies = yield [
            build_request(self.prompt, question, [context], decoding) for context in contexts
        ]
        answers = [extract_answer(reply.text) for reply in replies]
        eligible_answers = [self.resolve_unknown(answer) for answer in answers]
        candidates = tuple(answer for answer in answers if not is_unknown(answer))
        spellings = marginalization.collect_spellings(
            [answer for answer in eligible_answers if answer is not None]
        )
        if not spellings:
            reply, used_passages = (
                (extract_final_text(replies[0].text), (contexts[0].passage,))
                if replies
                else ("", ())
            )
            return Answer(
                UNKNOWN,
                unknown=True,
                candidates=candidates,
                used=used_passages,
                reply=reply,
                trace=(f"{REPLIES}{len(answers)}",),
            )
        keys = [
            None if answer is None else normalize_candidate(answer) for answer in eligible_answers
        ]
        pairs = self.list_pairs(spellings, keys)
        if self.scoring == "generated":
            log_likelihoods = [sum_log_probabilities(replies[index]) for _, index in pairs]
        else:
            scores = yield [
                build_likelihood(self.prompt, question, [contexts[index]], spellings[key])
                for key, index in pairs
            ]
            log_likelihoods = [score.value for score in scores]
        log_weights = marginalization.log_softmax([context.log_weight for context in contexts])
        terms: dict[str, list[float]] = {}
        for (key, index), log_likelihood in zip(pairs, log_likelihoods, strict=True):
            terms.setdefault(key, []).append(log_weights[index] + log_likelihood)
        log_marginals = {key: marginalization.logsumexp(values) for key, values in terms.items()}
        best = marginalization.select_most_probable(log_marginals)
        log_p = "log P: " + "; ".join(
            f"{spellings[key]} {value:.2f}" for key, value in log_marginals.items()
        )
        trace = (f"{REPLIES}{len(answers)}", log_p)
        first = keys.index(best)
        used_passages = (contexts[first].passage,)
        reply = extract_final_text(replies[first].text)
        return Answer(
            spellings[best], spellings[best] == UNKNOWN, candidates, used_passages, reply, trace
        )

    def list_pairs(
        self, answers: Iterable[str], own_answers: Sequence[str | None]
    ) -> list[tuple[str, int]]:
        """Return pairs of a normalized answer and the index of a context under which it is scored.

        Args:
            answers: Distinct normalized answers.
            own_answers: Normalized answer that each context produced, or None.
        """
        return [
            (answer, index)
            for answer in answers
            for index, own_answer in enumerate(own_answers)
            if self.scoring == "exact" or own_answer == answer
        ]

    def resolve_unknown(self, answer: str) -> str | None:
        """Return the answer to score. Every form of "unknown" becomes that word, or None if it does
        not count as an answer.
        """
        if not is_unknown(answer):
            return answer
        return UNKNOWN if self.unknown_votes else None


def sum_log_probabilities(reply: Generation) -> float:
    """Sum the log-probabilities of a reply's tokens; raise ReaderError if the reader returned none,
    or if they include reasoning, which makes an answer the less likely the longer it is.
    """
    if reply.thoughts:
        raise ReaderError(
            "strategy.plan.scoring=generated adds up the log-probabilities of a reply, and this "
            "one begins with reasoning. Turn the reasoning of the model off, or set "
            "strategy=post_fusion."
        )
    if reply.logprobs is None:
        raise ReaderError(
            "strategy.plan.scoring=generated needs the log-probabilities of the reply's tokens, "
            "but the reader returned none. Use a server that supports `logprobs`, or set "
            "strategy=post_fusion."
        )
    return sum(reply.logprobs)
