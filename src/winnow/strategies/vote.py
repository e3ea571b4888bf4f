"""The majority vote over pools of answers, weighted or not; the rules that the paper leaves open are in docs/rules.md."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from winnow.errors import ConfigError
from winnow.metrics.answer import normalise
from winnow.records import Answer, Context, Question
from winnow.strategies.replies import UNKNOWN, is_unknown
from winnow.strategies.sampling import Pool

_LAST_RANK = 1_000_000


def _weights(contexts: Sequence[Context]) -> list[float]:
    """Return the contexts' weights, the largest 1: equal ones are exactly 1, so that ties stay ties."""
    largest = max((context.log_weight for context in contexts), default=0.0)
    return [math.exp(context.log_weight - largest) for context in contexts]


@dataclass(frozen=True, slots=True)
class Vote:
    """Merges answers that are equal after normalisation, and shows the spelling from the best-ranked passage.

    Args:
        ties: "rank" decides a tie for the candidate whose best passage ranks higher (an inserted one ranks last),
            "random" for a candidate drawn by `seed` and question.
        unknown_votes: whether "unknown" is a candidate like others; if not, it wins only when there is no other.
        seed: of the draw.

    """

    ties: Literal["rank", "random"] = "rank"
    unknown_votes: bool = False
    seed: int = 13

    def __post_init__(self) -> None:
        """Refuse an unknown rule."""
        if self.ties not in ("rank", "random"):
            raise ConfigError(f"vote.ties must be rank or random; received {self.ties!r}.")

    def majority(self, question: Question, contexts: Sequence[Context], pools: Sequence[Pool]) -> Answer:
        """Return the majority answer. There is one pool per context, or one pool without a context for a single prompt.

        Where contexts have weights, each vote counts in proportion to the softmax weight of its context: REPLUG's ensemble
        of answers, as RE-RAG applies it to an LLM (section 5.4). Otherwise each vote counts one.
        """
        ranks = [context.rank or _LAST_RANK for context in contexts] or [0] * len(pools)
        weights = _weights(contexts) or [1.0] * len(pools)
        order = sorted(range(len(pools)), key=lambda index: ranks[index])
        votes: dict[str, float] = {}
        first_vote: dict[str, tuple[str, int, int]] = {}
        for index in order:
            for sample, answer in enumerate(pools[index].answers):
                unknown = is_unknown(answer)
                if unknown and not self.unknown_votes:
                    continue
                key = UNKNOWN if unknown else normalise(answer)
                votes[key] = votes.get(key, 0.0) + weights[index]
                first_vote.setdefault(key, (UNKNOWN if unknown else answer, index, sample))
        candidates = tuple(answer for pool in pools for answer in pool.answers if not is_unknown(answer))
        used = tuple(context.passage for context in contexts) or (pools[0].used if pools else ())
        if not votes:
            reply = pools[0].replies[0] if pools else ""
            trace = ("vote: every answer is unknown",)
            return Answer(UNKNOWN, unknown=True, candidates=candidates, used=used, reply=reply, trace=trace)
        winners = [key for key in votes if votes[key] == max(votes.values())]
        winner = winners[0] if self.ties == "rank" else self._draw(question, winners)
        text, index, sample = first_vote[winner]
        trace = ("vote: " + "; ".join(f"{first_vote[key][0]} {count:.3g}" for key, count in votes.items()),)
        return Answer(text, winner == UNKNOWN, candidates, used, pools[index].replies[sample], trace)

    def single(self, question: Question, pool: Pool) -> Answer:
        """Return the answer to one prompt: that of its only reply, or the majority of its samples, which become candidates."""
        if len(pool.answers) > 1:
            return self.majority(question, (), [pool])
        return Answer(pool.answers[0], is_unknown(pool.answers[0]), used=pool.used, reply=pool.replies[0])

    def _draw(self, question: Question, winners: Sequence[str]) -> str:
        return random.Random(f"{self.seed}/{question.question_id}").choice(sorted(winners))
