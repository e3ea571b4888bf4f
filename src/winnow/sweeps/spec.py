"""The specification of a cell, one setting of a sweep: all configuration that later stages need.

The sweep, the manifest, MLflow, the report and `flows.show` use the same specification.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from winnow.artifacts import contracts, parquet
from winnow.artifacts.provenance import flatten, is_done
from winnow.artifacts.rankings import Rankings
from winnow.artifacts.tables import read_questions
from winnow.contexts.build import RankBy, build_ranked_contexts
from winnow.contexts.distractors import Distractors
from winnow.contexts.placed import PlacedContexts, PlacementRule
from winnow.contexts.weighting import ContextWeighting
from winnow.errors import ConfigError
from winnow.predictions import Price
from winnow.protocols import ContextProcessor, Engine, Strategy
from winnow.records import Question, Role
from winnow.sweeps.labels import CellLabels
from winnow.sweeps.searches import SearchRules


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """The engine (model or server) that serves one role. Roles with the same key share one engine.

    Attributes:
        role: Role whose requests the engine serves.
        key: Identifier of the engine and its settings.
        open: Function that opens the engine. Its argument is whether to check that the engine can
            be used; dry runs do not.
        price: Price of the model.
        settings: Settings of the engine, also those that its key does not name.
    """

    role: Role
    key: str
    open: Callable[[bool], Engine] = field(compare=False)
    price: Price = Price()
    settings: Mapping[str, Any] = field(default_factory=dict, compare=False)


def _refuse_role(role: Role) -> EngineSpec:
    """Raise ConfigError, for a cell whose settings name no other engines than its own."""
    raise ConfigError(
        f"The cell has no engine for the role {role!r}. Resolve it from settings that name one."
    )


@dataclass(frozen=True, slots=True)
class QuestionSelection:
    """The questions that a cell answers.

    The closed-book filter keeps only questions that the reader does not answer correctly without
    passages ("unknown"), or only those that it does ("known").

    Attributes:
        path: File of the questions artifact.
        split: Split from which the questions are taken.
        limit: Maximum number of questions, or None for all.
        closed_book: File of the closed-book artifact, or None to skip the filter.
        keeps: Which questions the filter keeps.
    """

    path: Path
    split: str
    limit: int | None = None
    closed_book: Path | None = None
    keeps: Literal["unknown", "known"] = "unknown"

    def read(self) -> list[Question]:
        """Read the selected questions.

        Raises:
            ConfigError: If no question remains, or if the closed-book filter covers too few
                questions for the limit.
        """
        questions = read_questions(self.path, [self.split])
        if self.closed_book is not None:
            questions = self._filter(questions, self.closed_book)
        if not questions:
            raise ConfigError(
                f"{self.path} contains no question of split {self.split!r} that the sweep could "
                "answer. Check sweep.split, sweep.closed_book_filter and "
                "sweep.closed_book_keeps."
            )
        return questions[: self.limit]

    def count_questions(self) -> tuple[int, int] | None:
        """Count questions before and after the closed-book filter, or return None without one."""
        if self.closed_book is None:
            return None
        flags = parquet.read(self.closed_book, contracts.CLOSED_BOOK, columns=["kept"])[
            "kept"
        ].to_pylist()
        return len(flags), sum(flag == (self.keeps == "unknown") for flag in flags)

    def _filter(self, questions: Sequence[Question], path: Path) -> list[Question]:
        """Apply the closed-book filter, whose artifact is the file `path`."""
        rows = parquet.read(
            path, contracts.CLOSED_BOOK, columns=["question_id", "kept"]
        ).to_pylist()
        is_kept = {row["question_id"]: row["kept"] == (self.keeps == "unknown") for row in rows}
        kept_questions = [question for question in questions if is_kept.get(question.question_id)]
        num_missing = sum(question.question_id not in is_kept for question in questions)
        if num_missing and (self.limit is None or len(kept_questions) < self.limit):
            raise ConfigError(
                f"sweep.limit={self.limit} needs more questions than the closed-book filter "
                f"covers: it kept {len(kept_questions)}, and {num_missing} of split {self.split!r} "
                "have no closed-book answer. Raise closed_book.limit (null means all), set "
                "closed_book.split to the same split, or switch the filter off with "
                "sweep.closed_book_filter=false."
            )
        return kept_questions


@dataclass(frozen=True, slots=True)
class CellSpec:
    """Specification of one cell: its identity, inputs, components and engines.

    Attributes:
        key: Identifier of the predictions.
        folder: Folder of the predictions.
        labels: Labels that identify the cell in tables and MLflow.
        settings: Settings that tables name if the cells differ in them.
        questions: Selection of the questions to answer.
        retrieval: Folder of the rankings.
        relevance: File of the estimator's log-odds, or None if the cell does not use them.
        distractors: Rule that may replace the contexts other than the gold passage.
        placement: Placement of the contexts.
        weighting: Weighting of the contexts.
        processor: Context processor, which changes the contexts before the strategy shows them;
            None leaves them as they are.
        strategy: Function that builds the strategy. It is called only if the cell is run or
            replayed.
        engines: Specifications of the engines, one per role.
        config: Composed settings as plain values, stored for reference.
        identity: Settings and inputs from which the key is computed.
        ranking_engines: Specifications of the engines with which the rankings were made; () if no
            model took part in them.
        searches: Rules for the searches of plans.
        resolve_engine: Function that returns the engine of any role by the settings of the cell,
            such as the judge.
        pool: Folder of the rankings from whose passages random distractors are drawn; by default
            `retrieval`.
    """

    key: str
    folder: Path
    labels: CellLabels
    settings: Mapping[str, str]
    questions: QuestionSelection
    retrieval: Path
    relevance: Path | None
    distractors: Distractors
    placement: PlacementRule
    weighting: ContextWeighting
    strategy: Callable[[], Strategy] = field(compare=False)
    engines: tuple[EngineSpec, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict, compare=False)
    identity: Mapping[str, Any] = field(default_factory=dict, compare=False)
    ranking_engines: tuple[EngineSpec, ...] = ()
    processor: ContextProcessor | None = None
    pool: Path | None = None
    searches: SearchRules = field(default_factory=SearchRules)
    resolve_engine: Callable[[Role], EngineSpec] = field(default=_refuse_role, compare=False)

    @property
    def rank_by(self) -> RankBy:
        """Return the component that ranks the contexts."""
        return "estimator" if self.labels.rank_by == "estimator" else "retriever"

    @property
    def predictions(self) -> Path:
        """Return the path of the predictions file."""
        return self.folder / "predictions.parquet"

    @property
    def is_finished(self) -> bool:
        """Return whether the cell is finished with complete predictions; otherwise it is rerun."""
        return is_done(self.folder, self.key) and parquet.is_complete(self.predictions)

    def place(self, question: Question, rankings: Rankings) -> PlacedContexts:
        """Build the contexts of a question in prompt order, without weights."""
        contexts = build_ranked_contexts(rankings, question, self.rank_by) if self.labels.k else ()
        contexts = self.distractors.replace_contexts(
            question, contexts, self.labels.k, rankings.pool
        )
        return self.placement.place(question, contexts, self.labels.k)

    @property
    def prices(self) -> dict[Role, Price]:
        """Return the prices by role, without roles that have no price."""
        engines = (*self.ranking_engines, *self.engines)
        return {engine.role: engine.price for engine in engines if engine.price != Price()}


def list_varying_settings(cells: Sequence[CellSpec]) -> list[list[tuple[str, str]]]:
    """Return the names and values of each cell's settings that vary between cells.

    Cells that still cannot be distinguished are compared by all settings of their configurations.
    """
    if not cells:
        return []
    names = [name for name in cells[0].settings if len({cell.settings[name] for cell in cells}) > 1]
    settings = [[(name, cell.settings[name]) for name in names] for cell in cells]
    groups: dict[object, list[int]] = {}
    for index, cell in enumerate(cells):
        labels = replace(cell.labels, questions="")  # which no table shows
        groups.setdefault((labels, tuple(settings[index])), []).append(index)
    for indices in groups.values():
        differences = _list_differences([cells[index].config for index in indices])
        for index, difference in zip(indices, differences, strict=True):
            settings[index] += difference
    return settings


_MAX_VALUE_CHARS = 40
"""Number of characters to which the value of a setting is shortened."""
REPORT_SETTINGS = ("metric", "breakdown", "judge", "verifier", "nli", "prices")
"""Settings that a report reads but that are not in a cell's key, so cells cannot differ in them."""
IGNORED_GROUPS = (
    "report",
    "metric",
    "breakdown",
    "paths",
    "tracking",
    "runner",
    "prices",
    "evaluate_estimator",
    "shard",
    "shards",
    "grid",
    "seeds",
    "sweep",
)
"""Groups of settings that do not distinguish cells, because they do not change predictions."""


