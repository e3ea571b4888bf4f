"""Steps of a cell, stored next to its predictions: a row per question, and each passage once."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from winnow.artifacts import contracts, parquet
from winnow.artifacts.files import write_texts
from winnow.artifacts.parquet import ArtifactWriter
from winnow.errors import ArtifactError
from winnow.records import Answer, Passage
from winnow.steps import READER, TOO_LONG, WITH_CONTROL_TOKENS, Outcome, Step

STEPS_FILE = "steps.parquet"
"""Name of the file with a row per question."""
MODELS_FILE = "models.json"
"""File with the number of replies by role and model, of artifacts that have no steps."""
PASSAGES_FILE = "step_passages.parquet"
"""Name of the file with the distinct passages."""
Origin = Literal["rankings", "search", "strategy"]


@dataclass(frozen=True, slots=True)
class QuestionSteps:
    """A question's steps, why its plan ended, and the passages that its answer names as used."""

    steps: tuple[Step, ...]
    stop: str
    used: tuple[Passage, ...] = ()

    @property
    def prompts(self) -> list[Step]:
        """Return the steps in which the reader was prompted."""
        return [step for step in self.steps if step.is_prompt]


class StepsWriter:
    """Collects the steps of a cell in any order. `finish` writes both files."""

    def __init__(self, folder: Path, ranked: Mapping[str, Passage]) -> None:
        """Begin without rows.

        Args:
            folder: Folder of the cell.
            ranked: Passages of the rankings by id, whose texts are not stored again.
        """
        self._folder, self._ranked = folder, ranked
        self._rows = ArtifactWriter(folder / STEPS_FILE, contracts.STEPS)
        self._numbers: dict[Passage, int] = {}
        self._searched: set[Passage] = set()

    def add(self, question_id: str, outcome: Outcome[Any]) -> None:
        """Add the steps of one question."""
        searched_ids: set[str] = set()
        rows = []
        for step in outcome.steps:
            if step.kind == "search":
                searched_ids.update(passage.passage_id for passage in step.passages)
            numbers = [self._find_number(passage, searched_ids) for passage in step.passages]
            rows.append(
                {
                    "round": step.round,
                    "kind": step.kind,
                    "role": step.role,
                    "passages": numbers,
                    "query": step.query,
                    "finish": step.finish,
                    "model": step.model,
                    "calls": step.calls,
                }
            )
        used_passages = outcome.result.used if isinstance(outcome.result, Answer) else ()
        numbers = [self._find_number(passage, searched_ids) for passage in used_passages]
        self._rows.add(
            {"question_id": question_id, "stop": outcome.stop, "used": numbers, "steps": rows}
        )

    def finish(self, order: Sequence[str]) -> None:
        """Write the files, which do not depend on the order in which the plans ended.

        Args:
            order: Ids of all questions, in the order of the predictions.
        """
        passages = sorted(
            self._numbers,
            key=lambda passage: (passage.passage_id, passage.title, passage.text, passage.sources),
        )
        numbers = [0] * len(passages)
        for number, passage in enumerate(passages):
            numbers[self._numbers[passage]] = number
        parquet.write(
            self._folder / PASSAGES_FILE,
            contracts.STEP_PASSAGES,
            self._iter_passage_rows(passages),
        )
        self._rows.finish(
            order, lambda table: _renumber_passages(table, pa.array(numbers, pa.int32()))
        )

    def _find_number(self, passage: Passage, searched: Collection[str]) -> int:
        """Return the number of a passage, which is the next one for a passage that is new."""
        if passage.passage_id in searched or any(source in searched for source in passage.sources):
            self._searched.add(passage)
        return self._numbers.setdefault(passage, len(self._numbers))

    def _iter_passage_rows(self, passages: Sequence[Passage]) -> Iterator[dict[str, Any]]:
        for number, passage in enumerate(passages):
            is_ranked = self._ranked.get(passage.passage_id) == passage
            origin: Origin = (
                "rankings" if is_ranked else "search" if passage in self._searched else "strategy"
            )
            yield {
                "number": number,
                "passage_id": passage.passage_id,
                "title": None if is_ranked else passage.title,
                "text": None if is_ranked else passage.text,
                "sources": list(passage.sources),
                "origin": origin,
            }


def _renumber_passages(table: pa.Table, numbers: pa.Array) -> pa.Table:
    """Replace the passage numbers in the rows of questions; `numbers[old]` is the new number."""

    def renumber(lists: pa.ListArray) -> pa.ListArray:
        return pa.ListArray.from_arrays(lists.offsets, numbers.take(lists.values), type=lists.type)

    used_numbers, steps = table["used"].combine_chunks(), table["steps"].combine_chunks()
    fields = [*steps.type.value_type]
    columns = [steps.values.field(field.name) for field in fields]
    columns = [
        renumber(column) if field.name == "passages" else column
        for field, column in zip(fields, columns, strict=True)
    ]
    structs = pa.StructArray.from_arrays(columns, fields=fields)
    steps = pa.ListArray.from_arrays(steps.offsets, structs, type=steps.type)
    return pa.table(
        {
            **dict(zip(table.column_names, table.columns, strict=True)),
            "used": renumber(used_numbers),
            "steps": steps,
        },
        schema=table.schema,
    )


