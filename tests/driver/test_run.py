"""The driver: each distinct call once, in every order of events."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.plans import PROMPT, ask, run
from winnow.driver.jobs import Job
from winnow.driver.open_calls import OpenCalls
from winnow.driver.run import Driver
from winnow.driver.stats import RunStats
from winnow.errors import ConfigError, LedgerError, PromptTooLongError
from winnow.identity.code import get_ledger_identity
from winnow.keys import compute_request_key
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import build_engine_map
from winnow.records import Answer, Decoding
from winnow.requests import (
    Estimate,
    Generate,
    Generation,
    Message,
    Plan,
    Request,
    Result,
    TooLong,
)
from winnow.strategies.concat_pf import ConcatPF
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.post_fusion import PostFusion
from winnow.strategies.prompt import build_request
from winnow.sweeps.replay import replay_plan
from winnow.testing import ScriptedReader, ScriptedServer, make_context, make_question


def test_equal_requests_are_made_once(tmp_path: Path) -> None:
    """Ten plans that ask the same two texts cost two calls; each still counts its own."""
    reader = ScriptedReader(str.upper)
    outcomes, driver = run(tmp_path, [Job(n, ask(["a", "b"])) for n in range(10)], reader)
    assert sorted(reader.prompts) == ["a", "b"]
    assert {outcome.result.text for outcome in outcomes.values()} == {"B"}
    assert {outcome.usage[0].calls for outcome in outcomes.values()} == {2}
    assert (
        driver.stats.requests,
        driver.stats.executed,
        driver.stats.merged,
        driver.stats.shared,
    ) == (20, 2, 18, 0.9)


def test_a_run_adds_to_the_counts_of_others(tmp_path: Path) -> None:
    """Which a sweep of several sets of models passes on."""
    stats = RunStats(plans=2, requests=5, executed=5)
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        driver = Driver(build_engine_map(ScriptedReader()), ledger, stats=stats)
        assert len(list(driver.run([Job(1, ask(["a"])), Job(2, ask(["a"]))]))) == 2
    assert (stats.plans, stats.requests, stats.executed, stats.merged) == (4, 7, 6, 1)


def test_a_second_run_asks_nothing(tmp_path: Path) -> None:
    """Everything comes from the ledger, and counts alike."""
    first, _ = run(tmp_path, [Job(1, ask(["a"], ["b"]))], ScriptedReader(str.upper))
    reader = ScriptedReader(lambda _: "must not be asked")
    second, driver = run(tmp_path, [Job(1, ask(["a"], ["b"]))], reader)
    assert first == second
    assert reader.prompts == []
    assert driver.stats.ledger_hits == 2


def test_post_fusion_calls_are_shared_between_strategies(tmp_path: Path) -> None:
    """PF at k = 2 and 3 and Concat+PF need three passage calls and two concatenations together."""
    contexts = [make_context(n, f"t{n}") for n in (1, 2, 3)]
    pf, both = PostFusion(PROMPT, Decoding()), ConcatPF(PROMPT, Decoding())
    jobs = [Job(f"pf{k}", pf.plan(make_question(), contexts[:k])) for k in (2, 3)]
    jobs += [Job(f"both{k}", both.plan(make_question(), contexts[:k])) for k in (2, 3)]
    reader = ScriptedReader()
    outcomes, _ = run(tmp_path, jobs, reader)
    assert len(reader.prompts) == 5
    assert outcomes["both3"].usage[0].calls == 4


def test_a_long_prompt_sheds_passages_from_the_end_and_says_so(tmp_path: Path) -> None:
    """The lowest-ranked goes first, the gold passage last; the dropped ones are counted."""
    contexts = [
        make_context(1, "a" * 40),
        make_context(2, "b" * 40),
        make_context(3, "c" * 40, is_gold=True),
    ]
    reader = ScriptedReader(lambda prompt: prompt, context_length=110)
    outcomes, _ = run(
        tmp_path,
        [Job(1, Concatenation(PROMPT, Decoding()).plan(make_question(), contexts))],
        reader,
    )
    assert outcomes[1].dropped == 1
    assert "b" * 40 not in reader.prompts[0]
    assert "c" * 40 in reader.prompts[0]


def test_each_plan_counts_what_it_dropped_itself(tmp_path: Path) -> None:
    """K = 1, 2 and 3 shrink to one prompt and share its call; each reports its own cut, in a replay
    too.
    """
    contexts = [make_context(n, f"{n}" * 40) for n in (1, 2, 3)]
    strategy = Concatenation(PROMPT, Decoding())
    for _ in range(2):
        jobs = [Job(k, strategy.plan(make_question(), contexts[:k])) for k in (1, 2, 3)]
        outcomes, driver = run(tmp_path, jobs, ScriptedReader(context_length=70))
        assert [outcomes[k].dropped for k in (1, 2, 3)] == [0, 1, 2]
    assert driver.stats.executed == 0


class Narrow(ScriptedReader):
    """A server that takes every prompt and then says that it is too long."""

    def collect(self, timeout: float = 0.0) -> Sequence[tuple[Request, Result | TooLong]]:
        """Refuse prompts of over 110 characters."""
        return [
            (q, TooLong("too many tokens") if sum(len(m.content) for m in q.messages) > 110 else r)  # type: ignore[union-attr]
            for q, r in super().collect(timeout)
        ]


def test_what_a_server_finds_too_long_is_asked_with_a_passage_fewer(tmp_path: Path) -> None:
    """The same as when the window is known beforehand: counted, and never stored; each sample keeps
    its number.
    """
    contexts = [make_context(n, f"{n}" * 40) for n in (1, 2, 3)]
    hot = Decoding(temperature=0.7, samples=2)
    outcomes, driver = run(
        tmp_path,
        [Job(1, Concatenation(PROMPT, hot).plan(make_question(), contexts))],
        Narrow(lambda _: "x"),
    )
    assert outcomes[1].dropped == 2
    assert driver.stats.executed == 2
    job = Job(
        "cell/q1",
        Concatenation(PROMPT, Decoding()).plan(make_question(), [make_context(1, "a" * 200)]),
    )
    with pytest.raises(PromptTooLongError, match="too many tokens"):
        run(tmp_path, [job], Narrow())


def test_a_prompt_too_long_without_passages_is_an_error(tmp_path: Path) -> None:
    """It names the question's tag."""
    job = Job(
        "cell/q1",
        Concatenation(PROMPT, Decoding()).plan(make_question(), [make_context(1, "a" * 50)]),
    )
    with pytest.raises(PromptTooLongError, match="cell/q1"):
        run(tmp_path, [job], ScriptedReader(context_length=20))


