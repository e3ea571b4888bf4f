"""Weighted or unweighted majority voting over answers. docs/rules.md documents the rules that the paper leaves open."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from winnow.errors import ConfigError
from winnow.metrics.answer import UNKNOWN, normalise
from winnow.records import Answer, Context, Question
from winnow.strategies.replies import is_unknown
from winnow.strategies.sampling import Pool

_LAST_RANK = 1_000_000


def _weights(contexts: Sequence[Context]) -> list[float]:
    """Compute the contexts' weights relative to the largest. If all are equal, they are exactly 1 and ties remain ties."""
    largest = max((context.log_weight for context in contexts), default=0.0)
    return [math.exp(context.log_weight - largest) for context in contexts]


@dataclass(frozen=True, slots=True)
class Vote:
    """Majority vote over answers.

    Answers that are equal after normalisation share their votes. The winner is spelled as in the answer from the best-ranked
    passage.

    Args:
        ties: How ties are broken. "rank" prefers the candidate with the best-ranked passage; inserted passages rank last.
            "random" draws a candidate, depending on the seed and the question.
        unknown_votes: Whether "unknown" counts as a candidate. If not, it wins only if there is no other answer.
        seed: Seed of the random draw.

    """

    ties: Literal["rank", "random"] = "rank"
    unknown_votes: bool = False
    seed: int = 13

    def __post_init__(self) -> None:
        """Validate the tie-breaking rule."""
        if self.ties not in ("rank", "random"):
            raise ConfigError(f"vote.ties must be rank or random; received {self.ties!r}.")

    def majority(self, question: Question, contexts: Sequence[Context], pools: Sequence[Pool]) -> Answer:
        """Compute the majority answer.

        If the contexts have weights, each vote is weighted by the softmax weight of its context. This is REPLUG's ensemble
        of answers, as RE-RAG applies it to an LLM (section 5.4). Otherwise, each vote counts as one.

        Args:
            question: Question, which seeds the random draw.
            contexts: Contexts, one per pool, or none for the pool of a single prompt.
            pools: Answers and replies of each prompt.

        """
        ranks = [context.rank or _LAST_RANK for context in contexts] or [0] * len(pools)
        weights = _weights(contexts) or [1.0] * len(pools)
        order = sorted(range(len(pools)), key=lambda index: ranks[index])
        votes: dict[str, float] = {}
        first_votes: dict[str, tuple[str, int, int]] = {}
        for index in order:
            for sample, answer in enumerate(pools[index].answers):
                unknown = is_unknown(answer)
                if unknown and not self.unknown_votes:
                    continue
                key = UNKNOWN if unknown else normalise(answer)
                votes[key] = votes.get(key, 0.0) + weights[index]
                first_votes.setdefault(key, (UNKNOWN if unknown else answer, index, sample))
        candidates = tuple(answer for pool in pools for answer in pool.answers if not is_unknown(answer))
        if not votes:
            reply, used = (pools[0].replies[0], pools[0].used) if pools else ("", ())
            trace = ("vote: every answer is unknown",)
            return Answer(UNKNOWN, unknown=True, candidates=candidates, used=used, reply=reply, trace=trace)
        winners = [key for key in votes if votes[key] == max(votes.values())]
        winner = winners[0] if self.ties == "rank" else self._draw_winner(question, winners)
        text, index, sample = first_votes[winner]
        trace = ("vote: " + "; ".join(f"{first_votes[key][0]} {weight:.3g}" for key, weight in votes.items()),)
        return Answer(text, winner == UNKNOWN, candidates, pools[index].used, pools[index].replies[sample], trace)

    def choose(self, question: Question, pool: Pool) -> Answer:
        """Return the answer to a single prompt: that of its only reply, or the majority answer of its samples.

        With several samples, their answers become the candidates.
        """
        if len(pool.answers) > 1:
            return self.majority(question, (), [pool])
        return Answer(pool.answers[0], is_unknown(pool.answers[0]), used=pool.used, reply=pool.replies[0])

    def _draw_winner(self, question: Question, winners: Sequence[str]) -> str:
        return random.Random(f"{self.seed}/{question.question_id}").choice(sorted(winners))