def _list_differences(configs: Sequence[Mapping[str, Any]]) -> list[list[tuple[str, str]]]:
    """Return each configuration's differing settings, such as ("weighting.scale", "0.1")."""
    flat = [
        flatten({name: node for name, node in config.items() if name not in IGNORED_GROUPS})
        for config in configs
    ]
    names = dict.fromkeys(name for settings in flat for name in settings)
    varying = [name for name in names if len({repr(settings.get(name)) for settings in flat}) > 1]
    columns = [_shorten_all([settings.get(name) for settings in flat]) for name in varying]
    return [list(zip(varying, texts, strict=True)) for texts in zip(*columns, strict=True)] or [
        [] for _ in flat
    ]


def _shorten_all(values: Sequence[object]) -> list[str]:
    """Format the values of a setting on one line each of about 40 characters, so that different
    values remain different.
    """
    texts = [" ".join(str(value).split()) for value in values]
    num_values = len(set(map(repr, values)))
    short_texts = list(map(_shorten, texts))
    if len(set(short_texts)) < num_values:
        columns = enumerate(zip(*texts, strict=False))
        first = next((index for index, column in columns if len(set(column)) > 1), 0)
        start = max(0, first - 10)
        short_texts = [_shorten("..." * bool(start) + text[start:]) for text in texts]
    if len(set(short_texts)) < num_values:
        digests = [sha256(repr(value).encode()).hexdigest()[:6] for value in values]
        short_texts = [
            f"{text} #{digest}" for text, digest in zip(short_texts, digests, strict=True)
        ]
    return short_texts


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_VALUE_CHARS else text[: _MAX_VALUE_CHARS - 3] + "..."
