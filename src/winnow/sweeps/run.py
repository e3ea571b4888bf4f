"""Runs cells: places contexts, starts plans, and writes each cell's predictions when its last question is answered."""

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
from winnow.protocols import Strategy
from winnow.records import Answer, Outcome, PlacedContexts, Question, prediction
from winnow.sweeps.spec import CellSpec

RunJobs = Callable[[Iterable[Job[Answer]], int], Iterable[Outcome[Answer]]]
"""Runs jobs and yields their outcomes; the total is for a progress bar."""


@dataclass
class OpenCell:
    """A cell with its strategy, questions and rankings in memory.

    `short_rankings` is the number of questions with fewer than k retrieved contexts; their prompts contain all of these.
    """

    spec: CellSpec
    strategy: Strategy
    questions: Sequence[Question]
    rankings: Rankings
    short_rankings: int
    placed: dict[str, PlacedContexts] = field(default_factory=dict)
    """Contexts of the questions whose plans are active."""

    def place(self, question: Question) -> PlacedContexts:
        """Return the weighted contexts of a question in prompt order."""
        spec = self.spec
        contexts = contexts_of(self.rankings, question, spec.rank_by) if spec.labels.k else ()
        placed = spec.placement.place(question, contexts, spec.labels.k)
        return replace(placed, contexts=spec.weighting.apply(placed.contexts))

    def start(self, question: Question) -> Job[Answer]:
        """Place a question's contexts and start its plan."""
        placed = self.place(question)
        self.placed[question.question_id] = placed
        return Job((self.spec.key, question.question_id), self.strategy.plan(question, placed.contexts))


def open_cells(specs: Iterable[CellSpec]) -> list[OpenCell]:
    """Read what the cells need; questions and rankings are read once for all cells that share them."""
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
    """Yield the plans question by question, so that cells which share calls are active together."""
    for questions in itertools.zip_longest(*(cell.questions for cell in cells)):
        for cell, question in zip(cells, questions, strict=True):
            if question is not None:
                yield cell.start(question)


def run_cells(cells: Sequence[OpenCell], run_jobs: RunJobs, finish: Callable[[CellSpec, int], None]) -> None:
    """Execute the plans of all cells with one driver; `finish` receives each finished cell with its number of rows."""
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
