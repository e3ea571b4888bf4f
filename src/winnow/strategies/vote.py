"""Majority voting over answers, with or without weights.

docs/rules.md documents the rules that the Post-Fusion paper leaves open, such as how ties are
broken.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from winnow.identity.values import check_values
from winnow.metrics.distraction import ANSWERED
from winnow.metrics.selective import LIKELIHOOD, REPLIES
from winnow.records import Answer, Context, Question
from winnow.strategies.sampling import PromptReplies
from winnow.strategies.unknown import is_unknown
from winnow.text.normalization import UNKNOWN, normalize_candidate

_LAST_RANK = 1_000_000
"""Rank that an inserted passage, which was not retrieved, has in the vote."""


def compute_weights(contexts: Sequence[Context]) -> list[float]:
    """Compute context weights relative to the largest, for display. Equal weights are exactly 1."""
    log_weights = [context.log_weight for context in contexts]
    largest = max(log_weights, default=0.0)
    return [math.exp(log_weight - largest) for log_weight in log_weights]


def order_by_rank(contexts: Sequence[Context]) -> list[int]:
    """Return the context indices, best rank first. Inserted (not retrieved) passages are last."""
    return sorted(range(len(contexts)), key=lambda index: contexts[index].rank or _LAST_RANK)


def describe_answered(replies_by_context: Sequence[PromptReplies]) -> str:
    """Describe which contexts, by position, drew an answer when they were read alone; see
    `winnow.metrics.distraction`.
    """
    positions = [
        str(position)
        for position, replies in enumerate(replies_by_context, start=1)
        if not all(map(is_unknown, replies.answers))
    ]
    return ANSWERED + (" ".join(positions) or "none")


def count_replies(replies_by_prompt: Sequence[PromptReplies]) -> str:
    """Say from how many replies the candidates of an answer are; see `winnow.metrics.selective`."""
    return f"{REPLIES}{sum(len(replies.answers) for replies in replies_by_prompt)}"


def _sum_in_logs(log_weights: Sequence[float]) -> float:
    """Return the logarithm of a sum of weights, which would underflow at ratios above e**745.

    Equal weights in any order have equal sums, so that rounding does not break ties.
    """
    largest = max(log_weights)
    return largest + math.log(
        math.fsum(math.exp(log_weight - largest) for log_weight in log_weights)
    )


@dataclass(frozen=True, slots=True)
class Vote:
    """A majority vote over answers.

    Answers that are equal after normalization share their votes. The winner is spelled as in the
    answer from the best-ranked passage.

    Args:
        ties: How ties are broken. "rank" prefers the candidate with the best-ranked passage;
            inserted passages rank last. "random" draws one of the tied candidates.
        unknown_votes: Whether "unknown" counts as a candidate. If not, it wins only if there is no
            other answer.
        seed: Seed of the random draw, which also depends on the question.
    """

    ties: Literal["rank", "random"] = "rank"
    unknown_votes: bool = False
    seed: int = 13

    def __post_init__(self) -> None:
        check_values("vote", self)

    def choose_majority(
        self,
        question: Question,
        contexts: Sequence[Context],
        prompt_replies: Sequence[PromptReplies],
    ) -> Answer:
        """Choose the answer with the most votes. Every reply to every prompt is one vote.

        If the contexts have weights, each vote is weighted by the softmax weight of its context.
        This is REPLUG's ensemble of answers, as RE-RAG applies it to an LLM (section 5.4).
        Otherwise, each vote counts as one.

        Args:
            question: Question, which determines the random draw together with the seed.
            contexts: Context of each prompt, or none if there is a single prompt.
            prompt_replies: Replies to each prompt.
        """
        log_weights = [context.log_weight for context in contexts] or [0.0] * len(prompt_replies)
        votes: dict[str, list[float]] = {}
        first_votes: dict[
            str, tuple[str, int, int]
        ] = {}  # spelling, index of the prompt and number of the sample
        for index in order_by_rank(contexts) or range(len(prompt_replies)):
            for sample, answer in enumerate(prompt_replies[index].answers):
                unknown = is_unknown(answer)
                if unknown and not self.unknown_votes:
                    continue
                key = UNKNOWN if unknown else normalize_candidate(answer)
                votes.setdefault(key, []).append(log_weights[index])
                first_votes.setdefault(key, (UNKNOWN if unknown else answer, index, sample))
        candidates = tuple(
            [
                answer
                for replies in prompt_replies
                for answer in replies.answers
                if not is_unknown(answer)
            ]
        )
        trace_entries = (
            *([describe_answered(prompt_replies)] if contexts else []),
            count_replies(prompt_replies),
        )
        if not votes:
            first = prompt_replies[0] if prompt_replies else None
            reply, used_passages = (first.replies[0], first.used) if first else ("", ())
            trace = (*trace_entries, "vote: every answer is unknown")
            return Answer(
                UNKNOWN,
                unknown=True,
                candidates=candidates,
                used=used_passages,
                reply=reply,
                trace=trace,
            )
        totals = {key: _sum_in_logs(own) for key, own in votes.items()}
        most_votes = max(totals.values())
        winners = [key for key, total in totals.items() if total == most_votes]
        winner = winners[0] if self.ties == "rank" else self._draw_winner(question, winners)
        text, index, sample = first_votes[winner]
        largest = max(log_weights)
        shares = {key: math.exp(total - largest) for key, total in totals.items()}
        vote = "vote: " + "; ".join(
            f"{first_votes[key][0]} {share:.3g}" for key, share in shares.items()
        )
        winning_replies = prompt_replies[index]
        return Answer(
            text,
            winner == UNKNOWN,
            candidates,
            winning_replies.used,
            winning_replies.replies[sample],
            (*trace_entries, vote),
        )

    def choose(self, question: Question, replies: PromptReplies) -> Answer:
        """Choose the answer to a single prompt.

        A single reply gives the answer without a vote and without candidates; its trace has the
        reply's likelihood if the decoding requests log-probabilities. The answers of several
        samples become the candidates of a majority vote.
        """
        if len(replies.answers) > 1:
            return self.choose_majority(question, (), [replies])
        answer = replies.answers[0]
        trace = tuple([f"{LIKELIHOOD}{math.exp(logprob):.6g}" for logprob in replies.logprobs])
        return Answer(
            answer, is_unknown(answer), used=replies.used, reply=replies.replies[0], trace=trace
        )

    def _draw_winner(self, question: Question, winners: Sequence[str]) -> str:
        """Draw one of the tied answers, depending on the seed and the question only."""
        return random.Random(f"{self.seed}/{question.question_id}").choice(sorted(winners))
