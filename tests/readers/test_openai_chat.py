"""The reader behind an API, against a server on this machine that misbehaves on purpose."""

import math
import sqlite3
import time
import traceback
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from tests.plans import PROMPT
from tests.readers.chat_cases import FAST, plan, request, sweep
from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.errors import BudgetError, ConfigError, ReaderError
from winnow.keys import compute_request_key
from winnow.ledger.sqlite import SqliteStore
from winnow.predictions import Price
from winnow.protocols import build_engine_map
from winnow.readers.budget import Budget
from winnow.readers.openai_chat import OpenAIReader
from winnow.readers.pacing import Pacing
from winnow.readers.token_estimates import estimate_max_usage
from winnow.records import Answer, Decoding, Passage
from winnow.requests import Failed, Generate, Generation, Likelihood, Message, Plan
from winnow.strategies.marginal import Marginal
from winnow.strategies.prompt import Prompt
from winnow.strategies.rounds.tool_agent import ToolAgent
from winnow.testing import make_context, make_question, make_search
from winnow.testing.chat_server import ChatServer, Fault

FAULTS: tuple[Fault, ...] = ("429", "429 after", "500", "503", "close", "malformed", "stall")


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            "wait a day",
            (
                r"asks to wait 86400 s before the next call .* longer than "
                r"reader.engine.pacing.patience=600"
            ),
        ),
        ("huge", "sent a reply of more than 64 MiB"),
        ("compressed", "sent a reply of more than 64 MiB"),
        (
            "other model",
            (
                r"answered with the model 'other' instead of 'm', .* accept this model with "
                r".*served_model='other'"
            ),
        ),
    ],
)
def test_what_no_retry_mends_stops_the_run_at_once(
    tmp_path: Path, fault: Fault, message: str
) -> None:
    """A wait beyond the patience, a reply that would fill the memory, a reply of another model:
    nothing of it is stored.
    """
    server = ChatServer(fault_rule=lambda *_: fault)
    with server.serve() as url:
        started = time.monotonic()
        with pytest.raises(ReaderError, match=message):
            sweep(
                OpenAIReader("m", "m", url, pacing=Pacing(initial_wait=0.01)),
                tmp_path / "l.sqlite",
                [plan(request("q"))],
            )
        assert (server.calls, time.monotonic() - started < 5) == (1, True)
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        assert len(ledger) == 0


@pytest.mark.parametrize("accepted", ["other", "*"])
def test_the_model_that_answered_is_recorded(tmp_path: Path, accepted: str) -> None:
    """Another one only if it was accepted; a replay knows it too."""
    one = request("q")
    server = ChatServer(fault_rule=lambda *_: "other model")
    with server.serve() as url:
        reader = OpenAIReader("m", "m", url, served_model=accepted)
        sweep(reader, tmp_path / "l.sqlite", [plan(one)])
        with SqliteStore(tmp_path / "l.sqlite") as ledger:
            (result,) = ledger.get([compute_request_key(reader.identity, one)]).values()
    assert isinstance(result, Generation)
    assert (result.text, result.model) == ("Q", "other")


@pytest.mark.parametrize(
    ("fault", "finish"), [("empty", "empty"), ("filter", "content_filter"), ("length", "length")]
)
def test_outcomes_are_recorded_not_tried_again(tmp_path: Path, fault: Fault, finish: str) -> None:
    """No choice, a content filter's stop and a length stop are results; a replay gives
    them again.
    """
    server = ChatServer(fault_rule=lambda *_: fault)
    with server.serve() as url:
        for _ in range(2):
            outcomes, _ = sweep(
                OpenAIReader("m", "m", url, pacing=FAST),
                tmp_path / "l.sqlite",
                [plan(request("q"))],
            )
            assert outcomes[0].result.text == f"{'Q' if fault == 'length' else ''}/{finish}"
    assert server.calls == 1


def test_a_prompt_that_the_server_finds_too_long_is_shortened(tmp_path: Path) -> None:
    """The driver drops a passage and asks again; the first try is not stored."""
    short = request("short")
    long = Generate((Message("user", "long"),), Decoding(), shorter=lambda: short)
    server = ChatServer(fault_rule=lambda prompt, _: "too long" if prompt == "long" else None)
    with server.serve() as url:
        outcomes, driver = sweep(OpenAIReader("m", "m", url), tmp_path / "l.sqlite", [plan(long)])
    assert (outcomes[0].result.text, outcomes[0].dropped, driver.stats.executed) == (
        "SHORT/stop",
        1,
        1,
    )


def test_a_refusal_stops_the_run_and_keeps_what_was_answered(tmp_path: Path) -> None:
    """A wrong key: one call, no retry; answers before it are in the ledger, and the next run makes
    only the rest.
    """
    server = ChatServer(
        fault_rule=lambda prompt, _: "refuse" if prompt == "q7" else None, latency=0.01
    )
    with server.serve() as url:
        with pytest.raises(ReaderError, match="HTTP 401"):
            sweep(
                OpenAIReader("m", "m", url, pacing=FAST),
                tmp_path / "l.sqlite",
                [plan(request(f"q{n}")) for n in range(10)],
            )
        assert server.received["q7"] == 1
        server.fault_rule = lambda *_: None
        sweep(
            OpenAIReader("m", "m", url, pacing=FAST),
            tmp_path / "l.sqlite",
            [plan(request(f"q{n}")) for n in range(10)],
        )
    assert server.received["q7"] == 2
    assert all(count == 1 for prompt, count in server.received.items() if prompt != "q7")


