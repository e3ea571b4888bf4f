"""A protocol, a request, and replies and errors of a server."""

import json

import httpx2
import openai

from winnow.readers.openai_protocol import ChatProtocol
from winnow.records import Decoding
from winnow.requests import Generate, Message

PROTOCOL = ChatProtocol("m", "http://127.0.0.1:1/v1", "WINNOW_TEST_KEY")


REQUEST = Generate((Message("system", "s"), Message("user", "u")), Decoding(5))


def reply(**changes: object) -> str:
    """A reply with one choice, changed."""
    choice = {"message": {"content": " hi "}, "finish_reason": "stop", **changes.pop("choice", {})}  # type: ignore[dict-item]
    return json.dumps(
        {"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3}, **changes}
    )


def status_error(status: int, code: str = "", **headers: str) -> openai.APIStatusError:
    """A refusal as the openai package raises it."""
    request = httpx2.Request("POST", "http://127.0.0.1:1/v1/chat/completions")
    response = httpx2.Response(status, headers=headers, request=request)
    return openai.APIStatusError(
        "refused", response=response, body={"message": "told", "code": code}
    )
