"""The specification of a cell: everything that the stages behind the configuration need, resolved once.

The sweep, the manifest, MLflow, the report and `flows.show` are all given the same specification.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from winnow.artifacts import contracts, parquet
from winnow.artifacts.tables import read_questions
from winnow.contexts.build import RankBy
from winnow.contexts.placement import Placement
from winnow.contexts.weighting import ContextWeighting
from winnow.errors import ConfigError
from winnow.protocols import Engine, Strategy
from winnow.records import Price, Question, Role
from winnow.sweeps.labels import CellLabels


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """How one role's engine is opened; engines of equal key are one engine.

    Attributes:
        role: whose requests it serves.
        key: identifies the engine and its settings.
        open: makes the engine; with False nothing is checked, for dry runs.
        price: of its model.

    """

    role: Role
    key: str
    open: Callable[[bool], Engine] = field(compare=False)
    price: Price = Price()


@dataclass(frozen=True, slots=True)
class QuestionSelection:
    """Which questions a cell answers: the first `limit` of a split that pass the closed-book filter, if there is one."""

    path: Path
    split: str
    limit: int | None = None
    closed_book: Path | None = None

    def read(self) -> list[Question]:
        """Return the questions.

        Raises:
            ConfigError: if none is left, or the filter covers fewer than the limit needs.

        """
        questions = read_questions(self.path, [self.split])
        if self.closed_book is not None:
            questions = self._filter(questions, self.closed_book)
        if not questions:
            raise ConfigError(f"No question of split {self.split!r} is left to sweep.")
        return questions[: self.limit]

    def counts(self) -> tuple[int, int] | None:
        """Return how many questions there were before and after the filter, None without one."""
        if self.closed_book is None:
            return None
        kept = parquet.read(self.closed_book, contracts.CLOSED_BOOK, columns=["kept"])["kept"].to_pylist()
        return len(kept), sum(kept)

    def _filter(self, questions: Sequence[Question], path: Path) -> list[Question]:
        rows = parquet.read(path, contracts.CLOSED_BOOK, columns=["question_id", "kept"]).to_pylist()
        kept = {row["question_id"]: row["kept"] for row in rows}
        known = [question for question in questions if kept.get(question.question_id)]
        missing = sum(question.question_id not in kept for question in questions)
        if missing and (self.limit is None or len(known) < self.limit):
            raise ConfigError(
                f"sweep.limit={self.limit} needs more questions than the closed-book filter covers: it kept {len(known)}, "
                f"{missing} of split {self.split!r} have no closed-book answer. Raise closed_book.limit (null means all), set "
                "closed_book.split to the same split, or switch the filter off with sweep.closed_book_filter=false."
            )
        return known


@dataclass(frozen=True, slots=True)
class CellSpec:
    """One cell: what identifies it, what it reads, its components and engines.

    Attributes:
        key: identifies its predictions.
        folder: of its predictions.
        labels: that name it in tables and MLflow.
        settings: that tables print where cells differ in them.
        questions: that it answers.
        retrieval: folder of its rankings.
        relevance: file of log-odds, None where it uses none.
        placement: of its contexts.
        weighting: of its contexts.
        strategy: builds the strategy; called where plans are run.
        engines: one per role.
        config: the composed settings as plain values, for the record.
        identity: what the key is computed from.

    """

    key: str
    folder: Path
    labels: CellLabels
    settings: Mapping[str, str]
    questions: QuestionSelection
    retrieval: Path
    relevance: Path | None
    placement: Placement
    weighting: ContextWeighting
    strategy: Callable[[], Strategy] = field(compare=False)
    engines: tuple[EngineSpec, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict, compare=False)
    identity: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def rank_by(self) -> RankBy:
        """Return what ranks the contexts."""
        return "estimator" if self.labels.rank_by == "estimator" else "retriever"

    @property
    def predictions(self) -> Path:
        """Return the file of its predictions."""
        return self.folder / "predictions.parquet"

    @property
    def prices(self) -> dict[Role, Price]:
        """Return the prices of the roles that have one."""
        return {engine.role: engine.price for engine in self.engines if engine.price != Price()}


def varying_settings(cells: Sequence[CellSpec]) -> list[str]:
    """Return, for each cell, the settings in which it differs from others, as "retriever=dense"; "" where none does."""
    names = [name for name in cells[0].settings if len({cell.settings[name] for cell in cells}) > 1] if cells else []
    return [", ".join(f"{name}={cell.settings[name]}" for name in names) for cell in cells]
