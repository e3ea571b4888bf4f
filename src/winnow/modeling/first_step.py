"""The first decoder step of a T5, without computing keys and values for every encoder position.

The first decoder token attends only to itself and to the encoder's output. Multiplying its query by
the key matrix once replaces the keys of all encoder positions (q·(Kh) = (Kᵀq)·h). The value matrix
is applied once, to the weighted mean of the encoder's vectors. The result is the same up to
rounding. With the six decoder layers of T5-small, this saves a sixth of the multiplications of a
score. transformers' decoder does not offer this optimization.

The suffix of a tensor's name gives its dimensions: B rows, T encoder positions, D model width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def has_t5_decoder(model: PreTrainedModel) -> bool:
    """Return whether the model has the decoder of T5, which this module requires."""
    from transformers import MT5ForConditionalGeneration, T5ForConditionalGeneration

    return isinstance(model, (T5ForConditionalGeneration, MT5ForConditionalGeneration))


def compute_first_hidden(
    model: Any, encoded_BTD: torch.Tensor, mask_BT: torch.Tensor
) -> torch.Tensor:
    """Compute the (B, D) input of the language model head at the first decoder position.

    Dropout is applied if the model is in training mode.

    Args:
        model: Model with the decoder of T5 (see `has_t5_decoder`).
        encoded_BTD: Output of the encoder.
        mask_BT: Attention mask of the encoder's input.
    """
    decoder, config = model.decoder, model.config
    start = torch.full(
        (encoded_BTD.shape[0],), config.decoder_start_token_id, device=encoded_BTD.device
    )
    hidden_states = decoder.dropout(decoder.embed_tokens(start))
    bias = torch.zeros(mask_BT.shape, device=encoded_BTD.device).masked_fill(
        mask_BT == 0, float("-inf")
    )
    for block in decoder.block:
        self_attention, cross_attention, feed_forward = block.layer
        attention = self_attention.SelfAttention  # a single token attends only to its own value
        value = attention.o(
            _apply_head_dropout(attention, attention.v(self_attention.layer_norm(hidden_states)))
        )
        hidden_states = hidden_states + self_attention.dropout(value)
        normed = cross_attention.layer_norm(hidden_states)
        attended = _cross_attend(cross_attention.EncDecAttention, normed, encoded_BTD, bias)
        hidden_states = feed_forward(hidden_states + cross_attention.dropout(attended))
    hidden_states = decoder.dropout(decoder.final_layer_norm(hidden_states))
    scaled: torch.Tensor = (
        hidden_states * config.d_model**-0.5
        if getattr(config, "scale_decoder_outputs", False)
        else hidden_states
    )
    return scaled


def _cross_attend(
    attention: Any, hidden: torch.Tensor, encoded_BTD: torch.Tensor, bias_BT: torch.Tensor
) -> torch.Tensor:
    """Attend from one (B, D) token per row to the encoder's output. In einsum, h is heads, w head
    width and d model width.
    """
    shape = (attention.n_heads, attention.key_value_proj_dim)
    query = attention.q(hidden).view(-1, *shape)
    key, value = (matrix.weight.view(*shape, -1) for matrix in (attention.k, attention.v))
    query = torch.einsum("bhw,hwd->bhd", query, key)
    scores = (query @ encoded_BTD.transpose(1, 2)).float() + bias_BT[:, None]
    weights = torch.nn.functional.dropout(
        scores.softmax(dim=-1), attention.dropout, attention.training
    )
    mean = weights.to(encoded_BTD.dtype) @ encoded_BTD
    values = torch.einsum("bhd,hwd->bhw", mean, value)
    attended: torch.Tensor = attention.o(values.flatten(1))
    return attended


def _apply_head_dropout(attention: Any, values_BD: torch.Tensor) -> torch.Tensor:
    """Apply dropout to the single attention weight of each head, as attention does in training."""
    if not attention.training or not attention.dropout:
        return values_BD
    heads = values_BD.view(len(values_BD), attention.n_heads, -1)
    mask = torch.nn.functional.dropout(
        torch.ones_like(heads[..., :1]), attention.dropout, training=True
    )
    return (heads * mask).flatten(1)
