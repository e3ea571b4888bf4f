"""A limit on the size of a server's reply, which protects the process against running out of memory."""

from typing import Any

from winnow.errors import ReaderError

MAX_REPLY_BYTES = 64 * 2**20


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
