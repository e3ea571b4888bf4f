"""The key under which the ledger files a request."""

import hashlib
from collections.abc import Sequence

from winnow.records import Decoding, Estimate, Generate, Likelihood, Message, Request, Search

_WITH_USAGE = "usage"
"""Separates likelihoods from those of version 0.1, which were stored without the tokens that they took."""


def request_key(engine: str, request: Request) -> bytes:
    """Return the SHA-256 of the canonical request: engine, kind, and every field that can change the result.

    Each text is preceded by its length, so that no two requests have the same encoding; JSON would take three times as
    long.
    """
    match request:
        case Generate():
            parts = [*_texts(request.messages), _decoding_text(request.decoding), str(request.sample)]
            if request.token_logprobs:
                parts += ["token_logprobs", *request.token_logprobs]
        case Likelihood():
            parts = [*_texts(request.messages), request.continuation, str(request.include_eos), _WITH_USAGE]
        case Estimate():
            parts = [request.question, request.text, request.title]
        case Search():
            parts = [request.query, str(request.n)]
    text = "".join([f"{len(part)}:{part}" for part in (engine, type(request).__name__, *parts)])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _texts(messages: Sequence[Message]) -> list[str]:
    return [str(len(messages)), *[text for message in messages for text in (message.role, message.content)]]


def _decoding_text(decoding: Decoding) -> str:
    """Return what determines the reply; temperature, top-p and seed do not where decoding is greedy."""
    sampling = (decoding.temperature, decoding.top_p, decoding.seed) if decoding.temperature > 0 else ()
    return repr((decoding.max_new_tokens, *sampling, *(("logprobs",) if decoding.logprobs else ())))
