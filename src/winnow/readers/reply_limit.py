"""Limits on the size of a server's replies, which protect the process against running out of memory."""

from collections.abc import Iterable
from typing import Any

from winnow.errors import ReaderError

MAX_REPLY_BYTES = 64 * 2**20
MAX_FILE_BYTES = 2**30
"""Maximum size of a result file of the Batch API, which contains up to 50,000 replies."""


async def limit_reply(reply: Any) -> None:
    """Read the decompressed body of a reply, and stop if it exceeds the limit.

    This is a response hook for the HTTP client of the openai package. Without it, the client reads a body of any size.

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
                f"{reply.request.url.host} sent a reply of more than {MAX_REPLY_BYTES // 2**20} MiB, which is too large for a "
                "reply of a language model. Check the address in reader.engine.base_url."
            )
    reply._content = bytes(body)  # the client returns this attribute instead of reading the body a second time


def read_limited(chunks: Iterable[bytes], name: str) -> str:
    """Read a result file as text. Bytes that are not UTF-8 are replaced, so that they spoil only their own line.

    Args:
        chunks: Decompressed content of the file.
        name: Name of the file, for the error message.

    Raises:
        ReaderError: If the file is larger than `MAX_FILE_BYTES`.

    """
    content = bytearray()
    for chunk in chunks:
        content += chunk
        if len(content) > MAX_FILE_BYTES:
            raise ReaderError(
                f"The result file {name} is larger than {MAX_FILE_BYTES // 2**20} MiB, which is too large for the replies of "
                "a batch. Check the address in reader.engine.base_url, or send smaller batches (reader.engine.capacity)."
            )
    return content.decode(errors="replace")
