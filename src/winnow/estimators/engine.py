"""Engine of relevance estimators, which serves the estimates that strategies and stages request.

Each estimate is computed once and stored in the ledger, so that later requests for it are answered
from there.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from winnow.errors import ConfigError, NoScoreError
from winnow.estimators.pair import PairEstimator
from winnow.protocols import Estimator
from winnow.records import Passage
from winnow.requests import Estimate, Failed, Request, Result, Score

_log = logging.getLogger(__name__)


@dataclass
class EstimatorEngine:
    """An engine that serves Estimate requests with a relevance estimator.

    Args:
        estimator: Estimator that computes the log-odds.
        identity: Identity under which the ledger stores estimates: the name of the estimator, the
            digest of its weights and every other setting that determines a score.
        capacity: Maximum number of queued pairs, which the estimator batches by length.
        commit: Number of pairs that are scored and then stored in the ledger together. If the
            process is killed, at most the scores of these pairs are lost.
    """

    revision: ClassVar[int] = 1
    reuses_prefixes: ClassVar[bool] = False

    estimator: Estimator
    identity: str
    capacity: int = 4096
    commit: int = 1024
    _pending: list[Estimate] = field(default_factory=list, repr=False)

    @property
    def software(self) -> str:
        """Return what computes the estimator's scores."""
        return self.estimator.software

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return the only kind of request that this engine serves, Estimate."""
        return (Estimate,)

    def check(self) -> None:
        """Do nothing, because nothing can be checked before the weights are loaded."""

    def close(self) -> None:
        """Log how many texts were truncated; there is no connection to close."""
        if num_truncated := self.estimator.truncated:
            _log.warning(
                "%s: %d of the texts scored in this run were truncated to the maximum length.",
                self.identity,
                num_truncated,
            )

    def explain_refusal(self, request: Request) -> str | None:  # noqa: ARG002 (part of the protocol)
        """Return None, because every Estimate request can be served."""
        return None

    def fits(self, request: Request) -> bool:  # noqa: ARG002 (part of the protocol)
        """Return True, because long passages are truncated, and counted as such."""
        return True

    def count_tokens(self, request: Request) -> int:
        """Return the length of the passage in characters."""
        return len(_require_estimate(request).text)

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests, which later calls of `collect` serve."""
        self._pending += [_require_estimate(request) for request in requests]

    def collect(self, timeout: float) -> Sequence[tuple[Request, Result]]:  # noqa: ARG002 (there is no wait)
        """Score up to `commit` queued pairs, and return the requests with their scores."""
        batch, self._pending = self._pending[: self.commit], self._pending[self.commit :]
        if not batch:
            return []
        if isinstance(self.estimator, PairEstimator):
            self.estimator.check_trained()
        pairs = [
            (
                request.question,
                Passage(passage_id=request.text, title=request.title, text=request.text),
            )
            for request in batch
        ]
        try:
            scores = self._score(pairs).tolist()
        except NoScoreError:
            if not any(request.may_fail for request in batch):
                raise
            return [
                (request, self._score_alone(request, pair))
                for request, pair in zip(batch, pairs, strict=True)
            ]
        return [(request, Score(value)) for request, value in zip(batch, scores, strict=True)]

    def _score(self, pairs: Sequence[tuple[str, Passage]]) -> NDArray[Any]:
        """Score pairs; raise ConfigError if there is not one score for each."""
        scores = np.asarray(self.estimator.score(pairs))
        if scores.shape != (len(pairs),):
            raise ConfigError(
                f"{type(self.estimator).__qualname__}.score: expected {len(pairs)} scores, one for "
                f"each pair; received the shape {scores.shape}."
            )
        return scores

    def _score_alone(self, request: Estimate, pair: tuple[str, Passage]) -> Score | Failed:
        """Score one pair; a pair without a score fails if the request allows it."""
        try:
            return Score(float(self._score([pair])[0]))
        except NoScoreError as error:
            if not request.may_fail:
                raise
            return Failed(str(error))


def _require_estimate(request: Request) -> Estimate:
    """Return the request; raise ConfigError if it is of another kind."""
    if not isinstance(request, Estimate):
        raise ConfigError(
            f"An estimator serves Estimate requests; received {type(request).__name__}."
        )
    return request
