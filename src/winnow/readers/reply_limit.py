"""A limit on the size of a server's reply, so that none fills the memory."""

from typing import Any

from winnow.errors import ReaderError

MAX_REPLY_BYTES = 64 * 2**20


async def limit_reply(reply: Any) -> None:
    """Read a reply, decompressed, up to the limit (a response hook of the HTTP client of the openai package).

    The client reads a reply as a whole, whatever its size; it finds this one read already.

    Raises:
        ReaderError: If the reply is larger than the limit.

    """
    body = bytearray()
    async for chunk in reply.aiter_bytes():
        body += chunk
        if len(body) > MAX_REPLY_BYTES:
            raise ReaderError(
                f"{reply.request.url.host} sent a reply of more than {MAX_REPLY_BYTES // 2**20} MiB, which no model writes. "
                "Check reader.engine.base_url."
            )
    reply._content = bytes(body)  # where the client keeps the content of a reply that it has read
