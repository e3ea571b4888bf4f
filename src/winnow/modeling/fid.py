"""Fusion-in-decoder, for training and reader: contexts are encoded separately and concatenated for the decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from winnow.modeling.pair_inputs import budget_batches, padded

if TYPE_CHECKING:
    from winnow.modeling.loading import LanguageModel

_ENCODER_TOKENS = 16384


def fuse(lm: LanguageModel, rows: Sequence[Sequence[Sequence[int]]]) -> dict[str, Any]:
    """Return `encoder_outputs` and `attention_mask` for some questions, given the token rows of each one's contexts.

    The contexts of a question are concatenated without padding between them, so that the decoder attends to no more
    positions than there are tokens: (questions, longest sum of lengths).
    """
    from transformers.modeling_outputs import BaseModelOutput

    flat = [row for question in rows for row in question]
    pad = int(lm.tokenizer.pad_token_id)
    states: dict[int, torch.Tensor] = {}
    for batch in budget_batches([len(row) for row in flat], _ENCODER_TOKENS):
        ids, padding = padded([flat[n] for n in batch], pad)
        encoder: Any = lm.model.get_encoder()
        encoded = encoder(input_ids=ids.to(lm.device), attention_mask=padding.to(lm.device)).last_hidden_state
        states.update({n: encoded[place, : len(flat[n])] for place, n in enumerate(batch)})
    ends = iter(range(len(flat)))
    joined = [torch.cat([states[next(ends)] for _ in question]) for question in rows]
    hidden = torch.nn.utils.rnn.pad_sequence(joined, batch_first=True)
    lengths = torch.tensor([len(states) for states in joined], device=hidden.device)
    mask = torch.arange(hidden.shape[1], device=hidden.device) < lengths[:, None]
    return {"encoder_outputs": BaseModelOutput(last_hidden_state=hidden), "attention_mask": mask.long()}


def generate_fused(lm: LanguageModel, rows: Sequence[Sequence[Sequence[int]]], max_new_tokens: int) -> list[str]:
    """Return the greedy answers to some questions, each from all its contexts."""
    with torch.inference_mode():
        output = lm.model.generate(  # type: ignore[operator]  # transformers types it as Tensor | Module
            **fuse(lm, rows), max_new_tokens=max_new_tokens, do_sample=False, num_beams=1
        )
    return [str(text).strip() for text in lm.tokenizer.batch_decode(output[:, 1:], skip_special_tokens=True)]
