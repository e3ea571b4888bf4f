"""The first decoder step of a T5, whose only token reads the encoder's output without keys and values of each context token.

A decoder's first token has nothing but the encoder to attend to. Its query can go through the key matrix once instead of
every context token's vector (q·(Kh) = (Kᵀq)·h), and the weighted mean of the vectors through the value matrix once: the same
numbers but for rounding. With six decoder layers of T5-small that saves a sixth of the multiplications of a judgement.
transformers' decoder has no such road.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def takes(model: PreTrainedModel) -> bool:
    """Tell whether a model's decoder is built as T5's is."""
    from transformers import MT5ForConditionalGeneration, T5ForConditionalGeneration

    return isinstance(model, (T5ForConditionalGeneration, MT5ForConditionalGeneration))


def first_hidden(model: Any, encoded_BTD: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
    """Return (B, D), what the vocabulary matrix is applied to at the first position; dropout as the model's mode says."""
    decoder, config = model.decoder, model.config
    start = torch.full((encoded_BTD.shape[0],), config.decoder_start_token_id, device=encoded_BTD.device)
    hidden = decoder.dropout(decoder.embed_tokens(start))
    gap = torch.zeros(mask_BT.shape, device=encoded_BTD.device).masked_fill(mask_BT == 0, float("-inf"))
    for block in decoder.block:
        own, across, forward = block.layer
        attention = own.SelfAttention  # one token: all of its attention is its own value
        alone = attention.o(_dropped(attention, attention.v(own.layer_norm(hidden))))
        hidden = hidden + own.dropout(alone)
        read = _read(across.EncDecAttention, across.layer_norm(hidden), encoded_BTD, gap)
        hidden = forward(hidden + across.dropout(read))
    hidden = decoder.dropout(decoder.final_layer_norm(hidden))
    scaled: torch.Tensor = hidden * config.d_model**-0.5 if getattr(config, "scale_decoder_outputs", False) else hidden
    return scaled


def _read(attention: Any, hidden: torch.Tensor, encoded_BTD: torch.Tensor, gap: torch.Tensor) -> torch.Tensor:
    """Attend from one token a row (B, D) to the encoder's output; einsum's letters: h heads, w their width, d the model's."""
    shape = (attention.n_heads, attention.key_value_proj_dim)
    query = attention.q(hidden).view(-1, *shape)
    key, value = (matrix.weight.view(*shape, -1) for matrix in (attention.k, attention.v))
    query = torch.einsum("bhw,hwd->bhd", query, key)
    scores = (query @ encoded_BTD.transpose(1, 2)).float() + gap[:, None]
    weights = torch.nn.functional.dropout(scores.softmax(dim=-1), attention.dropout, attention.training)
    mean = weights.to(encoded_BTD.dtype) @ encoded_BTD
    found = torch.einsum("bhd,hwd->bhw", mean, value)
    read: torch.Tensor = attention.o(found.flatten(1))
    return read


def _dropped(attention: Any, values_BD: torch.Tensor) -> torch.Tensor:
    """Drop a head's only attention weight, as attention does in training."""
    if not attention.training or not attention.dropout:
        return values_BD
    heads = values_BD.view(len(values_BD), attention.n_heads, -1)
    kept = torch.nn.functional.dropout(torch.ones_like(heads[..., :1]), attention.dropout, training=True)
    return (heads * kept).flatten(1)
