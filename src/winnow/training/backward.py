"""Forward and backward pass of a batch, chunk by chunk.

A chunk is a set of rows of the batch that run through the models together. With gradient caching
(Gao et al. 2021), the activations of at most one chunk are in memory. The first pass computes the
values of every chunk without gradients, then the loss and its gradient with respect to these
values. The second pass runs each chunk again and backpropagates this gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from winnow.errors import WinnowError
from winnow.training.chunks import Chunk
from winnow.training.groups import Group, list_question_ids
from winnow.training.method import Batch, Method
from winnow.training.settings import LoopSettings

Autocast = Callable[[], AbstractContextManager[Any]]
"""Function that returns the context manager in which models run, such as `torch.autocast`."""


def accumulate_gradients(
    method: Method[Batch],
    batch: Batch,
    groups: Sequence[Group],
    settings: LoopSettings,
    epoch: int,
    *,
    scale: float = 1.0,
    autocast: Autocast = nullcontext,
) -> tuple[dict[str, float], int]:
    """Compute the loss of a batch, and add its scaled gradient to the parameters' gradients.

    Args:
        method: Training method, which computes the values and the loss.
        batch: Batch that the method prepared from `groups`.
        groups: Questions of the batch, which error messages name.
        settings: Settings of the training, of which this function uses chunk size, gradient caching
            and maximum loss.
        epoch: Epoch, which seeds the choice of target answers.
        scale: Factor of the gradient: the batch's fraction of the questions of the optimizer step.
        autocast: Function that returns the context manager in which the chunks run.

    Returns:
        The loss and its terms by name, and the number of tokens in the batch without padding.

    Raises:
        WinnowError: If the loss is not finite or exceeds `settings.max_loss`. In this case, no
            gradient is added.
    """
    chunks = method.chunks(batch, settings.seed, epoch, settings.chunk_tokens)
    run_forward = _run_forward_with_caching if settings.gradient_caching else _run_forward
    values, run_second_pass = run_forward(chunks, autocast)
    terms = method.loss(values, batch)
    loss = terms["loss"]
    if not torch.isfinite(loss) or loss.item() > settings.max_loss:
        raise WinnowError(
            f"The training loss became {loss.item()} on the questions {list_question_ids(groups)}. "
            "Lower the learning rate, or check these questions and their contexts."
        )
    (scale * loss).backward()  # type: ignore[no-untyped-call]
    run_second_pass()
    num_tokens = sum(chunk.num_tokens for chunk in chunks)
    return {name: float(value.detach()) for name, value in terms.items()}, num_tokens


def _run_forward(
    chunks: Sequence[Chunk], autocast: Autocast
) -> tuple[torch.Tensor, Callable[[], None]]:
    """Run the chunks with gradients; return their values and a second pass that does nothing."""
    with autocast():
        values = [chunk.run() for chunk in chunks]
    return _restore_batch_order(chunks, values), lambda: None


def _run_forward_with_caching(
    chunks: Sequence[Chunk], autocast: Autocast
) -> tuple[torch.Tensor, Callable[[], None]]:
    """Run chunks without gradients; return values and the second pass (after `loss.backward()`)."""
    random_states: list[list[torch.Tensor]] = []
    values = []
    for chunk in chunks:
        random_states.append(_get_random_states())
        with torch.no_grad(), autocast():
            values.append(chunk.run())
    cached_values = _restore_batch_order(chunks, values).detach().requires_grad_()

    def run_second_pass() -> None:
        final_states = _get_random_states()
        gradient = cached_values.grad
        assert gradient is not None
        for chunk, states in zip(chunks, random_states, strict=True):
            _set_random_states(states)  # so that dropout drops the same units as in the first pass
            with autocast():
                recomputed = chunk.run()
            recomputed.backward(gradient[list(chunk.rows)])  # type: ignore[no-untyped-call]
        _set_random_states(final_states)

    return cached_values, run_second_pass


def _restore_batch_order(chunks: Sequence[Chunk], values: Sequence[torch.Tensor]) -> torch.Tensor:
    """Concatenate the values of the chunks to (rows, columns), with the rows in batch order."""
    positions = torch.tensor(
        [row for chunk in chunks for row in chunk.rows], device=values[0].device
    )
    return torch.cat(list(values))[torch.argsort(positions)]


def _get_random_states() -> list[torch.Tensor]:
    """Return the random number generator states of the CPU and, if available, of the GPU."""
    cuda_states = [torch.cuda.get_rng_state()] if torch.cuda.is_available() else []
    return [torch.get_rng_state(), *cuda_states]


def _set_random_states(states: Sequence[torch.Tensor]) -> None:
    torch.set_rng_state(states[0])
    for state in states[1:]:
        torch.cuda.set_rng_state(state)
