"""FLARE: a sentence with an improbable token is searched for and written again."""

import math
from collections.abc import Iterator

import pytest

from tests.plans import PROMPT, play
from winnow.errors import ConfigError, ReaderError
from winnow.records import Decoding, Passage
from winnow.requests import Failed, Generate, Generation, Pages, Search, TooLong
from winnow.strategies.rounds.flare import Flare
from winnow.testing import make_context, make_question

QUESTION = make_question("Which river flows through the city of X?")
PLACED = [make_context(1, "placed")]
TEMPLATE = "{contexts} Q {question} A {thoughts}"


def _write(*tokens: tuple[str, float]) -> Generation:
    """A reply of tokens with their probabilities."""
    text = "".join(token for token, _ in tokens)
    return Generation(
        text.strip(),
        logprobs=tuple(math.log(p) for _, p in tokens),
        tokens=tuple(token for token, _ in tokens),
    )


def _serve(replies: Iterator[object], found: object = None) -> object:
    def serve(request: object) -> object:
        if isinstance(request, Search):
            return found or Pages((Passage("f", "", f"text of {request.query}"),))
        return next(replies)

    return serve


def test_an_improbable_token_is_left_out_of_the_query_and_the_sentence_is_written_again() -> None:
    """With what was found, for that sentence alone; a sure sentence is not searched for."""
    replies = iter(
        [
            _write(
                ("X", 0.9),
                (" was", 0.9),
                (" born", 0.9),
                (" in", 0.9),
                (" Bonn", 0.2),
                (".", 0.9),
                (" The", 0.01),
            ),
            _write(("X was born in Vienna.", 0.1)),
            _write(("So", 0.9), (" the answer is: the Danube.", 0.9)),
        ]
    )
    answer, requests = play(
        Flare(PROMPT, Decoding(), TEMPLATE, n=2).plan(QUESTION, PLACED), _serve(replies)
    )  # type: ignore[arg-type]
    assert [type(one) for one in requests] == [Generate, Search, Generate, Generate]
    assert requests[1] == Search("X was born in.", 2)
    prompts = [one.messages[0].content for one in requests if isinstance(one, Generate)]
    asked = f"Q {QUESTION.text} A"
    assert prompts == [
        f"<placed> {asked}", f"<text of X was born in.> {asked}",
        f"<placed> {asked} X was born in Vienna.",
    ]  # fmt: skip
    decoding = requests[0].decoding  # type: ignore[union-attr]
    assert (decoding.max_new_tokens, decoding.logprobs, decoding.top_logprobs, decoding.stop) == (
        64,
        True,
        1,
        ("\n",),
    )
    assert (answer.text, answer.stop, answer.reply) == (
        "the Danube", "answer", "X was born in Vienna. So the answer is: the Danube.",
    )  # fmt: skip
    assert answer.trace == ("query: X was born in.",)
    assert [passage.text for passage in answer.used] == ["placed"]


@pytest.mark.parametrize("found", [Pages(()), Failed("down")])
def test_a_search_without_a_passage_leaves_the_sentence(found: object) -> None:
    """As does a sentence of which no token is probable."""
    replies = iter(
        [_write(("A", 0.9), (" b.", 0.1)), _write(("C.", 0.1)), _write(("Answer is d", 0.9))]
    )
    answer, requests = play(
        Flare(PROMPT, Decoding(), TEMPLATE).plan(QUESTION, ()), _serve(replies, found)
    )  # type: ignore[arg-type]
    assert [type(one) for one in requests] == [Generate, Search, Generate, Generate]
    assert (answer.reply, answer.text) == ("A b. C. Answer is d", "d")


