"""The chat protocol as data."""

import json
from contextlib import nullcontext

import httpx2
import openai
import pytest

from winnow.errors import ConfigError, ReaderError
from winnow.readers.openai_protocol import ChatProtocol, ModelMismatchError, RetryableError
from winnow.records import Decoding, Generate, Generation, Message, TooLong, Usage

PROTOCOL = ChatProtocol("m", "http://127.0.0.1:1/v1", "WINNOW_TEST_KEY")
REQUEST = Generate((Message("system", "s"), Message("user", "u")), Decoding(5))


def reply(**changes: object) -> str:
    """A reply with one choice, changed."""
    choice = {"message": {"content": " hi "}, "finish_reason": "stop", **changes.pop("choice", {})}  # type: ignore[dict-item]
    return json.dumps(
        {"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3}, **changes}
    )


@pytest.mark.parametrize(
    ("requested", "served", "is_accepted"),
    [
        ("gpt-4o-mini", "gpt-4o-mini-2024-07-18", True),
        ("gpt-4o", "gpt-4o-mini", False),
        ("gpt-4", "gpt-4-0613", True),
        ("meta-llama/Llama-3-8B", "Llama-3-8B", True),
        ("qwen", "/models/qwen.gguf", True),
        ("/models/llama", "/models/llama@main", True),
        ("llama-3.1", "llama-3.2", False),
        ("openai/gpt-4o", "gpt-4o-2024-08-06", True),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022", True),
        ("gemini-1.5-pro-latest", "gemini-1.5-pro-002", True),
        ("llama3", "llama3:latest", True),
        ("llama3:latest", "llama3", True),
        ("qwen3:0.6b", "qwen3:70b", False),
        ("qwen3", "qwen3:70b", False),
        ("qwen3:0.6b", "qwen3", False),
        ("ft:gpt-4o-mini:org::a", "ft:gpt-4o-mini:org::b", False),
        ("ft:gpt-4o-mini:org::a", "ft:gpt-4o-mini:org::a", True),
        ("Qwen/Qwen2", "qwen/qwen2", True),
        ("claude-sonnet-4", "claude-sonnet-4-5", False),
        ("gpt-4", "gpt-4-32", False),
        ("org1/m", "org2/m", False),
        ("m", "", True),
        ("m", "n", False),
    ],
)
def test_a_served_model_is_the_requested_one_with_a_date_or_a_path(
    requested: str, served: str, is_accepted: bool
) -> None:
    """Anything else is another model."""
    protocol = ChatProtocol(requested, "http://127.0.0.1/v1")
    with nullcontext() if is_accepted else pytest.raises(ReaderError, match="instead of"):
        assert protocol.parse_reply(reply(model=served), [REQUEST])[0].model == served


def test_a_greedy_body_holds_what_was_asked() -> None:
    """No sampling settings, no n; extra fields are added."""
    body = ChatProtocol(
        "m", "http://127.0.0.1/v1", extra={"top_k": 1}, max_tokens_field="max_completion_tokens"
    ).build_body(REQUEST)
    assert body == {
        "model": "m",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
        "max_completion_tokens": 5, "temperature": 0.0, "top_k": 1,
    }  # fmt: skip
    assert "temperature" not in ChatProtocol(
        "m", "http://127.0.0.1/v1", extra={"temperature": None}
    ).build_body(REQUEST)


def test_a_sampled_body_is_seeded_by_what_is_asked() -> None:
    """Another sample has another seed."""
    first, second = (
        PROTOCOL.build_body(Generate(REQUEST.messages, Decoding(5, 0.7), n), samples=2)
        for n in (0, 1)
    )
    assert (first["n"], first["temperature"], first["top_p"]) == (2, 0.7, 1.0)
    assert first["seed"] != second["seed"]


def test_replies_and_outcomes() -> None:
    """Text is trimmed; a cut reply, a filtered one and none at all are outcomes."""
    assert PROTOCOL.parse_reply(reply(), [REQUEST]) == [Generation("hi", "stop", Usage(7, 3))]
    assert (
        PROTOCOL.parse_reply(reply(choice={"finish_reason": "length"}), [REQUEST])[0].finish
        == "length"
    )
    for message in ({"content": None}, {}, {"content": "I think Par"}):
        filtered = {"message": message, "finish_reason": "content_filter"}
        assert PROTOCOL.parse_reply(reply(choice=filtered), [REQUEST])[0] == Generation(
            "", "content_filter", Usage(7, 3)
        )
    assert PROTOCOL.parse_reply(reply(choices=[]), [REQUEST])[0] == Generation(
        "", "empty", Usage(7, 3)
    )
    for content in (None, []):
        assert (
            PROTOCOL.parse_reply(reply(choice={"message": {"content": content}}), [REQUEST])[0].text
            == ""
        )
    logged = {"logprobs": {"content": [{"logprob": -0.5}, {"logprob": -1.0}]}}
    assert PROTOCOL.parse_reply(reply(choice=logged), [REQUEST])[0].logprobs == (-0.5, -1.0)


@pytest.mark.parametrize(
    "broken", [reply(choices=[], error={"code": 502}), reply(choice={"error": {"code": 502}})]
)
def test_an_error_beside_choices_is_no_answer(broken: str) -> None:
    """HTTP 200 with half a text, or none: the call is made again."""
    with pytest.raises(RetryableError, match="reports an error beside its choices"):
        PROTOCOL.parse_reply(broken, [REQUEST])


def test_a_text_that_no_such_request_gives_is_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    """Megabytes for a few tokens; NUL and halves of characters are replaced, which is logged."""
    with pytest.raises(
        RetryableError, match="a reply of 20000000 characters to a request for 5 tokens"
    ):
        PROTOCOL.parse_reply(reply(choice={"message": {"content": "x" * 20_000_000}}), [REQUEST])
    odd = reply(choice={"message": {"content": "Pa\x00ris\ud800"}})
    assert PROTOCOL.parse_reply(odd, [REQUEST])[0].text == "Pa\ufffdris\ufffd"
    assert "2 characters that no text may have" in caplog.text


@pytest.mark.parametrize("reason", ["error", "abort", "OTHER", "load"])
def test_a_reply_that_failed_is_no_answer(reason: str) -> None:
    """HTTP 200, but the server says that it did not complete the reply: the call is made again."""
    with pytest.raises(RetryableError, match=f"reports a failure .finish_reason {reason}."):
        PROTOCOL.parse_reply(
            reply(choice={"message": {"content": "Par"}, "finish_reason": reason}), [REQUEST]
        )


def test_samples_share_the_usage_of_their_call() -> None:
    """The prompt was read once; where there are fewer choices than samples the server
    knows no `n`.
    """
    choices = [{"message": {"content": text}, "finish_reason": "stop"} for text in "ab"]
    replies = PROTOCOL.parse_reply(reply(choices=choices), [REQUEST] * 2)
    assert [(g.text, g.finish, g.usage.tokens_in, g.usage.tokens_out) for g in replies] == [
        ("a", "stop", 7, 2),
        ("b", "stop", 0, 1),
    ]
    with pytest.raises(ReaderError, match="2 of 3 samples"):
        PROTOCOL.parse_reply(reply(choices=choices), [REQUEST] * 3)


def test_tokens_are_estimated_where_the_server_counts_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And it says so."""
    assert PROTOCOL.parse_reply(reply(usage=None), [REQUEST])[0].usage.tokens_in == 16
    assert "estimated" in caplog.text
    body = reply(usage={"prompt_tokens": 10}, choice={"message": {"content": "a reply of words"}})
    usage = PROTOCOL.parse_reply(body, [REQUEST])[0].usage
    assert (usage.tokens_in, usage.tokens_out) == (10, 4)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"choices": 3}',
        '{"choices": [{}]}',
        '{"choices": [{"message": 3}]}',
        reply(choice={"message": {"content": 3}}),
    ],
)
def test_what_is_not_of_the_protocol_is_tried_again(text: str) -> None:
    """Whatever is wrong with it."""
    with pytest.raises(RetryableError, match="does not follow the chat protocol"):
        PROTOCOL.parse_reply(text, [REQUEST])


def status_error(status: int, code: str = "", **headers: str) -> openai.APIStatusError:
    """A refusal as the openai package raises it."""
    request = httpx2.Request("POST", "http://127.0.0.1:1/v1/chat/completions")
    response = httpx2.Response(status, headers=headers, request=request)
    return openai.APIStatusError(
        "refused", response=response, body={"message": "told", "code": code}
    )


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


def test_addresses_and_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A remote server needs a key, one on this machine does not; an address holds no secret."""
    monkeypatch.delenv("WINNOW_TEST_KEY", raising=False)
    assert PROTOCOL.read_api_key() == "none"
    with pytest.raises(ConfigError, match="set the environment variable WINNOW_TEST_KEY"):
        ChatProtocol("m", "https://api.example.org/v1", "WINNOW_TEST_KEY").read_api_key()
    for bad in (
        "api.example.org",
        "https://me:secret@example.org/v1",
        "https://example.org/v1?key=secret",
    ):
        with pytest.raises(ConfigError) as caught:
            ChatProtocol("m", bad)
        assert "secret" not in str(caught.value)


def test_odd_values_of_a_paid_reply_are_repaired_or_left_out() -> None:
    """Half a character, log-probabilities that are no numbers, and impossible token counts; none
    loses the reply.
    """
    odd = {
        "choices": [
            {
                "message": {"content": "Paris \ud83d"},
                "finish_reason": "stop",
                "logprobs": {"content": [{"logprob": -0.5}, {"logprob": float("nan")}]},
            }
        ],
        "usage": {"prompt_tokens": 3e9, "completion_tokens": 1},
    }
    (generation,) = PROTOCOL.parse_reply(json.dumps(odd), [REQUEST])
    assert (generation.text, generation.logprobs) == ("Paris \N{REPLACEMENT CHARACTER}", None)
    assert 0 < generation.usage.tokens_in < 100
    odd["usage"] = {"prompt_tokens": -5, "completion_tokens": 1}
    assert PROTOCOL.parse_reply(json.dumps(odd), [REQUEST])[0].usage.tokens_in > 0


def test_a_second_model_is_marked_accepted_or_ends_the_run() -> None:
    """Two snapshots of one name; a pinned snapshot never takes the reply of another one, whatever
    is set.
    """
    snapshots = ("gpt-4o-2024-05-13", "gpt-4o-2024-11-20")
    for change in ("allow", "mark"):
        protocol = ChatProtocol("gpt-4o", "http://127.0.0.1/v1", model_change=change)  # type: ignore[arg-type]
        for name in snapshots:
            protocol.check_model(name)
    protocol = ChatProtocol("gpt-4o", "http://127.0.0.1/v1", model_change="stop")
    protocol.check_model(snapshots[0])
    protocol.check_model("")
    protocol.check_model(snapshots[0])
    with pytest.raises(
        ModelMismatchError, match=f"several models \\({snapshots[0]}, {snapshots[1]}\\)"
    ):
        protocol.check_model(snapshots[1])
    any_name = ChatProtocol("gpt-4o", "http://127.0.0.1/v1", served_model="*", model_change="stop")
    any_name.check_model("one")
    with pytest.raises(ModelMismatchError, match="several models \\(one, two\\)"):
        any_name.check_model("two")
    with pytest.raises(ModelMismatchError, match="instead of 'gpt-4o-2024-05-13'"):
        ChatProtocol(snapshots[0], "http://127.0.0.1/v1", model_change="allow").check_model(
            snapshots[1]
        )
    with pytest.raises(ConfigError, match="must be allow, mark or stop; received 'never'"):
        ChatProtocol("m", "http://127.0.0.1/v1", model_change="never")  # type: ignore[arg-type]


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


@pytest.mark.parametrize(
    "before", ["\ufeff", "\n\n  ", ": OPENROUTER PROCESSING\n\n", "\ufeff: a\n: b\n"]
)
def test_what_precedes_the_json_of_a_reply_is_skipped(before: str) -> None:
    """A byte-order mark, white space, and comments that keep the connection open; any other text is
    no reply.
    """
    assert [one.text for one in PROTOCOL.parse_reply(before + reply(), [REQUEST])] == ["hi"]
    with pytest.raises(RetryableError, match="does not follow the chat protocol"):
        PROTOCOL.parse_reply("x" + before + reply(), [REQUEST])
