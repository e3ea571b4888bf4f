"""A limit on the padded tokens of a batch, lowered when a GPU has too little memory for one."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from winnow.errors import ModelError
from winnow.modeling.pair_inputs import group_by_token_budget

T = TypeVar("T")
R = TypeVar("R")
_log = logging.getLogger(__name__)


class MemoryBudget:
    """Batch runner that splits batches too large for the GPU's memory, so that the run continues.

    Args:
        tokens: Maximum number of padded tokens per batch to begin with.
        setting: Name of the setting of this number, for messages ("reader.engine.batch_tokens").
    """

    def __init__(self, tokens: int, setting: str) -> None:
        """Store the limit."""
        self.tokens, self.setting = tokens, setting

    def run(
        self, compute: Callable[[Sequence[T]], R], batch: Sequence[T], length: Callable[[T], int]
    ) -> Iterator[tuple[Sequence[T], R]]:
        """Yield a batch with its result or, if it exceeds the GPU's memory, its halves with theirs.

        Args:
            compute: Function that computes the result of a batch of any size.
            batch: Items, at least one.
            length: Function that returns the number of tokens of an item.

        Raises:
            ModelError: If the GPU has too little memory for a single item.
        """
        import torch

        num_tokens = len(batch) * max(map(length, batch))
        if num_tokens <= self.tokens or len(batch) == 1:
            try:
                result = compute(batch)
            except torch.OutOfMemoryError as error:
                reason = " ".join(str(error).split())[:200]
            else:
                yield batch, result
                return
            if len(batch) == 1:
                raise ModelError(
                    f"The GPU has too little memory for a single input of {num_tokens} tokens "
                    f"({reason}). Use a smaller model, another precision (dtype, quantize) or a "
                    "GPU with more memory, or end other programs that use it."
                )
            self._lower(num_tokens // 2, reason)
        middle = len(batch) // 2
        yield from self.run(compute, batch[:middle], length)
        yield from self.run(compute, batch[middle:], length)

    def run_rows(
        self, compute: Callable[[Sequence[int]], R], lengths: Sequence[int]
    ) -> Iterator[tuple[Sequence[int], R]]:
        """Yield the row indices of each batch with its result. Batches have rows of similar length.

        Args:
            compute: Function that computes the result of a batch, which is given by the indices of
                its rows.
            lengths: Number of tokens of each row.

        Raises:
            ModelError: If the GPU has too little memory for a single row.
        """
        batches = group_by_token_budget(lengths, self.tokens)
        return compute_ahead(
            part for batch in batches for part in self.run(compute, batch, lengths.__getitem__)
        )

    def _lower(self, tokens: int, reason: str) -> None:
        """Lower the limit, and release the memory that the failed batch left in torch's cache."""
        import torch

        self.tokens = min(self.tokens, tokens)
        torch.cuda.empty_cache()
        _log.warning(
            "The GPU has too little memory for a batch of %d tokens (%s). From now on, batches "
            "have at most %d; set %s=%d to begin with that.",
            *(2 * tokens, reason, self.tokens, self.setting, self.tokens),
        )


def compute_ahead(results: Iterable[T]) -> Iterator[T]:
    """Yield each result after the next one was requested.

    A GPU computes while Python continues. If a result is only fetched once the next batch was
    submitted, the GPU does not wait until Python has built that batch.
    """
    pending_results: list[T] = []
    for result in results:
        yield from pending_results
        pending_results = [result]
    yield from pending_results
