"""Tokens that are named by their text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winnow.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def single_token(tokenizer: PreTrainedTokenizerBase, text: str, hint: str) -> int:
    """Return the id of the one token that a text is.

    Raises:
        ModelError: if the tokenizer splits the text, so that its first piece would also begin other words; `hint` says what
            to do.

    """
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    if len(ids) != 1 or ids[0] == tokenizer.unk_token_id:
        pieces = tokenizer.convert_ids_to_tokens(ids)
        raise ModelError(f"The tokenizer splits {text!r} into {pieces}; it must be one known token. {hint}")
    return ids[0]
