"""The estimator behind the driver: each pair is scored once, whoever requests it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from winnow.driver import Driver, Job
from winnow.errors import ConfigError
from winnow.estimators.engine import EstimatorEngine
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import build_engine_map
from winnow.records import Decoding, Generate, Passage
from winnow.strategies.relevance import estimate_relevance
from winnow.testing import make_context, make_question


class Lengths:
    """Scores a passage by its length."""

    truncated = 0

    def __init__(self) -> None:
        self.scored: list[tuple[str, str, str]] = []

    def score(self, pairs: Sequence[tuple[str, Passage]]) -> NDArray[np.float32]:
        """Score, and record the pairs."""
        self.scored += [(q, p.title, p.text) for q, p in pairs]
        return np.array([float(len(p.text)) for _, p in pairs], dtype=np.float32)


def test_added_contexts_alone_are_scored(tmp_path: Path) -> None:
    """Three contexts, then the same with two more: two new scores, the values in order, whatever their passage ids."""
    contexts = [make_context(n, "x" * n) for n in range(1, 6)]
    scored: list[int] = []
    for count in (3, 5, 5):
        estimator = Lengths()
        with SqliteStore(tmp_path / "ledger.sqlite") as ledger:
            driver = Driver(build_engine_map(EstimatorEngine(estimator, "lengths", commit=2)), ledger)
            (outcome,) = driver.run([Job("q", estimate_relevance(make_question(), contexts[:count]))])
        assert outcome.result == tuple(float(n) for n in range(1, count + 1))
        scored.append(len(estimator.scored))
    assert scored == [3, 2, 0]


def test_other_requests_are_refused() -> None:
    """A strategy that asks an estimator to write has the wrong engine."""
    with pytest.raises(ConfigError, match="serves Estimate requests; received Generate"):
        EstimatorEngine(Lengths(), "x").submit([Generate((), Decoding())])
