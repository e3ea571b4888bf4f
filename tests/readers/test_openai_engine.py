"""What both roads to a server share."""

import pytest

from winnow.errors import ConfigError
from winnow.readers.openai_batch import OpenAIBatchReader
from winnow.readers.openai_chat import OpenAIReader
from winnow.records import Decoding
from winnow.requests import Generate, Likelihood, Message
from winnow.testing.chat_server import ChatServer


def test_both_roads_are_one_engine_to_the_ledger() -> None:
    """Server, model and extra fields decide; the road does not."""
    for words in ({}, {"server": "openai"}, {"extra": {"top_k": 1}}):
        assert (
            OpenAIReader("m", "a", **words).identity
            == OpenAIBatchReader("m", "b", **words).identity
        )  # type: ignore[arg-type]
    assert (
        OpenAIReader("m", "a", extra={"top_k": 1}).identity
        == "https://api.openai.com/v1#m+[('top_k', 1)]"
    )


def test_a_shorter_context_is_another_engine() -> None:
    """It drops passages from prompts, so that a reply to the whole prompt is not its own."""
    identities = {OpenAIReader("m", "m", context_length=n).identity for n in (None, 512, 4096)}
    assert len(identities) == 3


def test_windows_are_by_estimate_and_servers_only_write() -> None:
    """Four characters a token, eight tokens a message."""
    request = Generate((Message("user", "x" * 40),), Decoding(10))
    assert OpenAIReader("m", "m").count_tokens(request) == 18
    assert OpenAIReader("m", "m", context_length=28).fits(request)
    assert not OpenAIReader("m", "m", context_length=27).fits(request)
    with pytest.raises(ConfigError, match="local reader"):
        OpenAIBatchReader("m", "m").count_tokens(Likelihood((), "x"))


def test_the_order_of_further_fields_is_no_other_engine() -> None:
    """Cells with them have one key, and so have their calls."""
    first, second = (
        OpenAIReader("m", "m", "http://127.0.0.1:1/v1", extra={"b": {"x": 1, "y": [2]}, "a": 1}),
        OpenAIReader("m", "m", "http://127.0.0.1:1/v1", extra={"a": 1, "b": {"y": [2], "x": 1}}),
    )
    assert first.identity == second.identity


def test_a_proxy_is_not_used_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither to look for a server nor for its batches."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with ChatServer().serve() as url:
        OpenAIReader("m", "m", url).check_reachable()


def test_the_order_of_further_fields_in_lists_is_no_other_engine() -> None:
    """At any depth."""
    first, second = (
        OpenAIReader("m", "m", "http://127.0.0.1:1/v1", extra={"a": [one]})
        for one in ({"x": 1, "y": 2}, {"y": 2, "x": 1})
    )
    assert first.identity == second.identity
