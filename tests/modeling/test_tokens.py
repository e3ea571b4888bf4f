"""Tokens by their text."""

import pytest

from winnow.errors import ModelError
from winnow.modeling.tokens import get_single_token_id
from winnow.testing import make_tiny_tokenizer


def test_a_word_is_one_token_or_refused() -> None:
    """A known word has an id; a text of two tokens and an unknown one are refused with the hint."""
    tokenizer = make_tiny_tokenizer(["the river is true false"] * 20)
    token = get_single_token_id(tokenizer, " true", "Choose another.")
    assert tokenizer.decode([token]).strip() == "true"
    with pytest.raises(ModelError, match=r"splits ' true false' into .*Choose another\."):
        get_single_token_id(tokenizer, " true false", "Choose another.")
