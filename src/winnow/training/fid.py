"""Training of fusion-in-decoder (FiD, Izacard and Grave 2021), a baseline of RE-RAG.

The encoder reads the question with each context separately, and the decoder attends to all contexts
at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge

from winnow.identity.values import check_values
from winnow.metrics.answer import exact_match
from winnow.modeling.pair_model import PairModel
from winnow.training.chunks import Chunk, build_chunks
from winnow.training.generators import Seq2SeqGenerator, compute_seq2seq_log_likelihood
from winnow.training.groups import Group
from winnow.training.method import Method

if TYPE_CHECKING:
    import torch


@dataclass
class Fid(Method[Sequence[Group]]):
    """A training method for an encoder-decoder generator that reads a question's contexts jointly.

    Args:
        generator: T5-like generator to train.
        top: Number of contexts per question in evaluation, in retrieved order. Training uses all
            contexts of a group.
    """

    revision: ClassVar[int] = 1

    generator: Seq2SeqGenerator
    top: Annotated[int, Ge(1)] = 10

    def __post_init__(self) -> None:
        check_values("method", self)

    @property
    def components(self) -> Mapping[str, PairModel]:
        """Return the generator, which is the only trained model."""
        return {"generator": self.generator}

    def chunks(self, batch: Sequence[Group], seed: int, epoch: int, max_tokens: int) -> list[Chunk]:
        """Divide the questions into chunks of similar length.

        A row is a question with all of its contexts. The only column is log P(answer | question,
        all contexts).
        """
        inputs = [self._encode_contexts(group, len(group.contexts)) for group in batch]
        targets = [
            self.generator.encode_answer(group.sample_target(seed, epoch)) for group in batch
        ]
        lengths = [sum(map(len, contexts)) for contexts in inputs]

        def compute_values(rows: Sequence[int]) -> torch.Tensor:
            return self._compute_log_likelihood(
                [inputs[row] for row in rows], [targets[row] for row in rows]
            )[:, None]

        row_batches: list[list[int]] = []
        for row in sorted(range(len(batch)), key=lambda row: -lengths[row]):
            if (
                row_batches
                and (len(row_batches[-1]) + 1) * lengths[row_batches[-1][0]] <= max_tokens
            ):
                row_batches[-1].append(row)
            else:
                row_batches.append([row])
        num_tokens = [length + len(ids) for length, ids in zip(lengths, targets, strict=True)]
        return build_chunks(row_batches, compute_values, num_tokens)

    def loss(self, values: torch.Tensor, batch: Sequence[Group]) -> Mapping[str, torch.Tensor]:  # noqa: ARG002 (the signature of Method.loss)
        """Compute the mean negative log-likelihood of the target answers, in nats."""
        return {"loss": -values[:, 0].mean()}

    def evaluate(self, groups: Sequence[Group]) -> list[dict[str, float]]:
        """Answer each question from its first `top` contexts and compute exact match."""
        from winnow.modeling.fid import decode_answer, generate_fused

        metrics = []
        for group in groups:
            inputs = [self._encode_contexts(group, self.top)]
            lm = self.generator.lm
            (ids,) = generate_fused(lm, inputs, self.generator.max_answer)
            answer = decode_answer(lm, ids)
            metrics.append({"em": exact_match(answer, group.question.answers)})
        return metrics

    def _encode_contexts(self, group: Group, num_contexts: int) -> list[list[int]]:
        """Tokenize the question with each of its first `num_contexts` contexts."""
        contexts = group.contexts[:num_contexts]
        return [
            self.generator.tokens.encode(group.question.text, context.passage)
            for context in contexts
        ]

    def _compute_log_likelihood(
        self, inputs: Sequence[Sequence[Sequence[int]]], targets: Sequence[Sequence[int]]
    ) -> torch.Tensor:
        """Compute log P(target | inputs), (questions,), from the token ids of each context."""
        from winnow.modeling.fid import fuse_contexts

        return compute_seq2seq_log_likelihood(
            self.generator.lm, fuse_contexts(self.generator.lm, inputs), targets
        )
