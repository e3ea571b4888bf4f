"""RE-RAG training: a relevance estimator learns from a generator's likelihoods, without labels.

Numbers of sections, equations and tables refer to the RE-RAG paper, which describes the
training in section 2.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Ge

from winnow.contexts import marginalization
from winnow.estimators.pair import PairEstimator
from winnow.identity.values import check_values
from winnow.metrics.answer import exact_match
from winnow.modeling.pair_inputs import group_by_token_budget
from winnow.modeling.pair_model import PairModel
from winnow.strategies.teaching import ScoredReply
from winnow.training.chunks import Chunk, build_chunks, encode_pairs, list_pairs, pad_by_question
from winnow.training.generators import Generator
from winnow.training.groups import Group
from winnow.training.losses import Objective, joint_loss
from winnow.training.method import Method

if TYPE_CHECKING:
    import torch

_EVALUATION_TOKENS = 8192
"""Maximum number of tokens, including padding, in a batch of the generator in evaluation."""

_Ranking = list[tuple[float, int]]
"""A question's contexts as (score, position in the group), best first."""


@dataclass
class ReRag(Method[Sequence[Group]]):
    """A training method for a relevance estimator, alone or jointly with a generator.

    Args:
        estimator: Estimator to train. Its kind and size may differ from the generator's ("mixed" in
            the paper's table 1).
        generator: Generator to train jointly. If it is None, the estimator learns from a frozen
            generator, whose log-likelihoods and replies are in the groups.
        objective: Form of the generation loss L_gen: "paper" for eq. 7 as printed, or "marginal"
            for the negative log-likelihood of eq. 2; see `winnow.training.losses`.
        alpha_re: Weight of the estimator's loss L_re.
        alpha_tok: Weight of L_tok, the loss of the estimator's probability for tokens but "true"
            and "false".
        top: Number of contexts per question in evaluation, ranked by the estimator (appendix B).
    """

    revision: ClassVar[int] = 1

    estimator: PairEstimator
    generator: Generator | None = None
    objective: Objective = "paper"
    alpha_re: float = 1.0
    alpha_tok: float = 1.0
    top: Annotated[int, Ge(1)] = 10

    def __post_init__(self) -> None:
        check_values("method", self)

    @property
    def components(self) -> Mapping[str, PairModel]:
        """Return the estimator, and the generator if it is trained."""
        generator_part = {} if self.generator is None else {"generator": self.generator}
        return {"estimator": self.estimator, **generator_part}

    def chunks(self, batch: Sequence[Group], seed: int, epoch: int, max_tokens: int) -> list[Chunk]:
        """Divide the pairs of all questions into chunks of similar length.

        A row is a pair of a question and one of its contexts. The columns are the estimator's
        log-odds, its probability of all tokens but "true" and "false", and log P_G(answer |
        question, context).
        """
        import torch

        estimator_rows, passage_starts = encode_pairs(self.estimator, batch)
        frozen_log_probs = torch.tensor(
            [group.answer_log_probs[position] for group, position in list_pairs(batch)]
            if self.generator is None
            else []
        )
        generator_rows, targets = (
            ([], [])
            if self.generator is None
            else encode_generator_inputs(self.generator, batch, seed, epoch)
        )

        def compute_values(rows: Sequence[int]) -> torch.Tensor:
            scores = self.estimator.estimate(
                [estimator_rows[row] for row in rows], [passage_starts[row] for row in rows]
            )
            if self.generator is None:
                answer_log_probs = frozen_log_probs[list(rows)].to(scores.log_odds.device)
            else:
                chunk_inputs, chunk_targets = (
                    [generator_rows[row] for row in rows],
                    [targets[row] for row in rows],
                )
                answer_log_probs = self.generator.log_likelihood(chunk_inputs, chunk_targets)
            return torch.stack([scores.log_odds, scores.other_probability, answer_log_probs], dim=1)

        lengths = [len(ids) for ids in estimator_rows]
        num_tokens = lengths
        if self.generator is not None:
            rows = list(zip(lengths, generator_rows, targets, strict=True))
            lengths = [max(length, len(ids)) for length, ids, _ in rows]
            num_tokens = [length + len(ids) + len(target) for length, ids, target in rows]
        return build_chunks(group_by_token_budget(lengths, max_tokens), compute_values, num_tokens)

    def loss(self, values: torch.Tensor, batch: Sequence[Group]) -> Mapping[str, torch.Tensor]:
        """Compute the joint loss (eq. 12) and its terms."""
        log_odds, mask = pad_by_question(batch, values[:, 0], 0.0)
        other, _ = pad_by_question(batch, values[:, 1], 0.0)
        answer_log_probs, _ = pad_by_question(batch, values[:, 2], 0.0)
        loss = joint_loss(
            log_odds,
            other,
            answer_log_probs,
            mask,
            objective=self.objective,
            alpha_re=self.alpha_re,
            alpha_tok=self.alpha_tok,
        )
        return {
            "loss": loss.total,
            "loss_gen": loss.generation,
            "loss_re": loss.estimation,
            "loss_tok": loss.token,
        }

    def evaluate(self, groups: Sequence[Group]) -> list[dict[str, float]]:
        """Compute recall@1, and exact match by marginalization over the estimator's `top` contexts.

        The metric "em" weights the contexts by the estimator's log-odds, and "em_uniform" weights
        them equally.
        """
        pairs = [
            (group.question.text, group.contexts[position].passage)
            for group, position in list_pairs(groups)
        ]
        scores = iter(self.estimator.score(pairs).tolist())
        rankings: list[_Ranking] = []
        for group in groups:
            scored_positions = [(next(scores), position) for position in range(len(group.contexts))]
            rankings.append(sorted(scored_positions, key=lambda pair: -pair[0])[: self.top])
        replies = self._collect_replies(groups, rankings)
        return [
            _compute_metrics(*arguments)
            for arguments in zip(groups, rankings, replies, strict=True)
        ]

    def _collect_replies(
        self, groups: Sequence[Group], rankings: Sequence[_Ranking]
    ) -> list[list[ScoredReply]]:
        """Return a reply per ranked context: stored if the generator is frozen, otherwise new."""
        positions = [[position for _, position in ranking] for ranking in rankings]
        if self.generator is not None:
            return generate_replies(self.generator, groups, positions)
        return [
            [group.replies[position] for position in group_positions]
            for group, group_positions in zip(groups, positions, strict=True)
        ]


