"""Fusion-in-decoder (Izacard and Grave 2021), a baseline of RE-RAG.

The encoder reads each context separately, and the decoder attends to all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

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
    """Trains an encoder-decoder generator on all contexts of a question at once.

    Args:
        generator: T5-like generator to train.
        top: Number of contexts, in retrieved order, from which evaluation answers.

    """

    revision: ClassVar[int] = 1

    generator: Seq2SeqGenerator
    top: int = 10

    @property
    def parts(self) -> Mapping[str, PairModel]:
        """Return the generator, the only trained model."""
        return {"generator": self.generator}

    def chunks(self, batch: Sequence[Group], seed: int, epoch: int, budget: int) -> list[Chunk]:
        """Divide the questions into chunks of similar length; the only column is log P(answer | all contexts)."""
        inputs = [self._encode_contexts(group, len(group.contexts)) for group in batch]
        targets = [self.generator.target(group.sample_target(seed, epoch)) for group in batch]
        lengths = [sum(map(len, contexts)) for contexts in inputs]

        def run(rows: Sequence[int]) -> torch.Tensor:
            return self._log_likelihood([inputs[n] for n in rows], [targets[n] for n in rows])[:, None]

        row_batches: list[list[int]] = []
        for n in sorted(range(len(batch)), key=lambda n: -lengths[n]):
            if row_batches and (len(row_batches[-1]) + 1) * lengths[row_batches[-1][0]] <= budget:
                row_batches[-1].append(n)
            else:
                row_batches.append([n])
        return [
            Chunk(rows, lambda rows=rows: run(rows), sum(lengths[n] + len(targets[n]) for n in rows))  # type: ignore[misc]
            for rows in row_batches
        ]

    def loss(self, values: torch.Tensor, batch: Sequence[Group]) -> Mapping[str, torch.Tensor]:  # noqa: ARG002 (a Method's signature)
        """Compute the mean negative log-likelihood of the target answers, in nats."""
        return {"loss": -values[:, 0].mean()}

    def evaluate(self, groups: Sequence[Group]) -> list[dict[str, float]]:
        """Answer from the first `top` contexts and compute exact match."""
        metrics = []
        for group in groups:
            inputs = [self._encode_contexts(group, self.top)]
            (answer,) = generate_fused(self.generator.lm, inputs, self.generator.max_answer)
            metrics.append({"em": exact_match(answer, group.question.answers)})
        return metrics

    def _encode_contexts(self, group: Group, count: int) -> list[list[int]]:
        """Tokenise the question with each of its first `count` contexts."""
        return [self.generator.tokens.encode(group.question.text, context.passage) for context in group.contexts[:count]]

    def _log_likelihood(self, inputs: Sequence[Sequence[Sequence[int]]], targets: Sequence[Sequence[int]]) -> torch.Tensor:
        return decoded_log_likelihood(self.generator.lm, fuse(self.generator.lm, inputs), targets)
