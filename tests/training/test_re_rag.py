"""RE-RAG's method: what it learns from, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.training.methods import SETTINGS, silent
from winnow.errors import ConfigError
from winnow.estimators.t5 import T5Estimator
from winnow.strategies.teaching import ScoredReply
from winnow.training.loop import fit
from winnow.training.re_rag import ReRag

if TYPE_CHECKING:
    from conftest import SmallWorld


def test_it_learns_what_a_frozen_generator_knows(small: SmallWorld, tmp_path: Path) -> None:
    """Likelihoods that favor the answer-bearing context: the estimator alone is trained and comes
    to rank it first.
    """
    groups = [
        replace(g, answer_log_probs=tuple(0.0 if c.has_answer else -8.0 for c in g.contexts))
        for g in small.train
    ]
    method = ReRag(T5Estimator(small.base, dtype="float32", device="cpu"), objective="marginal")
    settings = replace(SETTINGS, epochs=30, accumulation=1, batch_questions=12, learning_rate=3e-3)
    report = fit(method, groups, [], settings, tmp_path / "out", silent)
    assert report.best_epoch == 30
    assert [p.name for p in (tmp_path / "out").iterdir() if p.is_dir()] == ["estimator"]
    estimator = T5Estimator(str(tmp_path / "out/estimator"), dtype="float32")
    first = 0
    for group in groups:
        scores = estimator.score([(group.question.text, c.passage) for c in group.contexts])
        first += group.contexts[int(scores.argmax())].has_answer
    assert first >= 10  # of 12; by chance 3


def test_evaluation_weighs_a_frozen_generators_answers_by_its_scores(
    small: SmallWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer under the best context wins by its weight; with equal weights two that agree on
    another one do.
    """
    group = small.dev[0]
    right = next(n for n, c in enumerate(group.contexts) if c.has_answer)
    replies = tuple(
        ScoredReply(group.question.answers[0] if n == right else "another", -1.0)
        for n in range(len(group.contexts))
    )
    method = ReRag(T5Estimator(small.base, dtype="float32"))
    odds = [5.0 if n == right else -5.0 for n in range(len(group.contexts))]
    monkeypatch.setattr(T5Estimator, "score", lambda _self, pairs: np.array(odds[: len(pairs)]))
    assert method.evaluate([replace(group, replies=replies)]) == [
        {"recall_at_1": 1.0, "em": 1.0, "em_uniform": 0.0}
    ]


def test_settings_are_checked(small: SmallWorld) -> None:
    """The objective, and a runtime that would keep the weights of the first evaluation."""
    with pytest.raises(ConfigError, match="objective must be paper or marginal"):
        ReRag(T5Estimator("x"), objective="x")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="trained only with runtime=torch; received 'openvino'"):
        ReRag(T5Estimator("x", runtime="openvino")).chunks(small.train, 0, 0, 100)