@dataclass
class StoredSteps:
    """The steps of a cell, of which only those of the questions that are used become objects.

    Attributes:
        folder: Folder of the cell.
        ranked: Passages of the rankings by id.
    """

    folder: Path
    ranked: Mapping[str, Passage]
    _passages: list[Passage] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        """Read the passages; raise ArtifactError if the rankings lack one of theirs."""
        table = parquet.read(self.folder / PASSAGES_FILE, contracts.STEP_PASSAGES)
        for row in table.to_pylist():
            passage_id = row["passage_id"]
            if row["text"] is None:
                passage = self.ranked.get(passage_id)
            else:
                passage = Passage(passage_id, row["title"], row["text"], tuple(row["sources"]))
            if passage is None:
                raise ArtifactError(
                    f"{self.folder / PASSAGES_FILE}, row {row['number']}: the rankings lack the "
                    f"passage {passage_id!r}, which the prompts showed. Remove the folder and run "
                    "`python -m flows.sweep` again."
                )
            self._passages.append(passage)

    def read_table(self) -> pa.Table:
        """Read the rows of all questions, in the order of the predictions."""
        return parquet.read(self.folder / STEPS_FILE, contracts.STEPS).combine_chunks()

    def read(self, question_ids: Collection[str]) -> dict[str, QuestionSteps]:
        """Read the steps of the questions with these ids."""
        selection = pc.field("question_id").isin(pa.array(sorted(question_ids), pa.string()))
        return dict(
            self.convert(parquet.read(self.folder / STEPS_FILE, contracts.STEPS, filters=selection))
        )

    def convert(self, rows: pa.Table) -> list[tuple[str, QuestionSteps]]:
        """Convert rows of `read_table` to ids of questions with their steps."""
        return [
            (
                row["question_id"],
                QuestionSteps(
                    tuple(map(self._build_step, row["steps"])),
                    row["stop"],
                    self._get_passages(row["used"]),
                ),
            )
            for row in rows.to_pylist()
        ]

    def _build_step(self, row: Mapping[str, Any]) -> Step:
        return Step(**{**row, "passages": self._get_passages(row["passages"])})

    def _get_passages(self, numbers: Sequence[int]) -> tuple[Passage, ...]:
        return tuple(self._passages[number] for number in numbers)


def read_steps(
    folder: Path, ranked: Mapping[str, Passage], question_ids: Collection[str]
) -> dict[str, QuestionSteps]:
    """Read a cell's steps of some questions by question id, or none if they were not recorded."""
    return StoredSteps(folder, ranked).read(question_ids) if has_steps(folder) else {}


def count_models(folder: Path) -> dict[tuple[str, str], int]:
    """Count a cell's replies by role and model (a server's name for it, or a local runtime).

    Replies whose model is not known are left out, and so are cells without steps. For artifacts of
    other stages, the numbers are those that `write_models` has written.
    """
    if (folder / MODELS_FILE).is_file():
        return {
            (role, model): count
            for role, model, count in json.loads((folder / MODELS_FILE).read_text())
        }
    if not has_steps(folder):
        return {}
    steps = (
        parquet.read(folder / STEPS_FILE, contracts.STEPS, columns=["steps"])["steps"]
        .combine_chunks()
        .flatten()
    )
    table = pa.table({name: steps.field(name) for name in ("role", "model", "calls")})
    counts = (
        table.filter(pc.field("model") != "")
        .group_by(["role", "model"])
        .aggregate([("calls", "sum")])
        .to_pylist()
    )
    return {(row["role"], row["model"]): row["calls_sum"] for row in counts}


def write_models(folder: Path, models: Mapping[tuple[str, str], int]) -> None:
    """Write the number of replies by role and model of an artifact that has no steps."""
    rows = [[role, model, count] for (role, model), count in sorted(models.items())]
    write_texts(folder, {MODELS_FILE: json.dumps(rows, indent=1) + "\n"})


def count_control_tokens(folder: Path) -> tuple[int, int]:
    """Count the reader's replies in a cell's steps: with control tokens, and in total."""
    if not has_steps(folder):
        return 0, 0
    steps = (
        parquet.read(folder / STEPS_FILE, contracts.STEPS, columns=["steps"])["steps"]
        .combine_chunks()
        .flatten()
    )
    table = pa.table({name: steps.field(name) for name in ("role", "kind", "finish", "calls")})
    is_reply = (pc.field("kind") == "generate") & (pc.field("finish") != TOO_LONG)
    replies = table.filter((pc.field("role") == READER) & is_reply)
    marked_replies = replies.filter(pc.ends_with(replies["finish"], WITH_CONTROL_TOKENS))
    return (sum(marked_replies["calls"].to_pylist()), sum(replies["calls"].to_pylist()))


def has_steps(folder: Path) -> bool:
    """Return whether the steps of a cell were recorded. Cells of earlier versions have none."""
    return (folder / STEPS_FILE).is_file()
