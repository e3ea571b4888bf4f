"""Tokens by their text."""

import pytest

from winnow.errors import ModelError
from winnow.modeling.tokens import single_token
from winnow.testing import tiny_tokenizer


def test_a_word_is_one_token_or_refused() -> None:
    """A known word has an id; a text of two tokens and an unknown one are refused with the hint."""
    tokenizer = tiny_tokenizer(["the river is true false"] * 20)
    token = single_token(tokenizer, " true", "Choose another.")
    assert tokenizer.decode([token]).strip() == "true"
    with pytest.raises(ModelError, match=r"splits ' true false' into .*Choose another\."):
        single_token(tokenizer, " true false", "Choose another.")
