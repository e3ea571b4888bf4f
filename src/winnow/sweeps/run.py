"""Runs the cells of a sweep, and writes a cell's predictions once all its questions are answered.

A cell is one setting of a sweep. For each of its questions, a strategy starts a plan: a generator
that yields requests and returns the answer. The driver runs the plans of all cells together, and
yields an outcome (answer and usage) for each.
"""

import itertools
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any, cast

from winnow.artifacts import contracts
from winnow.artifacts.parquet import ArtifactWriter
from winnow.artifacts.rankings import Rankings, read_rankings
from winnow.artifacts.steps import StepsWriter
from winnow.artifacts.tables import build_prediction_row
from winnow.contexts.build import build_ranked_contexts
from winnow.contexts.placed import PlacedContexts
from winnow.driver.jobs import Job
from winnow.errors import ArtifactError, ConfigError
from winnow.identity.modules import is_in_winnow
from winnow.metrics.distraction import ANSWERED
from winnow.predictions import Prediction, RoleUsage
from winnow.protocols import MODEL_ROLES, Strategy
from winnow.records import Answer, Context, Passage, Question, Role
from winnow.requests import Generate, Likelihood, Pages, Plan, Request
from winnow.steps import READER, Outcome
from winnow.sweeps.rounds import intercept_rounds
from winnow.sweeps.searches import SearchRules
from winnow.sweeps.spec import CellSpec

_MIN_TEXT = 20
"""Number of characters from which the text of a passage in a prompt is not there by chance."""


