"""Choices of chat replies, in the forms in which the known servers return them."""

from typing import Any

import pytest

from winnow.readers.choices import parse_choices, read_finish
from winnow.records import Decoding
from winnow.requests import Generation, ToolCall


def choice(content: Any = "Paris", finish: Any = "stop", **fields: Any) -> dict[str, Any]:
    return {"message": {"content": content}, "finish_reason": finish, **fields}


@pytest.mark.parametrize(
    ("reasons", "finish"),
    [
        (
            (
                "stop",
                "STOP",
                "eos_token",
                "stop_sequence",
                "end_turn",
                "eos",
                "COMPLETE",
                None,
                "",
            ),
            "stop",
        ),
        (("length", "max_tokens", "MAX_TOKENS", "model_length", "limit"), "length"),
        (
            (
                "content_filter",
                "SAFETY",
                "RECITATION",
                "PROHIBITED_CONTENT",
                "refusal",
                "content_filter: PROHIBITED_CONTENT",
            ),
            "content_filter",
        ),
        (("tool_calls", "function_call", "tool_use"), "tool_calls"),
        (("error", "abort", "OTHER", "unload", "MALFORMED_FUNCTION_CALL"), "error"),
        (
            ("insufficient_system_resource", "function_call_filter: MALFORMED_FUNCTION_CALL"),
            "error",
        ),
    ],
)
def test_reasons_of_known_servers(reasons: tuple[str | None, ...], finish: str) -> None:
    """In whatever case."""
    assert {read_finish(reason) for reason in reasons} == {finish}


def test_an_unknown_reason_is_kept_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """It may mean anything."""
    assert parse_choices([choice(finish="pause_turn")], 1) == [Generation("Paris", "pause_turn")]
    assert "finish reason 'pause_turn', which is not known" in caplog.text


def test_filtered_replies_are_no_answers() -> None:
    """What was written before the filter stopped it is left out, whatever the server calls it."""
    assert parse_choices([choice("Par", "SAFETY")], 1) == [Generation("", "content_filter")]


def test_parts_of_a_message() -> None:
    """Texts are joined, reasoning is no text, and pictures are refused: what they say would be
    missing from the answer.
    """
    parts = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "Pa"},
        {"type": "text", "text": "ris"},
    ]
    assert [reply.text for reply in parse_choices([choice(parts)], 1)] == ["Paris"]
    assert [reply.text for reply in parse_choices([choice([])], 1)] == [""]
    for content in (3, {"text": "x"}):
        with pytest.raises(TypeError, match="content is"):
            parse_choices([choice(content)], 1)
    for kind in ("image", "image_url", "input_audio"):
        with pytest.raises(ValueError, match=f"parts of the kinds \\['{kind}'\\]"):
            parse_choices([choice([{"type": kind}, parts[1]])], 1)
    for broken in (["x"], [{"type": "text"}]):
        with pytest.raises((TypeError, KeyError)):
            parse_choices([choice(broken)], 1)


def test_choices_are_in_the_order_of_their_indices(caplog: pytest.LogCaptureFixture) -> None:
    """Not in that of the list; more than were requested are left out."""
    choices = [choice("c", index=2), choice("a", index=0), choice("b", index=1)]
    assert [reply.text for reply in parse_choices(choices, 3)] == ["a", "b", "c"]
    assert [reply.text for reply in parse_choices(choices, 1)] == ["a"]
    assert "3 choices for 1 samples" in caplog.text
    assert [reply.text for reply in parse_choices([choice("x"), choice("y")], 2)] == ["x", "y"]
    with pytest.raises(ValueError, match=r"the choices have the indices \[0, 0\]"):
        parse_choices([choice(index=0), choice(index=0)], 2)


def test_reasoning_without_a_text_is_an_empty_reply(caplog: pytest.LogCaptureFixture) -> None:
    """A server with the wrong parser of reasoning puts the answer there; a reply that was cut or
    has a text is what it is.
    """
    for name in ("reasoning_content", "reasoning"):
        (reply,) = parse_choices(
            [{"message": {"content": None, name: "Paris"}, "finish_reason": "stop"}], 1
        )
        assert (reply.text, reply.finish) == ("", "empty")
    assert "takes answers for reasoning" in caplog.text
    cut = {"message": {"content": None, "reasoning_content": "Paris"}, "finish_reason": "length"}
    told = {"message": {"content": "Paris", "reasoning_content": "hm"}, "finish_reason": "stop"}
    replies = parse_choices([cut, told], 2)
    assert [reply.finish for reply in replies] == ["length", "stop"]
    assert [reply.reasoning for reply in replies] == ["Paris", "hm"]


def test_reasoning_is_kept_beside_the_text() -> None:
    """From a field, or from parts of the content, in the words of OpenAI's and Anthropic's servers;
    a text is no reasoning.
    """
    parts = [{"type": "thinking", "thinking": " hm "}, {"type": "text", "text": "Paris"}]
    other = [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "Paris"}]
    mistral = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, parts[1]]
    for message in (
        {"content": parts},
        {"content": other},
        {"content": mistral},
        {"content": "Paris", "reasoning": "hm"},
    ):
        (reply,) = parse_choices([{"message": message, "finish_reason": "stop"}], 1)
        assert (reply.text, reply.reasoning, reply.thoughts) == ("Paris", "hm", "hm")
    (reply,) = parse_choices(
        [{"message": {"content": "Paris", "reasoning": None}, "finish_reason": "stop"}], 1
    )
    assert reply.reasoning == ""


