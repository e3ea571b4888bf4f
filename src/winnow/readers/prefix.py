"""Prefix caching: the model reads the tokens that all prompts of a batch begin with only once.

The common prefix consists of the chat template, the instruction and the demonstrations. Servers
such as vLLM find and cache common prefixes themselves. `generate` of transformers accepts cached
keys and values but does not find common prefixes, so this module finds and caches the prefix for
local readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import torch

from winnow.modeling.pair_inputs import pad_rows

if TYPE_CHECKING:
    from winnow.modeling.loading import LanguageModel

_MIN_PREFIX_TOKENS = 16
"""Minimum length of a cached prefix, below which its forward pass costs more time than it saves."""


def compute_prefix_length(rows: Sequence[Sequence[int]]) -> int:
    """Compute the common prefix length of all rows, leaving at least one token of each row."""
    first, last = min(rows, key=list), max(rows, key=list)
    length = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    )
    return max(0, min(length, min(map(len, rows)) - 1))


def collate(
    lm: LanguageModel,
    prompts: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]] | None = None,
) -> dict[str, Any]:
    """Build the left-padded model inputs of a batch, with a cache of the prompts' common prefix.

    Args:
        lm: Model and tokenizer.
        prompts: Token ids of each prompt.
        targets: Token ids to append to each prompt, or None. They are never part of the prefix, so
            that the model computes their logits.

    Returns:
        "input_ids" and "attention_mask" of shape (rows, length of the longest row).
        "past_key_values" contains the common prefix if the prefix is long enough and the model
        caches every token; the padding then follows the prefix.
    """
    pad_id = int(lm.tokenizer.pad_token_id)
    rows = (
        prompts
        if targets is None
        else [[*prompt, *target] for prompt, target in zip(prompts, targets, strict=True)]
    )
    prefix_length = (
        compute_prefix_length(prompts) if len(prompts) > 1 and lm.has_full_attention else 0
    )
    if prefix_length < _MIN_PREFIX_TOKENS:
        prefix_length = 0
    ids, mask = pad_rows([row[prefix_length:] for row in rows], pad_id, left=True)
    prefix = torch.tensor(list(rows[0][:prefix_length]), dtype=ids.dtype).expand(len(rows), -1)
    inputs: dict[str, Any] = {
        "input_ids": torch.cat([prefix, ids], dim=1).to(lm.device),
        "attention_mask": torch.cat([torch.ones_like(prefix), mask], dim=1).to(lm.device),
    }
    if prefix_length:
        with torch.inference_mode():
            output = lm.model(
                inputs["input_ids"][:1, :prefix_length], use_cache=True, logits_to_keep=1
            )
            inputs["past_key_values"] = output.past_key_values
            inputs["past_key_values"].batch_repeat_interleave(len(rows))
    return inputs
