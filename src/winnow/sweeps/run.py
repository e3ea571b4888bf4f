"""Runs the cells of a sweep (one configuration each), and writes the predictions of a cell when it is complete."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from winnow.artifacts import contracts
from winnow.artifacts.parquet import Appender
from winnow.artifacts.rankings import Rankings, read_rankings
from winnow.artifacts.tables import prediction_row
from winnow.contexts.build import ranked_contexts
from winnow.driver import Job
from winnow.errors import ArtifactError
from winnow.protocols import Strategy
from winnow.records import Answer, Outcome, PlacedContexts, Prediction, Question
from winnow.sweeps.spec import CellSpec

RunJobs = Callable[[Iterable[Job[Answer]], int], Iterable[Outcome[Answer]]]
"""Runs jobs and yields their outcomes. The second argument is the number of jobs, for a progress bar."""


@dataclass
class LoadedCell:
    """A cell with its inputs in memory.

    Attributes:
        spec: Specification of the cell.
        strategy: Strategy that answers the questions.
        questions: Questions to be answered.
        rankings: Rankings that cover the questions.
        num_short_rankings: Number of questions with fewer than k retrieved contexts, for which all of them are used.
        placed: Placed contexts of the questions whose plans are active, by question id.

    """

    spec: CellSpec
    strategy: Strategy
    questions: Sequence[Question]
    rankings: Rankings
    num_short_rankings: int
    placed: dict[str, PlacedContexts] = field(default_factory=dict)

    def place(self, question: Question) -> PlacedContexts:
        """Build the weighted contexts of a question in prompt order."""
        spec = self.spec
        contexts = ranked_contexts(self.rankings, question, spec.rank_by) if spec.labels.k else ()
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


def load_cells(specs: Iterable[CellSpec]) -> list[LoadedCell]:
    """Read the inputs of the cells. Cells that share questions or rankings share one copy; equal cells are opened once."""
    questions: dict[object, list[Question]] = {}
    rankings: dict[object, Rankings] = {}
    cells: dict[str, LoadedCell] = {}
    for spec in specs:
        if spec.questions not in questions:
            questions[spec.questions] = spec.questions.read()
        selected = questions[spec.questions]
        inputs = (spec.questions, spec.retrieval, spec.relevance)
        if inputs not in rankings:
            rankings[inputs] = read_rankings(spec.retrieval, selected, spec.relevance)
        num_short_rankings = rankings[inputs].shorter_than(spec.labels.k)
        cells.setdefault(spec.key, LoadedCell(spec, spec.strategy(), selected, rankings[inputs], num_short_rankings))
    return list(cells.values())


def iter_jobs(cells: Sequence[LoadedCell]) -> Iterator[Job[Answer]]:
    """Start the plans of all cells question by question, so that plans that issue the same calls run concurrently."""
    for questions in itertools.zip_longest(*(cell.questions for cell in cells)):
        for cell, question in zip(cells, questions, strict=True):
            if question is not None:
                yield cell.start(question)


def run_cells(cells: Sequence[LoadedCell], run_jobs: RunJobs, on_finished: Callable[[CellSpec, int], None]) -> None:
    """Run the plans of all cells on one driver and write their predictions.

    Args:
        cells: Cells to run.
        run_jobs: Function that runs the jobs on the driver.
        on_finished: Callback that receives the specification of each finished cell and its number of rows.

    """
    by_key = {cell.spec.key: cell for cell in cells}
    questions = {key: {q.question_id: q for q in cell.questions} for key, cell in by_key.items()}
    writers = {key: Appender(cell.spec.predictions, contracts.PREDICTIONS) for key, cell in by_key.items()}
    remaining = {key: len(cell.questions) for key, cell in by_key.items()}
    for outcome in run_jobs(iter_jobs(cells), sum(remaining.values())):
        key, question_id = cast("tuple[str, str]", outcome.tag)
        cell = by_key[key]
        record = build_prediction(questions[key][question_id], cell.placed.pop(question_id), outcome)
        writers[key].add(prediction_row(record))
        remaining[key] -= 1
        if not remaining[key]:
            on_finished(cell.spec, writers[key].finish([question.question_id for question in cell.questions]))


def build_prediction(question: Question, placed: PlacedContexts, outcome: Outcome[Answer]) -> Prediction:
    """Convert the outcome of a question to a prediction record."""
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
