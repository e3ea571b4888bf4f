"""Tallies: the ballots of the passages that are left give the answer that the strategy gives with
these passages.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from winnow.contexts.marginalization import logsumexp
from winnow.records import Context, Decoding
from winnow.reports.page.tallies import Ballot, Tally, build_tally
from winnow.requests import Generation, Likelihood, Plan, Score
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.marginal import Marginal
from winnow.strategies.post_fusion import PostFusion
from winnow.strategies.prompt import Prompt
from winnow.strategies.vote import Vote
from winnow.sweeps.replay import Call
from winnow.testing import make_context, make_question
from winnow.text.normalization import normalize

PROMPT = Prompt(
    "{contexts} {question}", "{question}", "{contexts} {candidates} {question}", "{text}"
)
REPLIES = {
    "one": "Austen",
    "two": "unknown",
    "three": "Bronte",
    "four": "austen.",
    "five": "Bronte",
    "six": "Eliot",
}
CONTEXTS = [
    replace(make_context(number, text, rank=rank), log_weight=weight)
    for number, (text, rank, weight) in enumerate(
        zip(REPLIES, (3, 1, 2, 4, 0, 5), (0, 0, 0, 0, -1.5, -0.2), strict=True), 1
    )
]


def _play(plan: Plan[object]) -> tuple[list[list[Call]], object]:
    """Run a plan: the reply depends on the passage, and the likelihood on the passage and the
    normalized answer.
    """
    rounds: list[list[Call]] = []
    results = None
    while True:
        try:
            requests = next(plan) if results is None else plan.send(results)
        except StopIteration as stop:
            return rounds, stop.value
        results = []
        for request in requests:
            word = request.messages[-1].content.split()[0]  # type: ignore[union-attr]
            if isinstance(request, Likelihood):
                results.append(
                    Score(-1.0 - (len(word) * len(normalize(request.continuation))) % 7 / 3)
                )
            else:
                results.append(Generation(REPLIES[word], logprobs=(-0.1 * len(word), -0.5)))
        rounds.append(
            [Call(b"", request, result) for request, result in zip(requests, results, strict=True)]
        )


def recount(tally: Tally, kept: Sequence[int]) -> str:
    """The rule of the page's script (`recount` in page.js), in Python."""
    amounts: dict[str, list[Ballot]] = {}
    for ballot in tally.ballots:
        if ballot.context in kept:
            amounts.setdefault(ballot.key, []).append(ballot)
    totals = {
        key: (
            sum(b.amount for b in ballots)
            if tally.rule == "votes"
            else logsumexp([b.amount for b in ballots])
        )
        for key, ballots in amounts.items()
        if any(ballot.source for ballot in ballots)
    }
    best = max(totals, key=lambda key: totals[key], default=None)
    return amounts[best][0].text if best is not None else "unknown"


STRATEGIES = {
    "vote": PostFusion(PROMPT, Decoding()),
    "unknown_votes": PostFusion(PROMPT, Decoding(), Vote(unknown_votes=True)),
    "samples": PostFusion(PROMPT, Decoding(temperature=1.0, samples=2)),
    "exact": Marginal(PROMPT, Decoding()),
    "fast": Marginal(PROMPT, Decoding(), scoring="fast"),
    "generated": Marginal(PROMPT, Decoding(), scoring="generated", unknown_votes=True),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_any_passages_may_be_left_out(name: str) -> None:
    """For each of the 63 subsets, the ballots give what the strategy answers when it is given only
    these passages.
    """
    strategy = STRATEGIES[name]
    rounds, _ = _play(strategy.plan(make_question(), CONTEXTS))  # type: ignore[arg-type]
    tally = build_tally(strategy, CONTEXTS, rounds)
    assert tally is not None
    for size in range(1, len(CONTEXTS) + 1):
        for kept in itertools.combinations(range(len(CONTEXTS)), size):
            chosen: list[Context] = [CONTEXTS[index] for index in kept]
            _, answer = _play(strategy.plan(make_question(), chosen))  # type: ignore[arg-type]
            assert recount(tally, kept).lower().strip(".") == answer.text.lower().strip("."), kept  # type: ignore[attr-defined]


def test_weights_and_order_are_those_of_the_vote() -> None:
    """The best-ranked passage comes first, an inserted one last; the largest weight is
    exactly 1.
    """
    rounds, _ = _play(STRATEGIES["unknown_votes"].plan(make_question(), CONTEXTS))  # type: ignore[arg-type]
    tally = build_tally(STRATEGIES["unknown_votes"], CONTEXTS, rounds)
    assert tally is not None
    assert [(b.context, b.key) for b in tally.ballots] == [
        (1, "unknown"), (2, "bronte"), (0, "austen"), (3, "austen"), (5, "eliot"), (4, "bronte"),
    ]  # fmt: skip
    assert [b.amount for b in tally.ballots] == [1, 1, 1, 1, math.exp(-0.2), math.exp(-1.5)]
    assert not tally.draws


def test_other_strategies_have_no_tally() -> None:
    """A prompt with several passages says nothing about the answer without one of them."""
    strategy = Concatenation(PROMPT, Decoding())
    assert build_tally(strategy, CONTEXTS, [[]]) is None
    assert build_tally(STRATEGIES["vote"], [], []) is None


@pytest.mark.parametrize(
    "strategy",
    [PostFusion(PROMPT, Decoding()), Marginal(PROMPT, Decoding(), scoring="fast")],
)
def test_options_that_are_articles_are_different_ballots(strategy: PostFusion | Marginal) -> None:
    """Nothing is left of "A" and "The" without articles, and the strategy tells them apart."""
    contexts = [make_context(number, "x") for number in (1, 2, 3)]
    replies = ("B", "A", "The")
    plan = strategy.plan(make_question(), contexts)
    results: list[Generation | Score] = [Generation(text) for text in replies]
    requests = next(plan)
    rounds = [[Call(b"", *pair) for pair in zip(requests, results, strict=True)]]
    if isinstance(strategy, Marginal):
        scored = plan.send(results)
        assert all(isinstance(one, Likelihood) for one in scored)
        rounds.append([Call(b"", one, Score(-1.0)) for one in scored])
    tally = build_tally(strategy, contexts, rounds)
    assert tally is not None
    assert [ballot.key for ballot in tally.ballots] == ["b", "a", "the"]
