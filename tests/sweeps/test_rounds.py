"""Rounds of plans that something else looks at."""

from collections.abc import Sequence
from typing import Any

from tests.plans import ask, play
from winnow.requests import Generation, Plan, Request
from winnow.sweeps.rounds import intercept_rounds


def test_a_function_may_withhold_requests_and_change_results() -> None:
    """The plan receives what the function returns, round by round, and its value is returned."""
    rounds: list[list[str]] = []

    def serve(requests: Sequence[Request]) -> Plan[Sequence[Any]]:
        rounds.append([request.messages[0].content for request in requests])  # type: ignore[union-attr]
        (reply,) = yield requests[:1]
        return [Generation(f"{reply.text}!") for _ in requests]

    answer, served = play(
        intercept_rounds(ask(["a", "b"], ["c"]), serve),
        lambda request: Generation(request.messages[0].content),
    )
    assert rounds == [["a", "b"], ["c"]]
    assert [request.messages[0].content for request in served] == ["a", "c"]
    assert answer.text == "c!"


def test_a_round_that_nothing_serves_is_answered_at_once() -> None:
    """And a plan without a request returns at once."""

    def serve(requests: Sequence[Request]) -> Plan[Sequence[Any]]:
        yield from ()
        return [Generation("x") for _ in requests]

    assert play(intercept_rounds(ask(["a"]), serve), lambda _: None)[0].text == "x"
    assert play(intercept_rounds(ask(), serve), lambda _: None)[0].text == ""
