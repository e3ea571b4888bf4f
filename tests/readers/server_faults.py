"""More than a hundred ways in which a server can answer a chat request wrongly, as bytes on the
connection.

Each way is a function from the correct completion to the bytes that are sent before the connection
is closed.
"""

import gzip
import json
import zlib
from collections.abc import Callable
from copy import deepcopy
from typing import Any

Completion = dict[str, Any]
Fault = Callable[[Completion], bytes]


def respond(
    body: bytes, status: str = "200 OK", headers: str = "Content-Type: application/json\r\n"
) -> bytes:
    """Build a response with the right length."""
    return (
        f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    ).encode() + body


def _body(change: Callable[[str], str | bytes]) -> Fault:
    """Send a changed text of the completion."""

    def fault(completion: Completion) -> bytes:
        text = change(json.dumps(completion))
        return respond(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))

    return fault


def _field(path: str, value: object) -> Fault:
    """Set one field of the completion; a value of None is JSON's null, and `...` leaves the field
    out.
    """

    def fault(completion: Completion) -> bytes:
        changed: Any = deepcopy(completion)
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        node = changed
        for part in parents:
            node = node[part]
        if value is ...:
            del node[last]
        else:
            node[last] = value
        return respond(json.dumps(changed).encode())

    return fault


def _sent(data: bytes) -> Fault:
    return lambda _completion: data


def _cut(share: float) -> Fault:
    """Promise the whole completion and close the connection after a part of it."""

    def fault(completion: Completion) -> bytes:
        whole = respond(json.dumps(completion).encode())
        return whole[: int(len(whole) * share)]

    return fault


_ERROR_BODIES = {
    "error object": b'{"error": {"message": "no", "code": "c"}}',
    "page": b"<html><body>Bad gateway</body></html>",
    "nothing": b"",
}
_STATUSES = (
    "400 Bad Request", "401 Unauthorized", "402 Payment Required", "403 Forbidden", "404 Not Found",
    "405 Not Allowed", "408 Timeout", "409 Conflict", "413 Too Large", "415 Unsupported",
    "418 Teapot", "422 Unprocessable", "425 Early", "429 Too Many", "451 Legal", "500 Error",
    "501 Not Implemented", "502 Bad Gateway", "503 Unavailable", "504 Timeout", "507 Storage",
    "520 Unknown", "529 Overloaded", "599 Odd",
)  # fmt: skip
FAULTS: dict[str, Fault] = {
    f"{status}, {name}": _sent(respond(body, status))
    for status in _STATUSES
    for name, body in _ERROR_BODIES.items()
}
FAULTS |= {
    f"200, {name}": _sent(respond(body))
    for name, body in {
        "nothing": b"", "null": b"null", "list": b"[]", "object": b"{}", "number": b"17",
        "string": b'"Q0"', "page": b"<html>", "NaN": b"NaN", "deep": b"[" * 100_000,
        "digits": b"[" + b"9" * 5_000 + b"]", "zero bytes": bytes(100),
        "error object": b'{"error": {"message": "no"}}', "error string": b'{"error": "no"}',
        "not UTF-8": b'{"id": "\xff\xfe"}', "stream": b'data: {"choices": []}\n\ndata: [DONE]\n\n',
        "choices of null": b'{"choices": null}',
    }.items()
}  # fmt: skip
FAULTS |= {
    f"{path} is {value!r}"[:60]: _field(path, value)
    for path, values in {
        "choices": ({}, "x", 3, [None], [[]], ["x"], [{}], ...),
        "choices.0.message": (None, [], "x", 3, ...),
        "choices.0.message.content": (3, 0, False, True, {}, ["x"], [{"type": "image"}]),
        "choices.0.index": (7, -1, "0", None, 1.5, ...),
        "model": (3, [], {}, "another"),
    }.items()
    for value in values
}
FAULTS |= {f"cut at {share}": _cut(share) for share in (0.0, 0.02, 0.2, 0.5, 0.9, 0.99)}
FAULTS |= {
    "UTF-16": _body(lambda text: text.encode("utf-16")),
    "twice": _body(lambda text: text + text),
    "text behind": _body(lambda text: text + " and so on"),
    "broken gzip": _sent(
        respond(b"\x1f\x8b\x08\x00nonsense", headers="Content-Encoding: gzip\r\n")
    ),
    "cut gzip": lambda completion: respond(
        gzip.compress(json.dumps(completion).encode())[:-20], headers="Content-Encoding: gzip\r\n"
    ),
    "gzip that is deflate": lambda completion: respond(
        zlib.compress(json.dumps(completion).encode()), headers="Content-Encoding: gzip\r\n"
    ),
    "gzip that is plain": lambda completion: respond(
        json.dumps(completion).encode(), headers="Content-Encoding: gzip\r\n"
    ),
    "chunks that end early": _sent(
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"id"\r\n'
    ),
    "chunks without a size": _sent(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n"
    ),
    "length below": lambda completion: (
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\n"
        + json.dumps(completion).encode()
    ),
    "length is a word": _sent(
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\nConnection: close\r\n\r\n{}"
    ),
    "length is negative": _sent(
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\nConnection: close\r\n\r\n{}"
    ),
    "no HTTP": _sent(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "status is a word": _sent(b"HTTP/1.1 fine OK\r\nContent-Length: 0\r\n\r\n"),
    "long header": _sent(
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000 + b"\r\nContent-Length: 2\r\n\r\n{}"
    ),
    "redirect to a file": _sent(respond(b"", "302 Found", "Location: file:///etc/passwd\r\n")),
    "redirect to itself": _sent(
        respond(b"", "307 Temporary", "Location: /v1/chat/completions\r\n")
    ),
    "redirect to nowhere": _sent(respond(b"", "301 Moved", "")),
    "switching protocols": _sent(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"),
    "204 without content": _sent(b"HTTP/1.1 204 No Content\r\n\r\n"),
    "Retry-After is a word": _sent(respond(b"{}", "429 Too Many", "Retry-After: soon\r\n")),
    "Retry-After is negative": _sent(respond(b"{}", "429 Too Many", "Retry-After: -9\r\n")),
    "Retry-After is nan": _sent(respond(b"{}", "429 Too Many", "Retry-After: nan\r\n")),
    "Retry-After is 1e400": _sent(respond(b"{}", "429 Too Many", "Retry-After: 1e400\r\n")),
}

ODD_FIELDS: dict[str, Fault] = {
    f"{path} is {value!r}"[:60]: _field(path, value)
    for path, values in {
        "usage": (None, "x", 3, [], {}, ...),
        "usage.prompt_tokens": (None, "3", -1, 3e9, 1.5, True, float("nan"), float("inf"), ...),
        "usage.completion_tokens": (None, {}, -1, 10**30),
        "choices.0.finish_reason": (None, "odd", 3, [], ...),
        "choices.0.logprobs": (
            None,
            {},
            [],
            "x",
            3,
            {"content": [{}]},
            {"content": [{"token": 3, "logprob": "x"}]},
            ...,
        ),
        "choices.0.message.role": (None, "user", 3, ...),
        "choices.0.message.refusal": ("no", 3),
        "choices.0.message.tool_calls": ([{}], "x"),
        "id": (None, 3, ...),
        "created": ("x", None, -1, ...),
        "object": ("text_completion", None, ...),
        "extra": ({"deep": [[[]]]}, float("inf")),
    }.items()
    for value in values
}
"""Completions whose text is right although another field is odd: what was paid is kept."""
