"""The history of an agent: what its prompts show, and what is left out of one that is too long."""

from collections.abc import Sequence
from typing import Any

from tests.plans import PROMPT, play
from winnow.records import Decoding, Passage
from winnow.requests import BUDGET, Failed, Generate, Generation, Message, Pages, Search, TooLong
from winnow.strategies.rounds.history import LEFT_OUT, NO_MORE, History

A, B, C = (Passage(name, "", f"text {name}") for name in "abc")


def _ask(history: History, results: Sequence[Any]) -> tuple[Generation | None, list[Any]]:
    """Request a reply whose prompt shows all observations."""
    served = iter(results)

    def build(passages: tuple[Passage, ...]) -> Generate:
        text = " ".join(observation.text for observation in history.observations)
        return Generate((Message("user", text),), Decoding(), passages=passages)

    return play(history.ask(build), lambda _: next(served))


def test_the_oldest_passages_are_left_out_until_the_prompt_fits() -> None:
    """Placed ones stay; a passage that the prompt still shows is not counted as lost."""
    history = History((A,))
    for passages in ((B,), (), (A, C)):
        history.observe(" ".join(passage.passage_id for passage in passages), passages)
    reply, requests = _ask(history, [TooLong("9"), TooLong("9"), Generation("x")])
    assert reply == Generation("x")
    assert [request.messages[0].content for request in requests] == [
        "b  a c", f"{LEFT_OUT}  a c", f"{LEFT_OUT}  {LEFT_OUT}",
    ]  # fmt: skip
    assert [request.passages for request in requests] == [(A, B, C), (A, C), (A,)]
    assert history.shown == (A,)
    answer = history.build_answer("", "reply", ["query: q"], "answer")
    assert (answer.text, answer.unknown, answer.used) == ("unknown", True, (A,))
    assert answer.trace == ("query: q", "left out: 2 passages")


def test_a_prompt_that_never_fits_is_none() -> None:
    """What was shown last stays what it was."""
    history = History((A,))
    history.observe("b", (B,))
    assert _ask(history, [Generation("x")])[0] is not None
    assert _ask(history, [TooLong("9"), TooLong("9")])[0] is None
    assert history.shown == (A, B)


def test_a_search_is_observed_whatever_it_gives() -> None:
    """Passages, why there are none, or that no further search is possible."""
    for result, text, passages in (
        (Pages((B,)), "<text b>", (B,)),
        (Pages(()), "No result (nothing found).", ()),
        (Failed("down"), "No result (search failed: down).", ()),
        (Failed(BUDGET), NO_MORE, ()),
    ):
        history = History(())
        observation, requests = play(
            history.search("q", 2, PROMPT), lambda _, result=result: result
        )
        assert requests == [Search("q", 2)]
        assert history.observations == [observation]
        assert (observation.text, observation.passages) == (text, passages)
