"""The arithmetic of PPO against numbers worked out by hand."""

import math

import pytest
import torch

from winnow.errors import ConfigError
from winnow.training.policy_gradient import (
    KlPenalty,
    compute_advantages,
    compute_policy_loss,
    compute_value_loss,
    masked_mean,
    whiten,
)

MASK = torch.tensor([[False, True, True], [True, True, True]])


def test_advantages() -> None:
    """A reply of two tokens at the end of its row, and one of three; what stands before it does not
    matter.

    With discount 0.9 and trace 0.5: the first has errors 1 - 0.5 = 0.5 and 0 + 0.9 * 0.5 - 0.25 =
    0.2, so advantages 0.5 and 0.2 + 0.45 * 0.5 = 0.425.
    """
    rewards = torch.tensor([[7.0, 0.0, 1.0], [0.1, 0.0, -1.0]])
    values = torch.tensor([[9.0, 0.25, 0.5], [0.0, 1.0, 2.0]])
    advantages = compute_advantages(rewards, values, MASK, 0.9, 0.5)
    last = -1.0 - 2.0
    middle = 0.9 * 2.0 - 1.0 + 0.45 * last
    first = 0.1 + 0.9 * 1.0 - 0.0 + 0.45 * middle
    torch.testing.assert_close(advantages, torch.tensor([[0.0, 0.425, 0.5], [first, middle, last]]))


def test_the_ends_of_the_trace() -> None:
    """Trace 1 without discount is the return minus the value; trace 0 is the temporal
    difference.
    """
    rewards, values = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[0.5, 0.25, 0.125]])
    mask = torch.ones(1, 3, dtype=torch.bool)
    torch.testing.assert_close(
        compute_advantages(rewards, values, mask, 1.0, 1.0), torch.tensor([[5.5, 4.75, 2.875]])
    )
    torch.testing.assert_close(
        compute_advantages(rewards, values, mask, 1.0, 0.0), torch.tensor([[0.75, 1.875, 2.875]])
    )


def test_whitening_over_all_replies() -> None:
    """Mean 0 and variance 1 over the five tokens, whatever stands outside; equal values
    become 0.
    """
    values = torch.tensor([[99.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    white = whiten(values, MASK)
    torch.testing.assert_close(
        white[MASK], torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0]) / math.sqrt(2), rtol=1e-4, atol=1e-4
    )
    assert white[0, 0] == 0
    assert whiten(torch.ones(2, 3), MASK).abs().max() == 0


def test_the_clipped_objective() -> None:
    """Ratios 1.5 and 0.5 with clip 0.2: a gain is rewarded up to 1.2 and a loss is not forgiven
    below it.
    """
    old = torch.zeros(1, 4)
    new = torch.log(torch.tensor([[1.5, 1.5, 0.5, 0.5]])).requires_grad_()
    advantages, mask = torch.tensor([[1.0, -1.0, 1.0, -1.0]]), torch.ones(1, 4, dtype=torch.bool)
    loss, clipped = compute_policy_loss(new, old, advantages, mask, 0.2)
    assert loss.item() == pytest.approx(-(1.2 - 1.5 + 0.5 - 0.8) / 4)
    assert clipped.item() == 1.0
    loss.backward()
    assert new.grad is not None
    torch.testing.assert_close(new.grad, torch.tensor([[0.0, 1.5, -0.5, 0.0]]) / 4)
    _, none = compute_policy_loss(torch.full((1, 4), 0.1), old, advantages, mask, 0.2)
    assert none.item() == 0.0


def test_what_stands_outside_a_reply_does_not_matter() -> None:
    """Not even infinite log-probabilities."""
    log_probs, advantages = torch.zeros(2, 3), torch.ones(2, 3)
    far = log_probs.clone()
    far[0, 0] = -math.inf
    assert compute_policy_loss(far, log_probs, advantages, MASK, 0.2)[0].item() == -1.0
    assert masked_mean(far, MASK).item() == 0.0
    assert masked_mean(far, torch.zeros_like(MASK)).item() == 0.0


def test_the_value_loss_is_clipped() -> None:
    """From 0 to a return of 1: a step to 0.5 counts like one to 0.2; away from the return, the
    whole step counts.
    """
    old, returns = torch.zeros(1, 2), torch.tensor([[1.0, 1.0]])
    mask = torch.ones(1, 2, dtype=torch.bool)
    loss = compute_value_loss(torch.tensor([[0.5, -0.5]]), old, returns, mask, 0.2)
    assert loss.item() == pytest.approx((0.8**2 + 1.5**2) / 2 / 2)


def test_the_weight_of_the_penalty_adapts() -> None:
    """Ten times the target for 100 of 1,000 replies: plus 2 %; at half of it minus 2 %; a fixed
    weight stays.
    """
    penalty = KlPenalty(0.1, target=2.0, horizon=1000)
    penalty.update(20.0, 100)
    assert penalty.weight == pytest.approx(0.102)
    penalty.update(1.0, 100)
    assert penalty.weight == pytest.approx(0.102 * 0.98)
    penalty.update(2.1, 100)
    assert penalty.weight == pytest.approx(0.102 * 0.98 * 1.005)
    fixed = KlPenalty(0.1)
    fixed.update(99.0, 100)
    assert fixed.weight == 0.1
    for wrong in ({"weight": -1.0}, {"target": 0.0}, {"horizon": 0}):
        with pytest.raises(ConfigError, match=f"{next(iter(wrong))} must be"):
            KlPenalty(**wrong)  # type: ignore[arg-type]
