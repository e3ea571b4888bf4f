"""Keys of requests in the ledger, the store of finished model calls."""

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache

from msgspec import structs

from winnow.records import Decoding, Passage
from winnow.requests import Estimate, Generate, Likelihood, Message, Request, Search

_WITH_USAGE = "usage"
"""Part of likelihood keys that separates them from version 0.1, which stored no token counts."""


_CONTROL_TOKEN = re.compile(
    r"<\|[^<>|\n]{1,40}\|>|<｜[^<>｜\n]{1,40}｜>|</?s>|\[/?INST\]|\[(?:CLS|SEP|PAD|UNK|MASK|BOS|EOS)\]"
    r"|<(?:bos|eos|pad|unk|mask|sep|(?:start|end)_of_turn|extra_id_\d+|unused\d+)>"
    r"|<(?:filename|reponame|repo_name|file_sep|gh_stars|empty_output|(?:issue|jupyter|fim)_\w+)>"
)
"""A control token of a known model family."""


def compute_request_key(engine: str, request: Request) -> bytes:
    """Compute the SHA-256 of a request's engine, kind and every field that can change the result.

    Each text is preceded by its length, so that no two requests have the same encoding. JSON would
    take three times as long. Control tokens that passages spell out are named, because readers on
    this machine read them as text there and as tokens elsewhere in the prompt.
    """
    match request:
        case Generate():
            body = _encode_messages(request.messages) + _encode_decoding(
                request.decoding, request.sample
            )
            if request.token_logprobs:
                body += _encode("token_logprobs", *request.token_logprobs)
            if request.tools:
                body += _encode(
                    "tools", *(text for tool in request.tools for text in structs.astuple(tool))
                )
            body += _encode_spelled(request.passages)
        case Likelihood():
            body = _encode_messages(request.messages)
            body += _encode(request.continuation, str(request.include_eos), _WITH_USAGE)
            if request.per_token:
                body += _encode("per token")
            body += _encode_spelled(request.passages)
        case Estimate():
            body = _encode(request.question, request.text, request.title)
        case Search():
            body = _encode(request.query, str(request.n))
            if request.averaged:
                body += _encode("averaged", *request.averaged)
    text = _encode_engine(engine, type(request).__name__) + body
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _encode(*texts: str) -> str:
    """Join texts, each preceded by its length."""
    return "".join([f"{len(text)}:{text}" for text in texts])


def _encode_spelled(passages: Sequence[Passage]) -> str:
    """Encode the control tokens in the texts of passages, or return "" for passages without any."""
    spelled = [token for passage in passages for token in find_control_tokens(passage)]
    return _encode("text", *spelled) if spelled else ""


def find_control_tokens(passage: Passage) -> list[str]:
    """Return the control tokens that a passage spells out in its text and title, in their order."""
    texts = (text for text in (passage.text, passage.title) if "<" in text or "[" in text)
    return [token for text in texts for token in _CONTROL_TOKEN.findall(text)]


@lru_cache(maxsize=100)
def _encode_engine(engine: str, kind: str) -> str:
    """Encode the identity of an engine and the kind of a request."""
    return _encode(engine, kind)


def _encode_messages(messages: Sequence[Message]) -> str:
    """Encode the number of messages, followed by the role and the content of each."""
    texts = [
        f"{len(message.role)}:{message.role}{len(message.content)}:{message.content}"
        for message in messages
    ]
    call_texts = [
        _encode_calls(number, message)
        for number, message in enumerate(messages)
        if message.tool_calls or message.call_id
    ]
    return _encode_number(len(messages)) + "".join(texts) + "".join(call_texts)


def _encode_calls(number: int, message: Message) -> str:
    """Encode the calls of tools in a message with its number, and the call whose result it is."""
    calls = [text for call in message.tool_calls for text in structs.astuple(call)]
    return _encode("calls", str(number), message.call_id, str(len(calls)), *calls)


@lru_cache(maxsize=100)
def _encode_number(number: int) -> str:
    """Encode a number as a text."""
    return _encode(str(number))


def _encode_decoding(decoding: Decoding, sample: int) -> str:
    """Encode the settings that determine a reply, without temperature, top-p and seed if greedy.

    Settings of sampling are not cached, because 0.0 and -0.0 are equal but have different
    encodings.
    """
    if decoding.temperature > 0:
        sampling = (decoding.temperature, decoding.top_p, decoding.seed)
        settings = _encode_settings(
            decoding.max_new_tokens, *sampling, logprobs=decoding.logprobs, sample=sample
        )
    else:
        settings = _encode_greedy(decoding.max_new_tokens, decoding.logprobs, sample)
    if decoding.top_logprobs:
        settings += _encode("top_logprobs", str(decoding.top_logprobs))
    return (
        settings + _encode("stop", str(len(decoding.stop)), *decoding.stop)
        if decoding.stop
        else settings
    )


@lru_cache(maxsize=1000, typed=True)
def _encode_greedy(max_new_tokens: int, logprobs: bool, sample: int) -> str:
    """Encode the settings of greedy decoding. The cache distinguishes 1 and 1.0 by their types."""
    return _encode_settings(max_new_tokens, logprobs=logprobs, sample=sample)


def _encode_settings(*settings: float, logprobs: bool, sample: int) -> str:
    """Encode settings and the number of the sample."""
    return _encode(repr((*settings, *(("logprobs",) if logprobs else ()))), str(sample))


def derive_seed(request: Generate) -> int:
    """Derive the seed of a request's random stream, below 2**63, from the key of the request."""
    return int.from_bytes(compute_request_key("seed", request)[:8], "big") >> 1
