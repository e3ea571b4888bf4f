"""The columns of cells, collected here and in other processes."""

import os
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from winnow.artifacts import contracts, parquet
from winnow.artifacts.provenance import write_manifest
from winnow.artifacts.tables import build_prediction_row, build_question_rows
from winnow.contexts.distractors import Distractors
from winnow.contexts.placement import Placement
from winnow.contexts.weighting import ContextWeighting
from winnow.errors import ArtifactError
from winnow.metrics.base import Sample
from winnow.metrics.citation import Citation
from winnow.metrics.correctness import ExactMatch
from winnow.metrics.cost import Cost
from winnow.metrics.judged import JudgedAccuracy
from winnow.predictions import Price
from winnow.records import Question
from winnow.reports.cells import CellResult
from winnow.reports.columns import (
    CellColumns,
    collect_columns,
    collect_in_processes,
    has_many_predictions,
)
from winnow.sweeps.labels import CellLabels
from winnow.sweeps.samples import SampleReader
from winnow.sweeps.spec import CellSpec, EngineSpec, QuestionSelection
from winnow.testing import METRICS, make_sample

METRIC_LIST = [*METRICS, Cost("money", "$", "number")]


@pytest.fixture
def specs(tmp_path: Path) -> list[CellSpec]:
    """Three finished cells of 20 questions, one of which has other questions, with a price."""
    rng = random.Random(0)
    questions = [
        Question(f"q{n}", f"Question {n}?", ("x", f"y{n}"), split="test") for n in range(22)
    ]
    parquet.write(
        tmp_path / "questions.parquet", contracts.QUESTIONS, build_question_rows(questions)
    )
    engine = EngineSpec("reader", "key", lambda _: pytest.fail("opened"), Price(1.0, 2.0))
    found = []
    for number in range(3):
        spec = CellSpec(
            f"cell-{number}", tmp_path / f"cell-{number}", CellLabels(f"s{number}", 5, "g"), {},
            QuestionSelection(tmp_path / "questions.parquet", "test"), tmp_path, None,
            Distractors(), Placement(), ContextWeighting(), lambda: pytest.fail("built"), (engine,),
            {"a": 1},
        )  # fmt: skip
        spec.folder.mkdir()
        rows = []
        for index in range(number, number + 20):
            candidates = tuple(rng.choices(["x", "z"], k=rng.randrange(4)))
            sample = make_sample(
                rng.choice(["x", "z", f"y{index}"]),
                index,
                candidates=candidates,
                truncated_passages=index,
            )
            rows.append(
                build_prediction_row(
                    replace(sample.prediction, trace=(f"t{index}",), provenance="distant")
                )
            )
        parquet.write(spec.predictions, contracts.PREDICTIONS, rows)
        write_manifest(spec.folder, key=spec.key, settings={}, rows=20)
        found.append(spec)
    return found


def _assert_equal(first: CellColumns, second: CellColumns) -> None:
    assert replace(first, rows={}) == replace(second, rows={})
    assert first.rows.keys() == second.rows.keys()
    for name, rows in first.rows.items():
        np.testing.assert_array_equal(rows.is_defined, second.rows[name].is_defined)
        assert {column: values.tolist() for column, values in rows.columns.items()} == {
            column: values.tolist() for column, values in second.rows[name].columns.items()
        }


def test_processes_collect_what_one_collects(specs: Sequence[CellSpec]) -> None:
    """Every column of every cell, prices included, under its own key; and the report's numbers are
    the same.
    """
    done: list[int] = []
    found = collect_in_processes(specs, METRIC_LIST, lambda: done.append(1))
    assert list(found) == ["cell-0", "cell-1", "cell-2"]
    assert len(done) == 3
    for spec in specs:
        samples = SampleReader().read(spec)
        _assert_equal(found[spec.key], collect_columns(samples, METRIC_LIST))
        alone, pooled = (
            CellResult(spec.labels, samples, METRIC_LIST, known=one)
            for one in (None, found[spec.key])
        )
        for metric in METRIC_LIST:
            assert pooled.format_metric(metric.name, 0) == alone.format_metric(metric.name, 0)
        assert pooled.compute_interval("money", 0).mean > 0
    assert found["cell-2"].question_ids[0] == "q2"
    assert found["cell-2"].traces[0] == ("t2",)
    assert found["cell-2"].truncated[:2] == (2, 3)


