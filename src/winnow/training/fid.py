"""Fusion-in-decoder: each context is encoded alone, the decoder attends to all (Izacard and Grave 2021; RE-RAG's baseline)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from winnow.fusion import fuse, write_fused
from winnow.metrics.answer import exact_match
from winnow.pair_model import PairModel
from winnow.training.chunks import Chunk
from winnow.training.generators import Seq2SeqGenerator, decoded_log_likelihood
from winnow.training.groups import Group
from winnow.training.loop import Method


@dataclass
class Fid(Method):
    """Trains a T5-like generator on all contexts of a question at once; `top` are read in evaluation."""

    generator: Seq2SeqGenerator
    top: int = 10

    @property
    def parts(self) -> Mapping[str, PairModel]:
        """Return the generator."""
        return {"generator": self.generator}

    def chunks(self, groups: Sequence[Group], seed: int, epoch: int, budget: int) -> list[Chunk]:
        """Take questions of like size together; one column: log P(answer | all contexts)."""
        rows = [self._rows(group, len(group.contexts)) for group in groups]
        targets = [self.generator.target(group.target(seed, epoch)) for group in groups]
        costs = [sum(map(len, each)) for each in rows]

        def run(batch: Sequence[int]) -> torch.Tensor:
            return self._log_likelihood([rows[n] for n in batch], [targets[n] for n in batch])[:, None]

        batches: list[list[int]] = []
        for n in sorted(range(len(groups)), key=lambda n: -costs[n]):
            if batches and (len(batches[-1]) + 1) * costs[batches[-1][0]] <= budget:
                batches[-1].append(n)
            else:
                batches.append([n])
        return [
            Chunk(batch, lambda batch=batch: run(batch), sum(costs[n] + len(targets[n]) for n in batch))  # type: ignore[misc]
            for batch in batches
        ]

    def loss(self, values: torch.Tensor, groups: Sequence[Group]) -> Mapping[str, torch.Tensor]:  # noqa: ARG002 (a Method's signature)
        """Return the mean negative log-likelihood of the answers, in nats."""
        return {"loss": -values[:, 0].mean()}

    def evaluate(self, groups: Sequence[Group]) -> list[dict[str, float]]:
        """Answer from the first contexts."""
        rows = []
        for group in groups:
            (made,) = write_fused(self.generator.lm, [self._rows(group, self.top)], self.generator.max_answer)
            rows.append({"em": exact_match(made, group.question.answers)})
        return rows

    def _rows(self, group: Group, count: int) -> list[list[int]]:
        return [self.generator.tokens.encode(group.question.text, context.passage) for context in group.contexts[:count]]

    def _log_likelihood(self, rows: Sequence[Sequence[Sequence[int]]], targets: Sequence[Sequence[int]]) -> torch.Tensor:
        return decoded_log_likelihood(self.generator.lm, fuse(self.generator.lm, rows), targets)
