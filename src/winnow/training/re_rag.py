"""RE-RAG: the relevance estimator learns from what the generator makes of each context, without labels (section 2.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from winnow import marginal
from winnow.errors import ConfigError
from winnow.estimators.pair import PairEstimator
from winnow.metrics.answer import exact_match
from winnow.pair_model import PairModel
from winnow.pairs import budget_batches
from winnow.training.chunks import Chunk, pairs_of, spread
from winnow.training.generators import Generator
from winnow.training.groups import Group, Reply
from winnow.training.loop import Method
from winnow.training.losses import Objective, joint_loss


@dataclass
class ReRag(Method):
    """Trains an estimator, and with it a generator; a frozen one has left its log-likelihoods in the groups.

    Args:
        estimator: of any kind and size ("mixed" in the paper's table 1).
        generator: trained jointly; None for a frozen one.
        objective: L_gen as printed in eq. 7, or the marginal likelihood; see `winnow.training.losses`.
        alpha_re: weight of L_re.
        alpha_tok: weight of L_tok.
        top: contexts, best by the estimator, that evaluation answers from (appendix B).

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
        """Return the estimator, and the generator where it is trained."""
        generator = {} if self.generator is None else {"generator": self.generator}
        return {"estimator": self.estimator, **generator}

    def chunks(self, groups: Sequence[Group], seed: int, epoch: int, budget: int) -> list[Chunk]:
        """Cut the pairs of all questions into chunks of like length; columns: log-odds, other, log P_G(answer).

        Raises:
            ConfigError: if the estimator's runtime is one that keeps the weights that it first saw.

        """
        if self.estimator.runtime != "torch":
            raise ConfigError(f"An estimator trains with runtime=torch; received {self.estimator.runtime!r}.")
        pairs = [(group.question.text, group.contexts[n].passage) for group, n in pairs_of(groups)]
        tokens = self.estimator.tokens
        tokens.prepare(pairs)
        judged = [tokens.encode(*pair) for pair in pairs]
        starts = [tokens.passage_start(question) for question, _ in pairs]
        if self.generator is None:
            known = torch.tensor([group.log_answer[n] for group, n in pairs_of(groups)])
            read, targets = judged, [[0]] * len(pairs)
        else:
            known = torch.zeros(0)
            self.generator.tokens.prepare(pairs)
            read = [self.generator.tokens.encode(*pair) for pair in pairs]
            each = [self.generator.target(group.target(seed, epoch)) for group in groups]
            targets = [each[i] for i, group in enumerate(groups) for _ in group.contexts]

        def run(rows: Sequence[int]) -> torch.Tensor:
            made = self.estimator.judge([judged[n] for n in rows], [starts[n] for n in rows])
            if self.generator is None:
                answer = known[list(rows)].to(made.log_odds.device)
            else:
                answer = self.generator.log_likelihood([read[n] for n in rows], [targets[n] for n in rows])
            return torch.stack([made.log_odds, made.other, answer], dim=1)

        def counted(rows: Sequence[int]) -> int:
            both = sum(len(judged[n]) for n in rows)
            return both if self.generator is None else both + sum(len(read[n]) + len(targets[n]) for n in rows)

        batches = budget_batches([max(len(a), len(b)) for a, b in zip(judged, read, strict=True)], budget)
        return [Chunk(rows, lambda rows=rows: run(rows), counted(rows)) for rows in batches]  # type: ignore[misc]

    def loss(self, values: torch.Tensor, groups: Sequence[Group]) -> Mapping[str, torch.Tensor]:
        """Return the joint loss (eq. 12) and its parts."""
        (log_odds, mask), (other, _), (answer, _) = (spread(groups, values[:, n], 0.0) for n in range(3))
        made = joint_loss(
            log_odds, other, answer, mask, objective=self.objective, alpha_re=self.alpha_re, alpha_tok=self.alpha_tok
        )
        return {"loss": made.total, "loss_gen": made.generation, "loss_re": made.estimation, "loss_tok": made.token}

    def evaluate(self, groups: Sequence[Group]) -> list[dict[str, float]]:
        """Answer from the estimator's best contexts by marginalisation; the same with equal weights and its recall beside."""
        pairs = [(group.question.text, group.contexts[n].passage) for group, n in pairs_of(groups)]
        scores = iter(self.estimator.score(pairs).tolist())
        ranked: list[list[tuple[float, int]]] = []
        for group in groups:
            judged = [(next(scores), n) for n in range(len(group.contexts))]
            ranked.append(sorted(judged, key=lambda one: -one[0])[: self.top])
        replies = self._replies(groups, ranked)
        return [_measured(*three) for three in zip(groups, ranked, replies, strict=True)]

    def _replies(self, groups: Sequence[Group], ranked: Sequence[Sequence[tuple[float, int]]]) -> list[list[Reply]]:
        if self.generator is None:
            return [[group.replies[n] for _, n in order] for group, order in zip(groups, ranked, strict=True)]
        return write_all(self.generator, groups, [[n for _, n in order] for order in ranked])


def _measured(group: Group, ranked: Sequence[tuple[float, int]], replies: Sequence[Reply]) -> dict[str, float]:
    answers, log_p = [reply.text for reply in replies], [reply.log_p for reply in replies]
    row = {"recall_at_1": float(group.contexts[ranked[0][1]].has_answer)}
    for name, scores in (("em", [score for score, _ in ranked]), ("em_uniform", [0.0] * len(ranked))):
        row[name] = exact_match(marginal.choose(answers, log_p, scores), group.question.answers)
    return row


def write_all(generator: Generator, groups: Sequence[Group], chosen: Sequence[Sequence[int]]) -> list[list[Reply]]:
    """Return the greedy answers from chosen contexts of each question, made in batches of like length."""
    model: Any = generator.lm.model
    model.eval()
    which = [(i, n) for i, order in enumerate(chosen) for n in order]
    rows = [generator.tokens.encode(groups[i].question.text, groups[i].contexts[n].passage) for i, n in which]
    found: dict[int, Reply] = {}
    for batch in budget_batches([len(row) for row in rows], 8192):
        found.update(zip(batch, generator.write([rows[n] for n in batch]), strict=True))
    replies = iter(found[n] for n in range(len(rows)))
    return [[next(replies) for _ in order] for order in chosen]
