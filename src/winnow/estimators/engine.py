"""An engine that runs an estimator. Each estimate is computed once, stored in the ledger and shared by all plans."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from winnow.errors import ConfigError
from winnow.protocols import Estimator
from winnow.records import Estimate, Passage, Request, Result, Score


@dataclass
class EstimatorEngine:
    """Serves Estimate requests with an estimator.

    Args:
        estimator: Estimator that computes the log-odds.
        identity: Identity under which the ledger stores estimates: name, digest of the weights and all that determines a
            score.
        capacity: Maximum number of pairs in the queue, which are batched by length.
        commit: Number of pairs per commit to the ledger. If the process is killed, as many may be lost.

    """

    revision: ClassVar[int] = 1

    estimator: Estimator
    identity: str
    capacity: int = 4096
    commit: int = 1024
    _pending: list[Estimate] = field(default_factory=list, repr=False)

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return Estimate, the only kind of request that it serves."""
        return (Estimate,)

    def check(self) -> None:
        """Do nothing: nothing can be checked before the weights are loaded."""

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def refusal(self, request: Request) -> str | None:  # noqa: ARG002 (the protocol)
        """Return None, because every estimate is served."""
        return None

    def fits(self, request: Request) -> bool:  # noqa: ARG002 (the protocol)
        """Return True, because long texts are truncated and counted."""
        return True

    def size(self, request: Request) -> int:
        """Return the length of the text in characters."""
        return len(_estimate(request).text)

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests."""
        self._pending += [_estimate(request) for request in requests]

    def collect(self, timeout: float) -> Sequence[tuple[Request, Result]]:  # noqa: ARG002 (nothing to wait for)
        """Score up to `commit` pairs."""
        batch, self._pending = self._pending[: self.commit], self._pending[self.commit :]
        if not batch:
            return []
        scores = self.estimator.score(
            [(request.question, Passage(request.text, request.title, request.text)) for request in batch]
        )
        return [(request, Score(value)) for request, value in zip(batch, scores.tolist(), strict=True)]


def _estimate(request: Request) -> Estimate:
    if not isinstance(request, Estimate):
        raise ConfigError(f"An estimator serves Estimate requests; received {type(request).__name__}.")
    return request
