"""The agent that calls a tool: each turn, odd calls, limits, and a conversation that is
too long.
"""

import json
from collections.abc import Callable, Sequence

import pytest

from tests.plans import PROMPT, play
from winnow.errors import ConfigError
from winnow.records import Decoding, Passage
from winnow.requests import Failed, Generate, Generation, Message, Pages, Search, ToolCall, TooLong
from winnow.strategies.rounds.tool_agent import ToolAgent
from winnow.testing import make_context, make_question

QUESTION = make_question("Which river flows through the city of X?")
PLACED = [make_context(1, "placed")]


def _call(query: object, call_id: str = "c", name: str = "search") -> ToolCall:
    return ToolCall(name, query if isinstance(query, str) else json.dumps(query), call_id)


def _serve(
    replies: Sequence[object], found: Callable[[str], object] | None = None
) -> Callable[[object], object]:
    turns = iter(replies)
    find = found or (lambda query: Pages((Passage(f"id {query}", "", f"text of {query}"),)))
    return lambda request: find(request.query) if isinstance(request, Search) else next(turns)


def test_calls_are_served_and_shown_until_a_reply_has_none() -> None:
    """Two calls in one turn, one in the next; the prompt names what it shows, and the system
    message begins it.
    """
    replies = [
        Generation(
            "Let me see.", tool_calls=(_call({"query": "X"}, "1"), _call({"query": "Y"}, "2"))
        ),
        Generation("<think>hm</think>", tool_calls=(_call({"query": "Z"}, "3"),)),
        Generation("<think>so</think>the Danube"),
    ]
    agent = ToolAgent(PROMPT, Decoding(), system="S", n=2)
    answer, requests = play(agent.plan(QUESTION, PLACED), _serve(replies))
    assert [(one.query, one.n) for one in requests if isinstance(one, Search)] == [
        ("X", 2),
        ("Y", 2),
        ("Z", 2),
    ]
    prompts = [one for one in requests if isinstance(one, Generate)]
    assert [[passage.text for passage in one.passages] for one in prompts] == [
        ["placed"], ["placed", "text of X", "text of Y"],
        ["placed", "text of X", "text of Y", "text of Z"],
    ]  # fmt: skip
    assert prompts[2].messages == (
        Message("system", "S"),
        Message("user", f"<placed> Q {QUESTION.text}"),
        Message("assistant", "Let me see.", tool_calls=replies[0].tool_calls),
        Message("tool", "<text of X>", call_id="1"),
        Message("tool", "<text of Y>", call_id="2"),
        Message("assistant", "", tool_calls=replies[1].tool_calls),
        Message("tool", "<text of Z>", call_id="3"),
    )
    assert {one.decoding.max_new_tokens for one in prompts} == {512}
    (tool,) = prompts[0].tools
    assert (tool.name, json.loads(tool.parameters)["required"]) == ("search", ["query"])
    assert (answer.text, answer.stop, answer.unknown) == ("the Danube", "answer", False)
    assert answer.used == prompts[2].passages
    assert answer.trace == ("search: X", "search: Y", "search: Z")


@pytest.mark.parametrize(
    "call",
    [
        _call("no JSON"),
        _call(["x"]),
        _call({"q": "x"}),
        _call({"query": 5}),
        _call({"query": "x"}, name="browse"),
        ToolCall("", "?"),
    ],
)
def test_an_odd_call_is_told_so_and_searches_for_nothing(call: ToolCall) -> None:
    """The agent goes on; its call is in the trace."""
    replies = [Generation("", tool_calls=(call,)), Generation("unknown")]
    answer, requests = play(ToolAgent(PROMPT, Decoding()).plan(QUESTION, ()), _serve(replies))
    assert not any(isinstance(one, Search) for one in requests)
    assert "cannot be made" in requests[1].messages[-1].content  # type: ignore[union-attr]
    assert (answer.unknown, len(answer.trace)) == (True, 1)


def test_searches_are_limited_and_so_are_turns() -> None:
    """The call after the last search is told so; an agent that calls on and on ends with "max
    rounds" and no answer.
    """
    endless = [Generation("", tool_calls=(_call({"query": str(n)}),)) for n in range(9)]
    answer, requests = play(
        ToolAgent(PROMPT, Decoding(), max_searches=2).plan(QUESTION, ()), _serve(endless)
    )
    assert [one.query for one in requests if isinstance(one, Search)] == ["0", "1"]
    prompts = [one for one in requests if isinstance(one, Generate)]
    assert len(prompts) == 4
    assert "No further search" in prompts[3].messages[-1].content
    assert (answer.text, answer.unknown, answer.stop) == ("unknown", True, "max rounds")


