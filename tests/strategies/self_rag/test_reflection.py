"""Scores of segments, computed by hand from given probabilities."""

import math
from collections.abc import Mapping

import pytest

from winnow.errors import ReaderError
from winnow.requests import Generation
from winnow.strategies.self_rag.reflection import (
    NO_RETRIEVAL,
    RETRIEVE,
    TOKENS,
    SegmentScore,
    compute_retrieval_probability,
    remove_reflection_tokens,
)

FULLY, PARTIALLY, NOT = (
    "[Fully supported]",
    "[Partially supported]",
    "[No support / Contradictory]",
)


def segment(
    text: str,
    steps: int,
    chosen: Mapping[str, tuple[int, ...]],
    probabilities: Mapping[tuple[str, int], float],
) -> Generation:
    """A reply of `steps` tokens with log-probability -0.5 each, and the given probabilities of
    named tokens at positions.
    """
    named = {token: [-50.0] * steps for token in TOKENS}
    for (token, position), probability in probabilities.items():
        named[token][position] = math.log(probability)
    positions = {token: chosen.get(token, ()) for token in TOKENS}
    logprobs = {token: tuple(values) for token, values in named.items()}
    return Generation(
        text, logprobs=(-0.5,) * steps, token_logprobs=logprobs, token_positions=positions
    )


GOOD = segment(
    f"[Relevant]Paris{FULLY}[Utility:5]",
    4,
    {"[Relevant]": (0,), FULLY: (2,), "[Utility:5]": (3,)},
    {
        ("[Relevant]", 0): 0.6, ("[Irrelevant]", 0): 0.2, (FULLY, 2): 0.5, (PARTIALLY, 2): 0.3,
        (NOT, 2): 0.2, ("[Utility:5]", 3): 0.4, ("[Utility:4]", 3): 0.4, ("[Utility:1]", 3): 0.2,
    },
)  # fmt: skip


def test_the_parts_of_a_score() -> None:
    """Relevance 0.6 / 0.8, support 0.5 + 0.5 x 0.3, utility 0.4 x 1 + 0.4 x 0.5 - 0.2 x 1,
    likelihood exp(-0.5).
    """
    assert SegmentScore(1, 0, 0, 0).compute(GOOD) == pytest.approx(0.75)
    assert SegmentScore(0, 1, 0, 0).compute(GOOD) == pytest.approx(0.65)
    assert SegmentScore(0, 0, 1, 0).compute(GOOD) == pytest.approx(0.4)
    assert SegmentScore(0, 0, 0, 1).compute(GOOD) == pytest.approx(math.exp(-0.5))
    assert SegmentScore().compute(GOOD) == pytest.approx(0.75 + 0.65 + 0.5 * 0.4 + math.exp(-0.5))
    assert SegmentScore(2, 3, 5, 7).compute(GOOD) == pytest.approx(
        2 * 0.75 + 3 * 0.65 + 5 * 0.4 + 7 * math.exp(-0.5)
    )


def test_support_and_utility_count_where_they_are_first_written() -> None:
    """Elsewhere their probabilities do not matter; a kind that is not written adds nothing, and
    relevance always counts.
    """
    probabilities = {
        (FULLY, 1): 0.9,
        (NOT, 1): 0.1,
        (FULLY, 3): 0.1,
        (NOT, 3): 0.9,
        ("[Relevant]", 0): 0.5,
    }
    twice = segment("", 4, {FULLY: (1, 3)}, probabilities)
    assert SegmentScore(0, 1, 1, 0).compute(twice) == pytest.approx(0.9)
    assert SegmentScore(1, 0, 0, 0).compute(twice) == pytest.approx(1.0)
    later = segment("", 4, {NOT: (3,)}, probabilities)
    assert SegmentScore(0, 1, 0, 0).compute(later) == pytest.approx(0.1)
    nothing = segment("", 4, {}, probabilities)
    assert SegmentScore(0, 1, 1, 0).compute(nothing) == 0.0


def test_an_empty_reply_and_impossible_tokens_have_a_score() -> None:
    """No division by zero: their parts are 0."""
    assert SegmentScore().compute(segment("", 0, {}, {})) == 0.0
    impossible = dict.fromkeys(TOKENS, (-math.inf,))
    reply = Generation(
        "x", logprobs=(-1.0,), token_logprobs=impossible, token_positions={FULLY: (0,)}
    )
    assert SegmentScore().compute(reply) == pytest.approx(math.exp(-1.0))


def test_a_reader_without_log_probabilities_is_told_so() -> None:
    """A silent 0 would choose an arbitrary passage."""
    for reply in (
        Generation("x"),
        Generation("x", logprobs=(-1.0,)),
        Generation("x", token_logprobs={}),
    ):
        with pytest.raises(ReaderError, match="runtime=torch"):
            SegmentScore().compute(reply)


def test_the_probability_of_retrieval() -> None:
    """Against that of no retrieval, at the position asked for."""
    reply = segment(
        "",
        2,
        {},
        {(RETRIEVE, 0): 0.06, (NO_RETRIEVAL, 0): 0.14, (RETRIEVE, 1): 0.9, (NO_RETRIEVAL, 1): 0.1},
    )
    assert compute_retrieval_probability(reply) == pytest.approx(0.3)
    assert compute_retrieval_probability(reply, 1) == pytest.approx(0.9)
    assert compute_retrieval_probability(reply, 2) == 0.0


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (GOOD.text, "Paris"),
        (
            "[Relevant] It is [ref] Paris.[Continue to Use Evidence]Yes.[Utility:3]",
            "It is [ref] Paris. Yes.",
        ),
        ("[Retrieval]<paragraph>", ""),
        ("[Utility:6] stays", "[Utility:6] stays"),
    ],
)
def test_reflection_tokens_are_removed(text: str, clean: str) -> None:
    """Other brackets stay."""
    assert remove_reflection_tokens(text) == clean
