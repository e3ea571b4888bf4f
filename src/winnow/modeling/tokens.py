"""Look-up of tokens by their text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winnow.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def single_token(tokenizer: PreTrainedTokenizerBase, text: str, hint: str) -> int:
    """Return the id of a text that is a single token.

    Raises:
        ModelError: If the tokenizer does not know the text or splits it. The first of several pieces could also begin other
            words. `hint` completes the message with what to do.

    """
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    if len(ids) != 1 or ids[0] == tokenizer.unk_token_id:
        pieces = tokenizer.convert_ids_to_tokens(ids)
        raise ModelError(f"The tokenizer splits {text!r} into {pieces}; it must be one known token. {hint}")
    return ids[0]
