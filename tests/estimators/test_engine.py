"""The estimator behind the driver: each pair is scored once, whoever requests it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.errors import CallRefusedError, ConfigError, ModelError, NoScoreError
from winnow.estimators.cross_encoder import CrossEncoder
from winnow.estimators.engine import EstimatorEngine
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import build_engine_map
from winnow.records import Decoding, Passage
from winnow.requests import Estimate, Generate, Score
from winnow.strategies.corrective.evaluators import EstimatedRelevance
from winnow.strategies.relevance import estimate_relevance
from winnow.testing import make_context, make_question, make_tiny_encoder


class Lengths:
    """Scores a passage by its length."""

    truncated = 0
    software = "lengths 1"

    def __init__(self) -> None:
        self.scored: list[tuple[str, str, str]] = []

    def score(self, pairs: Sequence[tuple[str, Passage]]) -> NDArray[np.float32]:
        """Score, and record the pairs."""
        self.scored += [(q, p.title, p.text) for q, p in pairs]
        return np.array([float(len(p.text)) for _, p in pairs], dtype=np.float32)


def test_added_contexts_alone_are_scored(tmp_path: Path) -> None:
    """Three contexts, then the same with two more: two new scores, the values in order, whatever
    their passage ids.
    """
    contexts = [make_context(n, "x" * n) for n in range(1, 6)]
    scored: list[int] = []
    for count in (3, 5, 5):
        estimator = Lengths()
        with SqliteStore(tmp_path / "ledger.sqlite") as ledger:
            driver = Driver(
                build_engine_map(EstimatorEngine(estimator, "lengths", commit=2)), ledger
            )
            (outcome,) = driver.run(
                [Job("q", estimate_relevance(make_question(), contexts[:count]))]
            )
        assert outcome.result == tuple(float(n) for n in range(1, count + 1))
        scored.append(len(estimator.scored))
    assert scored == [3, 2, 0]


class Broken(Lengths):
    """Gives NaN for a text of three characters, as an estimator in half precision may."""

    def score(self, pairs: Sequence[tuple[str, Passage]]) -> NDArray[np.float32]:
        """Score, or raise the error of an estimator that gives NaN."""
        if any(len(passage.text) == 3 for _, passage in pairs):
            raise NoScoreError("it gave NaN")
        return super().score(pairs)


def test_a_pair_without_a_score_fails_alone_if_the_plan_can_do_without_it(tmp_path: Path) -> None:
    """The others are scored; a plan that needs every score ends, also if the failure is in the
    ledger.
    """
    contexts = [make_context(n, "x" * n) for n in range(1, 6)]
    with SqliteStore(tmp_path / "ledger.sqlite") as ledger:
        engines = build_engine_map(EstimatorEngine(Broken(), "broken"))
        evaluate = EstimatedRelevance().evaluate(
            make_question(), [context.passage for context in contexts]
        )
        (outcome,) = Driver(engines, ledger).run([Job("q", evaluate)])
        assert outcome.result.failed == 1
        assert [score == -1.0 for score in outcome.result.scores] == [
            False,
            False,
            True,
            False,
            False,
        ]
        with pytest.raises(
            CallRefusedError,
            match="was refused in an earlier run or for another plan: it gave NaN",
        ):
            list(
                Driver(engines, ledger).run(
                    [Job("q", estimate_relevance(make_question(), contexts))]
                )
            )
        more = [*contexts, make_context(7, "yyy")]
        with pytest.raises((ModelError, CallRefusedError)):
            list(Driver(engines, ledger).run([Job("q", estimate_relevance(make_question(), more))]))


def test_a_broken_estimator_ends_the_run(tmp_path: Path) -> None:
    """A model that is missing gives no score to any pair: nothing is stored."""

    class Missing(Lengths):
        def score(self, pairs: Sequence[tuple[str, Passage]]) -> NDArray[np.float32]:
            raise ModelError("there is no model folder")

    with SqliteStore(tmp_path / "ledger.sqlite") as ledger:
        evaluate = EstimatedRelevance().evaluate(make_question(), [make_context(1, "x").passage])
        with pytest.raises(ModelError, match="there is no model folder"):
            list(
                Driver(build_engine_map(EstimatorEngine(Missing(), "missing")), ledger).run(
                    [Job("q", evaluate)]
                )
            )
        assert len(ledger) == 0


@pytest.mark.parametrize("scores", [[], [1.0, 2.0], [[1.0]]])
def test_a_score_for_each_pair_is_expected(scores: list[object]) -> None:
    """Of an estimator of one's own, too, whose scores may be a list."""

    class Odd(Lengths):
        def score(self, pairs: Sequence[tuple[str, Passage]]) -> NDArray[np.float32]:
            return scores  # type: ignore[return-value]

    engine = EstimatorEngine(Odd(), "odd")
    engine.submit([Estimate("q", "text")])
    with pytest.raises(ConfigError, match=r"Odd\.score: expected 1 scores, one for each pair"):
        engine.collect(0)


def test_other_requests_are_refused() -> None:
    """A strategy that asks an estimator to write has the wrong engine."""
    with pytest.raises(ConfigError, match="serves Estimate requests; received Generate"):
        EstimatorEngine(Lengths(), "x").submit([Generate((), Decoding())])


def test_the_number_of_truncated_texts_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """When the engine is closed; no reader of a report would know of them otherwise."""
    estimator = Lengths()
    engine = EstimatorEngine(estimator, "lengths")
    engine.close()
    assert not caplog.records
    estimator.truncated = 3
    engine.close()
    assert "3 of the texts scored in this run were truncated" in caplog.text


def test_a_classifier_that_was_not_trained_scores_nothing(tmp_path: Path) -> None:
    """Its scores would be random, others in each run; the trained one scores."""
    folder = make_tiny_encoder(tmp_path / "encoder", ["one two"])
    estimator = CrossEncoder(str(folder), head="classes", dtype="float32", device="cpu")
    engine = EstimatorEngine(estimator, "new")
    engine.submit([Estimate("one?", "two")])
    with pytest.raises(ModelError, match=r"encoder has no classifier.*estimator.trained=true"):
        engine.collect(0.0)
    estimator.lm.model.save_pretrained(folder)
    engine = EstimatorEngine(
        CrossEncoder(str(folder), head="classes", dtype="float32", device="cpu"), "trained"
    )
    engine.submit([Estimate("one?", "two")])
    ((_, score),) = engine.collect(0.0)
    assert isinstance(score, Score)
