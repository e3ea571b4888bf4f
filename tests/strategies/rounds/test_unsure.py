"""Passages only where the reader is unsure."""

import math

import pytest

from tests.plans import PROMPT, play
from winnow.errors import ConfigError, ReaderError
from winnow.records import Decoding
from winnow.requests import Generate, Generation
from winnow.strategies.rounds.unsure import Unsure
from winnow.testing import make_context, make_question

QUESTION = make_question("Who wrote Emma?")
PLACED = [make_context(1, "placed")]


@pytest.mark.parametrize(
    ("reply", "probabilities", "calls"),
    [
        ("Austen", (0.9, 0.5), 1),
        ("Austen", (0.9, 0.4), 2),
        ("unknown", (0.9, 0.9), 2),
        ("Austen", (), 2),
    ],
)
def test_an_unknown_or_unsure_answer_is_asked_for_again(
    reply: str, probabilities: tuple[float, ...], calls: int
) -> None:
    """By its least probable token; without probabilities, nothing is sure."""
    first = Generation(reply, logprobs=tuple(map(math.log, probabilities)))
    replies = iter([first, Generation("Jane Austen")])
    answer, requests = play(
        Unsure(PROMPT, Decoding()).plan(QUESTION, PLACED), lambda _: next(replies)
    )
    prompts = [one for one in requests if isinstance(one, Generate)]
    assert len(prompts) == calls
    assert (prompts[0].passages, prompts[0].decoding.logprobs) == ((), True)
    assert answer.text == ("Austen" if calls == 1 else "Jane Austen")
    if calls == 2:
        assert [passage.text for passage in prompts[1].passages] == ["placed"]
        assert answer.trace[1] == f"without passages: {reply}"
        assert not prompts[1].decoding.logprobs


def test_a_reader_without_probabilities_is_refused() -> None:
    """It would be asked again for every question, without a word."""
    with pytest.raises(ReaderError, match="reports no log-probabilities"):
        play(Unsure(PROMPT, Decoding()).plan(QUESTION, PLACED), lambda _: Generation("Austen"))


def test_probabilities_of_reasoning_are_refused() -> None:
    """They are of what the answer is not."""
    reply = Generation("Austen", logprobs=(-0.01, -2.0), reasoning="It may be Bronte.")
    with pytest.raises(ReaderError, match="reasons before its reply"):
        play(Unsure(PROMPT, Decoding()).plan(QUESTION, PLACED), lambda _: reply)


def test_settings_without_a_meaning_are_refused() -> None:
    """With what was received."""
    with pytest.raises(
        ConfigError, match=r"threshold must be at least 0 and at most 1; received 1\.5"
    ):
        Unsure(PROMPT, Decoding(), 1.5)
    with pytest.raises(ConfigError, match=r"decoding\.samples=2"):
        Unsure(PROMPT, Decoding(temperature=1.0, samples=2))
