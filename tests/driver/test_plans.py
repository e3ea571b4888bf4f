"""Plans that wait for results, and their outcomes."""

import pytest
from msgspec import structs

from winnow.driver.jobs import Job
from winnow.driver.plans import ActivePlans
from winnow.driver.stats import RunStats
from winnow.errors import PromptTooLongError
from winnow.records import Answer, Decoding
from winnow.requests import Generate, Generation, Message, Plan, TooLong, Usage


def request(text: str) -> Generate:
    return Generate((Message("user", text),), Decoding())


def plan(*rounds: str) -> Plan[Answer]:
    """A round for each word, with a request for each of its letters."""
    replies = []
    for word in rounds:
        replies += yield [request(letter) for letter in word]
    return Answer(",".join(one.text for one in replies), unknown=False)


def deliver_all(plans: ActivePlans) -> None:
    """Answer the open requests with their prompts in capitals, the last one first."""
    for waiter in reversed(plans.take_waiters()):
        assert isinstance(waiter.request, Generate)
        text = waiter.request.messages[0].content.upper()
        plans.deliver(waiter, Generation(text, usage=Usage(2, 1)))


def test_a_plan_goes_on_when_all_results_of_a_round_are_there() -> None:
    """In the order of its requests; a round without requests needs no result."""
    stats = RunStats()
    plans = ActivePlans(stats)
    plans.start(Job("tag", plan("ab", "", "c")))
    assert plans.take_outcome() is None
    deliver_all(plans)
    assert [waiter.slot for waiter in plans.waiters] == [0]
    deliver_all(plans)
    assert plans.count == 1
    outcome = plans.take_outcome()
    assert outcome is not None
    assert (outcome.tag, outcome.result.text) == ("tag", "A,B,C")
    assert [(used.role, used.calls, used.tokens_in) for used in outcome.usage] == [("reader", 3, 6)]
    assert (plans.count, stats.requests, stats.plans) == (0, 3, 1)
    assert plans.take_outcome() is None


def test_a_prompt_that_is_too_long_loses_a_passage() -> None:
    """The plan sees how many; without a passage to drop, it is told if it asked, or the run
    ends.
    """
    plans = ActivePlans(RunStats())
    long = structs.replace(request("long"), shorter=lambda: request("short"))

    def ask(one: Generate) -> Plan[Answer]:
        (reply,) = yield [one]
        return Answer(repr(reply), unknown=isinstance(reply, TooLong))

    plans.start(Job(0, ask(long)))
    (waiter,) = plans.take_waiters()
    plans.drop_passage(waiter, "9 tokens")
    deliver_all(plans)
    outcome = plans.take_outcome()
    assert outcome is not None
    assert outcome.dropped == 1
    assert "SHORT" in outcome.result.text
    plans.start(Job(1, ask(structs.replace(request("long"), may_be_too_long=True))))
    (waiter,) = plans.take_waiters()
    plans.drop_passage(waiter, "9 tokens")
    told = plans.take_outcome()
    assert told is not None
    assert told.result.unknown
    plans.start(Job(2, ask(request("long"))))
    (waiter,) = plans.take_waiters()
    with pytest.raises(PromptTooLongError, match="9 tokens"):
        plans.drop_passage(waiter, "9 tokens")
