"""Artifacts as data frames: joined by id, refused if something is missing or was changed. The
flows' tests load real ones.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import winnow
from winnow.artifacts.provenance import write_manifest
from winnow.artifacts.steps import StepsWriter
from winnow.errors import ArtifactError
from winnow.records import Answer, Passage
from winnow.steps import Outcome, Step

INPUTS = {"questions": {"artifact": "aaa:1"}, "rankings": "bbb:2"}


def _write(folder: Path, rows: list[dict[str, object]], name: str, **inputs: object) -> Path:
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
    write_manifest(folder, key="k", settings={"inputs": inputs}, rows=len(rows))
    return folder


def _write_all(data: Path) -> Path:
    """Predictions of two questions, in another order than the questions."""
    questions = [
        {"question_id": f"q{n}", "question": f"text {n}", "answers": [f"a{n}"]} for n in range(3)
    ]
    passages = [{"passage_id": f"p{n}", "title": f"T{n}", "text": f"t{n}"} for n in range(3)]
    predictions = [
        {"question_id": "q2", "answer": "x", "passage_ids": ["p2", "p0"]},
        {"question_id": "q0", "answer": "y", "passage_ids": ["p1"]},
    ]
    _write(data / "questions" / "set-aaa", questions, "questions")
    _write(data / "retrieval" / "set-bm25-bbb", passages, "passages")
    return _write(data / "predictions" / "cell-ccc", predictions, "predictions", **INPUTS)


def test_predictions_are_joined_by_id(tmp_path: Path) -> None:
    """Questions and passages come from the artifacts that the predictions were made from, in prompt
    order.
    """
    frame = winnow.load(_write_all(tmp_path))
    assert list(frame.columns) == [
        "question_id",
        "question",
        "answers",
        "answer",
        "passage_ids",
        "contexts",
    ]
    assert list(frame["question"]) == ["text 2", "text 0"]
    assert [list(answers) for answers in frame["answers"]] == [["a2"], ["a0"]]
    assert [[context["title"] for context in contexts] for contexts in frame["contexts"]] == [
        ["T2", "T0"],
        ["T1"],
    ]


def test_contexts_have_the_texts_that_prompts_showed(tmp_path: Path) -> None:
    """A counterfactual passage has the id of the one that it replaces."""
    cell = _write_all(tmp_path)
    false = Passage("p2", "T2", "another text")
    writer = StepsWriter(cell, {f"p{n}": Passage(f"p{n}", f"T{n}", f"t{n}") for n in range(3)})
    for question, passages in (("q2", (false,)), ("q0", (Passage("p1", "T1", "t1"),))):
        steps = (Step(1, "generate", "reader", passages),)
        writer.add(question, Outcome(question, Answer("x", unknown=False), (), 0, steps, "stop"))
    writer.finish(["q2", "q0"])
    write_manifest(cell, key="k", settings={"inputs": INPUTS}, rows=2)
    texts = [[one["text"] for one in row] for row in winnow.load(cell)["contexts"]]
    assert texts == [["another text", "t0"], ["t1"]]


def test_other_artifacts_are_their_table(tmp_path: Path) -> None:
    """Questions are read as they are, also by a path as text."""
    _write_all(tmp_path)
    assert list(winnow.load(str(tmp_path / "questions/set-aaa"))["question_id"]) == [
        "q0",
        "q1",
        "q2",
    ]


def test_what_is_missing_or_changed_is_named(tmp_path: Path) -> None:
    """No artifact, two tables, another artifact that is gone, and predictions that were edited."""
    folder = _write_all(tmp_path)
    with pytest.raises(ArtifactError, match=r"no manifest\.json"):
        winnow.load(tmp_path)
    two = _write(tmp_path / "x" / "two", [{"a": 1}], "one")
    pq.write_table(pa.table({"b": [1]}), two / "other.parquet")
    write_manifest(two, key="k", settings={}, rows=1)
    with pytest.raises(ArtifactError, match=r"2 \(one\.parquet, other\.parquet\)"):
        winnow.load(two)
    (tmp_path / "retrieval" / "set-bm25-bbb").rename(tmp_path / "elsewhere")
    with pytest.raises(ArtifactError, match=r"retrieval/\*-bbb, which is not in"):
        winnow.load(folder)
    pq.write_table(pa.table({"question_id": ["q0"]}), folder / "predictions.parquet")
    with pytest.raises(ArtifactError, match=r"predictions\.parquet"):
        winnow.load(folder)
