"""RE-RAG's losses as pure functions of the models' outputs (paper: section 2.3); no model, no device, no state.

Dimensions: Q questions, C contexts per question. `mask_QC` is True where a question has a context; values elsewhere
are ignored. Losses are summed over a question's contexts as printed, and averaged over questions.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch.nn.functional import log_softmax

Objective = Literal["paper", "marginal"]


@dataclass(frozen=True, slots=True)
class Joint:
    """The three parts of RE-RAG's loss and their weighted sum (eq. 12)."""

    total: torch.Tensor
    generation: torch.Tensor
    estimation: torch.Tensor
    token: torch.Tensor


def log_weights(scores_QC: torch.Tensor, mask_QC: torch.Tensor) -> torch.Tensor:
    """Return log P over a question's contexts of scores: eq. 1 for a retriever's, eqs. 4 and 5 for log-odds."""
    filled = log_softmax(scores_QC.masked_fill(~mask_QC, -torch.inf), dim=-1)
    return filled.masked_fill(~mask_QC, 0.0)


def generation_loss(
    log_weights_QC: torch.Tensor, log_answer_QC: torch.Tensor, mask_QC: torch.Tensor, objective: Objective
) -> torch.Tensor:
    """Return (Q,) L_gen.

    "paper" is eq. 7 as printed, a sum of -log(P_RE * P_G) over the contexts: its minimum in P_RE is the uniform
    distribution. "marginal" is -log of the sum of P_RE * P_G, the likelihood of eq. 2, as RAG-sequence trains it.
    """
    joint = log_weights_QC + log_answer_QC
    if objective == "paper":
        return -joint.masked_fill(~mask_QC, 0.0).sum(dim=-1)
    return -torch.logsumexp(joint.masked_fill(~mask_QC, -torch.inf), dim=-1)


def estimation_loss(log_weights_QC: torch.Tensor, log_answer_QC: torch.Tensor, mask_QC: torch.Tensor) -> torch.Tensor:
    """Return (Q,) L_re = KL(P_RE || Q_G) (eqs. 8 to 10); Q_G is a target, no gradient flows into it."""
    log_target = log_weights(log_answer_QC.detach(), mask_QC)
    parts = log_weights_QC.exp() * (log_weights_QC - log_target)
    return parts.masked_fill(~mask_QC, 0.0).sum(dim=-1)


def token_loss(other_QC: torch.Tensor, mask_QC: torch.Tensor) -> torch.Tensor:
    """Return (Q,) L_tok: the probability of all tokens but "true" and "false" (eq. 11), summed over contexts."""
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
) -> Joint:
    """Return L_gen + alpha_re * L_re + alpha_tok * L_tok (eq. 12), averaged over questions.

    Args:
        log_odds_QC: the estimator's.
        other_QC: the probability it leaves for other tokens.
        log_answer_QC: log P_G(answer | question, context) in nats.
        mask_QC: where there is a context.
        objective: see `generation_loss`.
        alpha_re: the paper's first alpha.
        alpha_tok: the paper's second alpha.

    """
    log_p = log_weights(log_odds_QC, mask_QC)
    generation = generation_loss(log_p, log_answer_QC, mask_QC, objective).mean()
    estimation = estimation_loss(log_p, log_answer_QC, mask_QC).mean()
    token = token_loss(other_QC, mask_QC).mean()
    return Joint(generation + alpha_re * estimation + alpha_tok * token, generation, estimation, token)
