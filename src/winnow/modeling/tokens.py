"""Look-up of token ids by the text of the token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winnow.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def get_single_token_id(tokenizer: PreTrainedTokenizerBase, text: str, hint: str) -> int:
    """Return the id of the token that is exactly `text`.

    Args:
        tokenizer: Tokenizer of the model.
        text: Text of the token.
        hint: Sentence that says what to do, with which the error message ends.

    Raises:
        ModelError: If the tokenizer does not know the text, or splits it into several tokens. The
            first of them would not do, because other words could begin with it too.
    """
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    if len(ids) != 1 or ids[0] == tokenizer.unk_token_id:
        pieces = tokenizer.convert_ids_to_tokens(ids)
        raise ModelError(
            f"The tokenizer splits {text!r} into {pieces}, but it must be one known token. {hint}"
        )
    return ids[0]
