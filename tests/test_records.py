"""Records check themselves."""

import pytest

from winnow.errors import ConfigError
from winnow.records import Decoding, Usage


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


def test_usages_are_equal_if_their_tokens_are() -> None:
    """The time is not compared."""
    assert Usage(1, 2, 3.0) == Usage(1, 2, 4.0)
    assert Usage(1, 2) != Usage(1, 3)
    assert Usage(1, 2) != Usage(2, 2)
    assert Usage(1, 2) != (1, 2, 0.0)
