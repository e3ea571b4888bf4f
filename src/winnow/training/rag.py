"""RAG-sequence with the retriever's scores: the generator alone learns (RE-RAG's ablation baseline, table 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from winnow.contexts import marginalization
from winnow.metrics.answer import exact_match
from winnow.modeling.pair_inputs import budget_batches
from winnow.modeling.pair_model import PairModel
from winnow.training.chunks import Chunk, pairs_of, spread
from winnow.training.generators import Generator
from winnow.training.groups import Group
from winnow.training.losses import Objective, generation_loss, log_weights
from winnow.training.method import Method
from winnow.training.re_rag import generate_all


@dataclass
class Rag(Method[Sequence[Group]]):
    """Trains a generator under fixed weights of the contexts.

    Args:
        generator: what is trained.
        objective: "marginal" is the likelihood of eq. 2 (RAG-sequence); "paper" sums -log P_G over the contexts.
        scale: of the retriever's scores in eq. 1; 0 gives uniform weights.
        top: number of contexts, as retrieved, from which evaluation answers.

    """

    generator: Generator
    objective: Objective = "marginal"
    scale: float = 1.0
    top: int = 10

    @property
    def parts(self) -> Mapping[str, PairModel]:
        """Return the generator."""
        return {"generator": self.generator}

    def chunks(self, batch: Sequence[Group], seed: int, epoch: int, budget: int) -> list[Chunk]:
        """Divide the pairs of all questions into chunks of similar length; one column: log P_G(answer)."""
        pairs = [(group.question.text, group.contexts[n].passage) for group, n in pairs_of(batch)]
        self.generator.tokens.prepare(pairs)
        rows = [self.generator.tokens.encode(*pair) for pair in pairs]
        answers = [self.generator.target(group.target(seed, epoch)) for group in batch]
        targets = [answers[i] for i, group in enumerate(batch) for _ in group.contexts]

        def run(some: Sequence[int]) -> torch.Tensor:
            return self.generator.log_likelihood([rows[n] for n in some], [targets[n] for n in some])[:, None]

        return [
            Chunk(some, lambda some=some: run(some), sum(len(rows[n]) + len(targets[n]) for n in some))  # type: ignore[misc]
            for some in budget_batches([len(row) for row in rows], budget)
        ]

    def loss(self, values: torch.Tensor, batch: Sequence[Group]) -> Mapping[str, torch.Tensor]:
        """Return the loss."""
        answer, mask = spread(batch, values[:, 0], 0.0)
        scores = torch.tensor([self.scale * c.score for group in batch for c in group.contexts], device=values.device)
        weights = log_weights(spread(batch, scores, 0.0)[0], mask)
        return {"loss": generation_loss(weights, answer, mask, self.objective).mean()}

    def evaluate(self, groups: Sequence[Group]) -> list[dict[str, float]]:
        """Answer by marginalization over the first contexts."""
        chosen = [list(range(min(self.top, len(group.contexts)))) for group in groups]
        rows = []
        for group, order, replies in zip(groups, chosen, generate_all(self.generator, groups, chosen), strict=True):
            answers = [reply.text for reply in replies]
            scores = [self.scale * group.contexts[n].score for n in order]
            answer = marginalization.choose(answers, [reply.log_p for reply in replies], scores)
            rows.append({"em": exact_match(answer, group.question.answers)})
        return rows
