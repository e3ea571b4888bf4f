"""The chat protocol as data."""

import json

import httpx
import openai
import pytest

from tests.readers.protocol_cases import PROTOCOL, REQUEST, reply
from winnow.errors import CallRefusedError, ConfigError, ReaderError
from winnow.readers.openai_errors import ModelMismatchError, RetryableError
from winnow.readers.openai_protocol import ChatProtocol
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Usage


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


def test_a_sample_that_failed_keeps_those_that_did_not() -> None:
    """It is marked, and the reader requests it alone."""
    choices = [
        {"message": {"content": text}, "finish_reason": reason}
        for text, reason in (("a", "stop"), ("b", "error"))
    ]
    replies = PROTOCOL.parse_reply(reply(choices=choices), [REQUEST] * 2)
    assert [(one.text, one.finish) for one in replies] == [("a", "stop"), ("b", "error")]


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
    "before", ["\ufeff", "\n\n  ", ": OPENROUTER PROCESSING\n\n", "\ufeff: a\n: b\n"]
)
def test_what_precedes_the_json_of_a_reply_is_skipped(before: str) -> None:
    """A byte-order mark, white space, and comments that keep the connection open; any other text is
    no reply.
    """
    assert [one.text for one in PROTOCOL.parse_reply(before + reply(), [REQUEST])] == ["hi"]
    with pytest.raises(RetryableError, match="does not follow the chat protocol"):
        PROTOCOL.parse_reply("x" + before + reply(), [REQUEST])


def test_what_was_never_sent_is_not_billed_and_a_late_gateway_is() -> None:
    """A refused connection against a gateway that waited for the reply in vain; the name of a field
    is no moderation.
    """
    protocol = ChatProtocol("m", "http://127.0.0.1:9/v1")
    sent = httpx.Request("POST", "http://127.0.0.1:9/v1")
    for cause, billed in ((httpx.ConnectError("refused"), False), (httpx.ReadError("lost"), True)):
        error = openai.APIConnectionError(request=sent)
        error.__cause__ = cause
        with pytest.raises(RetryableError) as caught:
            protocol.convert_error(error)
        assert caught.value.billed is billed
    for status, billed in ((504, True), (502, False)):
        with pytest.raises(RetryableError) as caught:
            protocol.convert_refusal(status, {"message": "m"}, {}, "")
        assert caught.value.billed is billed
    with pytest.raises(ReaderError) as refused:
        protocol.convert_refusal(400, "Unrecognized argument: safety_identifier", {}, "")
    assert not isinstance(refused.value, CallRefusedError)
    with pytest.raises(CallRefusedError):
        protocol.convert_refusal(400, "rejected by our safety system", {}, "")
