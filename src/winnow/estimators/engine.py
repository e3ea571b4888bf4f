"""An estimator as an engine, so that each judgement is made once, kept in the ledger, and shared by all who ask for it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from winnow.errors import ConfigError
from winnow.protocols import Estimator
from winnow.records import Estimate, Passage, Request, Result, Score


@dataclass
class EstimatorEngine:
    """Serves Estimate requests.

    Args:
        estimator: what judges.
        identity: what the ledger files judgements under: name, digest of the weights and all that decides a score.
        capacity: pairs taken at once, which are batched by length.
        commit: pairs between two commits to the ledger, which a kill may lose.

    """

    estimator: Estimator
    identity: str
    capacity: int = 4096
    commit: int = 1024
    _pending: list[Estimate] = field(default_factory=list, repr=False)

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return the one kind."""
        return (Estimate,)

    def check(self) -> None:
        """Nothing more can be told before the weights are loaded."""

    def close(self) -> None:
        """Nothing is open."""

    def fits(self, request: Request) -> bool:  # noqa: ARG002 (the protocol; long texts are cut and counted)
        """Tell that any length is served."""
        return True

    def size(self, request: Request) -> int:
        """Return the text's length in characters."""
        return len(_asked(request).text)

    def submit(self, requests: Sequence[Request]) -> None:
        """Take requests."""
        self._pending += [_asked(request) for request in requests]

    def collect(self) -> Sequence[tuple[Request, Result]]:
        """Judge up to `commit` pairs."""
        due, self._pending = self._pending[: self.commit], self._pending[self.commit :]
        if not due:
            return []
        scores = self.estimator.score([(one.question, Passage(one.text, one.title, one.text)) for one in due])
        return [(request, Score(value)) for request, value in zip(due, scores.tolist(), strict=True)]


def _asked(request: Request) -> Estimate:
    if not isinstance(request, Estimate):
        raise ConfigError(f"An estimator serves Estimate requests; received {type(request).__name__}.")
    return request
