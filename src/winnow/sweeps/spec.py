"""The specification of a cell: everything that later stages need from the configuration, resolved once.

The sweep, the manifest, MLflow, the report and `flows.show` all use the same specification.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from winnow.artifacts import contracts, parquet
from winnow.artifacts.provenance import flatten, is_done
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
    """How to open the engine of one role. Roles with the same key share one engine.

    Attributes:
        role: Role whose requests the engine serves.
        key: Identifier of the engine and its settings.
        open: Function that opens the engine. With False it checks nothing, for dry runs.
        price: Price of the model.

    """

    role: Role
    key: str
    open: Callable[[bool], Engine] = field(compare=False)
    price: Price = Price()


@dataclass(frozen=True, slots=True)
class QuestionSelection:
    """Selects the questions of a cell: the first `limit` questions of a split, after the closed-book filter if one is set."""

    path: Path
    split: str
    limit: int | None = None
    closed_book: Path | None = None

    def read(self) -> list[Question]:
        """Read the selected questions.

        Raises:
            ConfigError: If no question remains, or if the closed-book filter covers too few questions for the limit.

        """
        questions = read_questions(self.path, [self.split])
        if self.closed_book is not None:
            questions = self._filter(questions, self.closed_book)
        if not questions:
            raise ConfigError(f"No question of split {self.split!r} is left to sweep.")
        return questions[: self.limit]

    def counts(self) -> tuple[int, int] | None:
        """Count the questions before and after the closed-book filter, or return None without a filter."""
        if self.closed_book is None:
            return None
        flags = parquet.read(self.closed_book, contracts.CLOSED_BOOK, columns=["kept"])["kept"].to_pylist()
        return len(flags), sum(flags)

    def _filter(self, questions: Sequence[Question], path: Path) -> list[Question]:
        rows = parquet.read(path, contracts.CLOSED_BOOK, columns=["question_id", "kept"]).to_pylist()
        is_kept = {row["question_id"]: row["kept"] for row in rows}
        kept = [question for question in questions if is_kept.get(question.question_id)]
        missing = sum(question.question_id not in is_kept for question in questions)
        if missing and (self.limit is None or len(kept) < self.limit):
            raise ConfigError(
                f"sweep.limit={self.limit} needs more questions than the closed-book filter covers: it kept {len(kept)}, "
                f"{missing} of split {self.split!r} have no closed-book answer. Raise closed_book.limit (null means all), set "
                "closed_book.split to the same split, or switch the filter off with sweep.closed_book_filter=false."
            )
        return kept


@dataclass(frozen=True, slots=True)
class CellSpec:
    """Specification of one cell: its identity, inputs, components and engines.

    Attributes:
        key: Identifier of the predictions.
        folder: Folder of the predictions.
        labels: Labels that identify the cell in tables and MLflow.
        settings: Settings that tables show if the cells differ in them.
        questions: Selection of the questions to answer.
        retrieval: Folder of the rankings.
        relevance: File of the estimator's log-odds, or None if the cell does not use them.
        placement: Placement of the contexts.
        weighting: Weighting of the contexts.
        strategy: Function that builds the strategy; called only if plans are run.
        engines: Specifications of the engines, one per role.
        config: Composed settings as plain values, stored for reference.
        identity: Settings and inputs from which the key is computed.

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
        """Return the source of the ranking."""
        return "estimator" if self.labels.rank_by == "estimator" else "retriever"

    @property
    def predictions(self) -> Path:
        """Return the path of the predictions file."""
        return self.folder / "predictions.parquet"

    @property
    def is_finished(self) -> bool:
        """Return whether the predictions exist; a file that was removed or cut since is made again."""
        return is_done(self.folder, self.key) and parquet.is_complete(self.predictions)

    @property
    def prices(self) -> dict[Role, Price]:
        """Return the prices by role, without roles that have no price."""
        return {engine.role: engine.price for engine in self.engines if engine.price != Price()}


def varying_settings(cells: Sequence[CellSpec]) -> list[str]:
    """Return for each cell the settings that vary between cells, such as "retriever=dense", or "" if none vary."""
    names = [name for name in cells[0].settings if len({cell.settings[name] for cell in cells}) > 1] if cells else []
    texts = [", ".join(f"{name}={cell.settings[name]}" for name in names) for cell in cells]
    groups: dict[object, list[int]] = {}
    for index, (cell, text) in enumerate(zip(cells, texts, strict=True)):
        groups.setdefault((cell.labels, text), []).append(index)
    for indices in groups.values():
        for index, difference in zip(indices, _differences([cells[index].config for index in indices]), strict=True):
            texts[index] = ", ".join(part for part in (texts[index], difference) if part)
    return texts


_LONGEST_VALUE = 40
_NO_RESULT = (
    "report",
    "metric",
    "breakdown",
    "paths",
    "tracking",
    "runner",
    "prices",
    "evaluate_estimator",
    "grid",
    "seeds",
    "sweep",
)
"""Groups of settings that do not distinguish cells."""


def _differences(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name for each configuration the settings in which it differs from the others, such as "weighting.scale=0.1"."""
    flat = [flatten({name: node for name, node in config.items() if name not in _NO_RESULT}) for config in configs]
    names = dict.fromkeys(name for settings in flat for name in settings)
    varying = [name for name in names if len({repr(settings.get(name)) for settings in flat}) > 1]
    return [", ".join(f"{name}={_shortened(settings.get(name))}" for name in varying) for settings in flat]


def _shortened(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."
