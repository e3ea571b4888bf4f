"""Fusion-in-Decoder for training and inference, with separately encoded, concatenated contexts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import torch

from winnow.modeling.pair_inputs import group_by_token_budget, pad_rows

if TYPE_CHECKING:
    from winnow.modeling.loading import LanguageModel

_ENCODER_TOKENS = 16384
"""Maximum number of padded tokens per batch of the encoder."""


def fuse_contexts(lm: LanguageModel, rows: Sequence[Sequence[Sequence[int]]]) -> dict[str, Any]:
    """Encode the contexts of each question separately, and concatenate them for the decoder.

    There is no padding between the contexts of a question, so that the decoder attends to no more
    positions than necessary.

    Args:
        lm: Encoder-decoder model.
        rows: Token ids of each context of each question.

    Returns:
        The arguments `encoder_outputs` and `attention_mask` of the model, with one row per
        question.
    """
    from transformers.modeling_outputs import BaseModelOutput

    contexts = [context for question in rows for context in question]
    pad_id = int(lm.tokenizer.pad_token_id)
    states: dict[int, torch.Tensor] = {}
    for batch in group_by_token_budget([len(context) for context in contexts], _ENCODER_TOKENS):
        ids, mask = pad_rows([contexts[index] for index in batch], pad_id)
        encoder: Any = lm.model.get_encoder()
        batch_states = encoder(
            input_ids=ids.to(lm.device), attention_mask=mask.to(lm.device)
        ).last_hidden_state
        states.update(
            {index: batch_states[row, : len(contexts[index])] for row, index in enumerate(batch)}
        )
    indices = iter(range(len(contexts)))
    encodings = [torch.cat([states[next(indices)] for _ in question]) for question in rows]
    hidden_states = torch.nn.utils.rnn.pad_sequence(encodings, batch_first=True)
    lengths = torch.tensor([len(encoding) for encoding in encodings], device=hidden_states.device)
    attention_mask = (
        torch.arange(hidden_states.shape[1], device=hidden_states.device) < lengths[:, None]
    ).long()
    return {
        "encoder_outputs": BaseModelOutput(last_hidden_state=hidden_states),
        "attention_mask": attention_mask,
    }


def generate_fused(
    lm: LanguageModel, rows: Sequence[Sequence[Sequence[int]]], max_new_tokens: int
) -> list[list[int]]:
    """Generate an answer to each question from all of its contexts, with greedy decoding.

    Args:
        lm: Encoder-decoder model.
        rows: Token ids of each context of each question.
        max_new_tokens: Maximum number of generated tokens.

    Returns:
        The token ids of each answer, the last of which ends it unless it was cut.
    """
    with torch.inference_mode():
        output = lm.model.generate(  # type: ignore[operator]  # transformers types it as Tensor | Module
            **fuse_contexts(lm, rows), max_new_tokens=max_new_tokens, do_sample=False, num_beams=1
        )
    return [_cut_at_end(ids, lm.end_token_ids) for ids in output[:, 1:].tolist()]


def _cut_at_end(ids: list[int], end_token_ids: Collection[int]) -> list[int]:
    """Return the token ids up to the first one that ends an answer."""
    ends = [position for position, token_id in enumerate(ids) if token_id in end_token_ids]
    return ids[: ends[0] + 1] if ends else ids


def decode_answer(lm: LanguageModel, ids: list[int]) -> str:
    """Return the text of an answer, without white space around it."""
    return str(lm.tokenizer.decode(ids, skip_special_tokens=True)).strip()
