"""Agents are resumed from the ledger without repeating a round, and two agents with the same
history share their calls.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.errors import ReaderError
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import Engines, build_engine_map
from winnow.records import Answer, Decoding, Passage
from winnow.strategies.prompt import Prompt
from winnow.strategies.rounds.react import React
from winnow.sweeps.replay import replay_plan
from winnow.testing import ScriptedReader, make_question, make_search

PROMPT = Prompt(
    "{contexts} Q {question}", "Q {question}", "{contexts}{candidates}{question}", "{text}"
)
AGENT = React(PROMPT, Decoding(), "{contexts}\nQuestion: {question}")
TURNS = 7


def _reply(prompt: str) -> str:
    """Search for another thing in each turn, and finish in the last one."""
    turn = prompt.count("Observation ") + 1
    return f"t{turn}\nAction: " + ("Finish[done]" if turn == TURNS else f"Search[thing {turn}]")


def _open(reader: ScriptedReader, queries: list[str]) -> Engines:
    def find(query: str) -> list[Passage]:
        queries.append(query)
        return [Passage(query, "", f"text of {query}")]

    return {**build_engine_map(reader), **build_engine_map(make_search(find))}


def _iter_jobs(*tags: str) -> Iterator[Job[Answer]]:
    for tag in tags:
        yield Job(tag, AGENT.plan(make_question(), ()))


@pytest.mark.parametrize("killed_at", range(1, TURNS + 1))
def test_an_agent_that_was_ended_in_any_round_goes_on_there(tmp_path: Path, killed_at: int) -> None:
    """Both runs together make each call once; the answer and its steps are those of a run without
    an end.
    """
    whole, queries = ScriptedReader(_reply), list[str]()
    with SqliteStore(tmp_path / "whole.sqlite") as ledger:
        (expected,) = Driver(_open(whole, queries), ledger).run(_iter_jobs("a"))
    assert (expected.result.text, len(whole.prompts), len(queries)) == ("done", TURNS, TURNS - 1)

    def fail(prompt: str) -> str:
        if prompt.count("Observation ") + 1 == killed_at:
            raise ReaderError("ended")
        return _reply(prompt)

    first, first_queries = ScriptedReader(fail), list[str]()
    second, second_queries = ScriptedReader(_reply), list[str]()
    with SqliteStore(tmp_path / "l.sqlite") as ledger, pytest.raises(ReaderError, match="ended"):
        list(Driver(_open(first, first_queries), ledger).run(_iter_jobs("a")))
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        (outcome,) = Driver(_open(second, second_queries), ledger).run(_iter_jobs("a"))
        replay = replay_plan(
            AGENT.plan(make_question(), ()),
            {"reader": "scripted", "search": "search/revision-3"},
            ledger,
        )
    assert first.prompts[: killed_at - 1] + second.prompts == whole.prompts
    assert first_queries + second_queries == queries
    assert (outcome.result, outcome.steps) == (expected.result, expected.steps)
    assert tuple(replay.steps) == expected.steps


def test_agents_with_the_same_history_share_their_calls(tmp_path: Path) -> None:
    """Five cells that ask the same cost what one does."""
    reader, queries = ScriptedReader(_reply), list[str]()
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        driver = Driver(_open(reader, queries), ledger)
        outcomes = list(driver.run(_iter_jobs(*"abcde")))
    assert {outcome.result.text for outcome in outcomes} == {"done"}
    assert (len(reader.prompts), len(queries)) == (TURNS, TURNS - 1)
    assert driver.stats.executed == 2 * TURNS - 1
