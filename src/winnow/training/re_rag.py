"""RE-RAG (section 2.3): a relevance estimator learns from a generator's likelihoods, without relevance labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from winnow.contexts import marginalization
from winnow.errors import ConfigError
from winnow.estimators.pair import PairEstimator
from winnow.metrics.answer import exact_match
from winnow.modeling.pair_inputs import budget_batches
from winnow.modeling.pair_model import PairModel
from winnow.strategies.teaching import ScoredReply
from winnow.training.chunks import Chunk, list_pairs, spread
from winnow.training.generators import Generator
from winnow.training.groups import Group
from winnow.training.losses import Objective, check_objective, joint_loss
from winnow.training.method import Method

_EVALUATION_TOKENS = 8192


@dataclass
class ReRag(Method[Sequence[Group]]):
    """Trains a relevance estimator, alone or jointly with a generator.

    Args:
        estimator: Estimator to train. Its kind and size may differ from the generator's ("mixed" in the paper's table 1).
        generator: Generator to train jointly, or None for a frozen generator, whose log-likelihoods are in the groups.
        objective: Form of L_gen: "paper" for eq. 7 as printed, or "marginal"; see `winnow.training.losses`.
        alpha_re: Weight of L_re.
        alpha_tok: Weight of L_tok.
        top: Number of contexts, ranked by the estimator, from which evaluation answers (appendix B).

    """

    revision: ClassVar[int] = 1

    estimator: PairEstimator
    generator: Generator | None = None
    objective: Objective = "paper"
    alpha_re: float = 1.0
    alpha_tok: float = 1.0
    top: int = 10

    def __post_init__(self) -> None:
        """Validate the objective."""
        check_objective(self.objective)

    @property
    def parts(self) -> Mapping[str, PairModel]:
        """Return the estimator, and the generator if it is trained."""
        generator_part = {} if self.generator is None else {"generator": self.generator}
        return {"estimator": self.estimator, **generator_part}

    def chunks(self, batch: Sequence[Group], seed: int, epoch: int, budget: int) -> list[Chunk]:
        """Divide the pairs of all questions into chunks of similar length.

        The columns are the log-odds, the probability of other tokens, and log P_G(answer).

        Raises:
            ConfigError: If the estimator's runtime is not "torch": other runtimes keep the weights of their first call.

        """
        if self.estimator.runtime != "torch":
            raise ConfigError(f"An estimator trains with runtime=torch; received {self.estimator.runtime!r}.")
        pairs = [(group.question.text, group.contexts[n].passage) for group, n in list_pairs(batch)]
        tokens = self.estimator.tokens
        tokens.prepare(pairs)
        estimator_rows = [tokens.encode(*pair) for pair in pairs]
        passage_starts = [tokens.passage_start(question) for question, _ in pairs]
        frozen_log_answer = torch.tensor(
            [group.answer_log_probs[n] for group, n in list_pairs(batch)] if self.generator is None else []
        )
        generator_rows, targets = self._generator_inputs(batch, pairs, seed, epoch)

        def run(rows: Sequence[int]) -> torch.Tensor:
            scores = self.estimator.estimate([estimator_rows[n] for n in rows], [passage_starts[n] for n in rows])
            if self.generator is None:
                answer_log_probs = frozen_log_answer[list(rows)].to(scores.log_odds.device)
            else:
                answer_log_probs = self.generator.log_likelihood([generator_rows[n] for n in rows], [targets[n] for n in rows])
            return torch.stack([scores.log_odds, scores.other, answer_log_probs], dim=1)

        def count_tokens(rows: Sequence[int]) -> int:
            count = sum(len(estimator_rows[n]) for n in rows)
            return count if self.generator is None else count + sum(len(generator_rows[n]) + len(targets[n]) for n in rows)

        lengths = [len(row) for row in estimator_rows]
        if self.generator is not None:
            lengths = [max(length, len(row)) for length, row in zip(lengths, generator_rows, strict=True)]
        return [
            Chunk(rows, lambda rows=rows: run(rows), count_tokens(rows))  # type: ignore[misc]
            for rows in budget_batches(lengths, budget)
        ]

    def _generator_inputs(
        self, batch: Sequence[Group], pairs: Sequence[tuple[str, Any]], seed: int, epoch: int
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Tokenise the generator's inputs and targets, one of each per pair; both are empty for a frozen generator."""
        if self.generator is None:
            return [], []
        self.generator.tokens.prepare(pairs)
        answers = [self.generator.target(group.sample_target(seed, epoch)) for group in batch]
        targets = [answers[i] for i, group in enumerate(batch) for _ in group.contexts]
        return [self.generator.tokens.encode(*pair) for pair in pairs], targets

    def loss(self, values: torch.Tensor, batch: Sequence[Group]) -> Mapping[str, torch.Tensor]:
        """Compute the joint loss (eq. 12) and its terms."""
        (log_odds, mask), (other, _), (answer_log_probs, _) = (spread(batch, values[:, n], 0.0) for n in range(3))
        loss = joint_loss(
            log_odds, other, answer_log_probs, mask, objective=self.objective, alpha_re=self.alpha_re, alpha_tok=self.alpha_tok
        )
        return {"loss": loss.total, "loss_gen": loss.generation, "loss_re": loss.estimation, "loss_tok": loss.token}

    def evaluate(self, groups: Sequence[Group]) -> list[dict[str, float]]:
        """Compute recall@1 of the estimator's ranking, and exact match by marginalization over its best `top` contexts.

        "em" weights the contexts by the estimator, "em_uniform" weights them equally.
        """
        pairs = [(group.question.text, group.contexts[n].passage) for group, n in list_pairs(groups)]
        scores = iter(self.estimator.score(pairs).tolist())
        rankings: list[list[tuple[float, int]]] = []
        for group in groups:
            scored = [(next(scores), n) for n in range(len(group.contexts))]
            rankings.append(sorted(scored, key=lambda pair: -pair[0])[: self.top])
        replies = self._replies(groups, rankings)
        return [_metrics(*arguments) for arguments in zip(groups, rankings, replies, strict=True)]

    def _replies(self, groups: Sequence[Group], rankings: Sequence[Sequence[tuple[float, int]]]) -> list[list[ScoredReply]]:
        if self.generator is None:
            return [[group.replies[n] for _, n in ranking] for group, ranking in zip(groups, rankings, strict=True)]
        return generate_all(self.generator, groups, [[n for _, n in ranking] for ranking in rankings])


