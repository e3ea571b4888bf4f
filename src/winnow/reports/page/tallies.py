"""Tallies of what each passage adds to an answer, so the page can recompute it without a passage.

Post-Fusion and marginalization prompt with each passage alone. Without a passage, their other
replies stay the same, and the answer follows from the rest. Only where the passage that gave an
answer its spelling is left out, marginalization would score another spelling of that answer; its
stored likelihoods are those of the first spelling.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.contexts.marginalization import collect_spellings, log_softmax
from winnow.protocols import Strategy
from winnow.records import Context
from winnow.requests import Generation, Score
from winnow.strategies.marginal import Marginal, sum_log_probabilities
from winnow.strategies.post_fusion import PostFusion
from winnow.strategies.unknown import is_unknown
from winnow.strategies.vote import compute_weights, order_by_rank
from winnow.sweeps.replay import Call
from winnow.text.answers import extract_answer
from winnow.text.normalization import UNKNOWN, normalize_candidate


@dataclass(frozen=True, slots=True)
class Ballot:
    """What one passage contributes to one answer.

    Attributes:
        context: Index of the passage in the prompt order of the contexts.
        key: Normalized answer.
        text: Answer as it is spelled.
        amount: Weight of the vote, or log of the weighted probability of the answer under this
            passage.
        source: Whether the passage's own reply is this answer. Only such answers are candidates.
    """

    context: int
    key: str
    text: str
    amount: float
    source: bool = True


@dataclass(frozen=True, slots=True)
class Tally:
    """Ballots in the order in which ties are broken.

    Attributes:
        rule: "votes" if the amounts are added, "log-probabilities" if their exponentials are.
        draws: Whether ties are broken by a random draw, which the page does not repeat.
        ballots: Ballots, each answer's sources first. Answers that do not count, such as "unknown",
            are left out.
    """

    rule: str
    draws: bool
    ballots: Sequence[Ballot]


def build_tally(
    strategy: Strategy, contexts: Sequence[Context], rounds: Sequence[Sequence[Call]]
) -> Tally | None:
    """Build a replayed plan's tally, or None if the strategy does not prompt with single passages.

    Args:
        strategy: Strategy of the plan.
        contexts: Contexts in prompt order.
        rounds: Calls of the plan.
    """
    if not contexts or not rounds:
        return None
    if isinstance(strategy, PostFusion):
        return _tally_votes(strategy, contexts, rounds[0])
    if isinstance(strategy, Marginal):
        return _tally_probabilities(strategy, contexts, rounds)
    return None


def _tally_votes(strategy: PostFusion, contexts: Sequence[Context], calls: Sequence[Call]) -> Tally:
    """Build one ballot for each reply, of which every context has `decoding.samples`."""
    samples = len(calls) // len(contexts)
    weights = compute_weights(contexts)
    ballots = []
    for index in order_by_rank(contexts):
        for call in calls[index * samples : (index + 1) * samples]:
            answer = extract_answer(_get_reply(call).text)
            unknown = is_unknown(answer)
            if unknown and not strategy.vote.unknown_votes:
                continue
            text = UNKNOWN if unknown else answer
            ballots.append(
                Ballot(
                    index, UNKNOWN if unknown else normalize_candidate(answer), text, weights[index]
                )
            )
    return Tally("votes", strategy.vote.ties == "random", ballots)


def _tally_probabilities(
    strategy: Marginal, contexts: Sequence[Context], rounds: Sequence[Sequence[Call]]
) -> Tally:
    """Build one ballot for each pair of an answer and a context whose likelihood was computed."""
    replies = [_get_reply(call) for call in rounds[0]]
    own = [strategy.resolve_unknown(extract_answer(reply.text)) for reply in replies]
    keys = [None if answer is None else normalize_candidate(answer) for answer in own]
    spellings = collect_spellings([answer for answer in own if answer is not None])
    pairs = strategy.list_pairs(spellings, keys)
    if strategy.scoring == "generated":
        log_likelihoods = [sum_log_probabilities(replies[index]) for _, index in pairs]
    else:
        log_likelihoods = [_get_score(call) for call in (rounds[1] if len(rounds) > 1 else ())]
    log_weights = log_softmax([context.log_weight for context in contexts])
    ballots = []
    for (key, index), log_likelihood in zip(pairs, log_likelihoods, strict=True):
        source = keys[index] == key
        text = own[index] if source else spellings[key]
        ballots.append(Ballot(index, key, text or "", log_weights[index] + log_likelihood, source))
    ballots.sort(key=lambda ballot: (not ballot.source, ballot.context))
    return Tally("log-probabilities", False, ballots)


def _get_reply(call: Call) -> Generation:
    assert isinstance(call.result, Generation)
    return call.result


def _get_score(call: Call) -> float:
    assert isinstance(call.result, Score)
    return call.result.value
