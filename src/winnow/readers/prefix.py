"""Prefix caching: the common prefix of a batch's prompts (instruction, chat template, demonstrations) is computed once.

Servers such as vLLM find and cache common prefixes themselves. transformers' `generate` only accepts cached keys and values,
so a local reader finds and caches the common prefix of a batch here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import torch

from winnow.modeling.pair_inputs import padded

if TYPE_CHECKING:
    from winnow.modeling.loading import LanguageModel

_MIN_TOKENS = 16
"""Minimum length of a prefix: the forward pass over a shorter one costs more than it saves."""


def common_prefix(rows: Sequence[Sequence[int]]) -> int:
    """Compute the length of the common prefix of all rows, leaving at least one token of each."""
    first, last = min(rows, key=list), max(rows, key=list)
    length = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))
    return min(length, min(map(len, rows)) - 1)


def collate(
    lm: LanguageModel, prompts: Sequence[Sequence[int]], targets: Sequence[Sequence[int]] | None = None
) -> dict[str, Any]:
    """Build the inputs of a batch, padded on the left, with a cache of the prompts' common prefix.

    "input_ids" and "attention_mask" are (rows, longest). "past_key_values" caches the common prefix. It exists only if the
    prefix is long enough and the model keeps keys and values of every token; the padding is then after the prefix.
    `targets` follow the prompts. They are never part of the prefix, so that their logits are computed.
    """
    pad = int(lm.tokenizer.pad_token_id)
    rows = prompts if targets is None else [[*prompt, *target] for prompt, target in zip(prompts, targets, strict=True)]
    length = common_prefix(prompts) if len(prompts) > 1 and _keeps_every_token(lm) else 0
    length = length if length >= _MIN_TOKENS else 0
    ids, mask = padded([row[length:] for row in rows], pad, left=True)
    prefix = torch.tensor(list(rows[0][:length]), dtype=ids.dtype).expand(len(rows), -1)
    inputs: dict[str, Any] = {
        "input_ids": torch.cat([prefix, ids], dim=1).to(lm.device),
        "attention_mask": torch.cat([torch.ones_like(prefix), mask], dim=1).to(lm.device),
    }
    if length:
        with torch.inference_mode():
            inputs["past_key_values"] = lm.model(
                inputs["input_ids"][:1, :length], use_cache=True, logits_to_keep=1
            ).past_key_values
            inputs["past_key_values"].batch_repeat_interleave(len(rows))
    return inputs


def _keeps_every_token(lm: LanguageModel) -> bool:
    """Return whether all layers attend to all earlier tokens. A sliding window would count the padding after the prefix."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    config = lm.model.config
    if any(getattr(config, name, None) for name in ("attention_types", "window_size")):  # GPT-Neo's, not in the cache
        return False
    return all(type(layer) is DynamicLayer for layer in DynamicCache(config=config).layers)
