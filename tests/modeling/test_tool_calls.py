"""Tools and calls of tools, as servers and models on this machine write them."""

import pytest

from winnow.modeling.tool_calls import encode_messages, encode_tools, parse_tool_calls
from winnow.requests import Message, Tool, ToolCall


def test_tools_and_messages_follow_the_chat_protocol() -> None:
    """Arguments are a text for a server, and an object for a chat template where they are one."""
    schema = {"type": "object", "properties": {}}
    (tool,) = encode_tools([Tool("search", "Search.", '{"type": "object", "properties": {}}')])
    assert tool == {
        "type": "function",
        "function": {"name": "search", "description": "Search.", "parameters": schema},
    }
    calls = (ToolCall("search", '{"query": "x"}', "1"), ToolCall("search", "{x", "2"))
    messages = [
        Message("user", "u"),
        Message("assistant", "", calls),
        Message("tool", "r", call_id="1"),
    ]
    plain, objects = encode_messages(messages), encode_messages(messages, as_objects=True)
    assert plain[0] == objects[0] == {"role": "user", "content": "u"}
    assert plain[2] == objects[2] == {"role": "tool", "content": "r", "tool_call_id": "1"}
    first = {
        "id": "1",
        "type": "function",
        "function": {"name": "search", "arguments": '{"query": "x"}'},
    }
    assert plain[1]["tool_calls"][0] == first
    arguments = [call["function"]["arguments"] for call in objects[1]["tool_calls"]]
    assert arguments == [{"query": "x"}, "{x"]


@pytest.mark.parametrize(
    ("reply", "calls"),
    [
        (
            '<tool_call>\n{"name": "search", "arguments": {"query": "é"}}\n</tool_call>',
            [("search", '{"query": "é"}')],
        ),
        (
            'Hm.<tool_call>{"name": "a", "parameters": "x"}</tool_call><tool_call>{"name": "b"}',
            [("a", "x"), ("b", "{}")],
        ),
        ("<tool_call>{x</tool_call>", [("", "{x")]),
        ('<tool_call>["a"]</tool_call>', [("", '["a"]')]),
        ("<think>I could <tool_call>{x</tool_call>, but no.</think>The Danube.", []),
        ("The Danube.", []),
    ],
)
def test_calls_of_a_model_on_this_machine_are_read_from_its_reply(
    reply: str, calls: list[tuple[str, str]]
) -> None:
    """Each has a number of its own; what is no call has no name."""
    numbers = [f"call{number}" for number in range(1, len(calls) + 1)]
    expected = [ToolCall(*call, number) for call, number in zip(calls, numbers, strict=True)]
    assert list(parse_tool_calls(reply)) == expected