@pytest.mark.parametrize(
    ("found", "told"), [(Pages(()), "nothing found"), (Failed("down"), "search failed: down")]
)
def test_a_search_without_a_result_is_told(found: object, told: str) -> None:
    """And an empty query, without a search."""
    calls = (_call({"query": "X"}), _call({"query": " "}))
    replies = [Generation("", tool_calls=calls), Generation("Rome")]
    answer, requests = play(
        ToolAgent(PROMPT, Decoding()).plan(QUESTION, ()), _serve(replies, lambda _: found)
    )
    assert [message.content for message in requests[-1].messages[-2:]] == [
        f"No result ({told}).",
        "No result (empty query).",
    ]  # type: ignore[union-attr]
    assert answer.text == "Rome"


def test_the_oldest_passages_are_left_out_of_a_conversation_that_is_too_long() -> None:
    """One call after the other; what is left is what was shown; without any left, the plan ends."""
    replies = [
        Generation("", tool_calls=(_call({"query": "X"}, "1"),)),
        Generation("", tool_calls=(_call({"query": "Y"}, "2"),)),
        TooLong("9 tokens"),
        Generation("Rome"),
    ]
    answer, requests = play(ToolAgent(PROMPT, Decoding()).plan(QUESTION, PLACED), _serve(replies))
    shown = [message.content for message in requests[-1].messages if message.role == "tool"]  # type: ignore[union-attr]
    assert shown == ["(left out)", "<text of Y>"]
    assert [passage.text for passage in answer.used] == ["placed", "text of Y"]
    assert answer.trace[-1] == "left out: 1 passages"
    answer, _ = play(ToolAgent(PROMPT, Decoding()).plan(QUESTION, PLACED), _serve([TooLong("9")]))
    assert (answer.unknown, answer.stop, answer.used) == (True, "prompt too long", ())


def test_samples_and_limits_below_one_are_refused() -> None:
    """With what was received."""
    with pytest.raises(ConfigError, match=r"decoding\.samples=2"):
        ToolAgent(PROMPT, Decoding(temperature=1.0, samples=2))
    with pytest.raises(ConfigError, match="max_searches must be at least 1; received 0"):
        ToolAgent(PROMPT, Decoding(), max_searches=0)


def test_a_call_is_repeated_as_servers_take_it() -> None:
    """Arguments as a JSON object, with a name and an id by which its result refers to it; the trace
    has what was written.
    """
    calls = (ToolCall("", "{x", ""), _call({"query": "X"}, ""))
    replies = [Generation("", tool_calls=calls), Generation("Rome")]
    answer, requests = play(ToolAgent(PROMPT, Decoding()).plan(QUESTION, ()), _serve(replies))
    turn, first, second = requests[-1].messages[-3:]  # type: ignore[union-attr]
    assert turn.tool_calls == (
        ToolCall("unnamed", '{"invalid": "{x"}', "call1"),
        ToolCall("search", '{"query": "X"}', "call2"),
    )
    assert (first.call_id, second.call_id) == ("call1", "call2")
    assert answer.trace == ("call: {x", "search: X")


def test_a_blank_query_is_no_search() -> None:
    """It does not count against the limit."""
    blank, asked = _call({"query": " "}), _call({"query": "X"})
    replies = [Generation("", tool_calls=(blank, blank, asked)), Generation("Rome")]
    _, requests = play(
        ToolAgent(PROMPT, Decoding(), max_searches=1).plan(QUESTION, ()), _serve(replies)
    )
    assert [one.query for one in requests if isinstance(one, Search)] == ["X"]


def test_a_passage_that_another_search_still_shows_is_not_left_out() -> None:
    """The trace counts what no prompt shows any more."""
    replies = [
        Generation("", tool_calls=(_call({"query": "X"}, "1"),)),
        Generation("", tool_calls=(_call({"query": "X"}, "2"),)), TooLong("9"), Generation("Rome"),
    ]  # fmt: skip
    answer, _ = play(ToolAgent(PROMPT, Decoding()).plan(QUESTION, ()), _serve(replies))
    assert [passage.text for passage in answer.used] == ["text of X"]
    assert answer.trace == ("search: X", "search: X")


@pytest.mark.parametrize(
    "reply", ["Answer: Paris", "**Answer:** Paris", "Paris\n\nThis follows from passage 2."]
)
def test_the_answer_is_read_as_that_of_other_strategies(reply: str) -> None:
    """Without a label, markup and what follows; the whole reply is kept."""
    answer, _ = play(
        ToolAgent(PROMPT, Decoding()).plan(QUESTION, PLACED), _serve([Generation(reply)])
    )
    assert (answer.text, answer.reply) == ("Paris", reply)
