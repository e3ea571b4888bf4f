"""Secrets in texts from outside."""

import base64
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from winnow.formats.secrets import mask_secret

KEY = "sk-proj-Ab3/dE9+xYz0123456789qrstuvwXYZ"


@pytest.mark.parametrize(
    "form",
    [
        KEY,
        quote(KEY, safe=""),
        base64.b64encode(KEY.encode()).decode(),
        KEY[8:30],
        KEY[-12:],
        KEY[:-5],
        f"{KEY[:20]} ... {KEY[20:]}",
    ],
)
def test_a_secret_is_masked_in_every_form(form: str) -> None:
    """Whole, encoded, and in pieces of twelve characters or more."""
    masked = mask_secret(f"Incorrect API key provided: {form}. See the docs.", KEY)
    assert "[key]" in masked
    assert masked.startswith("Incorrect API key provided: ")
    assert masked.endswith(". See the docs.")
    assert not any(
        KEY[start : start + 12] in masked for start in range(len("sk-proj-"), len(KEY) - 11)
    )


def test_what_is_no_secret_stays() -> None:
    """A prefix that all keys have, short pieces, and any text without a secret."""
    text = "sk-proj-... 0123456789 is not the key"
    assert mask_secret(text, KEY) == text
    assert mask_secret("a b c", "") == "a b c"
    assert mask_secret("the key is abc", "abc") == "the key is [key]"


@settings(deadline=None)
@given(st.text(), st.text(min_size=12, alphabet=st.characters(min_codepoint=33, max_codepoint=126)))
def test_no_piece_of_twelve_characters_is_left(text: str, secret: str) -> None:
    """Wherever it is in the text."""
    assert secret not in mask_secret(f"{text}{secret}{text}", secret).replace("[key]", "\0")
