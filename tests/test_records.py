"""Records check themselves."""

import pytest

from winnow.errors import ConfigError
from winnow.records import Decoding


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        ({"max_new_tokens": 0}, "at least 1"),
        ({"temperature": -1}, "greedy"),
        ({"top_p": 0}, "top_p"),
    ],
)
def test_decoding_out_of_range(bad: dict[str, float], word: str) -> None:
    """Each setting is named with its value."""
    with pytest.raises(ConfigError, match=word):
        Decoding(**bad)  # type: ignore[arg-type]
