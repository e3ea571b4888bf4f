"""Chunks: rows of a batch that run through the models together, within a token budget."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from winnow.training.groups import Group


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a batch, and the function that computes their values.

    Attributes:
        rows: Positions of the rows in the batch.
        run: Function that computes the values as a float32 tensor (rows, columns), with gradients.
        tokens: Number of tokens in the rows, without padding.

    """

    rows: Sequence[int]
    run: Callable[[], torch.Tensor]
    tokens: int


def spread(groups: Sequence[Group], values: torch.Tensor, fill: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Reshape one value per pair to (questions, contexts), padded with `fill`; return it with the mask of real contexts."""
    counts = [len(group.contexts) for group in groups]
    padded = torch.nn.utils.rnn.pad_sequence(list(torch.split(values, counts)), batch_first=True, padding_value=fill)
    mask = torch.arange(padded.shape[1], device=padded.device) < torch.tensor(counts, device=padded.device)[:, None]
    return padded, mask


def list_pairs(groups: Sequence[Group]) -> Iterator[tuple[Group, int]]:
    """Yield (group, position of the context) for every pair of a question and one of its contexts."""
    return ((group, position) for group in groups for position in range(len(group.contexts)))
