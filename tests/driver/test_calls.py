"""Calls in flight on several engines: roles, servers beside local models, refusals, failures,
timing.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.plans import PROMPT, run
from winnow.driver.calls import add_origin
from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.errors import CallRefusedError, ConfigError, ReaderError
from winnow.identity.code import get_ledger_identity
from winnow.keys import compute_request_key
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import build_engine_map
from winnow.records import Answer, Decoding
from winnow.requests import (
    Estimate,
    Failed,
    Generate,
    Generation,
    Message,
    Plan,
    Request,
    Result,
    Score,
    Search,
    TooLong,
    Usage,
)
from winnow.strategies.concatenation import Concatenation
from winnow.testing import ScriptedReader, ScriptedServer, make_context, make_question


def test_roles_have_engines_of_their_own_and_are_counted_apart(tmp_path: Path) -> None:
    """The same text goes to two models; the role is no part of the key, the engine's
    identity is.
    """

    def plan() -> Plan[Answer]:
        message = (Message("user", "a"),)
        read, rewritten = yield [
            Generate(message, Decoding()),
            Generate(message, Decoding(), role="rewriter"),
        ]
        return Answer(f"{read.text} {rewritten.text}", unknown=False)

    reader, rewriter = (
        ScriptedReader(str.upper, identity="one"),
        ScriptedReader(lambda t: t * 2, identity="two"),
    )
    engines = {**build_engine_map(reader), **build_engine_map(rewriter, "rewriter")}
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        driver = Driver(engines, ledger)
        (outcome,) = driver.run([Job(1, plan())])
        assert outcome.result.text == "A aa"
        assert [(part.role, part.calls) for part in outcome.usage] == [
            ("reader", 1),
            ("rewriter", 1),
        ]
        assert {source: usage.tokens_in for source, usage in driver.stats.usage.items()} == {
            ("reader", "one"): 1,
            ("rewriter", "two"): 1,
        }
        shared = Driver(
            build_engine_map(ScriptedReader(identity="one"), "reader", "rewriter"), ledger
        )
        (outcome,) = shared.run([Job(1, plan())])
        assert (outcome.result.text, shared.stats.executed) == ("A A", 0)


class Slow(ScriptedReader):
    """A server that answers after so many polls, and never makes its caller wait longer than it
    allows.
    """

    polls: int = 0
    waits: list[float]

    def collect(self, timeout: float = 0.0) -> Sequence[tuple[Request, Result]]:
        """Return nothing until it was polled often enough."""
        self.waits = [*getattr(self, "waits", []), timeout]
        self.polls += 1
        return super().collect(timeout) if self.polls > 8 or not self._pending else []


class Local(ScriptedReader):
    """An estimator that computes one pair per call."""

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return Estimate."""
        return (Estimate,)

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests."""
        self._pending += requests  # type: ignore[arg-type]

    def collect(self, timeout: float = 0.0) -> Sequence[tuple[Request, Result]]:
        """Score one pair."""
        due, self._pending = self._pending[:1], self._pending[1:]
        return [(one, Score(1.0)) for one in due]


def test_no_engine_waits_for_another(tmp_path: Path) -> None:
    """While an API's answer is out the estimator goes on: all its plans finish first, and the
    server is only polled.
    """

    def estimate(n: int) -> Plan[str]:
        yield [Estimate("q", f"text {n}")]
        return "estimated"

    def generate() -> Plan[str]:
        (reply,) = yield [Generate((Message("user", "a"),), Decoding())]
        return str(reply.text)

    slow = Slow(str.upper, identity="api")
    engines = {**build_engine_map(slow), **build_engine_map(Local(identity="local"))}
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        jobs: list[Job[str]] = [Job("api", generate()), *(Job(n, estimate(n)) for n in range(5))]
        order = [outcome.tag for outcome in Driver(engines, ledger).run(jobs)]
    assert order[-1] == "api"
    assert slow.waits[:5] == [0.0] * 5


class Refusing(ScriptedReader):
    """A search engine that fails for one query."""

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return Search."""
        return (Search,)

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests."""
        self._pending += requests  # type: ignore[arg-type]

    def collect(self, timeout: float = 0.0) -> Sequence[tuple[Request, Result]]:
        """Fail."""
        due, self._pending = self._pending, []
        return [(one, Failed("time-out")) for one in due]


def test_a_failed_search_is_a_result_and_is_recorded(tmp_path: Path) -> None:
    """The plan goes on, and a replay fails alike without a call."""

    def plan() -> Plan[str]:
        (pages,) = yield [Search("q", 1)]
        return pages.reason if isinstance(pages, Failed) else "found"

    for expected in (1, 0):
        with SqliteStore(tmp_path / "l.sqlite") as ledger:
            driver = Driver(build_engine_map(Refusing(identity="web")), ledger)
            (outcome,) = driver.run([Job(1, plan())])
        assert (outcome.result, driver.stats.executed) == ("time-out", expected)


class Censored(ScriptedReader):
    """Refuses every call."""

    def _generate(self, request: Generate) -> Generation:
        return Failed("content filter.")  # type: ignore[return-value]


def test_a_stored_refusal_reaches_only_plans_that_can_go_on(tmp_path: Path) -> None:
    """The ledger's failure of one strategy stops another that expects a reply, and says how to
    request it again.
    """

    def plan(*, may_fail: bool) -> Plan[str]:
        (reply,) = yield [Generate((Message("user", "a"),), Decoding(), may_fail=may_fail)]
        return reply.reason if isinstance(reply, Failed) else reply.text

    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        (outcome,) = Driver(build_engine_map(Censored()), ledger).run([Job(1, plan(may_fail=True))])
        assert outcome.result == "content filter."
        with pytest.raises(
            CallRefusedError, match=r"content filter\. `winnow ledger prune --failed`"
        ):
            list(Driver(build_engine_map(Censored()), ledger).run([Job(1, plan(may_fail=False))]))


@dataclass
class Remote(ScriptedServer):
    """A server whose replies arrive with the second poll after a request."""

    polls: int = 0

    def collect(self, timeout: float = 0.0) -> Sequence[tuple[Request, Result]]:
        """Return nothing at first."""
        self.polls += 1
        return super().collect(timeout) if self.polls > 1 else []


class Broken(ScriptedReader):
    """Fails when it is collected."""

    def collect(self, timeout: float = 0.0) -> Sequence[tuple[Request, Result]]:
        """Raise."""
        raise ReaderError("the quota is exhausted")


def test_replies_on_their_way_from_one_server_survive_the_failure_of_another(
    tmp_path: Path,
) -> None:
    """The judge's paid reply is stored before the reader's error ends the run."""
    judge = Remote(lambda _: "yes", identity="judge")
    engines = build_engine_map(Broken(), "reader") | build_engine_map(judge, "judge")

    def plan() -> Plan[Answer]:
        yield [
            Generate((Message("user", role),), Decoding(), role=role)
            for role in ("reader", "judge")
        ]
        return Answer("", True)

    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        with pytest.raises(ReaderError, match="the quota is exhausted"):
            list(Driver(engines, ledger).run([Job(1, plan())]))
        key = compute_request_key(
            get_ledger_identity(judge), Generate((Message("user", "judge"),), Decoding())
        )
        assert isinstance(ledger.get([key])[key], Generation)


@dataclass
class Loading(ScriptedReader):
    """Takes a while to accept requests, and longer to answer them, as a local model that loads
    first.
    """

    seconds: float = 0.2

    def submit(self, requests: Sequence[Request]) -> None:
        """Load."""
        time.sleep(0.3)
        super().submit(requests)

    def collect(self, timeout: float = 0.0) -> Sequence[tuple[Request, Result]]:
        """Compute."""
        if self._pending:
            time.sleep(self.seconds)
        return super().collect(timeout)


def test_a_local_call_takes_its_own_computation_alone(tmp_path: Path) -> None:
    """Neither loading nor another engine's computation is in its seconds."""
    engines = build_engine_map(Loading(identity="a", seconds=0.4), "reader") | build_engine_map(
        Loading(identity="b", seconds=0.1), "judge"
    )

    def plan() -> Plan[Answer]:
        yield [
            Generate((Message("user", role),), Decoding(), role=role)
            for role in ("reader", "judge")
        ]
        return Answer("", True)

    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        (outcome,) = Driver(engines, ledger).run([Job(1, plan())])
    seconds = {usage.role: usage.seconds for usage in outcome.usage}
    assert 0.4 <= seconds["reader"] < 0.65
    assert 0.1 <= seconds["judge"] < 0.35


