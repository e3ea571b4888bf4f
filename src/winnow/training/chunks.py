"""Batches in chunks of a token budget: run once with their activations, or twice without keeping them.

With `recompute` a chunk's activations are not kept: losses and their gradients with regard to each pair's few numbers come
first, then each chunk runs once more with its gradient, so that twenty contexts fit where one does (gradient caching, Gao et
al. 2021).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from winnow.errors import WinnowError
from winnow.training.groups import Group, names

if TYPE_CHECKING:
    from winnow.training.loop import LoopSettings, Method


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a batch that run through the models together: where they belong, and what computes their numbers."""

    rows: Sequence[int]
    run: Callable[[], torch.Tensor]
    """Returns (rows, columns) float32."""
    tokens: int
    """Real ones, without padding."""


def set_dropout(model: torch.nn.Module, share: float) -> None:
    """Set the dropout of every layer of a model."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = share
        for name in ("dropout", "attention_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, share)


Precision = Callable[[], AbstractContextManager[Any]]


def backward(
    method: Method,
    groups: Sequence[Group],
    settings: LoopSettings,
    epoch: int,
    *,
    scale: float = 1.0,
    precision: Precision = nullcontext,
) -> tuple[dict[str, float], int]:
    """Add `scale` times the gradient of a batch's loss to the models; return the loss's parts and the real tokens read.

    Raises:
        WinnowError: if the loss is not finite or explodes; the message names the questions, nothing was added.

    """
    chunks = method.chunks(groups, settings.seed, epoch, settings.chunk_tokens)
    run = _run_twice if settings.recompute else _run_once
    values, resume = run(chunks, precision)
    parts = method.loss(values, groups)
    loss = parts["loss"]
    if not torch.isfinite(loss) or loss.item() > settings.explode_at:
        raise WinnowError(
            f"The training loss became {loss.item()} on {names(groups)}; lower the learning rate, or look at these questions."
        )
    (scale * loss).backward()  # type: ignore[no-untyped-call]
    resume()
    return {name: float(value.detach()) for name, value in parts.items()}, sum(chunk.tokens for chunk in chunks)


def _run_once(chunks: Sequence[Chunk], precision: Precision) -> tuple[torch.Tensor, Callable[[], None]]:
    with precision():
        made = [chunk.run() for chunk in chunks]
    return _in_order(chunks, made), lambda: None


def _run_twice(chunks: Sequence[Chunk], precision: Precision) -> tuple[torch.Tensor, Callable[[], None]]:
    states: list[list[torch.Tensor]] = []
    made = []
    for chunk in chunks:
        states.append(_random_states())
        with torch.no_grad(), precision():
            made.append(chunk.run())
    leaf = _in_order(chunks, made).detach().requires_grad_()

    def resume() -> None:
        after = _random_states()
        gradient = leaf.grad
        assert gradient is not None
        for chunk, state in zip(chunks, states, strict=True):
            _set_random_states(state)
            with precision():
                again = chunk.run()
            again.backward(gradient[list(chunk.rows)])  # type: ignore[no-untyped-call]
        _set_random_states(after)

    return leaf, resume


def _in_order(chunks: Sequence[Chunk], made: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return (rows, columns) in the batch's order."""
    place = torch.tensor([row for chunk in chunks for row in chunk.rows], device=made[0].device)
    return torch.cat(list(made))[torch.argsort(place)]


def _random_states() -> list[torch.Tensor]:
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state()] if torch.cuda.is_available() else [])]


def _set_random_states(states: Sequence[torch.Tensor]) -> None:
    torch.set_rng_state(states[0])
    for state in states[1:]:
        torch.cuda.set_rng_state(state)


def spread(groups: Sequence[Group], values: torch.Tensor, fill: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (questions, contexts) of one column of pair values, and the mask of where there is a context."""
    counts = [len(group.contexts) for group in groups]
    rows = torch.nn.utils.rnn.pad_sequence(list(torch.split(values, counts)), batch_first=True, padding_value=fill)
    mask = torch.arange(rows.shape[1], device=rows.device) < torch.tensor(counts, device=rows.device)[:, None]
    return rows, mask


def pairs_of(groups: Sequence[Group]) -> Iterator[tuple[Group, int]]:
    """Yield each group with each position of its contexts."""
    return ((group, n) for group in groups for n in range(len(group.contexts)))