def test_calls_of_tools_are_data() -> None:
    """As they were written, also where arguments are an object or no JSON; a reply of calls alone
    is not empty.
    """
    calls = [
        {
            "id": "1",
            "type": "function",
            "function": {"name": "search", "arguments": '{"query": "x"}'},
        },
        {"function": {"name": "search", "arguments": {"query": "é"}}},
        {"id": "3", "function": {"name": "search", "arguments": "{x"}},
    ]
    message = {"content": None, "reasoning": "hm", "tool_calls": calls}
    (reply,) = parse_choices([{"message": message, "finish_reason": "tool_calls"}], 1)
    assert reply.tool_calls == (
        ToolCall("search", '{"query": "x"}', "1"), ToolCall("search", '{"query": "é"}'),
        ToolCall("search", "{x", "3"),
    )  # fmt: skip
    assert (reply.finish, reply.is_empty) == ("tool_calls", False)
    (reply,) = parse_choices(
        [{"message": {**message, "tool_calls": []}, "finish_reason": "stop"}], 1
    )
    assert (reply.finish, reply.is_empty) == ("empty", True)
    odd = {"content": "Paris", "tool_calls": [{}, "x", {"function": {"arguments": "{}"}}]}
    (reply,) = parse_choices([{"message": odd, "finish_reason": "stop"}], 1)
    assert (reply.text, reply.tool_calls) == ("Paris", (ToolCall("", "{}"),))


@pytest.mark.parametrize(
    "values", [[], [0.5], [-9999.0], [-1.0, -9999.0], [float("-inf")], ["x"], [None]]
)
def test_impossible_log_probabilities_are_omitted(
    values: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """None for a text, above 0, and the value by which servers say that they do not know it."""
    logprobs = {"content": [{"logprob": value} for value in values]}
    (reply,) = parse_choices([choice(logprobs=logprobs)], 1)
    assert reply.logprobs is None
    assert "They are omitted" in caplog.text


def test_log_probabilities_of_certain_tokens() -> None:
    """Rounding may leave them just above 0; a reply without a text has none."""
    assert parse_choices([choice(logprobs={"content": [{"logprob": 1e-6}, {"logprob": -2}]})], 1)[
        0
    ].logprobs == (0.0, -2.0)
    assert parse_choices([choice("", logprobs={"content": []})], 1)[0].logprobs == ()


def test_what_follows_a_stop_string_has_no_log_probabilities() -> None:
    """Of a server that ignores `stop`: those up to its end count. Tokens that do not spell it are
    omitted.
    """
    entries = [
        {"token": token, "logprob": -float(number), "top_logprobs": [{"token": "x", "logprob": -1}]}
        for number, token in enumerate(["Pa", "ris", "\n", "Question", ":"])
    ]
    decoding = Decoding(logprobs=True, top_logprobs=1, stop=("\n",))
    text = "Paris\nQuestion:"
    (reply,) = parse_choices([choice(text, logprobs={"content": entries})], 1, decoding)
    assert (reply.text, reply.finish) == ("Paris", "stop")
    assert reply.logprobs == (0.0, -1.0, -2.0)
    assert reply.tokens == ("Pa", "ris", "\n")
    assert len(reply.top_logprobs) == 3
    (reply,) = parse_choices([choice("Paris\n", logprobs={"content": entries})], 1, decoding)
    assert reply.logprobs == (0.0, -1.0, -2.0)
    odd = [{**entry, "token": "?"} for entry in entries]
    (reply,) = parse_choices([choice(text, logprobs={"content": odd})], 1, decoding)
    assert (reply.text, reply.logprobs, reply.tokens) == ("Paris", None, ())


def test_tokens_and_the_most_probable_ones_are_kept_where_they_are_asked_for() -> None:
    """As many as asked for at each position; a server that does not report them is refused, since
    the plan reads them.
    """
    entries = [
        {
            "token": "Pa",
            "logprob": -0.5,
            "top_logprobs": [{"token": "Pa", "logprob": -0.5}, {"token": "Ro", "logprob": -1.0}],
        },
        {
            "token": "ris",
            "logprob": -2.0,
            "top_logprobs": [{"token": "ul", "logprob": 1e-6}, {"token": "ris", "logprob": -2.0}],
        },
    ]
    decoding = Decoding(logprobs=True, top_logprobs=1)
    (reply,) = parse_choices([choice("Paris", logprobs={"content": entries})], 1, decoding)
    assert (reply.tokens, reply.logprobs) == (("Pa", "ris"), (-0.5, -2.0))
    assert reply.top_logprobs == ({"Pa": -0.5}, {"ul": 0.0})
    (plain,) = parse_choices(
        [choice("Paris", logprobs={"content": entries})], 1, Decoding(logprobs=True)
    )
    assert (plain.tokens, plain.top_logprobs) == ((), ())
    with pytest.raises(KeyError):
        parse_choices(
            [choice("Paris", logprobs={"content": [{"token": "Paris", "logprob": -1.0}]})],
            1,
            decoding,
        )
    empty = [{"token": "Paris", "logprob": -1.0, "top_logprobs": []}]
    with pytest.raises(ValueError, match="no top_logprobs"):
        parse_choices([choice("Paris", logprobs={"content": empty})], 1, decoding)
