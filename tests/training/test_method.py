"""A method with rollouts: prepared without gradients, several updates on a batch, state in the
checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from tests.training.methods import SETTINGS, silent
from winnow.metrics.answer import exact_match
from winnow.modeling.pair_model import PairModel
from winnow.training.chunks import Chunk
from winnow.training.generators import Seq2SeqGenerator
from winnow.training.groups import Group
from winnow.training.loop import fit
from winnow.training.method import Method

if TYPE_CHECKING:
    from conftest import SmallWorld


@dataclass(frozen=True)
class Rollout:
    """A sampled answer to the first context of a question, its log-probability then, and its
    reward.
    """

    row: Sequence[int]
    target: Sequence[int]
    log_p: float
    reward: float


@dataclass
class PolicyGradient(Method[Sequence[Rollout]]):
    """Clipped policy gradient on one rollout a question, with a running mean of the reward as its
    baseline.
    """

    generator: Seq2SeqGenerator
    updates: int = 2
    baseline: float = 0.0
    prepared: list[tuple[bool, Sequence[str]]] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)

    @property
    def components(self) -> Mapping[str, PairModel]:
        """Return the generator."""
        return {"generator": self.generator}

    def prepare(self, groups: Sequence[Group], seed: int, epoch: int) -> Sequence[Rollout]:
        """Answer each question, and score the answers."""
        self.prepared.append(
            (torch.is_grad_enabled(), [group.question.question_id for group in groups])
        )
        self.generator.lm.model.eval()
        rows = [
            self.generator.tokens.encode(group.question.text, group.contexts[0].passage)
            for group in groups
        ]
        replies = self.generator.generate(rows)
        targets = [self.generator.encode_answer(reply.text or "unknown") for reply in replies]
        log_ps = self.generator.log_likelihood(rows, targets).tolist()
        rewards = [
            exact_match(reply.text, group.question.answers)
            for group, reply in zip(groups, replies, strict=True)
        ]
        self.baseline += 0.1 * (1.0 + sum(rewards) / len(rewards) - self.baseline)
        return [Rollout(*values) for values in zip(rows, targets, log_ps, rewards, strict=True)]

    def chunks(self, batch: Sequence[Rollout], seed: int, epoch: int, budget: int) -> list[Chunk]:
        """Return one chunk of all rollouts."""
        self.generator.lm.model.eval()  # without dropout the first update's ratio is exactly 1

        def run() -> torch.Tensor:
            return self.generator.log_likelihood([r.row for r in batch], [r.target for r in batch])[
                :, None
            ]

        return [Chunk(range(len(batch)), run, sum(len(r.row) + len(r.target) for r in batch))]

    def loss(self, values: torch.Tensor, batch: Sequence[Rollout]) -> Mapping[str, torch.Tensor]:
        """Return the clipped objective."""
        ratio = (values[:, 0] - torch.tensor([r.log_p for r in batch])).exp()
        self.ratios.append(float(ratio.mean().detach()))
        advantage = torch.tensor([r.reward - self.baseline for r in batch])
        clipped = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        return {"loss": -clipped.mean()}

    def evaluate(self, groups: Sequence[Group]) -> list[dict[str, float]]:
        """Return nothing to choose by."""
        return [{"em": 0.0} for _ in groups]

    def state_dict(self) -> dict[str, Any]:
        """Keep the baseline."""
        return {"baseline": self.baseline}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the baseline."""
        self.baseline = state["baseline"]


def method(small: SmallWorld) -> PolicyGradient:
    return PolicyGradient(Seq2SeqGenerator(small.base, max_answer=4, device="cpu"))


def test_each_batch_is_prepared_once_and_updated_twice(small: SmallWorld, tmp_path: Path) -> None:
    """Twelve questions, batches of two, two a step: three steps of two updates an epoch; no
    gradient while preparing.
    """
    policy = method(small)
    report = fit(policy, small.train, small.dev, SETTINGS, tmp_path / "out", silent)
    assert report.steps == 2 * 2 * 3
    assert len(policy.prepared) == 2 * 6
    assert not any(gradients for gradients, _ in policy.prepared)
    first_epoch = [name for _, names in policy.prepared[:6] for name in names]
    assert sorted(first_epoch) == sorted(group.question.question_id for group in small.train)
    firsts, seconds = (
        [r for n, r in enumerate(policy.ratios) if n // 2 % 2 == half] for half in (0, 1)
    )
    assert firsts == pytest.approx([1.0] * 12, abs=1e-4)
    assert max(abs(ratio - 1) for ratio in seconds) > 1e-3


def test_its_state_is_in_the_checkpoint(small: SmallWorld, tmp_path: Path) -> None:
    """Stopped after the second batch of four: the resumed run has the baseline of an undisturbed
    one, and goes on there.
    """
    whole = method(small)
    settings = replace(SETTINGS, epochs=1)
    fit(whole, small.train, [], settings, tmp_path / "whole", silent)

    def stop(metrics: Mapping[str, float], step: int) -> None:
        if step >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(method(small), small.train, [], settings, tmp_path / "out", stop)
    resumed = method(small)
    fit(resumed, small.train, [], settings, tmp_path / "out", silent)
    assert 0 < len(resumed.prepared) < len(whole.prepared)
    assert resumed.baseline == pytest.approx(whole.baseline)
