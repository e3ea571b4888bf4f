"""Chunks: the rows of a batch that run through the models together, within a token budget."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from winnow.training.groups import Group


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a batch, and the function that computes their values.

    Attributes:
        rows: their positions in the batch.
        run: returns (rows, columns) float32, with gradients.
        tokens: real ones, without padding.

    """

    rows: Sequence[int]
    run: Callable[[], torch.Tensor]
    tokens: int


def spread(groups: Sequence[Group], values: torch.Tensor, fill: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return one column of pair values as (questions, contexts), and the mask of the positions that have a context."""
    counts = [len(group.contexts) for group in groups]
    rows = torch.nn.utils.rnn.pad_sequence(list(torch.split(values, counts)), batch_first=True, padding_value=fill)
    mask = torch.arange(rows.shape[1], device=rows.device) < torch.tensor(counts, device=rows.device)[:, None]
    return rows, mask


def pairs_of(groups: Sequence[Group]) -> Iterator[tuple[Group, int]]:
    """Yield each group with each position of its contexts."""
    return ((group, n) for group in groups for n in range(len(group.contexts)))
