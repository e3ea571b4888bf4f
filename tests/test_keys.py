"""Keys of requests."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

import pytest
from msgspec import Struct, structs

from winnow.errors import ConfigError
from winnow.keys import compute_request_key
from winnow.records import Decoding, Passage
from winnow.requests import (
    Estimate,
    FusedGenerate,
    Generate,
    Likelihood,
    Message,
    Request,
    Search,
    Tool,
    ToolCall,
)


def generate(text: str, decoding: Decoding | None = None, sample: int = 0) -> Generate:
    """A request with one user message."""
    return Generate((Message("user", text),), decoding or Decoding(), sample)


def test_keys_tell_apart_all_that_changes_a_result() -> None:
    """Engine, text, decoding, sample and kind; a greedy seed changes nothing."""
    base = compute_request_key("m", generate("a"))
    others = [
        compute_request_key("n", generate("a")),
        compute_request_key("m", generate("b")),
        compute_request_key("m", generate("a", Decoding(max_new_tokens=5))),
        compute_request_key("m", generate("a", Decoding(temperature=0.7))),
        compute_request_key("m", generate("a", sample=1)),
        compute_request_key("m", generate("a", Decoding(stop=("b",)))),
        compute_request_key("m", generate("a", Decoding(stop=("b", "token_logprobs", "c")))),
        compute_request_key(
            "m", structs.replace(generate("a", Decoding(stop=("b",))), token_logprobs=("c",))
        ),
        compute_request_key("m", Estimate("a", "b")),
        compute_request_key("m", Search("a", 3)),
    ]
    assert len({base, *others}) == 11
    calls = [
        (ToolCall("a", "b"),),
        (ToolCall("ab", ""),),
        (ToolCall("a", "", "b"),),
        (ToolCall("a", ""), ToolCall("b", "")),
    ]
    turns = [
        Message("user", "a"),
        *(Message("user", "a", one) for one in calls),
        Message("user", "a", call_id="a"),
    ]
    pairs = [(one, Message("user", "x")) for one in turns] + [
        (Message("user", "a"), Message("user", "x", calls[0]))
    ]
    assert len(
        {compute_request_key("m", Generate(messages, Decoding())) for messages in pairs}
    ) == len(pairs)
    assert compute_request_key("m", generate("a", Decoding(seed=5))) == base


REQUESTS: list[Request] = [
    Generate(
        (Message("system", "s"), Message("user", "u")),
        Decoding(5, 0.7, 0.9, 3, logprobs=True, top_logprobs=2, stop=("\n",)),
        1,
        token_logprobs=("yes",),
    ),
    Generate(
        (
            Message("assistant", "s", (ToolCall("search", "{}", "1"), ToolCall("a", "b"))),
            Message("tool", "u", call_id="1"),
        ),
        Decoding(5, 0.7, 0.9, 3),
        tools=(Tool("search", "Search.", "{}"),),
    ),
    Likelihood((Message("system", "s"), Message("user", "u")), "answer", True, True),
    Estimate("question", "text", "title"),
    Search("query", 3, ("text",)),
    Search("query", 3, ("te", "xt")),
]
NOT_IN_KEYS = {
    ("Decoding", "samples"): "samples are numbered, so that ten reuse the first five",
    **{
        (kind, "role"): "the engine's identity is in the key"
        for kind in ("Generate", "Likelihood", "Estimate", "Search")
    },
    **{(kind, "may_fail"): "the plan's business" for kind in ("Generate", "Estimate")},
    ("Generate", "may_be_too_long"): "the plan's business; such a prompt has no result",
    **{
        (kind, "passages"): "the plan's business; the messages contain them"
        for kind in ("Generate", "Likelihood")
    },
    ("Generate", "shorter"): "the driver's business; a shorter request has a key of its own",
}


def changed(value: Any) -> Iterator[Any]:
    """Other values of a field: of each of its parts, one at a time."""
    match value:
        case bool():
            yield not value
        case int() | float():
            yield value + 0.05 if isinstance(value, float) else value + 1
        case str():
            yield {"system": "user", "user": "assistant"}.get(value, f"{value}x")
        case tuple() if value:  # another request has one that is not empty
            yield (*value, *value[:1])
            yield value[:-1]
            for n, item in enumerate(value):
                yield from ((*value[:n], other, *value[n + 1 :]) for other in changed(item))
        case tuple():
            pass
        case _:
            names = (
                value.__struct_fields__
                if isinstance(value, Struct)
                else [part.name for part in fields(value)]
            )
            copy = structs.replace if isinstance(value, Struct) else replace
            for name in names:
                if (type(value).__name__, name) not in NOT_IN_KEYS:
                    for other in changed(getattr(value, name)):
                        with suppress(ConfigError):  # a setting that another one needs
                            yield copy(value, **{name: other})


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_every_field_of_a_request_is_part_of_its_key(request_: Request) -> None:
    """By reflection, down to the roles of messages; NOT_IN_KEYS says why some are not."""
    variants = list(changed(request_))
    keys = {
        compute_request_key("m", request_),
        *(compute_request_key("m", variant) for variant in variants),
    }
    assert len(keys) == len(variants) + 1
    assert len(variants) > 1


def test_a_key_does_not_depend_on_earlier_ones() -> None:
    """Equal numbers may be written differently: each writing has a key of its own, in every order
    of calls.
    """
    writings = [
        generate("a", Decoding(max_new_tokens=1)), generate("a", Decoding(max_new_tokens=1.0)),  # type: ignore[arg-type]
        generate("a", Decoding(5, 0.5, 1, 0)), generate("a", Decoding(5, 0.5, 1.0, 0)),
        generate("a", Decoding(5, 0.5, 1, 0.0)), generate("a", Decoding(5, 0.5, 1, -0.0)),  # type: ignore[arg-type]
        generate("a", sample=1), generate("a", sample=True),
    ]  # fmt: skip
    keys = [compute_request_key("m", one) for one in writings]
    assert len(set(keys)) == len(writings)
    assert [compute_request_key("m", one) for one in reversed(writings)] == keys[::-1]


def test_the_keys_are_those_of_former_ledgers() -> None:
    """As revision 9e2125c wrote them: calls that were paid for stay reachable without a migration.

    Likelihoods are the exception: they come from models on this machine, and were stored without
    their tokens. The last three kinds are newer than that revision; their keys stay what they are
    now.
    """
    messages = (Message("system", "s"), Message("user", "u"))
    requests = {
        "c2711798c812ed6d": Generate(messages, Decoding()),
        "4973e9fc5a956a79": Generate(messages, Decoding(5, 0.7, 0.9, 3), 1),
        "f2f47adbb63d6b67": Generate(messages, Decoding(logprobs=True)),
        "9572ed594b1f1f11": Estimate("question", "text", "title"),
        "347019dadb0d2d3f": Search("query", 3),
        "7858ec95ccfdb6b6": Likelihood(messages, "answer"),
        "ab2efcbaa35c4ed8": Generate(messages, Decoding(), token_logprobs=("yes", "no")),
        "f2f96086a1e072fc": FusedGenerate(messages, Decoding()),
    }
    assert [
        compute_request_key("m@1/float32", request).hex()[:16] for request in requests.values()
    ] == list(requests)


def test_half_a_character_has_a_key() -> None:
    """A lone surrogate, which UTF-8 cannot encode, is told apart from another one."""
    assert compute_request_key("m", generate("\ud800")) != compute_request_key(
        "m", generate("\ud801")
    )


@pytest.mark.parametrize(
    "token", ["<|im_end|>", "</s>", "[INST]", "[SEP]", "<end_of_turn>", "<pad>", "<extra_id_0>"]
)
def test_control_tokens_that_passages_spell_out_are_part_of_the_key(token: str) -> None:
    """They are text there, and tokens if the prompt's template has them: two prompts with the same
    words.
    """
    messages = (Message("user", f"Read: Ada {token} lived. Who?"),)
    plain = Generate(messages, Decoding())
    for passage in (
        Passage("p", "", f"Ada {token} lived"),
        Passage("p", f"Ada {token} lived", "x"),
    ):
        spelled = Generate(messages, Decoding(), passages=(passage,))
        assert compute_request_key("m", spelled) != compute_request_key("m", plain)
    scored = Likelihood(messages, "Ada", passages=(passage,))
    assert compute_request_key("m", scored) != compute_request_key("m", Likelihood(messages, "Ada"))


def test_other_passages_leave_the_key_as_it_is() -> None:
    """The messages have their texts; markup of other kinds is text for every model."""
    plain = Generate((Message("user", "Who?"),), Decoding())
    for text in ("Ada lived", "x < y and y > z", "[1] see <b>here</b>", "a | b"):
        named = Generate(
            (Message("user", "Who?"),), Decoding(), passages=(Passage("p", text, text),)
        )
        assert compute_request_key("m", named) == compute_request_key("m", plain)


def test_borders_of_averaged_texts_are_part_of_the_key() -> None:
    """Two texts are not the one that they make up."""
    texts = [("text",), ("te", "xt"), ("t", "ext")]
    assert len({compute_request_key("m", Search("q", 3, one)) for one in texts}) == 3


@pytest.mark.parametrize(
    "token",
    ["<filename>", "<reponame>", "<repo_name>", "<file_sep>", "<gh_stars>", "<empty_output>",
     "<jupyter_code>", "<issue_start>", "<fim_middle>"],
)  # fmt: skip
def test_control_tokens_of_code_models_count(token: str) -> None:
    """A local reader reads them as text in its passages, and as tokens elsewhere."""
    message = Message("user", f"see {token}")
    passage = Passage("p", "", f"see {token}")
    plain, named = (Generate((message,), Decoding(), passages=own) for own in ((), (passage,)))
    assert compute_request_key("m", plain) != compute_request_key("m", named)
