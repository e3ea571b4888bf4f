"""Batches in chunks: the gradient is that of the whole batch, however it is cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from tests.training.methods import METHODS, SETTINGS
from winnow.training.backward import accumulate_gradients
from winnow.training.chunks import pad_by_question
from winnow.training.groups import Group
from winnow.training.progress import set_dropout

if TYPE_CHECKING:
    from conftest import SmallWorld

    from winnow.training.method import Method
    from winnow.training.settings import LoopSettings


def gradients(
    method: Method[Any], groups: Sequence[Group], settings: LoopSettings
) -> dict[str, torch.Tensor]:
    """The gradient of one batch, with the same dropout each time."""
    for lm in method.models.values():
        lm.model.train()  # type: ignore[no-untyped-call]
        lm.model.zero_grad()
    torch.manual_seed(1)
    accumulate_gradients(method, method.prepare(groups, settings.seed, 0), groups, settings, 0)
    return {
        f"{name}.{n}": p.grad.clone()
        for name, lm in method.models.items()
        for n, p in lm.model.named_parameters()
        if p.grad is not None
    }


@METHODS
def test_recomputing_chunks_gives_the_same_gradient(
    make: Callable[[str], Method[Any]], small: SmallWorld
) -> None:
    """With dropout: each chunk runs again under the random numbers it had."""
    method = make(small.base)
    once = gradients(method, small.train[:4], SETTINGS)
    twice = gradients(method, small.train[:4], replace(SETTINGS, gradient_caching=True))
    assert once.keys() == twice.keys()
    assert all(torch.allclose(once[n], twice[n], atol=1e-6) for n in once)


@METHODS
def test_chunks_and_the_order_of_questions_change_nothing(
    make: Callable[[str], Method[Any]], small: SmallWorld
) -> None:
    """Without dropout: any token budget, any order of questions, the same gradient
    beyond rounding.
    """
    method = make(small.base)
    for lm in method.models.values():
        set_dropout(lm.model, 0.0)
    whole = gradients(method, small.train[:4], replace(SETTINGS, chunk_tokens=100_000))
    small_chunks = gradients(method, small.train[:4][::-1], replace(SETTINGS, chunk_tokens=40))
    assert all(torch.allclose(whole[n], small_chunks[n], atol=1e-5) for n in whole)


def test_columns_are_spread_over_questions(small: SmallWorld) -> None:
    """One row per question, in order; where a question has fewer contexts the mask says so."""
    groups = [
        replace(small.train[0], contexts=small.train[0].contexts[:1]),
        replace(small.train[1], contexts=small.train[1].contexts[:3]),
    ]
    rows, mask = pad_by_question(groups, torch.tensor([1.0, 2.0, 3.0, 4.0]), -1.0)
    assert rows.tolist() == [[1, -1, -1], [2, 3, 4]]
    assert mask.tolist() == [[True, False, False], [True, True, True]]
