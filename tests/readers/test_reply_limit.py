"""Limits on the size of a server's replies."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from winnow.errors import ReaderError
from winnow.readers import reply_limit
from winnow.readers.reply_limit import limit_reply, read_lines


class Stream(httpx.AsyncByteStream):
    """A body that counts how many of its chunks were read."""

    def __init__(self, num_chunks: int) -> None:
        self.num_chunks, self.read = num_chunks, 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield chunks of ten bytes."""
        for _ in range(self.num_chunks):
            self.read += 1
            yield b"0123456789"


def receive(stream: Stream) -> bytes:
    """Receive a reply of a server with the limit as a hook."""
    transport = httpx.MockTransport(lambda _: httpx.Response(200, stream=stream))

    async def get() -> bytes:
        async with httpx.AsyncClient(
            transport=transport, event_hooks={"response": [limit_reply]}
        ) as client:
            return (await client.get("http://server.example/v1")).content

    return asyncio.run(get())


def test_a_reply_up_to_the_limit_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client returns what the hook read."""
    monkeypatch.setattr(reply_limit, "MAX_REPLY_BYTES", 100)
    stream = Stream(10)
    assert receive(stream) == b"0123456789" * 10
    assert stream.read == 10


def test_a_larger_reply_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused at the first byte above the limit, and the error names the server."""
    monkeypatch.setattr(reply_limit, "MAX_REPLY_BYTES", 100)
    stream = Stream(1_000_000)
    with pytest.raises(ReaderError, match=r"server\.example sent a reply of more than"):
        receive(stream)
    assert stream.read == 11


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_lines_do_not_depend_on_chunks(size: int) -> None:
    """Neither do characters of several bytes."""
    content = "a\n\nbé日\nlast".encode()
    assert read_lines(content[start : start + size] for start in range(0, len(content), size)) == [
        "a",
        "",
        "bé日",
        "last",
    ]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_long_line_and_wrong_bytes_spoil_no_other_line(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The long line is cut, and bytes that are not UTF-8 are replaced."""
    monkeypatch.setattr(reply_limit, "MAX_REPLY_BYTES", 10)
    content = b"first\n" + b"x" * 500 + b"\n\xff\nlast\n"
    lines = read_lines(content[start : start + size] for start in range(0, len(content), size))
    assert lines == ["first", "x" * 10, "\ufffd", "last", ""]


def test_a_reply_is_utf_8_whatever_its_header_says() -> None:
    """As JSON is; some servers name another character set."""
    headers = {"content-type": "application/json; charset=latin-1"}
    transport = httpx.MockTransport(
        lambda _: httpx.Response(200, headers=headers, content="Z\u00fcrich".encode())
    )

    async def get() -> str:
        async with httpx.AsyncClient(
            transport=transport, event_hooks={"response": [limit_reply]}
        ) as client:
            return (await client.get("http://server.example/v1")).text

    assert asyncio.run(get()) == "Z\u00fcrich"
