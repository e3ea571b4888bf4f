"""Forward and backward pass of a batch, chunk by chunk.

With gradient caching (Gao et al. 2021), no activations are kept between the two passes. The first pass computes every
chunk's values without gradients, then the loss and its gradient with respect to these values. The second pass runs each
chunk again and backpropagates that gradient. Twenty contexts then fit into the memory of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from winnow.errors import WinnowError
from winnow.training.chunks import Chunk
from winnow.training.groups import Group, question_ids
from winnow.training.method import Batch, Method
from winnow.training.settings import LoopSettings

Precision = Callable[[], AbstractContextManager[Any]]


def backward(
    method: Method[Batch],
    batch: Batch,
    groups: Sequence[Group],
    settings: LoopSettings,
    epoch: int,
    *,
    scale: float = 1.0,
    precision: Precision = nullcontext,
) -> tuple[dict[str, float], int]:
    """Accumulate the scaled gradient of a batch's loss; return the loss terms and the number of tokens without padding.

    Args:
        method: Training method, which computes the values and the loss.
        batch: Batch that the method prepared from `groups`.
        groups: Questions of the batch, named in error messages.
        settings: Token budget, gradient caching and maximum loss.
        epoch: Epoch, which seeds the choice of target answers.
        scale: Factor of the gradient: the batch's share of the optimizer step.
        precision: Function that returns the context manager in which the chunks run, such as autocast.

    Raises:
        WinnowError: If the loss is not finite or exceeds `settings.max_loss`. No gradient is added.

    """
    chunks = method.chunks(batch, settings.seed, epoch, settings.chunk_tokens)
    forward = _forward_twice if settings.gradient_caching else _forward_once
    values, finish = forward(chunks, precision)
    terms = method.loss(values, batch)
    loss = terms["loss"]
    if not torch.isfinite(loss) or loss.item() > settings.max_loss:
        raise WinnowError(
            f"The training loss became {loss.item()} on the questions {question_ids(groups)}. Lower the learning rate, or "
            "check these questions."
        )
    (scale * loss).backward()  # type: ignore[no-untyped-call]
    finish()
    return {name: float(value.detach()) for name, value in terms.items()}, sum(chunk.tokens for chunk in chunks)


def _forward_once(chunks: Sequence[Chunk], precision: Precision) -> tuple[torch.Tensor, Callable[[], None]]:
    """Run the chunks with gradients; return their values and a no-op as the second pass."""
    with precision():
        values = [chunk.run() for chunk in chunks]
    return _in_batch_order(chunks, values), lambda: None


def _forward_twice(chunks: Sequence[Chunk], precision: Precision) -> tuple[torch.Tensor, Callable[[], None]]:
    """Run the chunks without gradients; return their values and the second pass."""
    random_states: list[list[torch.Tensor]] = []
    values = []
    for chunk in chunks:
        random_states.append(_random_states())
        with torch.no_grad(), precision():
            values.append(chunk.run())
    cached_values = _in_batch_order(chunks, values).detach().requires_grad_()

    def finish() -> None:
        final_states = _random_states()
        gradient = cached_values.grad
        assert gradient is not None
        for chunk, states in zip(chunks, random_states, strict=True):
            _set_random_states(states)  # so that dropout drops the same units again
            with precision():
                recomputed = chunk.run()
            recomputed.backward(gradient[list(chunk.rows)])  # type: ignore[no-untyped-call]
        _set_random_states(final_states)

    return cached_values, finish


def _in_batch_order(chunks: Sequence[Chunk], values: Sequence[torch.Tensor]) -> torch.Tensor:
    """Concatenate the chunks' values into (rows, columns), with the rows in the batch's order."""
    positions = torch.tensor([row for chunk in chunks for row in chunk.rows], device=values[0].device)
    return torch.cat(list(values))[torch.argsort(positions)]


def _random_states() -> list[torch.Tensor]:
    """Return the random states of the CPU and, if available, of the GPU."""
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state()] if torch.cuda.is_available() else [])]


def _set_random_states(states: Sequence[torch.Tensor]) -> None:
    torch.set_rng_state(states[0])
    for state in states[1:]:
        torch.cuda.set_rng_state(state)
