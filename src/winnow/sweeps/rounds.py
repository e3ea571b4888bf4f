"""Plans whose rounds something else looks at or changes, between the plan and what serves it."""

from collections.abc import Callable, Sequence
from typing import Any

from winnow.records import T
from winnow.requests import Plan, Request

ServeRound = Callable[[Sequence[Request]], Plan[Sequence[Any]]]
"""Function that receives the requests of a round, requests what it will of them, and returns a
result for each.
"""


def intercept_rounds(plan: Plan[T], serve: ServeRound) -> Plan[T]:
    """Run a plan whose rounds are served by a function, and return what the plan returns."""
    results: Sequence[Any] | None = None
    while True:
        try:
            requests = next(plan) if results is None else plan.send(results)
        except StopIteration as stop:
            value: T = stop.value
            return value
        results = yield from serve(requests)
