"""Keys of requests in the ledger, the store of finished model calls."""

import hashlib
from collections.abc import Sequence

from winnow.records import Decoding, Estimate, Generate, Likelihood, Message, Request, Search

_WITH_USAGE = "usage"
"""Part of the keys of likelihoods, so that they differ from keys of version 0.1, which stored no token counts with them."""


def compute_request_key(engine: str, request: Request) -> bytes:
    """Compute the SHA-256 of a request: the identity of its engine, its kind, and every field that can change the result.

    Each text is preceded by its length, so that no two requests have the same encoding. JSON would take three times as long.
    """
    match request:
        case Generate():
            parts = [*_list_message_texts(request.messages), _encode_decoding(request.decoding), str(request.sample)]
            if request.token_logprobs:
                parts += ["token_logprobs", *request.token_logprobs]
        case Likelihood():
            parts = [*_list_message_texts(request.messages), request.continuation, str(request.include_eos), _WITH_USAGE]
        case Estimate():
            parts = [request.question, request.text, request.title]
        case Search():
            parts = [request.query, str(request.n)]
    text = "".join([f"{len(part)}:{part}" for part in (engine, type(request).__name__, *parts)])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _list_message_texts(messages: Sequence[Message]) -> list[str]:
    """Return the number of messages, followed by the role and the content of each."""
    return [str(len(messages)), *[text for message in messages for text in (message.role, message.content)]]


def _encode_decoding(decoding: Decoding) -> str:
    """Encode the settings that determine the reply. Temperature, top-p and seed are omitted if decoding is greedy."""
    sampling = (decoding.temperature, decoding.top_p, decoding.seed) if decoding.temperature > 0 else ()
    return repr((decoding.max_new_tokens, *sampling, *(("logprobs",) if decoding.logprobs else ())))


def derive_seed(request: Generate) -> int:
    """Derive the seed of a request's random stream, below 2**63, from the key of the request."""
    return int.from_bytes(compute_request_key("seed", request)[:8], "big") >> 1