def test_a_shortened_request_keeps_its_role_and_sample() -> None:
    """All that is not the prompt stays."""
    short = Generate((Message("user", "s"),), Decoding())
    one = Generate(
        (Message("user", "l"),),
        Decoding(),
        3,
        "judge",
        ("true",),
        may_fail=True,
        shorter=lambda: short,
    )
    less = one.drop_passage()
    assert less is not None
    assert (less.messages, less.sample, less.role, less.token_logprobs, less.may_fail) == (
        short.messages, 3, "judge", ("true",), True,
    )  # fmt: skip
    assert short.drop_passage() is None


def test_a_request_that_its_engine_refuses_stops_the_run_before_it_is_sent(tmp_path: Path) -> None:
    """Log-probabilities of named tokens, from an engine without them."""

    def plan() -> Plan[Answer]:
        yield [Generate((Message("user", "a"),), Decoding(), token_logprobs=("true",))]
        return Answer("", True)

    reader = ScriptedReader()
    with pytest.raises(ConfigError, match="scripted cannot serve cell/q1: no log-probabilities"):
        run(tmp_path, [Job("cell/q1", plan())], reader)
    assert reader.prompts == []


def test_a_plan_learns_which_passages_its_prompt_showed(tmp_path: Path) -> None:
    """Where some were dropped, the answer's `used` are those of the prompt that was sent."""
    contexts = [make_context(n, f"{n}" * 40) for n in (1, 2, 3)]
    job = Job(1, Concatenation(PROMPT, Decoding()).plan(make_question(), contexts))
    outcomes, _ = run(tmp_path, [job], ScriptedReader(lambda _: "x", context_length=110))
    assert [p.passage_id for p in outcomes[1].result.used] == ["p1", "p2"]
    assert outcomes[1].result.reply == "x"


