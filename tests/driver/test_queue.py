"""The queue of an engine: how many calls are taken, which ones, and when."""

from dataclasses import dataclass

import pytest

from winnow.driver.calls import Call, CallState, EngineQueue
from winnow.records import Decoding
from winnow.requests import Estimate, Generate, Likelihood, Message, Request
from winnow.testing import ScriptedReader


@dataclass
class PrefixReader(ScriptedReader):
    """A reader that keeps the keys and values of prompts."""

    reuses_prefixes: bool = True


def add(one: EngineQueue, request: Request) -> Call:
    call = Call(b"", request, one, [])
    one.add(call)
    return call


def ask(*contents: str) -> Generate:
    return Generate(tuple(Message("user", content) for content in contents), Decoding())


def build_queue(capacity: int, in_flight: int = 0) -> EngineQueue:
    """A queue with ten calls of the lengths 1 to 10, in mixed order."""
    one = EngineQueue(ScriptedReader(capacity=capacity), "x", in_flight=in_flight)
    for length in (2, 5, 1, 4, 3, 6, 9, 8, 7, 10):
        add(one, ask("x" * length))
    return one


def list_lengths(batch: list[Call]) -> list[int]:
    return [
        len(call.request.messages[0].content)
        for call in batch
        if isinstance(call.request, Generate)
    ]


@pytest.mark.parametrize(
    ("capacity", "in_flight", "taken"),
    [
        (3, 0, 3),
        (1, 0, 1),
        (8, 3, 5),
        (8, 6, 2),
        (8, 7, 0),
        (9, 7, 0),
        (9, 6, 3),
        (3, 3, 0),
        (0, 0, 0),
        (20, 0, 10),
    ],
)
def test_a_lane_fills_its_capacity_once_a_quarter_is_free(
    capacity: int, in_flight: int, taken: int
) -> None:
    """The longest calls go first, so that a batch holds calls of like length."""
    one = build_queue(capacity, in_flight)
    assert list_lengths(one.take()) == list(range(10, 10 - taken, -1))
    assert len(one.waiting) == 10 - taken


def test_an_empty_lane_takes_nothing() -> None:
    """Whether or not calls are in flight."""
    assert [EngineQueue(ScriptedReader(capacity=4), "x", in_flight=n).take() for n in (0, 1)] == [
        [],
        [],
    ]


def test_calls_answered_while_they_wait_leave_the_queue() -> None:
    """Another plan's unsolicited result may answer a queued call; the batch is full
    nevertheless.
    """
    one = EngineQueue(ScriptedReader(capacity=2), "x")
    calls = [add(one, ask("x" * length)) for length in range(5)]
    calls[4].state = calls[2].state = CallState.DONE
    assert one.take() == [calls[3], calls[1]]
    assert one.take() == [calls[0]]


def test_a_call_that_comes_back_is_queued_again() -> None:
    """After another process gave it up."""
    one = build_queue(10)
    batch = one.take()
    batch[0].state = CallState.ELSEWHERE
    one.add(batch[0])
    assert batch[0].state is CallState.QUEUED
    assert one.take() == batch[:1]


def test_equally_long_calls_keep_their_order() -> None:
    """Requests cannot be compared with each other."""
    one = EngineQueue(ScriptedReader(capacity=3), "x")
    calls = [add(one, ask(text)) for text in "bca"]
    assert one.take() == calls


def test_prompts_that_begin_alike_follow_each_other_where_prefixes_are_reused() -> None:
    """A later prompt of a question comes before the questions that were not begun, however long the
    prompts are.
    """
    one = EngineQueue(PrefixReader(capacity=2), "x")
    first, other, longer = (add(one, ask("system", text)) for text in ("a b", "c" * 50, "a b c d"))
    assert one.take() == [first, longer]
    later = add(one, ask("system", "a b e"))
    assert one.take() == [later, other]


def test_likelihoods_and_pairs_are_sorted_by_their_texts_too() -> None:
    """By prompt and continuation, and by the passage."""
    messages = (Message("user", "p"),)
    one = EngineQueue(PrefixReader(capacity=3), "x")
    calls = [add(one, Likelihood(messages, text)) for text in "ba"]
    assert one.take() == calls[::-1]
    other = EngineQueue(ScriptedReader(capacity=4), "x")
    calls = [add(other, Estimate("q", "x" * length)) for length in (1, 3)]
    calls += [add(other, Likelihood(messages, "x" * length)) for length in (1, 3)]
    assert other.take() == [calls[3], calls[1], calls[2], calls[0]]
