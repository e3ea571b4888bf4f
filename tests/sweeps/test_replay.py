"""Replays of single plans from stored calls."""

from pathlib import Path

import pytest

from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.errors import LedgerError
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import build_engine_map
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Message, ToolCall, TooLong
from winnow.strategies.concat_pf import ConcatPF
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.prompt import Prompt
from winnow.sweeps.replay import (
    Call,
    count_usage,
    format_message,
    format_reply,
    replay_plan,
)
from winnow.testing import ScriptedReader, make_context, make_question

PROMPT = Prompt(
    "{contexts} Q {question}",
    "Q {question}",
    "{contexts} C {candidates} Q {question}",
    "[{number}] {text}",
)
CONTEXTS = [make_context(1, "a"), make_context(2, "b"), make_context(3, "c" * 40)]


def test_rounds_replies_and_the_answer_come_from_the_ledger(tmp_path: Path) -> None:
    """Concatenation fails, three passages vote: four calls in two rounds, the same answer as the
    driver's, no engine.
    """
    reader = ScriptedReader(
        lambda prompt: "unknown" if "[2]" in prompt else "b" if "b" in prompt else "a"
    )
    strategy = ConcatPF(PROMPT, Decoding())
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        (outcome,) = Driver(build_engine_map(reader), ledger).run(
            [Job(1, strategy.plan(make_question(), CONTEXTS))]
        )
        played = replay_plan(
            strategy.plan(make_question(), CONTEXTS), {"reader": "scripted"}, ledger
        )
    assert [len(calls) for calls in played.rounds] == [1, 3]
    assert [call.result.text for call in played.rounds[1]] == ["a", "b", "a"]  # type: ignore[union-attr]
    assert played.result == outcome.result
    assert played.result.text == "a"


def test_a_shortened_prompt_is_found_as_it_was_sent(tmp_path: Path) -> None:
    """The driver drops the third passage; the replay shows the prompt of two."""
    strategy = Concatenation(PROMPT, Decoding())
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        list(
            Driver(build_engine_map(ScriptedReader(context_length=60)), ledger).run(
                [Job(1, strategy.plan(make_question(), CONTEXTS))]
            )
        )
        played = replay_plan(
            strategy.plan(make_question(), CONTEXTS), {"reader": "scripted"}, ledger
        )
    ((call,),) = played.rounds
    assert call.dropped == 1
    assert "[3]" not in call.request.messages[0].content  # type: ignore[union-attr]


def test_no_model_read_a_prompt_that_was_too_long() -> None:
    """It is not a call, as in the driver's counts."""
    request = Generate((Message("user", "x"),), Decoding())
    calls = [Call(b"k", request, result) for result in (TooLong("9 tokens"), Generation("a"))]
    assert [count_usage(call).calls for call in calls] == [0, 1]


def test_a_missing_call_is_named(tmp_path: Path) -> None:
    """Another model has no calls here."""
    with (
        SqliteStore(tmp_path / "l.sqlite") as ledger,
        pytest.raises(
            LedgerError,
            match=r"lacks a call of round 1 \(Generate, role 'reader', engine other\). Run",
        ),
    ):
        replay_plan(
            Concatenation(PROMPT, Decoding()).plan(make_question(), CONTEXTS),
            {"reader": "other"},
            ledger,
        )


def test_calls_of_tools_and_reasoning_are_read_with_the_text() -> None:
    """One below the other; a call without a name says so."""
    calls = (ToolCall("search", '{"query": "x"}', "1"), ToolCall("", "?"))
    told = '(call) search({"query": "x"})\n(call) no tool(?)'
    assert format_message(Message("assistant", "", calls)) == told
    assert format_message(Message("user", "Who?")) == "Who?"
    reply = Generation("Hm.", tool_calls=calls, reasoning="I look.")
    assert format_reply(reply) == f"(reasoning) I look.\nHm.\n{told}"
    assert format_reply(Generation("Paris")) == "Paris"
