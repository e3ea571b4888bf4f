"""Calls that are not finished yet."""

from winnow.driver.calls import Call, EngineQueue
from winnow.driver.open_calls import OpenCalls
from winnow.keys import compute_request_key
from winnow.records import Decoding
from winnow.requests import Generate, Message
from winnow.testing import ScriptedReader


def test_a_call_is_found_by_its_request_until_it_is_closed() -> None:
    """The key is that of the call for its own request, and computed for an equal one of an earlier
    run; a call is closed once.
    """
    queue = EngineQueue(ScriptedReader(), "scripted")
    first, equal = (Generate((Message("user", "a"),), Decoding()) for _ in range(2))
    calls = OpenCalls()
    call = Call(b"key", first, queue, [])
    calls.add(call)
    assert calls.by_key == {b"key": call}
    assert calls.find_key(queue, first) == b"key"
    assert calls.find_key(queue, equal) == compute_request_key(queue.identity, equal)
    assert calls.close(b"key") is call
    assert calls.close(b"key") is None
    assert calls.find_key(queue, first) == compute_request_key(queue.identity, first)


def test_one_request_in_the_queues_of_two_engines_is_two_calls() -> None:
    """A strategy may keep its requests, of which cells with other models ask the same ones."""
    queues = [EngineQueue(ScriptedReader(), name) for name in ("one", "two")]
    request = Generate((Message("user", "a"),), Decoding())
    calls = OpenCalls()
    for queue in queues:
        calls.add(Call(queue.identity.encode(), request, queue, []))
    assert [calls.find_key(queue, request) for queue in queues] == [b"one", b"two"]
    calls.close(b"one")
    assert calls.find_key(queues[1], request) == b"two"
