"""Losses of RE-RAG as pure functions of the models' outputs (section 2.3 of the paper).

P_RE(context | question) is the relevance estimator's probability of a context, and P_G(answer |
question, context) is the generator's probability of the answer.

The suffix of a tensor's name gives its dimensions: Q questions, C contexts per question. `mask_QC`
is True where a question has a context, and values at other positions are ignored. As in the paper's
equations, the loss of a question is the sum over its contexts. The loss of a batch is the mean over
its questions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

Objective = Literal["paper", "marginal"]
"""Form of the generation loss; see `generation_loss`."""


@dataclass(frozen=True, slots=True)
class JointLoss:
    """The loss of RE-RAG (eq. 12) with its three terms, each averaged over questions.

    Attributes:
        total: Weighted sum of the three terms.
        generation: Loss L_gen of the generator.
        estimation: Loss L_re of the relevance estimator.
        token: Loss L_tok, the estimator's probability of all tokens but "true" and "false".
    """

    total: torch.Tensor
    generation: torch.Tensor
    estimation: torch.Tensor
    token: torch.Tensor


def normalize_scores(scores_QC: torch.Tensor, mask_QC: torch.Tensor) -> torch.Tensor:
    """Normalize scores to log-probabilities over the contexts of each question.

    This computes eq. 1 from a retriever's scores, and eqs. 4 and 5 from an estimator's log-odds.
    """
    log_probs = scores_QC.masked_fill(~mask_QC, -math.inf).log_softmax(dim=-1)
    return log_probs.masked_fill(~mask_QC, 0.0)


def generation_loss(
    log_weights_QC: torch.Tensor,
    log_answer_QC: torch.Tensor,
    mask_QC: torch.Tensor,
    objective: Objective,
) -> torch.Tensor:
    """Compute the loss L_gen of each question, (Q,).

    The objective "paper" is eq. 7 as printed: the sum of -log(P_RE * P_G) over the contexts. Its
    minimum with respect to P_RE is the uniform distribution. The objective "marginal" is -log of
    the sum of P_RE * P_G over the contexts: the negative log-likelihood of eq. 2, as in
    RAG-sequence.
    """
    log_joint = log_weights_QC + log_answer_QC
    if objective == "paper":
        return -log_joint.masked_fill(~mask_QC, 0.0).sum(dim=-1)
    return -log_joint.masked_fill(~mask_QC, -math.inf).logsumexp(dim=-1)


def estimation_loss(
    log_weights_QC: torch.Tensor, log_answer_QC: torch.Tensor, mask_QC: torch.Tensor
) -> torch.Tensor:
    """Compute the loss L_re = KL(P_RE || Q_G) of each question, (Q,) (eqs. 8 to 10).

    The target Q_G is P_G normalized over the contexts of the question. No gradient flows into it.
    """
    log_target = normalize_scores(log_answer_QC.detach(), mask_QC)
    divergence = log_weights_QC.exp() * (log_weights_QC - log_target)
    return divergence.masked_fill(~mask_QC, 0.0).sum(dim=-1)


def token_loss(other_QC: torch.Tensor, mask_QC: torch.Tensor) -> torch.Tensor:
    """Compute L_tok (Q,), the estimator's probability of tokens but "true" and "false" (eq. 11)."""
    return other_QC.masked_fill(~mask_QC, 0.0).sum(dim=-1)


def joint_loss(
    log_odds_QC: torch.Tensor,
    other_QC: torch.Tensor,
    log_answer_QC: torch.Tensor,
    mask_QC: torch.Tensor,
    *,
    objective: Objective = "paper",
    alpha_re: float = 1.0,
    alpha_tok: float = 1.0,
) -> JointLoss:
    """Compute L_gen + alpha_re * L_re + alpha_tok * L_tok (eq. 12), averaged over questions.

    Args:
        log_odds_QC: Relevance log-odds of the estimator.
        other_QC: Total probability that the estimator gives to all tokens but "true" and "false".
        log_answer_QC: Log-probability log P_G(answer | question, context) in nats.
        mask_QC: Mask of the positions that have a context.
        objective: Form of L_gen; see `generation_loss`.
        alpha_re: Weight of L_re.
        alpha_tok: Weight of L_tok.
    """
    log_probs = normalize_scores(log_odds_QC, mask_QC)
    generation = generation_loss(log_probs, log_answer_QC, mask_QC, objective).mean()
    estimation = estimation_loss(log_probs, log_answer_QC, mask_QC).mean()
    token = token_loss(other_QC, mask_QC).mean()
    total = generation + alpha_re * estimation + alpha_tok * token
    return JointLoss(total, generation, estimation, token)
