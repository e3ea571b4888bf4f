"""Shares the common prefix of a batch's prompts (instruction, chat template, demonstrations): it is computed once.

transformers' `generate` accepts cached keys and values; finding and sharing them within a batch is what servers do (vLLM's
prefix caching), and a reader on this machine has none.
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
"""Length from which sharing saves more than its own pass costs."""


def common_prefix(rows: Sequence[Sequence[int]]) -> int:
    """Return the length of the common prefix of all rows, leaving at least one token of each."""
    first, last = min(rows, key=list), max(rows, key=list)
    length = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))
    return min(length, min(map(len, rows)) - 1)


def collate(
    lm: LanguageModel, prompts: Sequence[Sequence[int]], targets: Sequence[Sequence[int]] | None = None
) -> dict[str, Any]:
    """Return the inputs of a batch, padded on the left, or after the prompts' common prefix, which then is in a cache.

    `targets` follow the prompts; they are never part of the prefix, so that their logits are computed. "input_ids" and
    "attention_mask" are (rows, longest); "past_key_values" caches the common prefix, where it is long enough and the model
    keeps keys and values of every token.
    """
    pad = int(lm.tokenizer.pad_token_id)
    rows = prompts if targets is None else [[*prompt, *target] for prompt, target in zip(prompts, targets, strict=True)]
    shared = common_prefix(prompts) if len(prompts) > 1 and _keeps_every_token(lm) else 0
    shared = shared if shared >= _MIN_TOKENS else 0
    ids, mask = padded([row[shared:] for row in rows], pad, left=True)
    prefix = torch.tensor(list(rows[0][:shared]), dtype=ids.dtype).expand(len(rows), -1)
    inputs: dict[str, Any] = {
        "input_ids": torch.cat([prefix, ids], dim=1).to(lm.device),
        "attention_mask": torch.cat([torch.ones_like(prefix), mask], dim=1).to(lm.device),
    }
    if shared:
        with torch.inference_mode():
            inputs["past_key_values"] = lm.model(
                inputs["input_ids"][:1, :shared], use_cache=True, logits_to_keep=1
            ).past_key_values
            inputs["past_key_values"].batch_repeat_interleave(len(rows))
    return inputs


def _keeps_every_token(lm: LanguageModel) -> bool:
    """Return whether all layers attend to all earlier tokens; sliding windows would count the padding after the prefix."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    config = lm.model.config
    if any(getattr(config, name, None) for name in ("attention_types", "window_size")):  # GPT-Neo's, in no cache's layers
        return False
    return all(type(layer) is DynamicLayer for layer in DynamicCache(config=config).layers)
