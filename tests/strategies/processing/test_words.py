"""Selection of words by their information."""

from typing import Any

import pytest

from tests.plans import play
from winnow.errors import ConfigError, ReaderError
from winnow.records import Context, Passage
from winnow.requests import Likelihood, Score
from winnow.strategies.processing.words import WordSelection
from winnow.testing import make_context, make_question

QUESTION = make_question("Which city?", ["Paris"])
TOKENS = ("Par", "is", " is", " a", " large", " ci", "ty", ".")
TEXT = "Paris is a large city."
PLAIN = (-4.0, -1.0, -0.5, -0.1, -3.0, -1.0, -0.2, -0.1)
GIVEN = (-0.5, -0.5, -0.5, -0.1, -4.0, -0.2, -0.2, -0.1)


def _process(
    tokens: tuple[str, ...] = TOKENS, text: str = TEXT, **settings: Any
) -> tuple[tuple[Context, ...], list[Any]]:
    contexts = (make_context(1, text), make_context(2, " "))

    def serve(request: Likelihood) -> Score:
        logprobs = GIVEN if "Which" in request.messages[0].content else PLAIN
        return Score(sum(logprobs), tokens=tokens, logprobs=logprobs)

    return play(WordSelection("Write.", **settings).process(QUESTION, contexts), serve)


def test_the_least_expected_words_are_kept_in_their_order() -> None:
    """By the sum over their tokens; contexts without a text are left out."""
    contexts, requests = _process(rate=0.4)
    assert [context.passage.text for context in contexts] == ["Paris large"]
    assert contexts[0].passage.sources == (contexts[0].passage.passage_id,)
    (request,) = requests
    assert (request.messages[0].content, request.continuation, request.role) == (
        "Write.",
        TEXT,
        "rewriter",
    )
    assert request.per_token
    assert not request.include_eos


@pytest.mark.parametrize(
    ("rate", "text"), [(0.01, "Paris"), (0.6, "Paris large city."), (1.0, TEXT)]
)
def test_the_number_of_words_is_rounded_up(rate: float, text: str) -> None:
    """So that one is left at least."""
    assert _process(rate=rate)[0][0].passage.text == text


def test_words_that_the_question_makes_likely_are_kept() -> None:
    """By the difference of two likelihoods: Paris gains 4, city 0.8, large loses 1."""
    contexts, requests = _process(rate=0.4, conditional="Answer {question}")
    assert contexts[0].passage.text == "Paris city."
    assert [request.messages[0].content for request in requests] == [
        "Write.",
        "Answer Which city?",
    ]
    assert contexts[0].has_answer


def test_tokens_belong_to_the_word_of_their_first_letter() -> None:
    """Whether or not the first token begins with a space; tokens that do not spell the text are
    placed by their share.
    """
    spaced = (" Par", *TOKENS[1:])
    assert _process(spaced, rate=0.2)[0][0].passage.text == "Paris"
    assert _process(spaced, rate=0.4)[0][0].passage.text == "Paris large"
    parts = ("\ufffd", "\ufffd", "aris", " is", " a", " large", " ci", "ty.")
    assert _process(parts, "Éaris is a large city.", rate=0.2)[0][0].passage.text == "Éaris"


def test_a_long_passage_is_read_in_pieces() -> None:
    """Its words compete over all pieces."""
    text = " ".join(f"w{n}" for n in range(700))
    served: list[int] = []

    def serve(request: Likelihood) -> Score:
        words = request.continuation.split()
        served.append(len(words))
        tokens = tuple(word if n == 0 else f" {word}" for n, word in enumerate(words))
        return Score(0.0, tokens=tokens, logprobs=tuple(-float(word[1:]) for word in words))

    (context,), _ = play(
        WordSelection("Write.", rate=0.01).process(QUESTION, (make_context(1, text),)), serve
    )
    assert served == [300, 300, 100]
    assert context.passage.text == " ".join(f"w{n}" for n in range(693, 700))


def test_scores_without_tokens_are_an_error() -> None:
    """With the setting that helps."""
    plan = WordSelection("Write.").process(
        QUESTION, (Context(Passage("a", "", "x"), 1, None, has_answer=False),)
    )
    with pytest.raises(ReaderError, match=r"reader\.engine\.runtime=torch"):
        play(plan, lambda _: Score(-1.0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"rate": 0.0}, "rate"), ({"rate": 1.1}, "rate"), ({"conditional": "x"}, "question")],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    """By their names."""
    with pytest.raises(ConfigError, match=message):
        WordSelection("Write.", **settings)
