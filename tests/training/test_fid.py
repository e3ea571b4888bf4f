"""Fusion-in-decoder: one likelihood a question, under all of its contexts together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from tests.training.methods import fid

if TYPE_CHECKING:
    from conftest import SmallWorld


def test_all_contexts_are_read_together_and_their_order_is_none(small: SmallWorld) -> None:
    """The decoder sees every context's vectors side by side: turning their order round changes
    nothing, dropping one does.
    """
    method = fid(small.base)
    for lm in method.models.values():
        lm.model.eval()  # type: ignore[no-untyped-call]
    group = small.train[0]

    def likelihood(*chosen: int) -> torch.Tensor:
        (chunk,) = method.chunks(
            [replace(group, contexts=tuple(group.contexts[n] for n in chosen))], 0, 0, 10_000
        )
        return chunk.run()

    whole = likelihood(0, 1, 2, 3)
    assert whole.shape == (1, 1)
    assert torch.allclose(whole, likelihood(3, 2, 1, 0), atol=1e-5)
    assert not torch.allclose(whole, likelihood(0, 1, 2), atol=1e-5)
    assert method.loss(whole, [group])["loss"].item() == -whole.item()
