"""Artifacts as pandas data frames, for notebooks."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from winnow.artifacts import parquet
from winnow.artifacts.provenance import check_content, read_manifest
from winnow.artifacts.steps import PASSAGES_FILE, STEPS_FILE, has_steps
from winnow.errors import ArtifactError

if TYPE_CHECKING:
    import pandas as pd


CELL_VALUES = "metrics.json"
"""File of a report with the metrics of each cell."""
QUESTION_VALUES = "questions.parquet"
"""File of a report with the metrics of each question."""


class ReportFrames(NamedTuple):
    """The numbers of a report.

    Attributes:
        cells: A row per cell: its name, its labels, and the mean and 95 % interval of each metric
            (`em`, `em_low`, `em_high`), and the number of questions for which it is defined
            (`em_n`).
        questions: A row per cell and question: the name and the labels of the cell, the id of the
            question, the answer, and the question's own value of each metric.

    Shares are from 0 to 1. What is undefined is NaN.
    """

    cells: "pd.DataFrame"
    questions: "pd.DataFrame"


def load_report_frames(folder: Path) -> ReportFrames:
    """Read the numbers of a report as data frames.

    Args:
        folder: Folder of the report, such as reports/quick_start.

    Raises:
        ArtifactError: If the folder does not belong to a report.
    """
    import pandas as pd

    for name in (CELL_VALUES, QUESTION_VALUES):
        if not (folder / name).is_file():
            raise ArtifactError(
                f"{folder} is not the folder of a report: it has no {name}. Run `python -m "
                f"flows.report` with report.out={folder}."
            )
    rows = []
    for body in json.loads((folder / CELL_VALUES).read_text()):
        row: dict[str, Any] = {}
        for name, value in body.items():
            if isinstance(value, list):
                bounds = (math.nan if bound is None else bound for bound in value)
                row |= dict(
                    zip((name, f"{name}_low", f"{name}_high", f"{name}_n"), bounds, strict=True)
                )
            else:
                row[name] = value
        rows.append(row)
    return ReportFrames(
        pd.DataFrame(rows), parquet.read_table(folder / QUESTION_VALUES).to_pandas()
    )


def load_frame(folder: Path) -> "pd.DataFrame":
    """Read an artifact as a data frame.

    The frame of predictions has one row per question: the columns of predictions.parquet, the text
    of the `question`, its accepted `answers`, and `contexts`, a list of mappings with passage_id,
    title and text in prompt order. The frame of any other artifact has the rows of its Parquet
    file.

    Args:
        folder: Folder of the artifact, such as data/predictions/post_fusion-0123456789ab.

    Raises:
        ArtifactError: If the folder is not a finished artifact, was changed after it was written,
            or has no single table.
    """
    if not (folder / "manifest.json").is_file():
        raise ArtifactError(
            f"{folder} is not the folder of a finished artifact: it has no manifest.json. `ls "
            "data/*` lists them."
        )
    check_content(folder)
    if (folder / "predictions.parquet").is_file():
        return _load_predictions(folder)
    files = sorted(folder.glob("*.parquet"))
    if len(files) != 1:
        names = ", ".join(file.name for file in files) or "none"
        raise ArtifactError(
            f"{folder} has not one table but {len(files)} ({names}). Read the file with "
            "pandas.read_parquet."
        )
    frame: pd.DataFrame = parquet.read_table(files[0]).to_pandas()
    return frame


def load_steps_frame(folder: Path) -> "pd.DataFrame":
    """Read the steps of a cell: what its strategy requested and received, a row per step, in order.

    The columns are question_id, round, kind, role, calls, query, finish, model, `passages` (a list
    of mappings with passage_id, title, text, sources and origin, in prompt order) and `stop` (why
    the plan of the question ended).

    Args:
        folder: Folder of the cell, such as data/predictions/post_fusion-0123456789ab.

    Raises:
        ArtifactError: If the folder is not a finished cell with steps, or was changed after it was
            written.
    """
    import pandas as pd

    if not has_steps(folder):
        raise ArtifactError(
            f"{folder} has no {STEPS_FILE}: it is not a cell, or its steps were not recorded. "
            "`python -m flows.sweep sweep.record_steps=true` with the same settings records them "
            "from the ledger."
        )
    check_content(folder)
    rows = parquet.read_table(folder / PASSAGES_FILE).to_pylist()
    ids = sorted({row["passage_id"] for row in rows if row["text"] is None})
    passages_by_id = _read_passages(folder, read_manifest(folder)["settings"]["inputs"], ids)
    passages = [
        {
            "passage_id": row["passage_id"],
            **_get_text(row, passages_by_id),
            "sources": row["sources"],
            "origin": row["origin"],
        }
        for row in rows
    ]
    columns = [
        "question_id",
        "round",
        "kind",
        "role",
        "calls",
        "query",
        "finish",
        "model",
        "passages",
        "stop",
    ]
    steps = [
        {
            "question_id": row["question_id"],
            **step,
            "passages": [passages[number] for number in step["passages"]],
            "stop": row["stop"],
        }
        for row in parquet.read_table(folder / STEPS_FILE).to_pylist()
        for step in row["steps"]
    ]
    return pd.DataFrame(steps, columns=columns)


def _get_text(row: Mapping[str, Any], ranked: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the title and text of a step's passage, from the rankings if the row has none."""
    source = ranked[row["passage_id"]] if row["text"] is None else row
    return {"title": source["title"], "text": source["text"]}


