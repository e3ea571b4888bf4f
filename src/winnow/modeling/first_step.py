"""The first decoder step of a T5, without computing keys and values of every context token.

A decoder's first token attends to the encoder's output only. Multiplying its query by the key matrix once replaces the keys of
all context tokens (q·(Kh) = (Kᵀq)·h), and the value matrix is applied once to the weighted mean of the vectors: the same
result up to rounding. With six decoder layers of T5-small this saves a sixth of the multiplications of a score.
transformers' decoder does not offer this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def supports(model: PreTrainedModel) -> bool:
    """Return whether a model has T5's decoder."""
    from transformers import MT5ForConditionalGeneration, T5ForConditionalGeneration

    return isinstance(model, (T5ForConditionalGeneration, MT5ForConditionalGeneration))


def first_hidden(model: Any, encoded_BTD: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
    """Return the (B, D) input of the vocabulary matrix at the first position; dropout follows the model's mode."""
    decoder, config = model.decoder, model.config
    start = torch.full((encoded_BTD.shape[0],), config.decoder_start_token_id, device=encoded_BTD.device)
    hidden = decoder.dropout(decoder.embed_tokens(start))
    gap = torch.zeros(mask_BT.shape, device=encoded_BTD.device).masked_fill(mask_BT == 0, float("-inf"))
    for block in decoder.block:
        own, across, forward = block.layer
        attention = own.SelfAttention  # a single token attends to its own value
        value = attention.o(_head_dropout(attention, attention.v(own.layer_norm(hidden))))
        hidden = hidden + own.dropout(value)
        attended = _attend(across.EncDecAttention, across.layer_norm(hidden), encoded_BTD, gap)
        hidden = forward(hidden + across.dropout(attended))
    hidden = decoder.dropout(decoder.final_layer_norm(hidden))
    scaled: torch.Tensor = hidden * config.d_model**-0.5 if getattr(config, "scale_decoder_outputs", False) else hidden
    return scaled


def _attend(attention: Any, hidden: torch.Tensor, encoded_BTD: torch.Tensor, gap: torch.Tensor) -> torch.Tensor:
    """Attend from one token per row (B, D) to the encoder's output. In einsum: h heads, w head width, d model width."""
    shape = (attention.n_heads, attention.key_value_proj_dim)
    query = attention.q(hidden).view(-1, *shape)
    key, value = (matrix.weight.view(*shape, -1) for matrix in (attention.k, attention.v))
    query = torch.einsum("bhw,hwd->bhd", query, key)
    scores = (query @ encoded_BTD.transpose(1, 2)).float() + gap[:, None]
    weights = torch.nn.functional.dropout(scores.softmax(dim=-1), attention.dropout, attention.training)
    mean = weights.to(encoded_BTD.dtype) @ encoded_BTD
    values = torch.einsum("bhd,hwd->bhw", mean, value)
    attended: torch.Tensor = attention.o(values.flatten(1))
    return attended


def _head_dropout(attention: Any, values_BD: torch.Tensor) -> torch.Tensor:
    """Drop out a head's only attention weight, as attention does in training."""
    if not attention.training or not attention.dropout:
        return values_BD
    heads = values_BD.view(len(values_BD), attention.n_heads, -1)
    mask = torch.nn.functional.dropout(torch.ones_like(heads[..., :1]), attention.dropout, training=True)
    return (heads * mask).flatten(1)
