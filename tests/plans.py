"""Plans of given texts and runs of plans, shared by the tests of driver, calls and strategies."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import build_engine_map
from winnow.records import Answer, Decoding, Passage, T
from winnow.requests import Generate, Message, Pages, Plan, Request, Search
from winnow.steps import Outcome
from winnow.strategies.prompt import Prompt
from winnow.testing import ScriptedReader

PROMPT = Prompt(
    "{contexts} Q {question}", "Q {question}", "{contexts} C {candidates} Q {question}", "<{text}>"
)


def ask(*rounds: Sequence[str], role: str = "reader") -> Plan[Answer]:
    """A plan that requests given texts, round by round, and answers with the last reply."""
    last = ""
    for texts in rounds:
        replies = yield [
            Generate((Message("user", text),), Decoding(), role=role) for text in texts
        ]
        last = replies[-1].text if replies else last
    return Answer(last, unknown=False)


def run(
    path: Path,
    jobs: Sequence[Job[Answer]],
    reader: ScriptedReader,
    window: int = 2048,
    roles: Sequence[str] = ("reader",),
) -> tuple[dict[object, Outcome[Answer]], Driver]:
    """All outcomes by tag."""
    with SqliteStore(path / "l.sqlite") as ledger:
        driver = Driver(build_engine_map(reader, *roles), ledger, max_active=window)
        return {outcome.tag: outcome for outcome in driver.run(jobs)}, driver


def play(plan: Plan[T], serve: Callable[[Any], Any]) -> tuple[T, list[Request]]:
    """Run a plan with the results that a function gives for its requests, and return its value and
    the requests.
    """
    served: list[Request] = []
    try:
        requests = next(plan)
        while True:
            served += requests
            requests = plan.send([serve(request) for request in requests])
    except StopIteration as stop:
        return stop.value, served


def serve_replies(replies: Iterator[object], found: object = None) -> Callable[[Any], Any]:
    """A function for `play` that gives replies one after the other, and to a search `found`, or a
    page named as its query.
    """

    def serve(request: object) -> object:
        if isinstance(request, Search):
            return found or Pages((Passage(request.query, "", f"text of {request.query}"),))
        return next(replies)

    return serve