def _load_predictions(folder: Path) -> "pd.DataFrame":
    """Join the predictions with the texts of their questions and passages, by id."""
    inputs = read_manifest(folder)["settings"]["inputs"]
    predictions = parquet.read_table(folder / "predictions.parquet")
    ids = predictions["question_id"]
    questions_file = (
        _find_artifact(folder, "questions", inputs["questions"]["artifact"]) / "questions.parquet"
    )
    questions = parquet.read_table(questions_file, filters=pc.field("question_id").isin(ids))
    by_id = {
        row["question_id"]: row
        for row in questions.select(["question_id", "question", "answers"]).to_pylist()
    }
    frame: pd.DataFrame = predictions.to_pandas()
    frame.insert(
        1, "question", [by_id[question_id]["question"] for question_id in frame["question_id"]]
    )
    frame.insert(
        2, "answers", [by_id[question_id]["answers"] for question_id in frame["question_id"]]
    )
    passages = _read_passages(
        folder, inputs, sorted({passage for row in frame["passage_ids"] for passage in row})
    )
    changed_passages = _read_changed(folder)
    frame["contexts"] = [
        [changed_passages.get((question_id, passage)) or passages[passage] for passage in row]
        for question_id, row in zip(frame["question_id"], frame["passage_ids"], strict=True)
    ]
    return frame


def _read_changed(folder: Path) -> dict[tuple[str, str], dict[str, str]]:
    """Read the passages whose shown text differs from the rankings, by question and passage id."""
    if not has_steps(folder):
        return {}
    names = ("passage_id", "title", "text")
    by_number = {
        row["number"]: {name: row[name] for name in names}
        for row in parquet.read_table(folder / PASSAGES_FILE).to_pylist()
        if row["text"] is not None
    }
    changed_passages: dict[tuple[str, str], dict[str, str]] = {}
    for row in parquet.read_table(folder / STEPS_FILE).to_pylist() if by_number else ():
        for number in (number for step in row["steps"] for number in step["passages"]):
            if number in by_number:
                passage = by_number[number]
                changed_passages.setdefault((row["question_id"], passage["passage_id"]), passage)
    return changed_passages


def _read_passages(
    folder: Path, inputs: Mapping[str, Any], ids: list[str]
) -> dict[str, dict[str, str]]:
    """Read passages of the rankings from which the predictions were made."""
    if not ids:
        return {}
    file = _find_artifact(folder, "retrieval", inputs["rankings"]) / "passages.parquet"
    rows = parquet.read_table(
        file, filters=pc.field("passage_id").isin(pa.array(ids, pa.string()))
    ).to_pylist()
    return {row["passage_id"]: row for row in rows}


def _find_artifact(folder: Path, kind: str, identity: str) -> Path:
    """Find an artifact of another kind next to the predictions by the key in its identity."""
    key = identity.partition(":")[0]
    folders = sorted((folder.parent.parent / kind).glob(f"*-{key}"))
    if not folders:
        raise ArtifactError(
            f"{folder} was made from the artifact {kind}/*-{key}, which is not in "
            f"{folder.parent.parent}. Restore it (`dvc pull`), or run the stage again."
        )
    return folders[0]
