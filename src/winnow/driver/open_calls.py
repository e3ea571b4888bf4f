"""Calls that are not finished yet, by their keys and by their requests."""

from dataclasses import dataclass, field

from winnow.driver.calls import Call, EngineQueue
from winnow.keys import compute_request_key
from winnow.requests import Request


@dataclass
class OpenCalls:
    """The calls that are queued, submitted or made by another process.

    They are also filed by their queues and the `id` of their requests, so that the key of a
    finished call is not computed again. One request may be in the queues of several engines.
    """

    by_key: dict[bytes, Call] = field(default_factory=dict)
    _by_request: dict[tuple[EngineQueue, int], Call] = field(default_factory=dict)

    def add(self, call: Call) -> None:
        """Add a new call."""
        self.by_key[call.key] = self._by_request[call.queue, id(call.request)] = call

    def find_key(self, queue: EngineQueue, request: Request) -> bytes:
        """Return a finished request's key; compute it for earlier runs' requests from a server."""
        call = self._by_request.get((queue, id(request)))
        return (
            call.key
            if call is not None and call.request is request
            else compute_request_key(queue.identity, request)
        )

    def close(self, key: bytes) -> Call | None:
        """Remove a call and return it, or None if it is not open."""
        call = self.by_key.pop(key, None)
        if call is not None:
            del self._by_request[call.queue, id(call.request)]
        return call
