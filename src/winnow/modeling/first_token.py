"""The last layer of an encoder, computed for the first token alone.

A classifier of pairs and an encoder with pooling "cls" read the first token ([CLS]) of the last
layer. The other tokens give it their keys and values, but nothing reads their queries, feed-forward
vectors and outputs. These are five sixths of the layer's matrix products, which is a seventh of
those of a model with six layers.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

_MODEL_TYPES = ("bert", "camembert", "electra", "roberta", "xlm-roberta")
"""Types of models whose layers are BERT's."""
_ATTENTION = ("sdpa", "eager")
"""Implementations of attention whose mask has the shape (B, 1, T, T)."""


def skip_unread_tokens(model: Any) -> bool:
    """Make an encoder's last layer compute only the first token, except during training.

    In training, dropout draws a number for each token, so that a training would not be the same.

    Args:
        model: Encoder of which only the first token is read. Models that are not like BERT stay as
            they are.

    Returns:
        Whether the last layer computes the first token alone from now on, outside training.
    """
    config = model.config
    if (
        config.model_type not in _MODEL_TYPES
        or config._attn_implementation not in _ATTENTION
        or config.is_decoder
    ):
        return False
    layer = model.base_model.encoder.layer[-1]
    layer.forward = partial(_compute_first_token, layer, layer.forward)
    return True


def _compute_first_token(
    layer: Any,
    compute_all: Any,
    hidden: torch.Tensor,
    mask: torch.Tensor | None = None,
    *args: Any,
    **options: Any,
) -> torch.Tensor:
    """Compute a layer's output of the first token (B, 1, D) or, in training, of all (B, T, D).

    Args:
        layer: Layer of the encoder.
        compute_all: Original method of the layer.
        hidden: Inputs of all tokens (B, T, D).
        mask: Attention mask (B, 1, T, T), or None if there is no padding.
        args: Further arguments of the original method.
        options: Further options of the original method.
    """
    if layer.training:
        outputs: torch.Tensor = compute_all(hidden, mask, *args, **options)
        return outputs
    attention, first = layer.attention.self, hidden[:, :1]
    queries, keys, values = (
        vectors.unflatten(-1, (-1, attention.attention_head_size)).transpose(1, 2)
        for vectors in (attention.query(first), attention.key(hidden), attention.value(hidden))
    )
    first_mask = None if mask is None else mask[:, :, :1]
    attended = torch.nn.functional.scaled_dot_product_attention(
        queries, keys, values, first_mask, scale=attention.scaling
    )
    output: torch.Tensor = layer.feed_forward_chunk(
        layer.attention.output(attended.transpose(1, 2).flatten(2), first)
    )
    return output
