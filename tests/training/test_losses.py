"""RE-RAG's losses against numbers worked out by hand, and their gradients against finite
differences.
"""

import math

import pytest
import torch

from winnow.training.losses import (
    estimation_loss,
    generation_loss,
    joint_loss,
    normalize_scores,
    token_loss,
)

HALF = math.log(0.5)
ALL = torch.ones(1, 2, dtype=torch.bool)


def test_weights_are_the_softmax_of_log_odds() -> None:
    """Odds of 3 and 1 weigh 3/4 and 1/4 (eqs. 4 and 5); a padded context weighs nothing."""
    log_odds = torch.tensor([[math.log(3.0), 0.0, 9.0]])
    mask = torch.tensor([[True, True, False]])
    weights = normalize_scores(log_odds, mask)
    assert weights[0, :2].exp().tolist() == pytest.approx([0.75, 0.25])
    assert weights[0, 2] == 0


def test_generation_loss_as_printed_and_marginal() -> None:
    """P_RE = (1/2, 1/2), P_G = (1/2, 1/8): -log(1/4) - log(1/16) = 6 log 2; -log(1/4 + 1/16) = log
    3.2.
    """
    weights, answer = torch.tensor([[HALF, HALF]]), torch.tensor([[HALF, 3 * HALF]])
    assert generation_loss(weights, answer, ALL, "paper").tolist() == pytest.approx(
        [6 * math.log(2)]
    )
    assert generation_loss(weights, answer, ALL, "marginal").tolist() == pytest.approx(
        [math.log(3.2)]
    )


def test_the_printed_objective_pulls_towards_uniform_and_the_marginal_one_towards_the_answer() -> (
    None
):
    """At equal log-odds the first has no gradient, whatever P_G; the second raises the context that
    gives the answer.
    """
    for objective, expected in (("paper", 0.0), ("marginal", -0.3)):
        log_odds = torch.zeros(1, 2, requires_grad=True)
        answer = torch.tensor([[math.log(0.8), math.log(0.2)]])
        generation_loss(normalize_scores(log_odds, ALL), answer, ALL, objective).sum().backward()  # type: ignore[arg-type]
        assert log_odds.grad is not None
        assert log_odds.grad[0].tolist() == pytest.approx([expected, -expected])


def test_estimation_loss_is_the_divergence_and_its_target_has_no_gradient() -> None:
    """KL((1/2, 1/2) || (4/5, 1/5)) = 1/2 log(25/16) (eqs. 8 to 10)."""
    answer = torch.tensor([[math.log(0.4), math.log(0.1)]], requires_grad=True)
    loss = estimation_loss(
        normalize_scores(torch.zeros(1, 2, requires_grad=True), ALL), answer, ALL
    )
    assert loss.tolist() == pytest.approx([0.5 * math.log(25 / 16)])
    loss.sum().backward()
    assert answer.grad is None


def test_token_loss_sums_over_contexts() -> None:
    """0.25 + 0.5, and nothing of what is padded (eq. 11)."""
    other = torch.tensor([[0.25, 0.5, 0.9]])
    assert token_loss(other, torch.tensor([[True, True, False]])).tolist() == [0.75]


def test_the_joint_loss_is_the_weighted_sum() -> None:
    """Eq. 12 with alphas of 2 and 3, averaged over questions."""
    generator = torch.Generator().manual_seed(1)
    log_odds, answer = (
        torch.randn(3, 4, generator=generator),
        -torch.rand(3, 4, generator=generator),
    )
    other, mask = torch.rand(3, 4, generator=generator), torch.ones(3, 4, dtype=torch.bool)
    result = joint_loss(
        log_odds, other, answer, mask, objective="marginal", alpha_re=2.0, alpha_tok=3.0
    )
    assert result.total.item() == pytest.approx(
        (result.generation + 2 * result.estimation + 3 * result.token).item()
    )
    assert result.token.item() == pytest.approx(other.sum(dim=1).mean().item())


@pytest.mark.parametrize("objective", ["paper", "marginal"])
def test_gradients_agree_with_finite_differences(objective: str) -> None:
    """In double precision, with a question that has fewer contexts; Q_G's detachment is
    held fixed.
    """
    generator = torch.Generator().manual_seed(2)
    log_odds, other, answer = (
        torch.rand(2, 3, dtype=torch.float64, generator=generator) for _ in range(3)
    )
    mask = torch.tensor([[True, True, True], [True, True, False]])
    free = [log_odds.requires_grad_(), other.requires_grad_()]
    assert torch.autograd.gradcheck(
        lambda a, b: joint_loss(a, b, -answer, mask, objective=objective).total,  # type: ignore[arg-type]
        free,
    )
    assert torch.autograd.gradcheck(
        lambda c: generation_loss(normalize_scores(log_odds.detach(), mask), c, mask, objective),  # type: ignore[arg-type]
        (-answer).detach().requires_grad_(),
    )


@pytest.mark.parametrize("objective", ["paper", "marginal"])
def test_padding_and_order_change_nothing(objective: str) -> None:
    """Contexts shuffled, and padded with arbitrary values: the same loss and gradients."""
    generator = torch.Generator().manual_seed(3)
    log_odds, other, answer = (torch.randn(2, 3, generator=generator) for _ in range(3))
    order = torch.tensor([2, 0, 1])

    def run(
        a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, mask: torch.Tensor
    ) -> tuple[float, torch.Tensor]:
        a = a.clone().requires_grad_()
        loss = joint_loss(a, b, c, mask, objective=objective).total  # type: ignore[arg-type]
        (gradient,) = torch.autograd.grad(loss, a)
        return loss.item(), gradient

    whole, gradient = run(log_odds, other, answer, torch.ones(2, 3, dtype=torch.bool))
    stuffed = [
        torch.cat([t[:, order], torch.full((2, 2), 77.0)], dim=1) for t in (log_odds, other, answer)
    ]
    mask = torch.tensor([[True, True, True, False, False]] * 2)
    again, shuffled = run(stuffed[0], stuffed[1], stuffed[2], mask)
    assert again == pytest.approx(whole, rel=1e-6)
    assert torch.allclose(shuffled[:, :3], gradient[:, order], atol=1e-6)
    assert not shuffled[:, 3:].any()


def test_extreme_scores_stay_finite() -> None:
    """Log-odds of 500 and answers of probability 0 in float32: a finite loss and gradient."""
    log_odds = torch.tensor([[500.0, -500.0]], requires_grad=True)
    result = joint_loss(
        log_odds, torch.zeros(1, 2), torch.tensor([[-400.0, -1.0]]), ALL, objective="marginal"
    )
    result.total.backward()  # type: ignore[no-untyped-call]
    assert torch.isfinite(result.total)
    assert log_odds.grad is not None
    assert torch.isfinite(log_odds.grad).all()


def test_weights_are_1_by_default() -> None:
    """As in the paper's appendix B."""
    log_odds, other, answer = (
        torch.tensor([[1.0, 0.0]]),
        torch.tensor([[0.2, 0.1]]),
        torch.tensor([[HALF, 3 * HALF]]),
    )
    loss = joint_loss(log_odds, other, answer, ALL)
    assert float(loss.total) == pytest.approx(float(loss.generation + loss.estimation + loss.token))
    assert float(
        joint_loss(log_odds, other, answer, ALL, objective="marginal").generation
    ) != float(loss.generation)
