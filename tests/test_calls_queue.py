"""The queue of an engine: how many calls are taken, which ones, and when."""

import pytest

from winnow.calls import Call, CallState, EngineQueue
from winnow.records import Search
from winnow.testing import ScriptedReader


def build_queue(capacity: int, in_flight: int = 0) -> EngineQueue:
    """A queue with ten calls of the lengths 1 to 10, in mixed order."""
    one = EngineQueue(ScriptedReader(capacity=capacity), "x", in_flight=in_flight)
    for length in (2, 5, 1, 4, 3, 6, 9, 8, 7, 10):
        one.add(Call(bytes([length]), Search("q", length), length, one, []))
    return one


@pytest.mark.parametrize(
    ("capacity", "in_flight", "taken"),
    [(3, 0, 3), (1, 0, 1), (8, 3, 5), (8, 6, 2), (8, 7, 0), (9, 7, 0), (9, 6, 3), (3, 3, 0), (0, 0, 0), (20, 0, 10)],
)
def test_a_lane_fills_its_capacity_once_a_quarter_is_free(capacity: int, in_flight: int, taken: int) -> None:
    """The longest calls go first, so that a batch holds calls of like length."""
    one = build_queue(capacity, in_flight)
    assert [call.length for call in one.take()] == list(range(11 - taken, 11))
    assert len(one.queue) == 10 - taken


def test_an_empty_lane_takes_nothing() -> None:
    """Whether or not calls are in flight."""
    assert [EngineQueue(ScriptedReader(capacity=4), "x", in_flight=n).take() for n in (0, 1)] == [[], []]


def test_calls_answered_while_they_wait_leave_the_queue() -> None:
    """Another plan's unsolicited result may answer a queued call, before the queue is sorted or after."""
    one = build_queue(2)
    one.queue[9].state = CallState.DONE
    assert [call.length for call in one.take()] == [8, 9]
    assert not one.unsorted
    one.queue[-1].state = CallState.DONE
    assert [call.length for call in one.take()] == [6]


def test_a_call_that_comes_back_is_queued_again() -> None:
    """After another process gave it up; the queue is sorted again."""
    one = build_queue(10)
    batch = one.take()
    batch[0].state = CallState.ELSEWHERE
    one.add(batch[0])
    assert (batch[0].state, one.unsorted) == (CallState.QUEUED, True)
