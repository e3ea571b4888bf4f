"""Tools and calls of tools, as chat templates and servers write them."""

import json
import re
from collections.abc import Sequence
from typing import Any

from winnow.requests import Message, Tool, ToolCall
from winnow.text.final import remove_reasoning

_CALL = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|$)", re.DOTALL)
"""A call as Hermes and Qwen write it: a JSON object with a name and arguments."""


def encode_tools(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Return tools as the chat protocol and chat templates take them."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": json.loads(tool.parameters),
            },
        }
        for tool in tools
    ]


def encode_messages(
    messages: Sequence[Message], *, as_objects: bool = False
) -> list[dict[str, Any]]:
    """Return messages as the chat protocol writes them.

    Args:
        messages: Messages.
        as_objects: Whether arguments that are JSON become objects, which chat templates want and
            servers do not.
    """
    return [_encode_message(message, as_objects=as_objects) for message in messages]


def _encode_message(message: Message, *, as_objects: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        body["tool_calls"] = [
            _encode_call(call, as_objects=as_objects) for call in message.tool_calls
        ]
    if message.role == "tool":
        body["tool_call_id"] = message.call_id
    return body


def _encode_call(call: ToolCall, *, as_objects: bool) -> dict[str, Any]:
    arguments = _read_object(call.arguments) if as_objects else call.arguments
    return {
        "id": call.call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def parse_tool_calls(reply: str) -> tuple[ToolCall, ...]:
    """Return the calls in Hermes format that a local model wrote in its reply after its reasoning.

    What is not a JSON object with a name is a call without a name, so that the plan can say so.
    Calls of other forms stay text.
    """
    return tuple(
        _parse_call(text, number)
        for number, text in enumerate(_CALL.findall(remove_reasoning(reply)), start=1)
    )


def _parse_call(text: str, number: int) -> ToolCall:
    body = _read_object(text)
    if not isinstance(body, dict) or not isinstance(body.get("name"), str):
        return ToolCall("", text, f"call{number}")
    arguments = body.get("arguments", body.get("parameters", {}))
    return ToolCall(
        body["name"],
        arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False),
        f"call{number}",
    )


def _read_object(text: str) -> Any:
    """Return the value of a JSON text, or the text if it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text