def _metrics(group: Group, ranking: Sequence[tuple[float, int]], replies: Sequence[ScoredReply]) -> dict[str, float]:
    answers, log_p = [reply.text for reply in replies], [reply.log_p for reply in replies]
    metrics = {"recall_at_1": float(group.contexts[ranking[0][1]].has_answer)}
    for name, scores in (("em", [score for score, _ in ranking]), ("em_uniform", [0.0] * len(ranking))):
        metrics[name] = exact_match(marginalization.most_probable_answer(answers, log_p, scores), group.question.answers)
    return metrics


def generate_all(generator: Generator, groups: Sequence[Group], positions: Sequence[Sequence[int]]) -> list[list[ScoredReply]]:
    """Decode answers greedily, in batches of similar length.

    Args:
        generator: Generator of the answers.
        groups: Questions with their contexts.
        positions: For each question, the positions of the contexts to answer from.

    """
    model: Any = generator.lm.model
    model.eval()
    pairs = [(group, n) for group, numbers in zip(groups, positions, strict=True) for n in numbers]
    inputs = [generator.tokens.encode(group.question.text, group.contexts[n].passage) for group, n in pairs]
    reply_of_row: dict[int, ScoredReply] = {}
    for rows in budget_batches([len(ids) for ids in inputs], _EVALUATION_TOKENS):
        reply_of_row.update(zip(rows, generator.generate([inputs[n] for n in rows]), strict=True))
    replies = iter(reply_of_row[n] for n in range(len(inputs)))
    return [[next(replies) for _ in numbers] for numbers in positions]
