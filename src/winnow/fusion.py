"""Fusion-in-decoder's one idea, for its training and its reader: contexts encoded alone, laid end to end for the decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from winnow.pairs import budget_batches, padded

if TYPE_CHECKING:
    from winnow.models import LanguageModel

_ENCODER_TOKENS = 16384


def fuse(lm: LanguageModel, rows: Sequence[Sequence[Sequence[int]]]) -> dict[str, Any]:
    """Return the model's `encoder_outputs` and `attention_mask` for some questions, each with the token rows of its contexts.

    The contexts of a question are laid end to end without padding between them, so that the decoder attends to no more
    positions than there are tokens: (questions, longest sum of lengths).
    """
    from transformers.modeling_outputs import BaseModelOutput

    flat = [row for question in rows for row in question]
    pad = int(lm.tokenizer.pad_token_id)
    states: dict[int, torch.Tensor] = {}
    for batch in budget_batches([len(row) for row in flat], _ENCODER_TOKENS):
        ids, mask = padded([flat[n] for n in batch], pad)
        encoder: Any = lm.model.get_encoder()
        made = encoder(input_ids=ids.to(lm.device), attention_mask=mask.to(lm.device)).last_hidden_state
        states.update({n: made[place, : len(flat[n])] for place, n in enumerate(batch)})
    ends = iter(range(len(flat)))
    laid = [torch.cat([states[next(ends)] for _ in question]) for question in rows]
    hidden = torch.nn.utils.rnn.pad_sequence(laid, batch_first=True)
    lengths = torch.tensor([len(one) for one in laid], device=hidden.device)
    reach = torch.arange(hidden.shape[1], device=hidden.device) < lengths[:, None]
    return {"encoder_outputs": BaseModelOutput(last_hidden_state=hidden), "attention_mask": reach.long()}


def write_fused(lm: LanguageModel, rows: Sequence[Sequence[Sequence[int]]], max_new_tokens: int) -> list[str]:
    """Return the greedy answers to some questions, each from all its contexts."""
    with torch.inference_mode():
        made = lm.model.generate(  # type: ignore[operator]  # transformers types it as Tensor | Module
            **fuse(lm, rows), max_new_tokens=max_new_tokens, do_sample=False, num_beams=1
        )
    return [str(text).strip() for text in lm.tokenizer.batch_decode(made[:, 1:], skip_special_tokens=True)]
