"""Small T5 models with random weights and a word-level tokenizer, for data of known vocabulary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Lt

_SPECIAL_TOKENS = ("<pad>", "</s>", "<unk>", "<mask>")
"""Special tokens in the order of their ids."""


@dataclass(frozen=True, slots=True)
class ScratchT5:
    """Size of a T5 with random weights. The defaults give 1.3 million parameters.

    Attributes:
        d_model: Width of the model.
        d_ff: Width of the feed-forward layers.
        layers: Number of encoder layers, which is also the number of decoder layers.
        heads: Number of attention heads.
        dropout: Dropout probability.
    """

    revision: ClassVar[int] = 1

    d_model: Annotated[int, Ge(1)] = 128
    d_ff: Annotated[int, Ge(1)] = 512
    layers: Annotated[int, Ge(1)] = 2
    heads: Annotated[int, Ge(1)] = 4
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0


def build_word_tokenizer(texts: Iterable[str]) -> Any:
    """Build a tokenizer that splits at whitespace and has the words of the texts as vocabulary."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = dict.fromkeys(word for text in texts for word in text.split())
    tokens = [*_SPECIAL_TOKENS, *(word for word in words if word not in _SPECIAL_TOKENS)]
    vocabulary = {token: token_id for token_id, token in enumerate(tokens)}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=_SPECIAL_TOKENS[2]))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special_tokens = dict(
        zip(("pad_token", "eos_token", "unk_token", "mask_token"), _SPECIAL_TOKENS, strict=True)
    )
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=backend, **special_tokens)  # type: ignore[no-untyped-call]
    return tokenizer


def make_t5(folder: Path, texts: Iterable[str], size: ScratchT5, seed: int) -> Path:
    """Save a T5 with random weights and a word-level tokenizer to a folder.

    Args:
        folder: Folder to write.
        texts: Texts whose words are the vocabulary.
        size: Size of the model.
        seed: Seed of the weights.

    Returns:
        The folder.
    """
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(seed)
    tokenizer = build_word_tokenizer(texts)
    config = T5Config(  # type: ignore[call-arg]  # every config accepts decoder_start_token_id
        vocab_size=len(tokenizer), d_model=size.d_model, d_kv=size.d_model // size.heads,
        d_ff=size.d_ff, num_layers=size.layers, num_decoder_layers=size.layers,
        num_heads=size.heads, dropout_rate=size.dropout, pad_token_id=0, eos_token_id=1,
        decoder_start_token_id=0,
    )  # fmt: skip
    T5ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
