"""Failures of calls, by what servers say of them."""

import httpx2
import openai
import pytest

from tests.readers.protocol_cases import PROTOCOL, REQUEST, reply, status_error
from winnow.errors import ReaderError
from winnow.readers.openai_errors import RetryableError
from winnow.requests import Generation, TooLong


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (
            400,
            (
                "This model's maximum context length is 8192 tokens. However, your messages "
                "resulted in 9000 tokens."
            ),
        ),
        (
            400,
            (
                "The input token count (1200000) exceeds the maximum number of tokens allowed "
                "(1048576)."
            ),
        ),
        (400, "prompt is too long: 210000 tokens > 200000 maximum"),
        (
            422,
            (
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. "
                "Given: 5000 `inputs` tokens"
            ),
        ),
        (500, "the request exceeds the available context size. try increasing the context size"),
        (
            400,
            (
                "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 "
                "maximum context length"
            ),
        ),
        (400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
        (400, "x" * 400 + " too many tokens"),
    ],
)
def test_prompts_that_are_too_long_in_the_words_of_each_server(status: int, message: str) -> None:
    """A passage is dropped, wherever in the message the phrase is."""
    assert isinstance(PROTOCOL.convert_refusal(status, {"message": message}, {}, ""), TooLong)


def test_other_failures_are_not_too_long() -> None:
    """Of the server, of a rate, and of a setting."""
    for status, message in (
        (500, "out of memory"),
        (429, "too many tokens per minute"),
        (503, "overloaded"),
        (499, "closed"),
    ):
        with pytest.raises(RetryableError, match=f"HTTP {status}"):
            PROTOCOL.convert_refusal(status, {"message": message}, {}, "")
    for status, message in (
        (424, "a dependency failed"),
        (400, "max_tokens must be positive"),
        (422, "temperature is wrong"),
    ):
        with pytest.raises(ReaderError, match=f"HTTP {status}"):
            PROTOCOL.convert_refusal(status, {"message": message}, {}, "")


@pytest.mark.parametrize(
    "text",
    [
        reply(model="KEY"),
        reply(model="x KEY"),
        reply(choice={"finish_reason": "KEY"}),
        reply(choice={"message": {"content": "your key is KEY"}}),
        reply(choice={"finish_reason": "error", "index": 0, "x": "KEY"}),
        reply(choices="KEY"),
        "x" * 60 + "KEY",
        '{"KEY',
    ],
)
def test_a_key_that_the_server_repeats_is_neither_shown_nor_stored(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any field of a reply, and where it is cut for a message."""
    key = "secret-0123456789-abcdefghijklmnop"
    monkeypatch.setenv("WINNOW_TEST_KEY", key)
    with pytest.raises((ReaderError, RetryableError)) as error:
        PROTOCOL.parse_reply(text.replace("KEY", key), [REQUEST])
    assert "0123456789" not in str(error.value)


def test_a_key_in_a_refusal_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole or split."""
    key = "secret-0123456789-abcdefghijklmnop"
    monkeypatch.setenv("WINNOW_TEST_KEY", key)
    for told in (key, f"{key[:20]} {key[20:]}", "x" * 280 + key):
        with pytest.raises(ReaderError) as error:
            PROTOCOL.convert_refusal(401, {"message": told}, {}, "")
        assert "0123456789" not in str(error.value)


def test_what_is_tried_again_and_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """429, 5xx, timeouts and disconnects are; Retry-After is heard in seconds and as a date; other
    4xx end the run.
    """
    for status in (408, 409, 429, 500, 503, 529):
        with pytest.raises(RetryableError, match=f"HTTP {status}"):
            PROTOCOL.convert_error(status_error(status))
    afters = []
    for headers in (
        {"retry-after": "7"},
        {"retry-after-ms": "250"},
        {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"},
        {"retry-after": "soon"},
        {},
    ):
        with pytest.raises(RetryableError) as caught:
            PROTOCOL.convert_error(status_error(429, **headers))
        afters.append(caught.value.after)
    assert afters == [7.0, 0.25, 0.0, None, None]
    request = httpx2.Request("POST", "http://127.0.0.1:1/v1")
    with pytest.raises(RetryableError, match="in time"):
        PROTOCOL.convert_error(openai.APITimeoutError(request))
    with pytest.raises(RetryableError, match="connection"):
        PROTOCOL.convert_error(openai.APIConnectionError(request=request))
    monkeypatch.setenv("WINNOW_TEST_KEY", "told")
    with pytest.raises(ReaderError, match=r"HTTP 401: .*\[key\].*WINNOW_TEST_KEY"):
        PROTOCOL.convert_error(status_error(401))
    with pytest.raises(ReaderError, match="quota"):
        PROTOCOL.convert_error(status_error(429, "insufficient_quota"))


def test_refusals_that_are_outcomes() -> None:
    """A content filter answers with nothing; a prompt that is too long is shortened by
    the driver.
    """
    assert PROTOCOL.convert_error(status_error(400, "content_filter")) == Generation(
        "", "content_filter"
    )
    assert isinstance(PROTOCOL.convert_error(status_error(400, "context_length_exceeded")), TooLong)
    for words in (
        "the request exceeds the available context size",
        "longer than the maximum model length of 4096",
    ):
        assert isinstance(PROTOCOL.convert_refusal(400, {"message": words}, {}, ""), TooLong)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (502, {"message": "bad gateway: The context window of the 1920s was too long"}),
        (503, "the model length is unknown"),
        (504, {"error": {"message": "context size"}}),
        (
            422,
            {"detail": [{"type": "int_type", "msg": "not a number", "input": "a context window"}]},
        ),
        (400, {"message": "n must be 1", "request": {"prompt": "the prompt is too long"}}),
    ],
)
def test_what_an_error_repeats_of_the_prompt_is_not_its_reason(status: int, body: object) -> None:
    """A passage that speaks of context windows is not dropped for it."""
    with pytest.raises((RetryableError, ReaderError), match=f"HTTP {status}"):
        PROTOCOL.convert_refusal(status, body, {}, "")


def test_reasons_in_the_forms_of_known_servers() -> None:
    """Nested, in a list, or as a text."""
    long = "This model's maximum context length is 10 tokens"
    for body in (
        {"error": {"message": long}},
        {"error": [{"msg": long}]},
        {"detail": long},
        long,
        {"error": {"metadata": {"raw": long}}},
        {"OriginalMessage": long},
        {"error_description": long},
        {"message": {"errorMessage": long}},
    ):
        assert isinstance(PROTOCOL.convert_refusal(400, body, {}, ""), TooLong)


@pytest.mark.parametrize(
    ("status", "code", "body"),
    [
        (404, "model_not_found", {"message": "The model does not exist"}),
        (404, "", {"error": "model 'm' not found, try pulling it first"}),
        (400, "model_deprecated", {"message": "gone"}),
    ],
)
def test_a_retired_model_is_named_with_one_to_compare_with(
    status: int, code: str, body: object
) -> None:
    """An address that does not exist is another error."""
    with pytest.raises(ReaderError, match=r"does not serve the model .*reader.base=gpt-4.1-mini"):
        PROTOCOL.convert_refusal(status, body, {}, code)
    with pytest.raises(ReaderError, match="Check the model"):
        PROTOCOL.convert_refusal(404, "no such page", {}, "")
