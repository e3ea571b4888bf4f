"""Chunks: rows of a batch that run through the models together, as they fit into a token budget.

A row is what a training method computes values for: a pair of a question and one of its contexts,
or a whole question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from winnow.errors import ConfigError
from winnow.training.groups import Group

if TYPE_CHECKING:
    import torch

    from winnow.estimators.pair import PairEstimator


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a batch, and the function that computes their values.

    Attributes:
        rows: Positions of the rows in the batch.
        run: Function that computes the values as a float32 tensor (rows, columns), with gradients.
            The training method defines what the columns are.
        num_tokens: Number of tokens in the rows, without padding.
    """

    rows: Sequence[int]
    run: Callable[[], torch.Tensor]
    num_tokens: int


def build_chunks(
    batches: Iterable[Sequence[int]],
    run: Callable[[Sequence[int]], torch.Tensor],
    num_tokens: Sequence[int],
) -> list[Chunk]:
    """Build a chunk of each batch of rows, from a function of rows and the tokens of every row."""
    return [
        Chunk(rows, partial(run, rows), sum(num_tokens[row] for row in rows)) for rows in batches
    ]


def pad_by_question(
    groups: Sequence[Group], values: torch.Tensor, padding_value: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Arrange one value per question-context pair as a matrix with one row per question.

    Args:
        groups: Questions with their contexts.
        values: Values of the pairs, (pairs,), in the order of `list_pairs`.
        padding_value: Value of the positions where a question has no context.

    Returns:
        The matrix (questions, contexts), and a mask that is True where a question has a context.
    """
    import torch

    counts = [len(group.contexts) for group in groups]
    padded_values = torch.nn.utils.rnn.pad_sequence(
        list(torch.split(values, counts)), batch_first=True, padding_value=padding_value
    )
    mask = (
        torch.arange(padded_values.shape[1], device=padded_values.device)
        < torch.tensor(counts, device=padded_values.device)[:, None]
    )
    return padded_values, mask


def list_pairs(groups: Sequence[Group]) -> Iterator[tuple[Group, int]]:
    """Yield each pair of a question and a context, as the group and the position of the context."""
    return ((group, position) for group in groups for position in range(len(group.contexts)))


def encode_pairs(
    estimator: PairEstimator, groups: Sequence[Group]
) -> tuple[list[list[int]], list[int]]:
    """Tokenize all questions' pairs, in the order of `list_pairs`, for training an estimator.

    Returns:
        Token ids of each pair, and the position of its first passage token.

    Raises:
        ConfigError: If the estimator's runtime is not "torch", because other runtimes keep the
            weights of their first call.
    """
    if estimator.runtime != "torch":
        raise ConfigError(
            f"An estimator can be trained only with runtime=torch; received {estimator.runtime!r}."
        )
    pairs = [
        (group.question.text, group.contexts[position].passage)
        for group, position in list_pairs(groups)
    ]
    estimator.tokens.prepare(pairs)
    rows = [estimator.tokens.encode(*pair) for pair in pairs]
    return rows, [estimator.tokens.get_second_start(*pair) for pair in pairs]