def test_judged_rows_are_added_to_known_columns(specs: Sequence[CellSpec]) -> None:
    """The calls of judged metrics are made after the others were computed."""
    samples = SampleReader().read(specs[0])
    judged = {"judged": [{"judged": float(number % 2)} if number else None for number in range(20)]}
    cell = CellResult(
        specs[0].labels, samples, METRIC_LIST, judged, known=collect_columns(samples, METRIC_LIST)
    )
    assert cell.columns.rows["judged"].columns["judged"].sum() == 10
    assert cell.columns.rows["judged"].is_defined.sum() == 19
    assert cell.select_questions({"q0", "q1"}).columns.rows["judged"].columns[
        "judged"
    ].tolist() == [1.0]


def test_an_error_in_a_process_ends_the_collection(specs: Sequence[CellSpec]) -> None:
    """With the message that a single process gives."""
    specs[1].predictions.write_bytes(b"other")
    with pytest.raises(ArtifactError, match=r"cell-1.predictions.parquet was modified"):
        collect_in_processes(specs, METRIC_LIST, lambda: None)


def test_processes_are_for_many_predictions(
    specs: Sequence[CellSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    """60 are few; metrics of contexts are computed here, and one cell or core is no reason for
    processes.
    """
    monkeypatch.setattr("winnow.reports.columns._count_cores", lambda: 4)
    assert not has_many_predictions(specs, METRIC_LIST)
    assert has_many_predictions(specs, METRIC_LIST, fewest=60)
    assert not has_many_predictions(specs, METRIC_LIST, fewest=61)
    assert not has_many_predictions(specs, [*METRIC_LIST, Citation("c", "c")], fewest=1)
    assert not has_many_predictions(specs[:1], METRIC_LIST, fewest=1)
    monkeypatch.setattr("winnow.reports.columns._count_cores", lambda: 1)
    assert not has_many_predictions(specs, METRIC_LIST, fewest=1)


def test_a_killed_process_leaves_its_cells_to_the_caller(specs: Sequence[CellSpec]) -> None:
    """What is missing is computed where it is needed."""
    assert set(collect_in_processes(specs, [_Killed("em", "EM")], lambda: None)) < {
        spec.key for spec in specs
    }


def test_judged_metrics_are_left_to_the_judge(specs: Sequence[CellSpec]) -> None:
    """They have no rows before their calls are made."""
    columns = collect_columns(
        SampleReader().read(specs[0]),
        [
            *METRIC_LIST,
            JudgedAccuracy("judged", "judged", template="{question} {answers} {answer}"),
        ],
    )
    assert columns.rows.keys() == {metric.name for metric in METRIC_LIST}


def test_questions_are_those_of_the_file_and_split(
    specs: Sequence[CellSpec], tmp_path: Path
) -> None:
    """One reader keeps both apart; an answer to an unknown question is refused, and so is a file
    that changes meanwhile.
    """
    reader = SampleReader()
    other = [Question(f"q{n}", "Other?", ("z",), split="dev" if n else "test") for n in range(22)]
    parquet.write(tmp_path / "other.parquet", contracts.QUESTIONS, build_question_rows(other))
    assert reader.read(specs[0])[0].question.text == "Question 0?"
    with pytest.raises(ArtifactError, match=r"answers question 'q1', which .*other.parquet lacks"):
        reader.read(
            replace(specs[0], questions=QuestionSelection(tmp_path / "other.parquet", "test"))
        )
    with pytest.raises(ArtifactError, match=r"answers question 'q0', which .*other.parquet lacks"):
        reader.read(
            replace(specs[0], questions=QuestionSelection(tmp_path / "other.parquet", "dev"))
        )
    samples = reader.read(
        replace(specs[1], questions=QuestionSelection(tmp_path / "other.parquet", "dev"), key="x")
    )
    assert samples[0].question.text == "Other?"
    assert reader.read(specs[1])[0].question.text == "Question 1?"
    shifted = reader.read(specs[1])
    specs[2].predictions.replace(specs[1].predictions)
    with pytest.raises(ArtifactError, match="was changed while it was read"):
        list(shifted)


class _Killed(ExactMatch):
    """A metric whose process ends."""

    def score(self, sample: Sample) -> float:
        os._exit(9)
