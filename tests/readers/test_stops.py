"""Stop strings end a reply before the first of them, in every reader."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from winnow.errors import ConfigError
from winnow.readers.choices import parse_choices
from winnow.readers.fid import FidReader
from winnow.readers.generation import StopStrings
from winnow.readers.local import LocalReader
from winnow.readers.openai_protocol import ChatProtocol
from winnow.readers.stops import end_reply, find_stop
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Message
from winnow.testing import make_tiny_causal_lm

TEXTS = [f"The quick brown fox number {n} " * (1 + n % 4) for n in range(9)]


@pytest.mark.parametrize(
    ("text", "stop", "ended"),
    [
        (" one \ntwo", (), ("one \ntwo", "length")),
        (" one \ntwo", ("\n",), ("one", "stop")),
        ("one two three", ("three", "two"), ("one", "stop")),
        ("\n\nAnswer: x", ("\n",), ("", "stop")),
        ("one", ("two",), ("one", "length")),
        (
            "caf\N{LATIN SMALL LETTER E WITH ACUTE} x",
            ("\N{LATIN SMALL LETTER E WITH ACUTE}",),
            ("caf", "stop"),
        ),
    ],
)
def test_a_reply_ends_before_its_first_stop_string(
    text: str, stop: tuple[str, ...], ended: tuple[str, str]
) -> None:
    """Also at once, and whichever of several comes first."""
    assert end_reply(text, "length", stop) == ended


def test_the_tokens_up_to_a_stop_string() -> None:
    """One that ends inside a character of several tokens is found with its last one."""
    ids = "café, thé".encode()

    def decode(part: Any) -> str:
        return bytes(part).decode(errors="replace")

    assert find_stop(decode, ids, ("é",)) == 5
    assert find_stop(decode, ids, ("c",)) == 1
    assert find_stop(decode, ids, ("thé", "zzz")) == len(ids)
    assert find_stop(decode, ids, ("zzz",)) is None
    assert find_stop(decode, ids, ()) is None
    assert find_stop(decode, b"", ("é",)) is None


def _serve(reader: LocalReader, decoding: Decoding) -> list[Generation]:
    """Reply to all texts, in their order."""
    requests = [Generate((Message("user", text),), decoding) for text in TEXTS]
    reader.submit(requests)
    found: dict[int, Generation] = {}
    while batch := reader.collect(60.0):
        found |= {id(request): result for request, result in batch}  # type: ignore[misc]
    return [found[id(request)] for request in requests]


@pytest.mark.parametrize("runtime", ["torch", "openvino"])
def test_local_readers_stop(tmp_path: Path, runtime: str) -> None:
    """Each reply is the one without stop strings up to the first of them, whatever the others of
    its batch do.
    """
    if runtime == "openvino":
        pytest.importorskip("openvino_genai")
    folder = make_tiny_causal_lm(tmp_path / "lm", TEXTS, context_length=200)
    reader = LocalReader(
        str(folder), "tiny", "float32", runtime=runtime, converted=str(tmp_path / "converted")
    )
    whole, stop = _serve(reader, Decoding(24)), ("/.", "qu")
    assert 1 < sum(any(one in reply.text for one in stop) for reply in whole) < len(whole)
    stopped = _serve(reader, Decoding(24, stop=stop))
    assert [reply.text for reply in stopped] == [
        end_reply(reply.text, "", stop)[0] for reply in whole
    ]
    for before, after in zip(whole, stopped, strict=True):
        is_stopped = any(one in before.text for one in stop)
        assert after.finish == ("stop" if is_stopped else before.finish)
        assert after.usage.tokens_out <= before.usage.tokens_out
        assert after.usage.tokens_in == before.usage.tokens_in
    assert sum(reply.usage.tokens_out for reply in stopped) < sum(
        reply.usage.tokens_out for reply in whole
    )


def test_a_stop_string_that_begins_in_the_prompt_stops_nothing() -> None:
    """Transformers' own criterion ends the first row here; the third one has it in what was
    generated.
    """

    def decode(part: Any) -> str:
        return bytes(part).decode(errors="replace")

    rows = torch.tensor(
        [
            list(b"ask\nObs."),
            list(b"ask\nsObs"),
            list(b"ask\n\nObs"),
            list("ask\n\N{NO-BREAK SPACE}Ob".encode()),
        ]
    )
    assert StopStrings(decode, ["\nObs", "\nOb"], 4)(rows, rows).tolist() == [
        False,
        False,
        True,
        False,
    ]
    assert StopStrings(decode, ["\N{NO-BREAK SPACE}O"], 4)(rows, rows).tolist() == [
        False,
        False,
        False,
        True,
    ]
    long = torch.tensor([list(b"ask" + b"x" * 50 + b"stop"), list(b"ask" + b"stop" + b"x" * 50)])
    assert StopStrings(decode, ["stop"], 3)(long, long).tolist() == [
        True,
        False,
    ], "only the end is looked at again"


def test_a_stop_string_of_the_prompt_stops_nothing(tmp_path: Path) -> None:
    """Only what is generated counts."""
    reader = LocalReader(
        str(make_tiny_causal_lm(tmp_path, TEXTS, context_length=200)), "tiny", "float32"
    )
    whole = _serve(reader, Decoding(6))
    stop = next(
        word
        for word in ("quick brown", "fox number")
        if not any(word in reply.text for reply in whole)
    )
    assert _serve(reader, Decoding(6, stop=(stop,))) == whole


def test_servers_are_asked_to_stop_and_replies_of_those_that_do_not_are_cut() -> None:
    """The field `stop` of the protocol; a reply that was cut by its length before the cut ends with
    "stop".
    """
    request = Generate((Message("user", "u"),), Decoding(5, stop=("\n", "Q:")))
    protocol = ChatProtocol("m", "http://127.0.0.1:1/v1")
    assert protocol.build_body(request)["stop"] == ["\n", "Q:"]
    assert "stop" not in protocol.build_body(Generate((Message("user", "u"),), Decoding(5)))
    choice = {"message": {"content": "Paris Q: What"}, "finish_reason": "length"}
    (reply,) = protocol.parse_reply(json.dumps({"choices": [choice]}), [request])
    assert (reply.text, reply.finish) == ("Paris", "stop")
    filtered = {"message": {"content": "Paris\n"}, "finish_reason": "content_filter"}
    assert parse_choices([filtered], 1, Decoding(stop=("\n",))) == [
        Generation("", "content_filter")
    ]
    failed = {"message": {"content": "Par\nis"}, "finish_reason": "error"}
    assert [one.finish for one in parse_choices([failed], 1, Decoding(stop=("\n",)))] == ["error"]


@pytest.mark.parametrize("stop", ["abc", [""], ["a", ""]])
def test_stop_strings_are_a_list_of_texts(stop: Any) -> None:
    """One text would be taken for its characters, and an empty one would stop every
    reply at once.
    """
    with pytest.raises(
        ConfigError, match=r"decoding\.stop must be a list of texts that are not empty; received"
    ):
        Decoding(stop=stop)


def test_a_list_of_settings_is_a_tuple() -> None:
    """So that a Decoding has a hash."""
    assert hash(Decoding(stop=["a"])) == hash(Decoding(stop=("a",)))
    request = Generate((Message("user", "u"),), Decoding(stop=("a",)))
    assert "no stop strings" in (FidReader("path", "fid").explain_refusal(request) or "")
