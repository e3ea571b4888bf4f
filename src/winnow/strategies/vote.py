"""The majority vote, weighted or not, over a pool of answers; its open questions are settings (docs/rules.md)."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from winnow.errors import ConfigError
from winnow.metrics.answer import normalise
from winnow.records import Answer, Context, Question
from winnow.strategies.replies import UNKNOWN, is_unknown

_LAST = 1_000_000


def _weights(contexts: Sequence[Context]) -> list[float]:
    """Return the contexts' weights, the largest 1: equal ones are exactly 1, so that ties stay ties."""
    most = max((context.log_weight for context in contexts), default=0.0)
    return [math.exp(context.log_weight - most) for context in contexts]


@dataclass(frozen=True, slots=True)
class Vote:
    """How answers become one: equal after normalisation is one candidate, shown as its best-ranked passage wrote it.

    Args:
        ties: "rank" gives a tie to the candidate whose best passage ranks higher (an inserted one counts as last),
            "random" to a candidate drawn by `seed` and question.
        unknown_votes: whether "unknown" is a candidate like others; if not, it wins only where nothing else is said.

    """

    ties: Literal["rank", "random"] = "rank"
    unknown_votes: bool = False
    seed: int = 13

    def __post_init__(self) -> None:
        """Refuse an unknown rule."""
        if self.ties not in ("rank", "random"):
            raise ConfigError(f"vote.ties must be rank or random; received {self.ties!r}.")

    def elect(self, question: Question, contexts: Sequence[Context], pools: Sequence[Sequence[str]]) -> Answer:
        """Return the majority over the pools, one a context; a pool without context (a single prompt's) stands alone.

        Where contexts have weights (`weigh_by`), a vote counts with the softmax of its context's: REPLUG's ensemble of
        answers, as RE-RAG applies it to an LLM (section 5.4). Without, each counts one.
        """
        ranks = [context.rank or _LAST for context in contexts] or [0] * len(pools)
        weights = _weights(contexts) or [1.0] * len(pools)
        order = sorted(range(len(pools)), key=lambda n: ranks[n])
        votes: dict[str, float] = {}
        written: dict[str, str] = {}
        for weight, answer in ((weights[n], answer) for n in order for answer in pools[n]):
            unknown = is_unknown(answer)
            if unknown and not self.unknown_votes:
                continue
            key = UNKNOWN if unknown else normalise(answer)
            votes[key] = votes.get(key, 0.0) + weight
            written.setdefault(key, UNKNOWN if unknown else answer)
        known = tuple(answer for pool in pools for answer in pool if not is_unknown(answer))
        if not votes:
            return Answer(UNKNOWN, unknown=True, candidates=known)
        best = [key for key in votes if votes[key] == max(votes.values())]
        winner = best[0] if self.ties == "rank" else self._drawn(question, best)
        return Answer(written[winner], winner == UNKNOWN, known)

    def single(self, question: Question, pool: Sequence[str]) -> Answer:
        """Return the answer to one prompt: its only reply, or the majority of its samples, which then are the candidates."""
        if len(pool) > 1:
            return self.elect(question, (), [pool])
        return Answer(pool[0], is_unknown(pool[0]))

    def _drawn(self, question: Question, best: Sequence[str]) -> str:
        return random.Random(f"{self.seed}/{question.question_id}").choice(sorted(best))