def test_answers_on_their_way_are_kept_when_another_is_refused(tmp_path: Path) -> None:
    """A refusal comes at once, the others take a third of a second: they are paid, and so they are
    stored.
    """
    server = ChatServer(
        fault_rule=lambda prompt, _: "refuse" if prompt == "q3" else None,
        extra_latency=lambda prompt: 0.05 if prompt == "q3" else 0.3,
    )
    with server.serve() as url, pytest.raises(ReaderError, match="HTTP 401"):
        sweep(
            OpenAIReader("m", "m", url, pacing=FAST),
            tmp_path / "l.sqlite",
            [plan(request(f"q{n}")) for n in range(4)],
        )
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        assert len(ledger) == 3


def test_a_refusal_shows_no_key_even_in_its_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server echoes the key; the whole traceback, causes and contexts included, does not hold
    it.
    """
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-test")
    for fault in ("refuse", "500"):
        server = ChatServer(fault_rule=lambda *_, fault=fault: fault)  # type: ignore[misc]
        with server.serve() as url, pytest.raises(ReaderError) as caught:
            sweep(
                OpenAIReader("m", "m", url, pacing=FAST),
                tmp_path / "l.sqlite",
                [plan(request("q"))],
            )
        assert "Bearer sk-secret-of-the-test" in server.authorization_headers
        error: BaseException | None = caught.value
        while error is not None:
            assert "sk-secret" not in "".join(traceback.format_exception_only(error))
            error = error.__cause__ or error.__context__
        assert "[key]" in str(caught.value)


def test_a_server_without_samples_is_named(tmp_path: Path) -> None:
    """One choice where three were asked for is not two empty answers."""
    hot = Decoding(temperature=0.7, samples=3)
    server = ChatServer(max_choices=1)
    with server.serve() as url, pytest.raises(ReaderError, match="samples_per_call=1"):
        reader = OpenAIReader("m", "m", url, samples_per_call=3)
        sweep(reader, tmp_path / "l.sqlite", [plan(*(request("q", hot, n) for n in range(3)))])


def test_samples_go_out_together_and_are_stored_apart(tmp_path: Path) -> None:
    """Five samples in calls of at most three; a larger p later asks only for the others."""
    hot = Decoding(temperature=0.7, samples=9)
    server = ChatServer()
    with server.serve() as url:
        for count, calls in ((5, 2), (7, 3)):
            reader = OpenAIReader("m", "m", url, samples_per_call=3)
            outcomes, _ = sweep(
                reader,
                tmp_path / "l.sqlite",
                [plan(*(request("q", hot, n) for n in range(count)))],
            )
            assert outcomes[0].usage[0].calls == count
            assert server.calls == calls


def test_a_budget_stops_cleanly_and_more_of_it_goes_on(tmp_path: Path) -> None:
    """Ten calls of at most 24 tokens that take 2; 36 tokens allow some, more the others; none is
    paid twice.
    """
    server = ChatServer()
    plans = [[plan(request(f"q{n}")) for n in range(10)] for _ in range(2)]
    with server.serve() as url:
        with pytest.raises(BudgetError, match=r"budget of 36 tokens.*raise reader\.engine\.budget"):
            sweep(
                OpenAIReader("m", "m", url, budget=Budget(tokens=36)),
                tmp_path / "l.sqlite",
                plans[0],
            )
        first = server.calls
        assert 0 < first < 10
        outcomes, driver = sweep(
            OpenAIReader("m", "m", url, budget=Budget(tokens=10_000)),
            tmp_path / "l.sqlite",
            plans[1],
        )
    assert len(outcomes) == 10
    assert driver.stats.executed == 10 - first
    assert set(server.received.values()) == {1}


def test_log_probabilities_are_kept(tmp_path: Path) -> None:
    """Where offered, in the ledger too."""
    with ChatServer().serve() as url:
        reader = OpenAIReader("m", "m", url)
        reader.submit([request("q", Decoding(logprobs=True))])
        ((_, result),) = reader.collect(5.0)
        reader.close()
    assert isinstance(result, Generation)
    assert result.logprobs == (-0.5,)


def test_what_it_cannot_do_and_who_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Likelihoods need a local reader; server, model, extra fields and a set context length are
    the identity; a missing key is told first.
    """
    reader = OpenAIReader("m", "m", "http://127.0.0.1:1/v1", extra={"top_k": 1}, context_length=50)
    assert reader.identity == "http://127.0.0.1:1/v1#m+[('top_k', 1)]/context 50"
    assert OpenAIReader("m", "m", server="openai").identity == "openai#m"
    assert reader.fits(request("x"))
    assert not reader.fits(request("x" * 400))
    with pytest.raises(ConfigError, match="local reader"):
        reader.count_tokens(Likelihood((), "x"))
    monkeypatch.delenv("WINNOW_TEST_KEY", raising=False)
    with pytest.raises(ConfigError, match="WINNOW_TEST_KEY"):
        OpenAIReader("m", "m", "https://example.org/v1", api_key_variable="WINNOW_TEST_KEY").check()
    with pytest.raises(ConfigError, match="has no price"):
        OpenAIReader("m", "m", budget=Budget(money=1.0))
    assert OpenAIReader("m", "m", budget=Budget(money=1.0), price=Price(1.0, 1.0)).spending.reserve(
        estimate_max_usage(request("x"))
    )


