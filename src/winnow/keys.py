"""What a request is filed under."""

import hashlib
from collections.abc import Sequence

from winnow.records import Decoding, Estimate, Generate, Likelihood, Message, Request, Search


def request_key(engine: str, request: Request) -> bytes:
    """Return the SHA-256 of the canonical request: engine, kind, and every field that can change the result.

    Each text is preceded by its length, so that no two requests are written alike; a JSON encoder would take three times
    as long.
    """
    match request:
        case Generate():
            decoding = request.decoding
            parts = [*_texts(request.messages), _written(decoding), str(request.sample)]
        case Likelihood():
            parts = [*_texts(request.messages), request.continuation, str(request.ended)]
        case Estimate():
            parts = [request.question, request.text, request.title]
        case Search():
            parts = [request.query, str(request.n)]
    whole = "".join([f"{len(part)}:{part}" for part in (engine, type(request).__name__, *parts)])
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).digest()


def _texts(messages: Sequence[Message]) -> list[str]:
    return [str(len(messages)), *[text for message in messages for text in (message.role, message.content)]]


def _written(decoding: Decoding) -> str:
    """Return what decides how a reply is written; a seed says nothing about a greedy one."""
    sampled = (decoding.temperature, decoding.top_p, decoding.seed) if decoding.temperature > 0 else ()
    return repr((decoding.max_new_tokens, *sampled, *(("logprobs",) if decoding.logprobs else ())))
