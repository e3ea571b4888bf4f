"""The passes of a batch: gradients with caching and without, their scale, and losses that stop a
run.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch

from winnow.errors import WinnowError
from winnow.training.backward import accumulate_gradients
from winnow.training.chunks import Chunk
from winnow.training.settings import LoopSettings


class Regression:
    """A method of one weight: the values of a row are its inputs times the weight,
    after dropout.
    """

    def __init__(self, rows: Sequence[Sequence[int]], factor: float = 1.0) -> None:
        """Divide the rows of four inputs into chunks."""
        self.weight = torch.tensor([1.0, 2.0], requires_grad=True)
        self.inputs = torch.arange(8.0).reshape(4, 2)
        self.rows, self.factor = rows, factor

    def chunks(self, batch: Any, seed: int, epoch: int, chunk_tokens: int) -> list[Chunk]:
        """Return a chunk of each set of rows."""

        def run(rows: Sequence[int]) -> torch.Tensor:
            return torch.nn.functional.dropout(self.inputs[list(rows)] * self.weight, 0.5)

        return [Chunk(tuple(rows), partial(run, rows), 3) for rows in self.rows]

    def loss(self, values: torch.Tensor, batch: Any) -> dict[str, torch.Tensor]:
        """Weight the rows by their places, so that a wrong order gives another loss."""
        return {"loss": self.factor * (values * torch.arange(1.0, 5.0)[:, None]).sum()}


def _run(
    method: Regression, *, scale: float = 1.0, **settings: Any
) -> tuple[dict[str, float], torch.Tensor]:
    torch.manual_seed(3)
    terms, _ = accumulate_gradients(method, None, (), LoopSettings(**settings), 0, scale=scale)  # type: ignore[arg-type]
    assert method.weight.grad is not None
    return terms, method.weight.grad


@pytest.mark.parametrize("rows", [[(0, 1, 2, 3)], [(2, 0), (3, 1)], [(3,), (1,), (0,), (2,)]])
def test_caching_gives_the_gradient_of_one_pass_in_any_order_of_the_rows(
    rows: list[tuple[int, ...]],
) -> None:
    """Dropout drops the same units in both passes."""
    terms, gradient = _run(Regression(rows), gradient_caching=False)
    cached_terms, cached = _run(Regression(rows), gradient_caching=True)
    assert cached_terms == pytest.approx(terms)
    assert torch.allclose(cached, gradient)
    assert gradient.abs().sum() > 0


def test_the_gradient_is_scaled_and_the_loss_is_not() -> None:
    """The scale is the batch's share of the questions of a step."""
    terms, gradient = _run(Regression([(0, 1, 2, 3)]))
    scaled_terms, scaled = _run(Regression([(0, 1, 2, 3)]), scale=0.25)
    assert scaled_terms == terms
    assert torch.allclose(scaled, gradient / 4)


@pytest.mark.parametrize("factor", [float("nan"), float("inf"), 1e9])
@pytest.mark.parametrize("caching", [True, False])
def test_a_loss_that_explodes_ends_the_run_before_a_gradient_is_added(
    factor: float, *, caching: bool
) -> None:
    """Whether it is no number or above the limit."""
    method = Regression([(0, 1), (2, 3)], factor)
    with pytest.raises(WinnowError, match="The training loss became"):
        _run(method, gradient_caching=caching, max_loss=1e5)
    assert method.weight.grad is None
