"""Cells on one driver: the order of their jobs, and predictions written when all questions of a
cell are answered.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.sweeps.loaded_cells import CONTEXTS, QUESTIONS, Answers, Engine, Spec, Weighting, cell
from winnow.artifacts.steps import StoredSteps
from winnow.artifacts.tables import read_predictions
from winnow.contexts.placed import PlacedContexts
from winnow.errors import ArtifactError, ConfigError
from winnow.predictions import RoleUsage
from winnow.records import Answer, Context, Decoding, Question
from winnow.requests import Generate, Message, Plan
from winnow.steps import Outcome
from winnow.sweeps.labels import CellLabels
from winnow.sweeps.run import (
    build_prediction,
    group_by_engines,
    group_by_models,
    iter_jobs,
    write_cells,
)
from winnow.testing import run_scripted_plan


@dataclass(frozen=True)
class Shortened:
    """A processor that asks for a context's text, and keeps the first context alone."""

    def process(self, question: Question, contexts: Sequence[Context]) -> Plan[tuple[Context, ...]]:
        """Request one reply."""
        (reply,) = yield [Generate((Message("user", "shorten"),), Decoding(), role="rewriter")]
        return (replace(contexts[0], passage=replace(contexts[0].passage, text=reply.text)),)


def test_a_replay_runs_the_plan_that_the_sweep_ran(tmp_path: Path) -> None:
    """With the processor before the strategy; what the strategy says of positions is not kept, as
    they are others.
    """

    class Positions:
        def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
            text = " ".join(context.passage.text for context in contexts)
            (reply,) = yield [
                Generate(
                    (Message("user", text),),
                    Decoding(),
                    passages=tuple(c.passage for c in contexts),
                )
            ]
            return Answer(reply.text, unknown=False, trace=("answered: 1", "kept"))

    loaded = cell(tmp_path, "x")
    loaded.strategy = Positions()
    processed = replace(loaded, spec=replace(cast("Any", loaded.spec), processor=Shortened()))
    replies = [["short"], ["reply"]]
    for plan in (processed.plan(QUESTIONS[0], CONTEXTS), processed.start(QUESTIONS[0]).plan):
        answer, prompts = run_scripted_plan(plan, replies)
        assert prompts == [["shorten"], ["short"]]
        assert (answer.text, answer.trace) == ("reply", ("kept",))
    answer, prompts = run_scripted_plan(loaded.plan(QUESTIONS[0], CONTEXTS), replies[1:])
    assert prompts == [["one two"]]
    assert answer.trace == ("answered: 1", "kept")


def test_jobs_come_question_by_question(tmp_path: Path) -> None:
    """So that equal requests of several cells run at the same time; a cell with fewer questions
    leaves gaps.
    """
    jobs = list(
        iter_jobs(
            [
                cell(tmp_path, "x"),
                cell(tmp_path, "y", QUESTIONS[:1]),
                cell(tmp_path, "z", QUESTIONS[:2]),
            ]
        )
    )
    assert [job.tag for job in jobs] == [
        ("x", "a"),
        ("y", "a"),
        ("z", "a"),
        ("x", "b"),
        ("z", "b"),
        ("x", "c"),
    ]


def test_cells_share_a_driver_if_their_language_models_are_the_same(tmp_path: Path) -> None:
    """By role and key; a search of another corpus or another estimator makes no other driver, but
    another estimate.
    """
    reader, judge, other = Engine("reader", "r"), Engine("judge", "r"), Engine("reader", "s")
    search = Engine("search", "w")
    swapped, other_way = (reader, Engine("judge", "s")), (other, Engine("judge", "r"))
    engines = {
        "1": (reader,),
        "2": (reader, judge),
        "3": (reader,),
        "4": (other,),
        "5": (reader, search),
        "6": swapped,
        "7": other_way,
    }
    cells = [cell(tmp_path, key, engines=engines) for key, engines in engines.items()]
    assert [[one.spec.key for one in group] for group in group_by_engines(cells)] == [
        ["1", "3"],
        ["2"],
        ["4"],
        ["5"],
        ["6"],
        ["7"],
    ]
    assert [[one.spec.key for one in group] for group in group_by_models(cells)] == [
        ["1", "2", "3", "5"],
        ["4"],
        ["6"],
        ["7"],
    ]


