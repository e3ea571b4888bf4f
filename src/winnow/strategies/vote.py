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
    """Merges answers that are equal after normalisation; the best-ranked passage's spelling is shown.

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
        """Return the majority answer over the pools, one per context; a single prompt's pool has none.

        Where contexts have weights, a vote counts with the softmax of its context's: REPLUG's ensemble of answers, as
        RE-RAG applies it to an LLM (section 5.4). Without weights each vote counts one.
        """
        ranks = [context.rank or _LAST_RANK for context in contexts] or [0] * len(pools)
        weights = _weights(contexts) or [1.0] * len(pools)
        order = sorted(range(len(pools)), key=lambda n: ranks[n])
        votes: dict[str, float] = {}
        first: dict[str, tuple[str, int, int]] = {}
        for n in order:
            for sample, answer in enumerate(pools[n].answers):
                unknown = is_unknown(answer)
                if unknown and not self.unknown_votes:
                    continue
                key = UNKNOWN if unknown else normalise(answer)
                votes[key] = votes.get(key, 0.0) + weights[n]
                first.setdefault(key, (UNKNOWN if unknown else answer, n, sample))
        candidates = tuple(answer for pool in pools for answer in pool.answers if not is_unknown(answer))
        used = tuple(context.passage for context in contexts) or (pools[0].used if pools else ())
        if not votes:
            reply = pools[0].replies[0] if pools else ""
            return Answer(UNKNOWN, unknown=True, candidates=candidates, used=used, reply=reply, trace=("vote: none known",))
        winners = [key for key in votes if votes[key] == max(votes.values())]
        winner = winners[0] if self.ties == "rank" else self._draw(question, winners)
        text, n, sample = first[winner]
        trace = ("vote: " + "; ".join(f"{first[key][0]} {count:.3g}" for key, count in votes.items()),)
        return Answer(text, winner == UNKNOWN, candidates, used, pools[n].replies[sample], trace)

    def single(self, question: Question, pool: Pool) -> Answer:
        """Return the answer to one prompt: its only reply's, or the majority of its samples, which are the candidates."""
        if len(pool.answers) > 1:
            return self.majority(question, (), [pool])
        return Answer(pool.answers[0], is_unknown(pool.answers[0]), used=pool.used, reply=pool.replies[0])

    def _draw(self, question: Question, winners: Sequence[str]) -> str:
        return random.Random(f"{self.seed}/{question.question_id}").choice(sorted(winners))
