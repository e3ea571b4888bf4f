"""Estimates of tokens."""

from winnow.readers.token_estimates import estimate_max_usage, estimate_text_tokens
from winnow.records import Decoding
from winnow.requests import Generate, Likelihood, Message, Usage


def test_tokens_are_estimated_by_characters() -> None:
    """A quarter of ASCII characters, 1.5 of others; eight for each message and for a continuation;
    a reply for each sample.
    """
    assert [
        estimate_text_tokens(text) for text in ("", "abcdefgh", "\u6771\u4eac", "abcd\u6771\u4eac")
    ] == [0, 2, 3, 4]
    messages = (Message("system", "abcd"), Message("user", "\u6771\u4eac" * 10))
    assert estimate_max_usage(Generate(messages, Decoding(5)), samples=3) == Usage(
        1 + 8 + 30 + 8, 15
    )
    assert estimate_max_usage(Likelihood(messages, "abcd")) == Usage(1 + 8 + 30 + 8 + 1 + 8, 1)
