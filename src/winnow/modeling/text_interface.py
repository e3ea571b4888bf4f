"""What turns messages into the tokens of a causal language model, and its tokens into text.

A runtime that has a model's weights elsewhere needs no more of it. With a converted model, it is
stored so that neither PyTorch nor the classes of models are imported to read it.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winnow.errors import ConfigError, ModelError
from winnow.modeling.chat import PLACE_OF_REPLY, render_chat
from winnow.modeling.weights import load_tokenizer_or_config
from winnow.requests import Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_FILE = "text_interface.json"
_ATTRIBUTES = (
    "all_special_tokens",
    "chat_template",
    "clean_up_tokenization_spaces",
    "padding_side",
    "split_special_tokens",
    "special_tokens_map",
)
"""Attributes of a tokenizer, besides its rules, on which prompts and replies depend."""


@dataclass(frozen=True)
class TextInterface:
    """Tokenizer and limits of a causal language model.

    Attributes:
        tokenizer: Tokenizer, which pads on the left and has the model's chat template.
        context_length: Maximum number of tokens of prompt and reply together.
        end_token_ids: Ids of the tokens that end a reply.
    """

    tokenizer: PreTrainedTokenizerBase
    context_length: int
    end_token_ids: frozenset[int]

    @cached_property
    def reply_end_id(self) -> int:
        """The id of the token that ends a reply in the chat template, such as Gemma's
        "<end_of_turn>", if it is one of `end_token_ids`; otherwise the end-of-sequence token.
        """
        ids: list[int] = []
        if self.tokenizer.chat_template is not None:
            turns = [
                Message("user", "a"),
                Message("assistant", PLACE_OF_REPLY),
                Message("user", "b"),
            ]
            with suppress(ConfigError):  # a template that has other turns
                rest = render_chat(self.tokenizer, turns).partition(PLACE_OF_REPLY)[2].lstrip()
                ids = self.tokenizer(rest, add_special_tokens=False)["input_ids"]
        is_end = bool(ids) and ids[0] in self.end_token_ids
        return ids[0] if is_end else int(self.tokenizer.eos_token_id)


def write_interface(text: TextInterface, folder: Path) -> None:
    """Write the tokenizer and the limits of a model to the folder of its conversion.

    A tokenizer that would not be read as it is gets no file: it is loaded with the original model.
    """
    text.tokenizer.save_pretrained(folder)
    class_name = type(text.tokenizer).__name__
    record = {
        "tokenizer_class": class_name,
        "context_length": text.context_length,
        "end_token_ids": sorted(text.end_token_ids),
    }
    with suppress(ModelError, AttributeError):  # of a class that does not read what it wrote
        if not _is_equal(text.tokenizer, _load_tokenizer(class_name, folder)):
            return
        (folder / _FILE).write_text(json.dumps(record))


def read_interface(folder: Path) -> TextInterface | None:
    """Read what `write_interface` wrote, or return None if it wrote nothing."""
    if not (folder / _FILE).is_file():
        return None
    record = json.loads((folder / _FILE).read_text())
    return TextInterface(
        _load_tokenizer(record["tokenizer_class"], folder),
        record["context_length"],
        frozenset(record["end_token_ids"]),
    )


def _load_tokenizer(class_name: str, folder: Path) -> Any:
    """Load a tokenizer with its class, because `AutoTokenizer` would also import PyTorch."""
    import transformers

    tokenizer_class = getattr(transformers, class_name)
    return load_tokenizer_or_config(tokenizer_class, str(folder), padding_side="left")


def _is_equal(tokenizer: Any, other: Any) -> bool:
    """Return whether two tokenizers have the same rules, special tokens and chat template."""
    rules: list[Any] = [getattr(one, "backend_tokenizer", None) for one in (tokenizer, other)]
    return (
        None not in rules
        and rules[0].to_str() == rules[1].to_str()
        and all(getattr(tokenizer, name) == getattr(other, name) for name in _ATTRIBUTES)
    )
