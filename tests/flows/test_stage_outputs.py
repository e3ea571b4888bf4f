"""What each stage writes for the small world, per version of the stage.

A stage's code has no revision of its own: its version stands for it. If an output here changes, the
version must too, or artifacts of the former code would be taken for those of this one. Exact
outputs are kept as digests, floats with a tolerance. Record new versions with `RECORD_STAGES=1
pytest tests/flows/test_stage_outputs.py`.
"""

import gzip
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from conftest import ROOT, Run

from flows.stages.registry import list_stages

GOLDEN = ROOT / "tests" / "golden" / "stages.json"
TOLERANCE = 0.02
"""Of floats that models compute, whose last digits depend on the machine."""


def one(folder: Path, pattern: str) -> Path:
    """The only file that matches."""
    (path,) = folder.glob(pattern)
    return path


def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a parquet file, without times."""
    table = pq.read_table(path).to_pylist()
    for row in table:
        for part in row.get("usage", ()):
            part.pop("seconds")
    return table


def digest(value: object) -> str:
    """A digest of rows; scores of BM25 are rounded to four digits."""
    text = json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def ranking(folder: Path, retriever: str) -> str:
    """Ranks, flags and rounded scores that a retriever gave, or a plan, whose passages may have
    none.
    """
    found = rows(one(folder, f"data/retrieval/*-{retriever}-*/contexts.parquet"))
    return digest([{**row, "score": row["score"] and round(row["score"], 4)} for row in found])


def training(path: Path) -> list[float]:
    """The loss, or the last epoch's metrics."""
    report = json.loads(path.read_text())
    if "history" in report:
        return [value for name, value in sorted(report["history"][-1].items()) if name != "epoch"]
    return [report["loss"]]


def exported_calls(folder: Path) -> str:
    """The exported calls, without times and versions of libraries."""
    with gzip.open(one(folder, "data/calls/*/calls.jsonl.gz"), "rt") as file:
        calls = [json.loads(line) for line in file]
    for call in calls:
        value = json.loads(call["value"])
        assert value.pop("model").startswith("torch ")
        call["value"] = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return digest(
        [{name: call[name] for name in ("key", "kind", "engine", "value")} for call in calls]
    )


FROZEN = [
    "estimator=cross_encoder", "estimator.engine.dtype=float32",
    "estimator.engine.separate_layers=1", "estimator.engine.runtime=torch",
    "joint.settings.precision=float32", "joint.settings.epochs=1", "joint.data.questions=4",
    "joint.data.contexts=3", "joint.data.dev_questions=2", "joint.data.dev_contexts=3",
    "score.splits=[test]", "score.limit=6", "reader@joint.teacher.reader=folder",
    "joint.teacher.reader.name=tiny", "joint.teacher.reader.engine.dtype=float32",
    "joint.teacher.decoding.max_new_tokens=4",
]  # fmt: skip
PLANNED = [
    "retriever=rank_gpt", "retriever.plan.window=3", "retriever.plan.step=2",
    "retriever.plan.top=6", "rank.limit=4",
]  # fmt: skip
STAGES: dict[str, Callable[[Path], Any]] = {
    "corpus": lambda folder: digest(rows(one(folder, "data/corpus/*/passages.parquet"))),
    "questions": lambda folder: digest(rows(one(folder, "data/questions/*/questions.parquet"))),
    "retrieve": lambda folder: ranking(folder, "bm25"),
    "rank": lambda folder: ranking(folder, "rank_gpt"),
    "closed_book": lambda folder: digest(
        rows(one(folder, "data/closed_book/*/closed_book.parquet"))
    ),
    "sweep": lambda folder: digest(rows(one(folder, "data/predictions/*/predictions.parquet"))),
    "calls": exported_calls,
    "train_reader": lambda folder: training(one(folder, "models/reader/*/training.json")),
    "train_joint": lambda folder: training(one(folder, "models/joint/*/training.json")),
    "score": lambda folder: [
        row["log_odds"] for row in rows(one(folder, "data/relevance/*/relevance.parquet"))
    ][:20],
}


@pytest.mark.slow
def test_a_stage_s_output_changes_only_with_its_version(
    prepared: Run, world: Path, tmp_path: Path
) -> None:
    """For every stage with a version but the index, whose files are the libraries' own and which
    rankings stand for.
    """
    frozen = [*FROZEN, f"estimator.base={world}/encoder", f"joint.teacher.reader.base={world}/lm"]
    prepared("sweep", "strategy=post_fusion", "k=2", "sweep.closed_book_filter=false")
    prepared("calls", "strategy=post_fusion", "k=2", "sweep.closed_book_filter=false")
    prepared("train_reader", "reader.tuned=true")
    prepared("train_joint", *frozen)
    prepared("score", *frozen)
    prepared("rank", *PLANNED)
    versions = {stage.name: stage.version for stage in list_stages() if stage.version}
    assert set(STAGES) == set(versions) - {"index"}, (
        "Add a stage with a version to STAGES, with a function that returns its output, call it "
        "above, and record it with RECORD_STAGES=1."
    )
    made = {
        name: {"version": versions[name], "output": output(tmp_path)}
        for name, output in STAGES.items()
    }
    if os.environ.get("RECORD_STAGES"):
        GOLDEN.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")
    recorded = json.loads(GOLDEN.read_text())
    for name, now in made.items():
        before = recorded[name]
        assert before["version"] == now["version"], f"Record {name} with RECORD_STAGES=1."
        same = now["output"] == before["output"] or (
            isinstance(now["output"], list)
            and now["output"] == pytest.approx(before["output"], rel=TOLERANCE, abs=TOLERANCE)
        )
        assert same, (
            f"The output of the stage {name} changed: set the version in flows/{name}.py to "
            f"{now['version'] + 1}, then record it. Before: {before['output']}; now: "
            f"{now['output']}."
        )