@pytest.mark.parametrize(
    ("replies", "stop", "text"),
    [
        ([_write(("One.", 0.9)), _write(("Two.", 0.9))], "max rounds", "One. Two."),
        ([_write(("One.", 0.9)), Generation("")], "empty reply", "One."),
        ([TooLong("9")], "prompt too long", "unknown"),
        ([_write(("A", 0.9), (" b.", 0.1)), TooLong("9")], "prompt too long", "unknown"),
    ],
)
def test_the_chain_is_bounded(replies: list[object], stop: str, text: str) -> None:
    """By sentences, an empty one, and the context length; the last line is the answer then."""
    agent = Flare(PROMPT, Decoding(), TEMPLATE, max_sentences=2)
    answer, _ = play(agent.plan(QUESTION, ()), _serve(iter(replies)))  # type: ignore[arg-type]
    assert (answer.stop, answer.text) == (stop, text)
    long = iter([_write(*[("a", 0.9)] * 9)])
    answer, _ = play(
        Flare(PROMPT, Decoding(), TEMPLATE, max_new_tokens=9).plan(QUESTION, ()), _serve(long)
    )  # type: ignore[arg-type]
    assert answer.stop == "max rounds"


def test_tokens_of_reasoning_are_not_those_of_the_sentence() -> None:
    """Nor those behind its end, nor spaces before it."""
    replies = iter(
        [
            _write(
                ("<think>", 0.1),
                ("A b.", 0.1),
                ("</think>", 0.1),
                ("\n", 0.1),
                ("A", 0.9),
                (" bb.", 0.9),
                (" C", 0.1),
            ),
            _write(("So the answer is x", 0.9)),
        ]
    )
    _, requests = play(Flare(PROMPT, Decoding(), TEMPLATE).plan(QUESTION, ()), _serve(replies))  # type: ignore[arg-type]
    assert not any(isinstance(one, Search) for one in requests)


def test_settings_without_a_meaning_are_refused() -> None:
    """With what was received."""
    with pytest.raises(
        ConfigError, match=r"threshold must be at least 0 and below 1; received 1\.0"
    ):
        Flare(PROMPT, Decoding(), TEMPLATE, threshold=1.0)
    with pytest.raises(ConfigError, match=r"decoding\.samples=2"):
        Flare(PROMPT, Decoding(temperature=1.0, samples=2), TEMPLATE)
    with pytest.raises(ConfigError, match="thoughts"):
        Flare(PROMPT, Decoding(), "{contexts} {question}")


def test_a_repeated_sentence_has_the_tokens_of_its_first_occurrence() -> None:
    """Small models repeat themselves, and are sure of it."""
    first = [("He was", 0.9), (" born in Bonn.", 0.01)]
    replies = iter(
        [
            _write(*first, (" He was", 0.9), (" born in Bonn.", 0.99)),
            _write(("So the answer is x", 0.9)),
        ]
    )
    _, requests = play(
        Flare(PROMPT, Decoding(), TEMPLATE).plan(QUESTION, ()), _serve(replies, Pages(()))
    )  # type: ignore[arg-type]
    assert [one.query for one in requests if isinstance(one, Search)] == ["He was"]


def test_texts_and_tokens_that_disagree_count_all_tokens() -> None:
    """As with bytes in place of a character: the sentence is searched for rather than never."""
    odd = Generation("Dvo\u0159ak was born.", logprobs=(-0.1, -5.0), tokens=("Dvo", "bytes:\\xc5"))
    replies = iter([odd, _write(("So the answer is x", 0.9))])
    _, requests = play(
        Flare(PROMPT, Decoding(), TEMPLATE).plan(QUESTION, ()), _serve(replies, Pages(()))
    )  # type: ignore[arg-type]
    assert [one.query for one in requests if isinstance(one, Search)] == ["Dvo"]


@pytest.mark.parametrize("reply", [Generation("It is."), Generation("It is.", logprobs=(-0.1,))])
def test_a_reader_without_probabilities_is_refused(reply: Generation) -> None:
    """It would be a chain of thought without a search."""
    with pytest.raises(ReaderError, match="strategy=flare reads the log-probabilities"):
        play(Flare(PROMPT, Decoding(), TEMPLATE).plan(QUESTION, ()), _serve(iter([reply])))  # type: ignore[arg-type]