def test_a_score_of_a_language_model_has_its_share_of_the_time() -> None:
    """One of an estimator has no usage, so that nothing but what computed it is added."""
    timed = add_origin(Score(-1.5, Usage(7, 0)), 2.0, "torch 2")
    assert isinstance(timed, Score)
    assert (timed.value, timed.usage, timed.usage.seconds, timed.model) == (
        -1.5,
        Usage(7, 0),
        2.0,
        "torch 2",
    )
    assert add_origin(Score(0.5), 2.0, "torch 2") == Score(0.5, model="torch 2")
    assert add_origin(Score(0.5, model="served"), 2.0, "torch 2") == Score(0.5, model="served")


def test_a_reply_with_its_time_keeps_every_other_field() -> None:
    """Each field has a value of its own, so that none can be mixed up or left out."""
    values: dict[str, object] = {name: object() for name in Generation.__struct_fields__} | {
        "usage": Usage(1, 2)
    }
    timed = add_origin(Generation(**values), 3.0, "torch 2")  # type: ignore[arg-type]
    assert isinstance(timed, Generation)
    for name, value in values.items():
        assert getattr(timed, name) is value or name == "usage"
    assert (timed.usage.tokens_in, timed.usage.tokens_out, timed.usage.seconds) == (1, 2, 3.0)
    assert add_origin(TooLong("long"), 3.0, "") == TooLong("long")