def test_a_request_without_engine_is_an_error(tmp_path: Path) -> None:
    """The message lists what there is."""

    def plan() -> Plan[Answer]:
        yield [Estimate("q", "t")]
        return Answer("", True)

    with pytest.raises(ConfigError, match="Estimate"):
        run(tmp_path, [Job(1, plan())], ScriptedReader())


def test_another_process_work_is_waited_for_not_repeated(tmp_path: Path) -> None:
    """A call that a living process holds comes in through the ledger."""
    path = tmp_path / "l.sqlite"
    request = Generate((Message("user", "a"),), Decoding())
    key = compute_request_key("scripted", request)
    with SqliteStore(path) as other:
        other.owner = "another-host:1:1:1"
        other.claim([key])
        reader = ScriptedReader()
        with SqliteStore(path) as ledger:
            driver = Driver(build_engine_map(reader), ledger)
            running = driver.run([Job(1, ask(["a"])), Job(2, ask(["b"]))])
            assert next(running).tag == 2
            other.put("scripted", [(key, request, Generation("theirs"), 0.0)])
            assert next(running).result.text == "theirs"
        assert reader.prompts == ["b"]
        assert driver.stats.external == 1
        assert driver._open_calls == OpenCalls()


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25
)
@given(
    st.lists(
        st.lists(st.lists(st.sampled_from("abcdef"), max_size=4), max_size=3),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 5),
    st.integers(1, 5),
)
def test_every_plan_ends_and_no_call_is_made_twice(
    tmp_path: Path, plans: list[list[list[str]]], window: int, batch: int
) -> None:
    """Whatever is asked, in whatever window and batch: all outcomes come, distinct calls are made
    once.
    """
    import os

    folder = tmp_path / os.urandom(6).hex()
    reader = ScriptedReader(str.upper, batch_size=batch, capacity=2)
    outcomes, driver = run(
        folder, [Job(n, ask(*rounds)) for n, rounds in enumerate(plans)], reader, window
    )
    assert sorted(outcomes) == list(range(len(plans)))
    assert len(reader.prompts) == len(set(reader.prompts)) == driver.stats.executed
    stats = driver.stats
    assert stats.requests == stats.executed + stats.merged + stats.ledger_hits


