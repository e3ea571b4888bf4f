"""RE-RAG: the relevance estimator learns from the generator's likelihoods, without relevance labels (section 2.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from winnow.contexts import marginalization
from winnow.errors import ConfigError
from winnow.estimators.pair import PairEstimator
from winnow.metrics.answer import exact_match
from winnow.modeling.pair_inputs import budget_batches
from winnow.modeling.pair_model import PairModel
from winnow.strategies.teaching import ScoredReply
from winnow.training.chunks import Chunk, pairs_of, spread
from winnow.training.generators import Generator
from winnow.training.groups import Group
from winnow.training.losses import Objective, joint_loss
from winnow.training.method import Method

_EVALUATION_TOKENS = 8192


@dataclass
class ReRag(Method[Sequence[Group]]):
    """Trains an estimator, and with it a generator; a frozen generator's log-likelihoods are in the groups.

    Args:
        estimator: of any kind and size ("mixed" in the paper's table 1).
        generator: trained jointly; None for a frozen one.
        objective: L_gen as printed in eq. 7, or the marginal likelihood; see `winnow.training.losses`.
        alpha_re: weight of L_re.
        alpha_tok: weight of L_tok.
        top: number of contexts, best by the estimator, from which evaluation answers (appendix B).

    """

    estimator: PairEstimator
    generator: Generator | None = None
    objective: Objective = "paper"
    alpha_re: float = 1.0
    alpha_tok: float = 1.0
    top: int = 10

    def __post_init__(self) -> None:
        """Refuse an unknown objective."""
        if self.objective not in ("paper", "marginal"):
            raise ConfigError(f"objective must be paper or marginal; received {self.objective!r}.")

    @property
    def parts(self) -> Mapping[str, PairModel]:
        """Return the estimator, and the generator if it is trained."""
        generator = {} if self.generator is None else {"generator": self.generator}
        return {"estimator": self.estimator, **generator}

    def chunks(self, batch: Sequence[Group], seed: int, epoch: int, budget: int) -> list[Chunk]:
        """Divide the pairs of all questions into chunks of similar length; columns: log-odds, other, log P_G(answer).

        Raises:
            ConfigError: if the estimator's runtime keeps the weights of its first call.

        """
        if self.estimator.runtime != "torch":
            raise ConfigError(f"An estimator trains with runtime=torch; received {self.estimator.runtime!r}.")
        pairs = [(group.question.text, group.contexts[n].passage) for group, n in pairs_of(batch)]
        tokens = self.estimator.tokens
        tokens.prepare(pairs)
        estimator_rows = [tokens.encode(*pair) for pair in pairs]
        starts = [tokens.passage_start(question) for question, _ in pairs]
        log_answer = torch.tensor([group.log_answer[n] for group, n in pairs_of(batch)] if self.generator is None else [])
        generator_rows, targets = self._generator_inputs(batch, pairs, seed, epoch)

        def run(rows: Sequence[int]) -> torch.Tensor:
            scores = self.estimator.estimate([estimator_rows[n] for n in rows], [starts[n] for n in rows])
            if self.generator is None:
                answer = log_answer[list(rows)].to(scores.log_odds.device)
            else:
                answer = self.generator.log_likelihood([generator_rows[n] for n in rows], [targets[n] for n in rows])
            return torch.stack([scores.log_odds, scores.other, answer], dim=1)

        def count(rows: Sequence[int]) -> int:
            tokens = sum(len(estimator_rows[n]) for n in rows)
            return tokens if self.generator is None else tokens + sum(len(generator_rows[n]) + len(targets[n]) for n in rows)

        lengths = [len(row) for row in estimator_rows]
        if self.generator is not None:
            lengths = [max(length, len(row)) for length, row in zip(lengths, generator_rows, strict=True)]
        return [Chunk(rows, lambda rows=rows: run(rows), count(rows)) for rows in budget_batches(lengths, budget)]  # type: ignore[misc]

    def _generator_inputs(
        self, batch: Sequence[Group], pairs: Sequence[tuple[str, Any]], seed: int, epoch: int
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Return the generator's token rows and targets, one per pair; none for a frozen generator."""
        if self.generator is None:
            return [], []
        self.generator.tokens.prepare(pairs)
        answers = [self.generator.target(group.target(seed, epoch)) for group in batch]
        targets = [answers[i] for i, group in enumerate(batch) for _ in group.contexts]
        return [self.generator.tokens.encode(*pair) for pair in pairs], targets

    def loss(self, values: torch.Tensor, batch: Sequence[Group]) -> Mapping[str, torch.Tensor]:
        """Return the joint loss (eq. 12) and its terms."""
        (log_odds, mask), (other, _), (answer, _) = (spread(batch, values[:, n], 0.0) for n in range(3))
        loss = joint_loss(
            log_odds, other, answer, mask, objective=self.objective, alpha_re=self.alpha_re, alpha_tok=self.alpha_tok
        )
        return {"loss": loss.total, "loss_gen": loss.generation, "loss_re": loss.estimation, "loss_tok": loss.token}

    def evaluate(self, groups: Sequence[Group]) -> list[dict[str, float]]:
        """Answer from the estimator's best contexts by marginalization, and with uniform weights; measure its recall."""
        pairs = [(group.question.text, group.contexts[n].passage) for group, n in pairs_of(groups)]
        scores = iter(self.estimator.score(pairs).tolist())
        rankings: list[list[tuple[float, int]]] = []
        for group in groups:
            scored = [(next(scores), n) for n in range(len(group.contexts))]
            rankings.append(sorted(scored, key=lambda pair: -pair[0])[: self.top])
        replies = self._replies(groups, rankings)
        return [_metrics(*row) for row in zip(groups, rankings, replies, strict=True)]

    def _replies(self, groups: Sequence[Group], rankings: Sequence[Sequence[tuple[float, int]]]) -> list[list[ScoredReply]]:
        if self.generator is None:
            return [[group.replies[n] for _, n in ranking] for group, ranking in zip(groups, rankings, strict=True)]
        return generate_all(self.generator, groups, [[n for _, n in ranking] for ranking in rankings])


def _metrics(group: Group, ranking: Sequence[tuple[float, int]], replies: Sequence[ScoredReply]) -> dict[str, float]:
    answers, log_p = [reply.text for reply in replies], [reply.log_p for reply in replies]
    row = {"recall_at_1": float(group.contexts[ranking[0][1]].has_answer)}
    for name, scores in (("em", [score for score, _ in ranking]), ("em_uniform", [0.0] * len(ranking))):
        row[name] = exact_match(marginalization.choose(answers, log_p, scores), group.question.answers)
    return row


def generate_all(generator: Generator, groups: Sequence[Group], chosen: Sequence[Sequence[int]]) -> list[list[ScoredReply]]:
    """Return the greedy answers from chosen contexts of each question, generated in batches of similar length."""
    model: Any = generator.lm.model
    model.eval()
    pairs = [(i, n) for i, positions in enumerate(chosen) for n in positions]
    rows = [generator.tokens.encode(groups[i].question.text, groups[i].contexts[n].passage) for i, n in pairs]
    by_row: dict[int, ScoredReply] = {}
    for batch in budget_batches([len(row) for row in rows], _EVALUATION_TOKENS):
        by_row.update(zip(batch, generator.generate([rows[n] for n in batch]), strict=True))
    replies = iter(by_row[n] for n in range(len(rows)))
    return [[next(replies) for _ in positions] for positions in chosen]
