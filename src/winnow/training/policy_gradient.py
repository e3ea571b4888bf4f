"""Arithmetic of proximal policy optimization (Schulman et al. 2017) for replies of varying lengths.

Values of tokens are tensors of shape (rows, tokens). A mask is True for the tokens of a reply,
which stand together; what a tensor contains elsewhere does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge, Gt

from winnow.identity.values import check_values

if TYPE_CHECKING:
    import torch


def compute_advantages(
    rewards: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, discount: float, trace: float
) -> torch.Tensor:
    """Compute generalised advantage estimates, (rows, tokens) (Schulman et al. 2016, eq. 16).

    A reply ends with its last token, so that the value after it is 0.

    Args:
        rewards: Reward of each token.
        values: Estimate of the return from each token on.
        mask: Mask of the replies.
        discount: Discount factor (gamma).
        trace: Weight of longer estimates (lambda): 0 is the temporal difference, and 1 the return
            minus the value.
    """
    import torch

    rewards, values = rewards * mask, values * mask
    advantages = torch.zeros_like(values)
    following_value, following_advantage = (
        torch.zeros_like(values[:, 0]),
        torch.zeros_like(values[:, 0]),
    )
    for token in reversed(range(values.shape[1])):
        is_reply = mask[:, token]
        error = rewards[:, token] + discount * following_value - values[:, token]
        advantage = error + discount * trace * following_advantage
        advantages[:, token] = advantage * is_reply
        following_value = torch.where(is_reply, values[:, token], following_value)
        following_advantage = torch.where(is_reply, advantage, following_advantage)
    return advantages


def masked_mean(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Compute the mean over the tokens of all replies, or 0 without any."""
    import torch

    return torch.where(mask, values, 0.0).sum() / mask.sum().clamp(min=1)


def whiten(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Shift and scale values to mean 0 and variance 1 over the tokens of all replies."""
    mean = masked_mean(values, mask)
    variance = masked_mean((values - mean) ** 2, mask)
    return (values - mean) * (variance + 1e-8).rsqrt() * mask


def compute_policy_loss(
    log_probs: torch.Tensor,
    old_log_probs: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    clip: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the negated clipped objective (Schulman et al. 2017, eq. 7) and the clip fraction.

    Args:
        log_probs: Log-probabilities under the trained policy, with gradients.
        old_log_probs: Log-probabilities under the policy that drew the replies.
        advantages: Advantages.
        mask: Mask of the replies.
        clip: Largest difference of the ratio from 1 that is rewarded.
    """
    import torch

    ratios = torch.exp(torch.where(mask, log_probs - old_log_probs, 0.0))
    unclipped, clipped = ratios * advantages, ratios.clamp(1 - clip, 1 + clip) * advantages
    loss = -masked_mean(torch.minimum(unclipped, clipped), mask)
    is_clipped = (ratios.detach() - 1).abs() > clip
    return loss, masked_mean(is_clipped.float(), mask)


def compute_value_loss(
    values: torch.Tensor,
    old_values: torch.Tensor,
    returns: torch.Tensor,
    mask: torch.Tensor,
    clip: float,
) -> torch.Tensor:
    """Compute half the squared error of the values; a change beyond `clip` does not lower the loss.

    Args:
        values: Values of the trained head, with gradients.
        old_values: Values when the replies were drawn.
        returns: Returns to learn: old values plus advantages.
        mask: Mask of the replies.
        clip: Largest change of a value that is rewarded.
    """
    clipped = values.clamp(old_values - clip, old_values + clip)
    errors = ((values - returns) ** 2).maximum((clipped - returns) ** 2)
    return masked_mean(errors, mask) / 2


@dataclass
class KlPenalty:
    """The penalty weight for divergence from the reference model, fixed or adapted to a target.

    The adaptive weight grows while the divergence is above the target and shrinks while it is below
    (Ziegler et al. 2019, section 2.2).

    Attributes:
        weight: Weight (beta), which `update` changes.
        target: Divergence of a reply in nats, or None for a fixed weight.
        horizon: Number of replies after which a divergence far from its target has changed the
            weight by about 20 %.
    """

    weight: Annotated[float, Ge(0)] = 0.05
    target: Annotated[float, Gt(0)] | None = None
    horizon: Annotated[int, Ge(1)] = 1000

    def __post_init__(self) -> None:
        check_values("method.kl", self)

    def update(self, divergence: float, num_replies: int) -> None:
        """Adapt the weight to the mean divergence of some replies."""
        if self.target is not None:
            error = min(max(divergence / self.target - 1, -0.2), 0.2)
            self.weight *= 1 + error * num_replies / self.horizon
