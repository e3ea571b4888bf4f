"""Traces are replays of what a cell stored."""

from dataclasses import replace
from pathlib import Path

import pytest

from winnow.artifacts.rankings import RankedHit, Rankings
from winnow.artifacts.steps import QuestionSteps
from winnow.contexts.distractors import Distractors
from winnow.contexts.placement import Placement
from winnow.contexts.weighting import ContextWeighting
from winnow.driver.run import Driver
from winnow.identity.code import get_ledger_identity
from winnow.ledger.sqlite import SqliteStore
from winnow.metrics.base import Sample
from winnow.predictions import Prediction
from winnow.protocols import build_engine_map
from winnow.records import Decoding, Passage, Question
from winnow.reports.traces import build_trace
from winnow.strategies.post_fusion import PostFusion
from winnow.strategies.prompt import Prompt
from winnow.sweeps.labels import CellLabels
from winnow.sweeps.run import LoadedCell, build_prediction
from winnow.sweeps.spec import CellSpec, QuestionSelection
from winnow.testing import ScriptedReader

PROMPT = Prompt(
    "{contexts} Q {question}", "Q {question}", "{contexts} C {candidates} Q {question}", "<{text}>"
)
QUESTION = Question("q1", "Where?", ("Oslo",))
PASSAGES = {"a": Passage("a", "A", "It is in Oslo."), "b": Passage("b", "B", "It is in Rome.")}


def make_cell(folder: Path) -> LoadedCell:
    strategy = PostFusion(PROMPT, Decoding())
    spec = CellSpec(
        key="k",
        folder=folder,
        labels=CellLabels("post_fusion", 2, "gold_last"),
        settings={},
        questions=QuestionSelection(folder / "questions.parquet", "test"),
        retrieval=folder,
        relevance=None,
        distractors=Distractors(),
        placement=Placement("keep", "last"),
        weighting=ContextWeighting(),
        strategy=lambda: strategy,
    )
    hits = {"q1": [RankedHit("a", 1, 2.0, True), RankedHit("b", 2, 1.0, False)]}
    return LoadedCell(spec, strategy, [QUESTION], Rankings(folder, hits, PASSAGES, {}), 0)


@pytest.mark.parametrize(
    ("first", "verdict", "rationale"),
    [("Oslo", "right", "right: "), ("unknown", "wrong", "wrong, answer shown: ")],
)
def test_a_trace_has_the_steps_of_the_answer(
    tmp_path: Path, first: str, verdict: str, rationale: str
) -> None:
    """In rank order where retrieved, in prompt order where placed; without its calls or with
    another answer there is none.
    """
    cell = make_cell(tmp_path)
    reader = ScriptedReader(lambda prompt: first if "Oslo" in prompt else "Rome")
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        engines = build_engine_map(reader, "reader")
        identities = {"reader": get_ledger_identity(reader)}
        empty = Sample(
            QUESTION, Prediction("q1", "Oslo", unknown=False), cell.place(QUESTION).contexts
        )
        assert build_trace(cell, empty, identities, ledger) is None
        (outcome,) = Driver(engines, ledger).run([cell.start(QUESTION)])
        prediction = build_prediction(QUESTION, cell.place(QUESTION), outcome)
        sample = Sample(QUESTION, prediction, cell.place(QUESTION).contexts)
        trace = build_trace(cell, sample, identities, ledger)
        assert trace is not None
        assert (trace.verdict, trace.answer, trace.answers) == (
            verdict,
            prediction.answer,
            ("Oslo",),
        )
        assert trace.rationale.startswith(rationale)
        retrieved, placed, asked, voted = trace.spans
        assert [document["id"] for document in retrieved.outputs] == ["a", "b"]
        assert placed.outputs == {
            "passage_ids": ["b", "a"],
            "gold_position": 2,
            "provenance": "distant",
        }
        replies = [call.outputs["choices"][0]["message"]["content"] for call in asked.children]
        assert replies == ["Rome", first]
        assert asked.outputs == [call.outputs for call in asked.children]
        assert asked.duration == sum(call.duration for call in asked.children)
        assert voted.name == "vote"
        assert voted.outputs == {"answer": prediction.answer}
        changed = replace(sample, prediction=replace(prediction, answer="Bergen"))
        assert build_trace(cell, changed, identities, ledger) is None
        recorded = build_trace(
            cell, changed, identities, ledger, QuestionSteps(outcome.steps, outcome.stop)
        )
        assert recorded is not None
        (_, _, round_1, _), passages = recorded.spans, [["b"], ["a"]]
        assert [span.inputs["passage_ids"] for span in round_1.children] == passages
        assert round_1.outputs == [{"finish_reason": "stop"}] * 2
