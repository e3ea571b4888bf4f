"""Limits on the size of a server's replies, which keep the process from running out of memory."""

from collections.abc import Iterable
from typing import Any

from winnow.errors import ReaderError

MAX_REPLY_BYTES = 64 * 2**20


async def limit_reply(reply: Any) -> None:
    """Read the decompressed body of a reply, and stop if it exceeds the limit.

    This is a response hook for the HTTP client of the openai package. Without it, the client reads
    a body of any size.

    Args:
        reply: Response of the HTTP client whose body has not been read yet.

    Raises:
        ReaderError: If the body is larger than `MAX_REPLY_BYTES`.
    """
    body = bytearray()
    async for chunk in reply.aiter_bytes():
        body += chunk
        if len(body) > MAX_REPLY_BYTES:
            raise ReaderError(
                f"{reply.request.url.host} sent a reply of more than {MAX_REPLY_BYTES // 2**20} "
                "MiB, which is too large for a reply of a language model. Check the address in "
                "reader.engine.base_url."
            )
    reply.encoding = "utf-8"  # JSON is UTF-8, whatever the header says
    reply._content = bytes(
        body
    )  # the client returns this attribute instead of reading the body a second time


def read_lines(chunks: Iterable[bytes]) -> list[str]:
    """Read the lines of a result file, each of which contains one reply.

    A line of more than `MAX_REPLY_BYTES` is cut, so that it cannot fill the memory; it is then not
    valid JSON. Bytes that are not UTF-8 are replaced. Neither spoils another line.

    Args:
        chunks: Decompressed content of the file.
    """
    lines: list[str] = []
    line = bytearray()
    for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            lines.append(_cut(line + part))
            line.clear()
        line += rest[: MAX_REPLY_BYTES + 1 - len(line)]
    return [*lines, _cut(line)]


def _cut(line: bytearray) -> str:
    return line[:MAX_REPLY_BYTES].decode(errors="replace")
