"""Runs cells: places contexts, starts plans, and writes the predictions of a cell once all its questions are answered."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from winnow.artifacts import contracts
from winnow.artifacts.parquet import Appender
from winnow.artifacts.rankings import Rankings, read_rankings
from winnow.artifacts.tables import prediction_row
from winnow.contexts.build import contexts_of
from winnow.driver import Job
from winnow.errors import ArtifactError
from winnow.protocols import Strategy
from winnow.records import Answer, Outcome, PlacedContexts, Prediction, Question
from winnow.sweeps.spec import CellSpec

RunJobs = Callable[[Iterable[Job[Answer]], int], Iterable[Outcome[Answer]]]
"""Runs jobs and yields their outcomes. The second argument is the number of jobs, for a progress bar."""


@dataclass
class OpenCell:
    """A cell with its inputs in memory.

    Attributes:
        spec: Specification of the cell.
        strategy: Strategy that answers the questions.
        questions: Questions to be answered.
        rankings: Rankings that cover the questions.
        short_rankings: Number of questions with fewer than k retrieved contexts; their prompts show all of them.
        placed: Placed contexts of the questions whose plans are active, by question id.

    """

    spec: CellSpec
    strategy: Strategy
    questions: Sequence[Question]
    rankings: Rankings
    short_rankings: int
    placed: dict[str, PlacedContexts] = field(default_factory=dict)

    def place(self, question: Question) -> PlacedContexts:
        """Build the weighted contexts of a question in prompt order."""
        spec = self.spec
        contexts = contexts_of(self.rankings, question, spec.rank_by) if spec.labels.k else ()
        placed = spec.placement.place(question, contexts, spec.labels.k)
        try:
            return replace(placed, contexts=spec.weighting.apply(placed.contexts))
        except ArtifactError as error:
            raise ArtifactError(f"{spec.retrieval}, question {question.question_id!r}: {error}") from error

    def start(self, question: Question) -> Job[Answer]:
        """Place a question's contexts and start its plan."""
        placed = self.place(question)
        self.placed[question.question_id] = placed
        return Job((self.spec.key, question.question_id), self.strategy.plan(question, placed.contexts))


def open_cells(specs: Iterable[CellSpec]) -> list[OpenCell]:
    """Read the inputs of the cells. Cells that share questions or rankings share one copy; equal cells are opened once."""
    questions: dict[object, list[Question]] = {}
    rankings: dict[object, Rankings] = {}
    cells: dict[str, OpenCell] = {}
    for spec in specs:
        if spec.questions not in questions:
            questions[spec.questions] = spec.questions.read()
        selected = questions[spec.questions]
        inputs = (spec.questions, spec.retrieval, spec.relevance)
        if inputs not in rankings:
            rankings[inputs] = read_rankings(spec.retrieval, selected, spec.relevance)
        short_rankings = rankings[inputs].shorter_than(spec.labels.k)
        cells.setdefault(spec.key, OpenCell(spec, spec.strategy(), selected, rankings[inputs], short_rankings))
    return list(cells.values())


def jobs_of(cells: Sequence[OpenCell]) -> Iterator[Job[Answer]]:
    """Start the plans of all cells question by question, so that plans which share calls are active at the same time."""
    for questions in itertools.zip_longest(*(cell.questions for cell in cells)):
        for cell, question in zip(cells, questions, strict=True):
            if question is not None:
                yield cell.start(question)


def run_cells(cells: Sequence[OpenCell], run_jobs: RunJobs, finish: Callable[[CellSpec, int], None]) -> None:
    """Run the plans of all cells on one driver and write their predictions.

    Args:
        cells: Cells to run.
        run_jobs: Function that runs the jobs on the driver.
        finish: Callback that receives the specification of each finished cell and its number of rows.

    """
    by_key = {cell.spec.key: cell for cell in cells}
    questions = {key: {q.question_id: q for q in cell.questions} for key, cell in by_key.items()}
    writers = {key: Appender(cell.spec.predictions, contracts.PREDICTIONS) for key, cell in by_key.items()}
    remaining = {key: len(cell.questions) for key, cell in by_key.items()}
    for outcome in run_jobs(jobs_of(cells), sum(remaining.values())):
        key, question_id = cast("tuple[str, str]", outcome.tag)
        cell = by_key[key]
        row = prediction(questions[key][question_id], cell.placed.pop(question_id), outcome)
        writers[key].add(prediction_row(row))
        remaining[key] -= 1
        if not remaining[key]:
            finish(cell.spec, writers[key].finish([question.question_id for question in cell.questions]))


def prediction(question: Question, placed: PlacedContexts, outcome: Outcome[Answer]) -> Prediction:
    """Build the prediction from the outcome of a plan."""
    answer = outcome.result
    return Prediction(
        question_id=question.question_id,
        answer=answer.text,
        unknown=answer.unknown,
        candidates=answer.candidates,
        reply=answer.reply,
        trace=answer.trace,
        passage_ids=tuple(context.passage.passage_id for context in placed.contexts),
        used_ids=tuple(passage.passage_id for passage in answer.used),
        gold_position=placed.gold_position,
        provenance=placed.provenance,
        truncated_passages=outcome.dropped,
        usage=outcome.usage,
    )
