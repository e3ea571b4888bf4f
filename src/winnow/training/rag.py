"""RAG-sequence with the retriever's scores: the generator alone learns (RE-RAG's ablation baseline, table 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from winnow import marginal
from winnow.metrics.answer import exact_match
from winnow.pair_model import PairModel
from winnow.pairs import budget_batches
from winnow.training.chunks import Chunk, pairs_of, spread
from winnow.training.generators import Generator
from winnow.training.groups import Group
from winnow.training.loop import Method
from winnow.training.losses import Objective, generation_loss, log_weights
from winnow.training.re_rag import write_all


@dataclass
class Rag(Method):
    """Trains a generator under fixed weights.

    Args:
        generator: what is trained.
        objective: "marginal" is the likelihood of eq. 2 (RAG-sequence); "paper" sums -log P_G over the contexts.
        scale: of the retriever's scores in eq. 1; 0 weighs all contexts alike.
        top: contexts, as retrieved, that evaluation answers from.

    """

    generator: Generator
    objective: Objective = "marginal"
    scale: float = 1.0
    top: int = 10

    @property
    def parts(self) -> Mapping[str, PairModel]:
        """Return the generator."""
        return {"generator": self.generator}

    def chunks(self, groups: Sequence[Group], seed: int, epoch: int, budget: int) -> list[Chunk]:
        """Cut the pairs of all questions into chunks of like length; one column: log P_G(answer)."""
        pairs = [(group.question.text, group.contexts[n].passage) for group, n in pairs_of(groups)]
        self.generator.tokens.prepare(pairs)
        rows = [self.generator.tokens.encode(*pair) for pair in pairs]
        each = [self.generator.target(group.target(seed, epoch)) for group in groups]
        targets = [each[i] for i, group in enumerate(groups) for _ in group.contexts]

        def run(batch: Sequence[int]) -> torch.Tensor:
            return self.generator.log_likelihood([rows[n] for n in batch], [targets[n] for n in batch])[:, None]

        return [
            Chunk(batch, lambda batch=batch: run(batch), sum(len(rows[n]) + len(targets[n]) for n in batch))  # type: ignore[misc]
            for batch in budget_batches([len(row) for row in rows], budget)
        ]

    def loss(self, values: torch.Tensor, groups: Sequence[Group]) -> Mapping[str, torch.Tensor]:
        """Return the loss."""
        answer, mask = spread(groups, values[:, 0], 0.0)
        scores = torch.tensor([self.scale * c.score for group in groups for c in group.contexts], device=values.device)
        weights = log_weights(spread(groups, scores, 0.0)[0], mask)
        return {"loss": generation_loss(weights, answer, mask, self.objective).mean()}

    def evaluate(self, groups: Sequence[Group]) -> list[dict[str, float]]:
        """Answer by marginalisation over the first contexts."""
        chosen = [list(range(min(self.top, len(group.contexts)))) for group in groups]
        rows = []
        for group, order, replies in zip(groups, chosen, write_all(self.generator, groups, chosen), strict=True):
            answers = [reply.text for reply in replies]
            scores = [self.scale * group.contexts[n].score for n in order]
            found = marginal.choose(answers, [reply.log_p for reply in replies], scores)
            rows.append({"em": exact_match(found, group.question.answers)})
        return rows
