"""Answer marginalisation: each passage alone, answers weighed by their probability under all (RE-RAG eqs. 2 and 6)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from winnow import marginal
from winnow.errors import ConfigError
from winnow.metrics.answer import normalise
from winnow.records import Answer, Context, Decoding, Likelihood, Plan, Question
from winnow.strategies.prompt import Prompt, ask
from winnow.strategies.replies import UNKNOWN, is_unknown, read_answer


@dataclass(frozen=True, slots=True)
class Marginal:
    """Asks once a passage, then for the likelihoods of the answers; needs a reader that scores (T5, a local causal model).

    Args:
        prompt: puts one passage at a time.
        decoding: greedy, as the paper decodes.
        scoring: "exact" scores every distinct answer under every context (k times as many likelihoods at most), "fast"
            only where it was generated.
        unknown_votes: whether "unknown" is an answer like others; if not, it wins only where nothing else is said.

    """

    prompt: Prompt
    decoding: Decoding
    scoring: Literal["exact", "fast"] = "exact"
    unknown_votes: bool = False

    def __post_init__(self) -> None:
        """Refuse an unknown scoring, and sampled answers, whose likelihoods say nothing of how often they are drawn."""
        if self.scoring not in ("exact", "fast"):
            raise ConfigError(f"strategy.plan.scoring must be exact or fast; received {self.scoring!r}.")
        if self.decoding.samples > 1:
            raise ConfigError(f"Marginalisation scores one greedy answer a passage; received {self.decoding.samples} samples.")

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan:
        """Ask for all passages at once, then for all likelihoods at once."""
        replies = yield [ask(self.prompt, question, [context], self.decoding) for context in contexts]
        answers = [read_answer(reply.text) for reply in replies]
        said = [None if is_unknown(a) and not self.unknown_votes else UNKNOWN if is_unknown(a) else a for a in answers]
        known = tuple(answer for answer in answers if not is_unknown(answer))
        texts = marginal.distinct([answer for answer in said if answer is not None])
        if not texts:
            return Answer(UNKNOWN, unknown=True, candidates=known)
        keys = [None if answer is None else normalise(answer) for answer in said]
        pairs = [(key, n) for key in texts for n in range(len(contexts)) if self.scoring == "exact" or keys[n] == key]
        scores = yield [Likelihood(self.prompt.render(question, [contexts[n]]), texts[key]) for key, n in pairs]
        log_weights = marginal.log_softmax([context.log_weight for context in contexts])
        parts: dict[str, list[float]] = {}
        for (key, n), score in zip(pairs, scores, strict=True):
            parts.setdefault(key, []).append(log_weights[n] + score.value)
        found = marginal.best({key: marginal.logsumexp(values) for key, values in parts.items()})
        return Answer(texts[found], texts[found] == UNKNOWN, known)
