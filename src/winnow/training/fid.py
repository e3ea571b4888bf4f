"""Fusion-in-decoder: each context is encoded alone, the decoder attends to all (Izacard and Grave 2021; RE-RAG's baseline)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from winnow.metrics.answer import exact_match
from winnow.modeling.fid import fuse, generate_fused
from winnow.modeling.pair_model import PairModel
from winnow.training.chunks import Chunk
from winnow.training.generators import Seq2SeqGenerator, decoded_log_likelihood
from winnow.training.groups import Group
from winnow.training.method import Method


@dataclass
class Fid(Method[Sequence[Group]]):
    """Trains a T5-like generator on all contexts of a question at once; evaluation reads the first `top`."""

    generator: Seq2SeqGenerator
    top: int = 10

    @property
    def parts(self) -> Mapping[str, PairModel]:
        """Return the generator."""
        return {"generator": self.generator}

    def chunks(self, batch: Sequence[Group], seed: int, epoch: int, budget: int) -> list[Chunk]:
        """Group questions of similar size; one column: log P(answer | all contexts)."""
        rows = [self._rows(group, len(group.contexts)) for group in batch]
        targets = [self.generator.target(group.target(seed, epoch)) for group in batch]
        costs = [sum(map(len, each)) for each in rows]

        def run(some: Sequence[int]) -> torch.Tensor:
            return self._log_likelihood([rows[n] for n in some], [targets[n] for n in some])[:, None]

        batches: list[list[int]] = []
        for n in sorted(range(len(batch)), key=lambda n: -costs[n]):
            if batches and (len(batches[-1]) + 1) * costs[batches[-1][0]] <= budget:
                batches[-1].append(n)
            else:
                batches.append([n])
        return [
            Chunk(some, lambda some=some: run(some), sum(costs[n] + len(targets[n]) for n in some))  # type: ignore[misc]
            for some in batches
        ]

    def loss(self, values: torch.Tensor, batch: Sequence[Group]) -> Mapping[str, torch.Tensor]:  # noqa: ARG002 (a Method's signature)
        """Return the mean negative log-likelihood of the answers, in nats."""
        return {"loss": -values[:, 0].mean()}

    def evaluate(self, groups: Sequence[Group]) -> list[dict[str, float]]:
        """Answer from the first contexts."""
        rows = []
        for group in groups:
            (answer,) = generate_fused(self.generator.lm, [self._rows(group, self.top)], self.generator.max_answer)
            rows.append({"em": exact_match(answer, group.question.answers)})
        return rows

    def _rows(self, group: Group, count: int) -> list[list[int]]:
        return [self.generator.tokens.encode(group.question.text, context.passage) for context in group.contexts[:count]]

    def _log_likelihood(self, rows: Sequence[Sequence[Sequence[int]]], targets: Sequence[Sequence[int]]) -> torch.Tensor:
        return decoded_log_likelihood(self.generator.lm, fuse(self.generator.lm, rows), targets)
