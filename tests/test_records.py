"""Records check themselves."""

from dataclasses import fields

import pytest

from winnow.errors import ConfigError
from winnow.records import Decoding, Generation, Usage


@pytest.mark.parametrize(
    ("bad", "word"), [({"max_new_tokens": 0}, "at least 1"), ({"temperature": -1}, "greedy"), ({"top_p": 0}, "top_p")]
)
def test_decoding_out_of_range(bad: dict[str, float], word: str) -> None:
    """Each setting is named with its value."""
    with pytest.raises(ConfigError, match=word):
        Decoding(**bad)  # type: ignore[arg-type]


def test_usage_adds_up() -> None:
    """Token by token."""
    assert Usage(1, 2) + Usage(3, 4) == Usage(4, 6)


def test_a_reply_with_another_usage_keeps_every_other_field() -> None:
    """Each field has a value of its own, so that none can be mixed up or left out."""
    values = {one.name: object() for one in fields(Generation)}
    reply = Generation(**values)  # type: ignore[arg-type]
    other = reply.with_usage(Usage(1, 2))
    for name, value in values.items():
        assert getattr(other, name) is value if name != "usage" else other.usage == Usage(1, 2)
