"""RAG-sequence training: retriever scores weight the contexts, and only the generator is trained.

This is the baseline of RE-RAG's ablation (table 7). Numbers of equations refer to the RE-RAG
paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge, Gt

from winnow.contexts import marginalization
from winnow.identity.values import check_values
from winnow.metrics.answer import exact_match
from winnow.modeling.pair_inputs import group_by_token_budget
from winnow.modeling.pair_model import PairModel
from winnow.training.chunks import Chunk, build_chunks, pad_by_question
from winnow.training.generators import Generator
from winnow.training.groups import Group
from winnow.training.losses import Objective, generation_loss, normalize_scores
from winnow.training.method import Method
from winnow.training.re_rag import encode_generator_inputs, generate_replies

if TYPE_CHECKING:
    import torch


@dataclass
class Rag(Method[Sequence[Group]]):
    """A training method for a generator with fixed context weights from the retriever's scores.

    Args:
        generator: Generator to train.
        objective: "marginal" for the likelihood of eq. 2 (RAG-sequence), or "paper" for the sum of
            -log P_G over the contexts.
        scale: Factor of the retriever's scores in eq. 1.
        top: Number of contexts per question in evaluation, in retrieved order. Training uses all
            contexts of a group.
    """

    revision: ClassVar[int] = 1

    generator: Generator
    objective: Objective = "marginal"
    scale: Annotated[float, Gt(0)] = 1.0
    top: Annotated[int, Ge(1)] = 10

    def __post_init__(self) -> None:
        check_values("method", self)

    @property
    def components(self) -> Mapping[str, PairModel]:
        """Return the generator, which is the only trained model."""
        return {"generator": self.generator}

    def chunks(self, batch: Sequence[Group], seed: int, epoch: int, max_tokens: int) -> list[Chunk]:
        """Divide the pairs of all questions into chunks of similar length.

        A row is a pair of a question and one of its contexts. The only column is log P_G(answer |
        question, context).
        """
        inputs, targets = encode_generator_inputs(self.generator, batch, seed, epoch)

        def compute_values(rows: Sequence[int]) -> torch.Tensor:
            return self.generator.log_likelihood(
                [inputs[row] for row in rows], [targets[row] for row in rows]
            )[:, None]

        lengths = [len(ids) for ids in inputs]
        num_tokens = [length + len(ids) for length, ids in zip(lengths, targets, strict=True)]
        return build_chunks(group_by_token_budget(lengths, max_tokens), compute_values, num_tokens)

    def loss(self, values: torch.Tensor, batch: Sequence[Group]) -> Mapping[str, torch.Tensor]:
        """Compute the generation loss with the contexts weighted by the retriever's scores."""
        import torch

        answer_log_probs, mask = pad_by_question(batch, values[:, 0], 0.0)
        scaled_scores = [
            self.scale * context.get_retriever_score()
            for group in batch
            for context in group.contexts
        ]
        scores, _ = pad_by_question(batch, torch.tensor(scaled_scores, device=values.device), 0.0)
        context_log_weights = normalize_scores(scores, mask)
        return {
            "loss": (
                generation_loss(context_log_weights, answer_log_probs, mask, self.objective).mean()
            )
        }

    def evaluate(self, groups: Sequence[Group]) -> list[dict[str, float]]:
        """Compute exact match by marginalization over each question's first `top` contexts."""
        positions = [range(min(self.top, len(group.contexts))) for group in groups]
        metrics = []
        for group, replies in zip(
            groups, generate_replies(self.generator, groups, positions), strict=True
        ):
            answers = [reply.text for reply in replies]
            scores = [
                self.scale * context.get_retriever_score() for context in group.contexts[: self.top]
            ]
            answer = marginalization.select_most_probable_answer(
                answers, [reply.log_p for reply in replies], scores
            )
            metrics.append({"em": exact_match(answer, group.question.answers)})
        return metrics