def test_a_refused_call_that_may_fail_is_a_result_and_another_stops_the_run(
    tmp_path: Path,
) -> None:
    """HTTP 400 for one prompt: with may_fail its plan receives Failed; without, the run stops."""
    server = ChatServer(fault_rule=lambda prompt, _: "moderated" if prompt == "bad" else None)
    with server.serve() as url:
        outcomes, _ = sweep(
            OpenAIReader("m", "m", url, pacing=FAST),
            tmp_path / "a.sqlite",
            [failing(structs.replace(request("bad"), may_fail=True))],
        )
        assert "HTTP 400" in outcomes[0].result.text
        with pytest.raises(ReaderError, match="HTTP 400"):
            sweep(
                OpenAIReader("m", "m", url, pacing=FAST),
                tmp_path / "b.sqlite",
                [failing(request("bad"))],
            )


def failing(requests: Generate) -> Plan[Answer]:
    """A plan that goes on after a failure."""
    (result,) = yield [requests]
    return Answer(result.reason if isinstance(result, Failed) else result.text, unknown=False)


def test_answers_are_marginalized_by_the_log_probabilities_that_an_api_reports(
    tmp_path: Path,
) -> None:
    """Two contexts, one token of log-probability -0.5 each: the weights 0.7 and 0.3 decide, and no
    likelihood is requested.
    """
    contexts = [
        replace(make_context(n, text), log_weight=math.log(w))
        for n, (text, w) in enumerate([("a", 0.3), ("b", 0.7)], 1)
    ]
    prompt = Prompt(
        "{contexts} {question}", "{question}", "{contexts} {candidates} {question}", "{text}"
    )
    strategy = Marginal(prompt, Decoding(), scoring="generated")
    server = ChatServer()
    with server.serve() as url:
        outcomes, driver = sweep(
            OpenAIReader("m", "m", url, pacing=FAST),
            tmp_path / "l",
            [strategy.plan(make_question("q"), contexts)],
        )
    answer = outcomes[0].result
    assert (answer.text, answer.trace[1:]) == (
        "B Q",
        (f"log P: A Q {math.log(0.3) - 0.5:.2f}; B Q {math.log(0.7) - 0.5:.2f}",),
    )
    assert driver.stats.executed == 2


def test_an_agent_calls_tools_over_the_protocol(tmp_path: Path) -> None:
    """Calls and results go there and back as the protocol has them; a replay makes no call;
    reasoning is kept.
    """
    call = {
        "id": "c7",
        "type": "function",
        "function": {"name": "search", "arguments": '{"query": "X"}'},
    }
    first = {"content": None, "reasoning_content": "I have to look.", "tool_calls": [call]}
    server = ChatServer(reply=lambda prompt: "the Danube" if "of X" in prompt else first)
    agent = ToolAgent(PROMPT, Decoding(), n=1)
    with server.serve() as url:
        for _ in range(2):
            reader = OpenAIReader("m", "m", url, pacing=FAST)
            engines = {
                **build_engine_map(reader),
                **build_engine_map(make_search(lambda _: [Passage("p", "", "text of X")])),
            }
            with SqliteStore(tmp_path / "l.sqlite") as ledger:
                (outcome,) = Driver(engines, ledger).run(
                    [Job("q", agent.plan(make_question(), ()))]
                )
                stored = [
                    one
                    for one in ledger.get(list(_list_keys(tmp_path / "l.sqlite"))).values()
                    if isinstance(one, Generation)
                ]
            reader.close()
            assert outcome.result.text == "the Danube"
            assert [(used.role, used.calls, used.empty) for used in outcome.usage] == [
                ("reader", 2, 0),
                ("search", 1, 0),
            ]
    assert server.calls == 2
    assert {one.reasoning for one in stored} == {"", "I have to look."}
    assert [body["tools"][0]["function"]["name"] for body in server.bodies] == ["search", "search"]
    *_, turn, result = server.bodies[1]["messages"]
    assert turn == {"role": "assistant", "content": "", "tool_calls": [call]}
    assert result == {"role": "tool", "content": "<text of X>", "tool_call_id": "c7"}


def _list_keys(path: Path) -> list[bytes]:
    with sqlite3.connect(path) as db:
        return [row[0] for row in db.execute("SELECT key FROM calls")]
