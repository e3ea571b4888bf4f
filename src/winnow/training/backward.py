"""The gradient of a batch, chunk by chunk.

With gradient caching (Gao et al. 2021) a chunk's activations are not kept: the loss and its gradient with regard to each
pair's few values come first, then each chunk runs once more with its gradient, so that twenty contexts fit where one does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from winnow.errors import WinnowError
from winnow.training.chunks import Chunk
from winnow.training.groups import Group, names
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
    """Add `scale` times the gradient of a batch's loss to the models; return the loss's terms and the number of real tokens.

    Args:
        method: computes values and loss.
        batch: prepared from the groups.
        groups: the questions, for messages.
        settings: token budget, gradient caching and largest loss.
        epoch: seeds the choice of targets.
        scale: the batch's share of the optimizer step.
        precision: context in which the chunks run.

    Raises:
        WinnowError: if the loss is not finite or too large; the message names the questions, no gradient is added.

    """
    chunks = method.chunks(batch, settings.seed, epoch, settings.chunk_tokens)
    forward = _forward_twice if settings.gradient_caching else _forward_once
    values, finish = forward(chunks, precision)
    terms = method.loss(values, batch)
    loss = terms["loss"]
    if not torch.isfinite(loss) or loss.item() > settings.max_loss:
        raise WinnowError(
            f"The training loss became {loss.item()} on {names(groups)}; lower the learning rate, or look at these questions."
        )
    (scale * loss).backward()  # type: ignore[no-untyped-call]
    finish()
    return {name: float(value.detach()) for name, value in terms.items()}, sum(chunk.tokens for chunk in chunks)


def _forward_once(chunks: Sequence[Chunk], precision: Precision) -> tuple[torch.Tensor, Callable[[], None]]:
    with precision():
        values = [chunk.run() for chunk in chunks]
    return _in_batch_order(chunks, values), lambda: None


def _forward_twice(chunks: Sequence[Chunk], precision: Precision) -> tuple[torch.Tensor, Callable[[], None]]:
    states: list[list[torch.Tensor]] = []
    values = []
    for chunk in chunks:
        states.append(_random_states())
        with torch.no_grad(), precision():
            values.append(chunk.run())
    leaf = _in_batch_order(chunks, values).detach().requires_grad_()

    def finish() -> None:
        after = _random_states()
        gradient = leaf.grad
        assert gradient is not None
        for chunk, state in zip(chunks, states, strict=True):
            _set_random_states(state)
            with precision():
                again = chunk.run()
            again.backward(gradient[list(chunk.rows)])  # type: ignore[no-untyped-call]
        _set_random_states(after)

    return leaf, finish


def _in_batch_order(chunks: Sequence[Chunk], values: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return (rows, columns) in the batch's order."""
    place = torch.tensor([row for chunk in chunks for row in chunk.rows], device=values[0].device)
    return torch.cat(list(values))[torch.argsort(place)]


def _random_states() -> list[torch.Tensor]:
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state()] if torch.cuda.is_available() else [])]


def _set_random_states(states: Sequence[torch.Tensor]) -> None:
    torch.set_rng_state(states[0])
    for state in states[1:]:
        torch.cuda.set_rng_state(state)
