"""RAG-sequence with weights from the retriever's scores: only the generator is trained (RE-RAG, ablation of table 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from winnow.contexts import marginalization
from winnow.metrics.answer import exact_match
from winnow.modeling.pair_inputs import budget_batches
from winnow.modeling.pair_model import PairModel
from winnow.training.chunks import Chunk, list_pairs, spread
from winnow.training.generators import Generator
from winnow.training.groups import Group
from winnow.training.losses import Objective, check_objective, generation_loss, log_weights
from winnow.training.method import Method
from winnow.training.re_rag import generate_all


@dataclass
class Rag(Method[Sequence[Group]]):
    """Trains a generator with fixed context weights.

    Args:
        generator: Generator to train.
        objective: "marginal" is the likelihood of eq. 2 (RAG-sequence). "paper" sums -log P_G over the contexts.
        scale: Factor of the retriever's scores in eq. 1; 0 gives uniform weights.
        top: Number of contexts, in retrieved order, from which evaluation answers.

    """

    revision: ClassVar[int] = 1

    generator: Generator
    objective: Objective = "marginal"
    scale: float = 1.0
    top: int = 10

    def __post_init__(self) -> None:
        """Raise ConfigError for an unknown objective."""
        check_objective(self.objective)

    @property
    def parts(self) -> Mapping[str, PairModel]:
        """Return the generator, the only trained model."""
        return {"generator": self.generator}

    def chunks(self, batch: Sequence[Group], seed: int, epoch: int, budget: int) -> list[Chunk]:
        """Divide the pairs of all questions into chunks of similar length; the only column is log P_G(answer)."""
        pairs = [(group.question.text, group.contexts[n].passage) for group, n in list_pairs(batch)]
        self.generator.tokens.prepare(pairs)
        inputs = [self.generator.tokens.encode(*pair) for pair in pairs]
        answers = [self.generator.target(group.sample_target(seed, epoch)) for group in batch]
        targets = [answers[i] for i, group in enumerate(batch) for _ in group.contexts]

        def run(rows: Sequence[int]) -> torch.Tensor:
            return self.generator.log_likelihood([inputs[n] for n in rows], [targets[n] for n in rows])[:, None]

        return [
            Chunk(rows, lambda rows=rows: run(rows), sum(len(inputs[n]) + len(targets[n]) for n in rows))  # type: ignore[misc]
            for rows in budget_batches([len(ids) for ids in inputs], budget)
        ]

    def loss(self, values: torch.Tensor, batch: Sequence[Group]) -> Mapping[str, torch.Tensor]:
        """Compute the generation loss under the context weights."""
        answer_log_probs, mask = spread(batch, values[:, 0], 0.0)
        scores = torch.tensor(
            [self.scale * c.retriever_score() for group in batch for c in group.contexts], device=values.device
        )
        log_p = log_weights(spread(batch, scores, 0.0)[0], mask)
        return {"loss": generation_loss(log_p, answer_log_probs, mask, self.objective).mean()}

    def evaluate(self, groups: Sequence[Group]) -> list[dict[str, float]]:
        """Answer by marginalization over the first `top` contexts and compute exact match."""
        positions = [range(min(self.top, len(group.contexts))) for group in groups]
        metrics = []
        for group, replies in zip(groups, generate_all(self.generator, groups, positions), strict=True):
            answers = [reply.text for reply in replies]
            scores = [self.scale * context.retriever_score() for context in group.contexts[: self.top]]
            answer = marginalization.most_probable_answer(answers, [reply.log_p for reply in replies], scores)
            metrics.append({"em": exact_match(answer, group.question.answers)})
        return metrics