def test_predictions_are_written_when_a_cell_is_finished(tmp_path: Path) -> None:
    """In the order of the questions, however they were answered; placed contexts are then
    forgotten.
    """
    answers = Answers()
    cells = [cell(tmp_path, "x"), cell(tmp_path, "y", QUESTIONS[:2])]
    write_cells(
        cells,
        answers.run(cells),
        lambda one, number: answers.finished.append((one.spec.key, number)),
    )
    assert answers.finished == [("y", 2), ("x", 3)]
    assert answers.finished_before == [0, 0, 0, 0, 1]
    for one in cells:
        predictions = read_predictions(one.spec.predictions)
        assert [row.question_id for row in predictions] == [row.answer for row in predictions]
        assert [row.question_id for row in predictions] == [
            question.question_id for question in one.questions
        ]
        assert {
            (row.passage_ids, row.gold_position, row.provenance, row.truncated_passages)
            for row in predictions
        } == {(("p2", "p1"), 2, "annotated", 1)}
        stored = StoredSteps(one.spec.folder, one.rankings.passages)
        recorded = stored.convert(stored.read_table())
        assert [question_id for question_id, _ in recorded] == [
            question.question_id for question in one.questions
        ]
        assert one.placed == {}
        assert one.started is not None


def test_a_context_without_a_weight_is_named(tmp_path: Path) -> None:
    """With the artifact and the question."""
    with pytest.raises(
        ArtifactError, match=r"retrieval\.parquet, question 'b': passage 'p1' has no score\."
    ):
        cell(tmp_path, "x", weighting=Weighting(fails=True)).start(QUESTIONS[1])


@pytest.mark.parametrize("returned", [None, "Paris"])
def test_a_plan_without_an_answer_is_named(returned: object, tmp_path: Path) -> None:
    """As of a strategy whose `return` was forgotten."""

    class Forgetful:
        def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Any]:
            yield from ()
            return returned

    loaded = replace(cell(tmp_path, "x"), strategy=cast("Any", Forgetful()))
    with pytest.raises(ConfigError, match=r"Forgetful\.plan must return an Answer; question 'a'"):
        run_scripted_plan(loaded.start(QUESTIONS[0]).plan, [])


def test_a_prediction_has_all_that_an_answer_says() -> None:
    """Passages of the prompt and those that the answer used are kept apart."""
    used = (CONTEXTS[1].passage,)
    answer = Answer(
        "Ada",
        unknown=False,
        candidates=("Ada", "Bob"),
        reply="Answer: Ada",
        used=used,
        trace=("note",),
    )
    usage = (RoleUsage("reader", 2, 20, 4, 1.0),)
    placed = PlacedContexts(CONTEXTS, gold_position=1, provenance="distant")
    prediction = build_prediction(
        QUESTIONS[0], placed, Outcome(("x", "a"), answer, usage, dropped=3)
    )
    assert (prediction.question_id, prediction.answer, prediction.unknown) == ("a", "Ada", False)
    assert (prediction.candidates, prediction.reply, prediction.trace) == (
        ("Ada", "Bob"),
        "Answer: Ada",
        ("note",),
    )
    assert (prediction.passage_ids, prediction.used_ids) == (("p1", "p2"), ("p2",))
    assert (prediction.gold_position, prediction.provenance) == (1, "distant")
    assert (prediction.truncated_passages, prediction.usage) == (3, usage)


def _list_amounts(used: Sequence[RoleUsage]) -> list[tuple[object, ...]]:
    """Every field, since comparisons leave out the time."""
    return list(map(astuple, used))


@dataclass(frozen=True)
class LabeledSpec(Spec):
    """A specification with the label k."""

    labels: CellLabels = field(default_factory=lambda: CellLabels("s", 5, "g"))


def test_what_a_ranking_used_counts_in_the_cells_that_read_it(tmp_path: Path) -> None:
    """By role, also for a question without a context; a cell without passages pays for none."""
    usage = {
        "a": (
            RoleUsage("reader", 4, 100, 7, 1.5, 2, 3, 4, 3),
            RoleUsage("reranker", 1, 5, 6, 0.25, 1, 1, 0, 1),
        )
    }
    cells = []
    for name, k in (("x", 5), ("y", 0)):
        one = cell(tmp_path, name)
        spec = LabeledSpec(
            name, one.spec.predictions, one.spec.folder, labels=CellLabels("s", k, "g")
        )
        cells.append(
            replace(one, spec=cast("Any", spec), rankings=replace(one.rankings, usage=usage))
        )
    write_cells(cells, Answers().run(cells), lambda *_: None)
    own = ("reader", 1, 10, 2, 0.5, 0, 0, 0, 0)
    first, second, _ = read_predictions(cells[0].spec.predictions)
    assert _list_amounts(first.usage) == [
        ("reader", 5, 110, 9, 2.0, 2, 3, 4, 3),
        ("reranker", 1, 5, 6, 0.25, 1, 1, 0, 1),
    ]
    assert _list_amounts(second.usage) == [own]
    assert {
        tuple(_list_amounts(one.usage)) for one in read_predictions(cells[1].spec.predictions)
    } == {(own,)}