class Unordered(ScriptedReader):
    """An engine that also returns results of calls that it was not given, twice, and in reverse
    order.
    """

    extra: Sequence[str] = ()

    def collect(self, timeout: float = 0.0) -> Sequence[tuple[Request, Result]]:
        """Return the batch reversed, and once more, after the unsolicited results."""
        results = list(super().collect(timeout))
        unsolicited = [
            (Generate((Message("user", text),), Decoding()), Generation(text.upper()))
            for text in self.extra
        ]
        self.extra = ()
        return [*unsolicited, *reversed(results), *results]


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25
)
@given(
    st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6), min_size=1, max_size=8),
    st.lists(st.sampled_from("abcdefgh"), max_size=6),
)
def test_unsolicited_repeated_and_reordered_results_are_stored_and_used(
    tmp_path: Path, plans: list[list[str]], extra: list[str]
) -> None:
    """Results of queued calls count too, whoever requested them; nothing breaks and nothing is
    lost.
    """
    import os

    folder = tmp_path / os.urandom(6).hex()
    reader = Unordered(str.upper, batch_size=2, capacity=2)
    reader.extra = extra
    outcomes, driver = run(folder, [Job(n, ask(texts)) for n, texts in enumerate(plans)], reader)
    assert {n: outcome.result.text for n, outcome in outcomes.items()} == {
        n: t[-1].upper() for n, t in enumerate(plans)
    }
    assert driver._open_calls == OpenCalls()
    with SqliteStore(folder / "l.sqlite") as ledger:
        assert len(ledger) >= len({text for texts in plans for text in texts})


def _chat(history: Sequence[str]) -> Plan[Answer]:
    """A plan that shortens its history until the prompt fits."""
    while history:
        message = Message("user", " ".join(history))
        (reply,) = yield [Generate((message,), Decoding(), may_be_too_long=True)]
        if not isinstance(reply, TooLong):
            return Answer(reply.text, unknown=False)
        history = history[1:]
    return Answer("", unknown=True)


def test_passages_are_dropped_before_a_plan_is_told(tmp_path: Path) -> None:
    """Only a prompt without one to drop is too long."""
    contexts = [make_context(n, f"{n}" * 60) for n in (1, 2)]
    request = build_request(PROMPT, make_question(), contexts, Decoding())

    def plan() -> Plan[Answer]:
        (reply,) = yield [structs.replace(request, may_be_too_long=True)]
        return Answer(reply.text, unknown=False, trace=(str(reply.dropped),))

    outcomes, _ = run(tmp_path, [Job(1, plan())], ScriptedReader(lambda _: "x", context_length=110))
    assert (outcomes[1].result.text, outcomes[1].result.trace) == ("x", ("1",))


@pytest.mark.parametrize("refuses", [False, True], ids=["known before", "told by the server"])
def test_a_plan_that_asks_for_it_is_told_that_its_prompt_is_too_long(
    tmp_path: Path, refuses: bool
) -> None:
    """It goes on with a shorter one; nothing of it is stored; a replay finds the same way."""
    history = [letter * 50 for letter in "abc"]
    reader = Narrow(str.upper) if refuses else ScriptedReader(str.upper, context_length=110)
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        (outcome,) = Driver(build_engine_map(reader), ledger).run([Job(1, _chat(history))])
        assert outcome.result.text == " ".join(history[1:]).upper()
        assert [step.finish for step in outcome.steps] == ["too long", "stop"]
        assert len(ledger) == 1
        assert outcome.usage[0].calls == 1, "no model read the first prompt"
        identities = {"reader": get_ledger_identity(reader)}
        with pytest.raises(LedgerError, match="lacks a call of round 1"):
            replay_plan(_chat(history), identities, ledger)
        replay = replay_plan(_chat(history), identities, ledger, outcome.steps)
        assert replay.result == outcome.result
        assert [step.finish for step in replay.steps] == ["too long", "stop"]


class OneByOne(ScriptedServer):
    """A server whose replies arrive one after the other."""

    def collect(self, timeout: float) -> list[tuple[Request, Result]]:
        """Return one reply at a time."""
        self.finished = [*getattr(self, "finished", []), *super().collect(timeout)]
        return [self.finished.pop()] if self.finished else []


def test_what_is_in_flight_is_stored_if_the_consumer_ends(tmp_path: Path) -> None:
    """On a full disk, for example: the calls are paid for."""
    server = OneByOne(capacity=16)
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        outcomes = Driver(build_engine_map(server), ledger).run(
            Job(n, _chat([f"{n}"])) for n in range(16)
        )
        with closing(outcomes):
            next(outcomes)
        assert len(ledger) == 16
