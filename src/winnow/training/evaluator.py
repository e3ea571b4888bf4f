"""Training of CRAG's evaluator: a regression of relevance on labels +1 and -1 (Yan et al. 2024)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from winnow.contexts.gold import is_relevant
from winnow.estimators.pair import PairEstimator
from winnow.identity.values import check_values
from winnow.modeling.pair_inputs import group_by_token_budget
from winnow.modeling.pair_model import PairModel
from winnow.strategies.corrective.actions import Scale
from winnow.training.chunks import Chunk, build_chunks, encode_pairs, list_pairs
from winnow.training.groups import Group
from winnow.training.method import Method

if TYPE_CHECKING:
    import torch


@dataclass
class RelevanceRegression(Method[Sequence[Group]]):
    """A training method that regresses an evaluator's score on +1 (relevant) and -1 (irrelevant).

    The loss of a question is the mean squared error over its pairs.

    Args:
        estimator: Estimator to train.
        scale: "tanh" takes tanh(log-odds / 2) as the relevance score, which is in [-1, 1]; "none"
            takes the estimator's score itself, for a regression head without bounds, as in the
            authors' code.
    """

    revision: ClassVar[int] = 1
    criterion = "accuracy"

    estimator: PairEstimator
    scale: Scale = "tanh"

    def __post_init__(self) -> None:
        check_values("method", self)

    @property
    def components(self) -> Mapping[str, PairModel]:
        """Return the estimator, which is the only trained model."""
        return {"estimator": self.estimator}

    def chunks(self, batch: Sequence[Group], seed: int, epoch: int, max_tokens: int) -> list[Chunk]:  # noqa: ARG002 (the interface)
        """Divide pairs into chunks of similar length. The only column is the relevance score."""
        inputs, starts = encode_pairs(self.estimator, batch)

        def compute_scores(rows: Sequence[int]) -> torch.Tensor:
            scores = self.estimator.estimate(
                [inputs[row] for row in rows], [starts[row] for row in rows]
            )
            values = scores.log_odds if self.scale == "none" else (scores.log_odds / 2).tanh()
            return values[:, None]

        lengths = [len(ids) for ids in inputs]
        return build_chunks(group_by_token_budget(lengths, max_tokens), compute_scores, lengths)

    def loss(self, values: torch.Tensor, batch: Sequence[Group]) -> Mapping[str, torch.Tensor]:
        """Compute the mean over questions of the mean squared error over a question's pairs."""
        import torch

        labels = [
            1.0 if is_relevant(group.contexts[position]) else -1.0
            for group, position in list_pairs(batch)
        ]
        weights = [1 / len(group.contexts) for group, _ in list_pairs(batch)]
        errors = (values[:, 0] - torch.tensor(labels, device=values.device)) ** 2
        return {"loss": (errors * torch.tensor(weights, device=values.device)).sum() / len(batch)}

    def evaluate(self, groups: Sequence[Group]) -> list[dict[str, float]]:
        """Compute each question's share of scores of the right sign and the mean squared error."""
        pairs = [
            (group.question.text, group.contexts[position].passage)
            for group, position in list_pairs(groups)
        ]
        values = self.estimator.score(pairs)
        scores = iter((values if self.scale == "none" else np.tanh(values / 2)).tolist())
        metrics = []
        for group in groups:
            labels = np.array([1.0 if is_relevant(context) else -1.0 for context in group.contexts])
            values = np.array([next(scores) for _ in group.contexts])
            accuracy, error = np.mean(values * labels > 0), np.mean((values - labels) ** 2)
            metrics.append({"accuracy": float(accuracy), "squared_error": float(error)})
        return metrics