def encode_generator_inputs(
    generator: Generator, batch: Sequence[Group], seed: int, epoch: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Tokenize the input and the drawn target answer of each pair of a question and a context."""
    pairs = [
        (group.question.text, group.contexts[position].passage)
        for group, position in list_pairs(batch)
    ]
    generator.tokens.prepare(pairs)
    answers = [generator.encode_answer(group.sample_target(seed, epoch)) for group in batch]
    targets = [answer for answer, group in zip(answers, batch, strict=True) for _ in group.contexts]
    return [generator.tokens.encode(*pair) for pair in pairs], targets


def _compute_metrics(
    group: Group, ranking: _Ranking, replies: Sequence[ScoredReply]
) -> dict[str, float]:
    """Compute the metrics of one question from the replies to its ranked contexts."""
    answers = [reply.text for reply in replies]
    answer_log_probs = [reply.log_p for reply in replies]
    _, best_position = ranking[0]
    metrics = {"recall_at_1": float(group.contexts[best_position].has_answer)}
    estimator_scores = [score for score, _ in ranking]
    for name, scores in (("em", estimator_scores), ("em_uniform", [0.0] * len(ranking))):
        answer = marginalization.select_most_probable_answer(answers, answer_log_probs, scores)
        metrics[name] = exact_match(answer, group.question.answers)
    return metrics


def generate_replies(
    generator: Generator, groups: Sequence[Group], positions: Sequence[Sequence[int]]
) -> list[list[ScoredReply]]:
    """Generate a greedy answer from each of the given contexts, in batches of similar length.

    Args:
        generator: Generator of the answers.
        groups: Questions with their contexts.
        positions: For each question, the positions of the contexts from which to answer.

    Returns:
        For each question, one reply per position, in the order of `positions`.
    """
    model: Any = generator.lm.model
    model.eval()
    inputs = [
        generator.tokens.encode(group.question.text, group.contexts[position].passage)
        for group, group_positions in zip(groups, positions, strict=True)
        for position in group_positions
    ]
    reply_by_row: dict[int, ScoredReply] = {}
    for rows in group_by_token_budget([len(ids) for ids in inputs], _EVALUATION_TOKENS):
        reply_by_row.update(
            zip(rows, generator.generate([inputs[row] for row in rows]), strict=True)
        )
    replies = iter(reply_by_row[row] for row in range(len(inputs)))
    return [[next(replies) for _ in group_positions] for group_positions in positions]