@dataclass
class LoadedCell:
    """A cell with its inputs in memory.

    Attributes:
        spec: Specification of the cell.
        strategy: Strategy that answers the questions.
        questions: Questions to be answered.
        rankings: Rankings that cover the questions.
        num_short_rankings: Number of questions with fewer than k retrieved contexts. All their
            contexts are used.
        placed: Placed contexts of the questions whose plans have started but not finished, by
            question id.
        started: Unix timestamp at which the first plan started, or None before.
    """

    spec: CellSpec
    strategy: Strategy
    questions: Sequence[Question]
    rankings: Rankings
    num_short_rankings: int
    placed: dict[str, PlacedContexts] = field(default_factory=dict)
    started: float | None = None

    @property
    def engine_set(self) -> tuple[tuple[Role, str], ...]:
        """Return the roles and keys of the engines, which identify the set that serves the cell."""
        return tuple((engine.role, engine.key) for engine in self.spec.engines)

    @property
    def models(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the keys of the reader and of all language models."""
        models = [engine for engine in self.spec.engines if engine.role in MODEL_ROLES]
        return frozenset(one.key for one in models if one.role == READER), frozenset(
            one.key for one in models
        )

    def get_ranking_usage(self, question_id: str) -> Sequence[RoleUsage]:
        """Return what models used for a question's ranking, if the cell shows its passages."""
        return (
            self.rankings.usage.get(question_id, ())
            if self.rankings.usage and self.spec.labels.k
            else ()
        )

    def place(self, question: Question) -> PlacedContexts:
        """Build the weighted contexts of a question in prompt order.

        Raises:
            ArtifactError: If a context lacks the score by which it is weighted.
        """
        spec = self.spec
        placed_contexts = spec.place(question, self.rankings)
        try:
            return replace(placed_contexts, contexts=spec.weighting.apply(placed_contexts.contexts))
        except ArtifactError as error:
            raise ArtifactError(
                f"{spec.retrieval}, question {question.question_id!r}: {error}"
            ) from error

    def start(self, question: Question) -> Job[Answer]:
        """Place the contexts of a question, and return the job that answers it."""
        if self.started is None:
            self.started = time.time()
        placed_contexts = self.place(question)
        self.placed[question.question_id] = placed_contexts
        spec = self.spec
        plan = self._answer(question, placed_contexts.contexts)
        is_own = is_in_winnow(type(self.strategy).__module__)
        strictly = not is_own and not spec.config.get("prompt", {}).get("shots")
        if placed_contexts.contexts or strictly:
            plan = check_named_passages(
                plan, placed_contexts.contexts, question.question_id, strictly=strictly
            )
        return Job(
            (spec.key, question.question_id),
            self._apply_search_rules(question, plan),
            self.engine_set,
        )

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Return the plan of a question with placed contexts, as `start` runs it, for a replay."""
        return self._apply_search_rules(question, self._answer(question, contexts))

    def process(self, question: Question, contexts: Sequence[Context]) -> Plan[tuple[Context, ...]]:
        """Return the plan that makes, of placed contexts, those that the strategy receives."""
        if self.spec.processor is not None:
            return (yield from self.spec.processor.process(question, contexts))
        return tuple(contexts)

    def _answer(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Process the contexts, and answer from the result.

        What a strategy says of the contexts that it received by their positions is not true of
        those that were placed.
        """
        processed_contexts = yield from self.process(question, contexts)
        answer = yield from self.strategy.plan(question, processed_contexts)
        if not isinstance(answer, Answer):
            raise ConfigError(
                f"{type(self.strategy).__qualname__}.plan must return an Answer; question "
                f"{question.question_id!r} received {answer!r}."
            )
        if self.spec.processor is None:
            return answer
        return replace(
            answer, trace=tuple(entry for entry in answer.trace if not entry.startswith(ANSWERED))
        )

    def _apply_search_rules(self, question: Question, plan: Plan[Answer]) -> Plan[Answer]:
        spec = self.spec
        if spec.searches == SearchRules():
            return plan
        ranked_contexts = (
            build_ranked_contexts(self.rankings, question, spec.rank_by)
            if spec.searches.placed
            else ()
        )
        return spec.searches.apply(
            plan, question, ranked_contexts, self.rankings.pool, spec.distractors, spec.placement
        )


def check_named_passages(
    plan: Plan[Answer], contexts: Sequence[Context], question_id: str, *, strictly: bool = False
) -> Plan[Answer]:
    """Run a plan, and check that its prompts name the passages they show, which metrics read.

    Args:
        plan: Plan of a strategy.
        contexts: Contexts that were placed. What the plan searches for is added to them.
        question_id: Question, for messages.
        strictly: Whether prompts that name some passages are checked for others, too.
            Demonstrations may show them rightly.

    Raises:
        ConfigError: If a prompt of the reader contains the text of a passage that it does not name,
            or the reverse.
    """
    known_passages = {context.passage.passage_id: context.passage for context in contexts}

    def serve(requests: Sequence[Request]) -> Plan[Sequence[Any]]:
        for request in requests:
            if (
                isinstance(request, Generate | Likelihood)
                and request.role == READER
                and (strictly or not request.passages)
            ):
                _check_names(request, known_passages.values(), question_id)
            if strictly and isinstance(request, Generate | Likelihood) and request.role == READER:
                _check_shown(request, question_id)
        results = yield requests
        for result in results:
            if isinstance(result, Pages):
                known_passages.update({passage.passage_id: passage for passage in result.passages})
        return results

    return intercept_rounds(plan, serve)


def _check_names(
    request: Generate | Likelihood, known: Iterable[Passage], question_id: str
) -> None:
    prompt = "\n".join(message.content for message in request.messages)
    for passage in known:
        if (
            len(passage.text) < _MIN_TEXT
            or passage in request.passages
            or passage.text not in prompt
        ):
            continue
        if not any(passage.text in named_passage.text for named_passage in request.passages):
            raise ConfigError(
                f"A prompt for question {question_id!r} shows the passage {passage.passage_id!r}, "
                "but does not name it, so that metrics would not know what the reader saw. Pass "
                f"all of them as {type(request).__name__}(..., passages=...), in prompt order, as "
                "the functions of winnow.strategies.prompt do."
            )


def _check_shown(request: Generate | Likelihood, question_id: str) -> None:
    """Raise ConfigError if a prompt names a passage but lacks its text, except for paraphrases."""
    prompt = "\n".join(message.content for message in request.messages)
    hidden_passage = next(
        (one for one in request.passages if one.text not in prompt and not one.sources), None
    )
    if hidden_passage is not None:
        raise ConfigError(
            f"A prompt for question {question_id!r} names the passage "
            f"{hidden_passage.passage_id!r}, but "
            "does not show its text, so that metrics would count what the reader did not see. "
            "Name the texts that the prompt shows; a text that was made of passages names them "
            "as its sources (`winnow.records.Passage`)."
        )


def load_cells(specs: Iterable[CellSpec]) -> list[LoadedCell]:
    """Read the inputs of cells, each shared input once, and load cells with the same key once."""
    questions: dict[object, list[Question]] = {}
    rankings: dict[object, Rankings] = {}
    cells: dict[str, LoadedCell] = {}
    for spec in specs:
        if spec.questions not in questions:
            questions[spec.questions] = spec.questions.read()
        spec_questions = questions[spec.questions]
        inputs = (spec.questions, spec.retrieval, spec.pool, spec.relevance)
        if inputs not in rankings:
            rankings[inputs] = read_rankings(
                spec.retrieval, spec_questions, spec.relevance, spec.pool
            )
        num_short_rankings = rankings[inputs].count_short_rankings(spec.labels.k)
        cells.setdefault(
            spec.key,
            LoadedCell(spec, spec.strategy(), spec_questions, rankings[inputs], num_short_rankings),
        )
    return list(cells.values())


def group_by_engines(cells: Sequence[LoadedCell]) -> Iterator[list[LoadedCell]]:
    """Iterate over the groups of cells whose engines are the same, which are estimated together."""
    return _group(cells, lambda cell: cell.engine_set)


def group_by_models(cells: Sequence[LoadedCell]) -> Iterator[list[LoadedCell]]:
    """Iterate over the groups of cells that share a driver: those with the same language models.

    The weights of models of two groups are never in memory together. Cells of a group may differ in
    all other engines.
    """
    return _group(cells, lambda cell: cell.models)


def _group(
    cells: Sequence[LoadedCell], read_name: Callable[[LoadedCell], Hashable]
) -> Iterator[list[LoadedCell]]:
    groups: dict[Hashable, list[LoadedCell]] = {}
    for cell in cells:
        groups.setdefault(read_name(cell), []).append(cell)
    yield from groups.values()


def iter_jobs(cells: Sequence[LoadedCell]) -> Iterator[Job[Answer]]:
    """Yield all jobs question by question, so that plans with equal requests run together."""
    for question_per_cell in itertools.zip_longest(*(cell.questions for cell in cells)):
        for cell, question in zip(cells, question_per_cell, strict=True):
            if question is not None:
                yield cell.start(question)


def write_cells(
    cells: Sequence[LoadedCell],
    outcomes: Iterable[Outcome[Answer]],
    on_finished: Callable[[LoadedCell, int], None],
) -> None:
    """Write the predictions of cells.

    Args:
        cells: Cells.
        outcomes: Outcomes of the jobs of all cells, in any order.
        on_finished: Callback that receives each finished cell and its number of predictions.
    """
    cells_by_key = {cell.spec.key: cell for cell in cells}
    questions = {
        key: {question.question_id: question for question in cell.questions}
        for key, cell in cells_by_key.items()
    }
    writers = {
        key: ArtifactWriter(cell.spec.predictions, contracts.PREDICTIONS)
        for key, cell in cells_by_key.items()
    }
    step_writers = {
        key: StepsWriter(cell.spec.folder, cell.rankings.passages)
        for key, cell in cells_by_key.items()
    }
    num_remaining = {key: len(cell.questions) for key, cell in cells_by_key.items()}
    for outcome in outcomes:
        key, question_id = cast("tuple[str, str]", outcome.tag)
        cell = cells_by_key[key]
        placed_contexts = cell.placed.pop(question_id)
        usage = cell.get_ranking_usage(question_id)
        prediction = build_prediction(questions[key][question_id], placed_contexts, outcome, usage)
        writers[key].add(build_prediction_row(prediction))
        step_writers[key].add(question_id, outcome)
        num_remaining[key] -= 1
        if not num_remaining[key]:
            order = [question.question_id for question in cell.questions]
            step_writers[key].finish(order)
            num_predictions = writers[key].finish(order)
            on_finished(cell, num_predictions)


def build_prediction(
    question: Question,
    placed: PlacedContexts,
    outcome: Outcome[Answer],
    ranking_usage: Sequence[RoleUsage] = (),
) -> Prediction:
    """Build the prediction for a question.

    Args:
        question: Question to which the answer belongs.
        placed: Contexts from which the question was answered.
        outcome: Answer and usage of the question's plan.
        ranking_usage: What models used for the ranking of the contexts.
    """
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
        usage=_add_usage(ranking_usage, outcome.usage),
    )


def _add_usage(*used: Sequence[RoleUsage]) -> tuple[RoleUsage, ...]:
    """Add up what roles used, in the order of their first mention."""
    sums: dict[Role, RoleUsage] = {}
    for one in itertools.chain(*used):
        former = sums.get(one.role)
        sums[one.role] = (
            one
            if former is None
            else RoleUsage(
                one.role, *(a + b for a, b in zip(_amounts(former), _amounts(one), strict=True))
            )
        )
    return tuple(sums.values())


def _amounts(used: RoleUsage) -> tuple[Any, ...]:
    return astuple(used)[1:]
