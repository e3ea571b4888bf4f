"""Show how one question was answered: its contexts, every prompt and reply, the votes and the
answer.

The calls are read from the ledger, and no model is loaded. The sweep with the same settings must be
finished.

    python -m flows.show question=general-12 strategy=post_fusion k=5
    python -m flows.show question=general-12 strategy=concat_pf k=5 placement=gold_first
"""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console

from flows.project.cells import resolve_cells
from flows.project.engines import identify_engine_specs
from flows.project.ledger import open_ledger
from flows.project.metrics import build_metrics
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.registry import Stage
from flows.tools.summary import Summary
from winnow.artifacts.steps import QuestionSteps, read_steps
from winnow.artifacts.tables import read_predictions
from winnow.contexts.build import build_ranked_contexts
from winnow.contexts.placed import PlacedContexts
from winnow.contexts.shown import build_shown
from winnow.errors import ConfigError, LedgerError, suggest_name
from winnow.metrics.base import JudgedMetric, Metric, Row, Sample
from winnow.metrics.intervals import UNDEFINED
from winnow.predictions import Prediction
from winnow.records import Answer, Question
from winnow.requests import (
    Estimate,
    Failed,
    Generate,
    Generation,
    Likelihood,
    Score,
    Search,
    TooLong,
)
from winnow.steps import Outcome
from winnow.sweeps.replay import (
    Call,
    Replay,
    count_usage,
    describe_other_answer,
    format_message,
    format_reply,
    is_same_answer,
    replay_plan,
)
from winnow.sweeps.run import LoadedCell, build_prediction, load_cells


def show(jobs: Sequence[Settings]) -> Summary:
    """Print how each cell answered the question, and return a table of the answers."""
    settings = jobs[0]
    if settings.question is None:
        raise ConfigError(
            "flows.show needs the id of a question. Set question=ID; the ids are in "
            "predictions.parquet and questions.parquet."
        )
    cells = load_cells(resolve_cells(jobs))
    console = Console(soft_wrap=True, highlight=False, markup=False)
    rows = []
    for cell in cells:
        question = _find_question(cell, str(settings.question))
        placed_contexts = cell.place(question)
        replay = _replay_question(settings, cell, question, placed_contexts)
        for line in _iter_lines(cell, question, placed_contexts, replay):
            console.print(line)
        stored = _read_prediction(cell, question)
        if stored and not is_same_answer(replay.result, stored):
            console.print(describe_other_answer(replay.result, stored, cell.spec.folder) + "\n")
            rows.append(_name_cell(cell, stored.answer))
            continue
        rows.append(_build_row(settings, cell, question, placed_contexts, replay))
    return Summary(f"Question {settings.question}", rows)


def _find_question(cell: LoadedCell, question_id: str) -> Question:
    questions = {question.question_id: question for question in cell.questions}
    if question_id not in questions:
        known_ids = list(questions)
        raise ConfigError(
            f"question={question_id!r} is not among the {len(known_ids)} questions of "
            f"{cell.spec.labels.strategy} ({', '.join(known_ids[:3])}, ...)."
            + suggest_name(question_id, known_ids)
        )
    return questions[question_id]


def _read_prediction(cell: LoadedCell, question: Question) -> Prediction | None:
    """Return the stored prediction for a question, or None if the cell is not finished."""
    predictions = read_predictions(cell.spec.predictions) if cell.spec.is_finished else []
    return next((one for one in predictions if one.question_id == question.question_id), None)


def _replay_question(
    settings: Settings, cell: LoadedCell, question: Question, placed: PlacedContexts
) -> Replay[Answer]:
    """Run the strategy on the question with the results of its calls from the ledger."""
    identities = identify_engine_specs(cell.spec.engines)
    question_steps = read_steps(
        cell.spec.folder, cell.rankings.passages, [question.question_id]
    ).get(question.question_id)
    try:
        with open_ledger(settings) as ledger:
            return replay_plan(
                cell.plan(question, placed.contexts),
                identities,
                ledger,
                question_steps.steps if question_steps else (),
            )
    except LedgerError as error:
        if question_steps is None:
            raise
        raise LedgerError(
            f"{error}\nRecorded with the prediction:\n{_describe_steps(question_steps)}"
        ) from error


def _describe_steps(recorded: QuestionSteps) -> str:
    """Return a line per step: what was requested, the passages shown or found, and how it ended."""
    lines = [
        f"  round {step.round}: {step.calls} x {step.kind}, role {step.role}"
        + (f", query {step.query!r}" if step.query else "")
        + (
            f", passages {', '.join(passage.passage_id for passage in step.passages)}"
            if step.passages
            else ""
        )
        + (f": {step.finish}" if step.finish else "")
        for step in recorded.steps
    ]
    return "\n".join([*lines, f"  ended: {recorded.stop}"])


def _iter_lines(
    cell: LoadedCell, question: Question, placed: PlacedContexts, replayed: Replay[Answer]
) -> Iterator[str]:
    labels = cell.spec.labels
    yield f"{'=' * 100}\n{labels.line}, k = {labels.k}, gold: {labels.gold}\n"
    yield f"Question  {question.text}\nAccepted  {'; '.join(question.answers)}\n"
    yield from _iter_context_lines(placed)
    for number, calls in enumerate(replayed.rounds, start=1):
        for call_number, call in enumerate(calls, start=1):
            yield from _iter_call_lines(
                f"Round {number}, request {call_number} of {len(calls)}", call
            )
    answer = replayed.result
    yield f"{'-' * 100}\nAnswer      {answer.text}{' (unknown)' if answer.unknown else ''}"
    yield f"Candidates  {'; '.join(answer.candidates) or '-'}"
    yield f"Trace       {'; '.join(answer.trace) or '-'}\n"


def _iter_context_lines(placed: PlacedContexts) -> Iterator[str]:
    for position, context in enumerate(placed.contexts, start=1):
        flags = [
            name
            for name, flag in (("gold", context.is_gold), ("has answer", context.has_answer))
            if flag
        ]
        scores = "no score" if context.score is None else f"score {context.score:.3g}"
        if context.log_odds is not None:
            scores += f", log-odds {context.log_odds:.3g}"
        if context.log_weight:
            scores += f", log-weight {context.log_weight:.3g}"
        rank = f"rank {context.rank}" if context.rank else "not retrieved"
        notes = ", ".join([rank, scores, *flags])
        yield " ".join(
            filter(
                None,
                [
                    f"[{position}]",
                    context.passage.title,
                    f"({notes})\n    {context.passage.text}\n",
                ],
            )
        )


def _iter_call_lines(title: str, call: Call) -> Iterator[str]:
    request = call.request
    drop_note = f", {call.dropped} passages dropped" if call.dropped else ""
    yield f"{'-' * 100}\n{title}: {type(request).__name__}, role {request.role}{drop_note}"
    match request:
        case Generate():
            yield from (
                f"<{message.role}>\n{format_message(message)}" for message in request.messages
            )
        case Likelihood():
            yield from (
                f"<{message.role}>\n{format_message(message)}" for message in request.messages
            )
            yield f"<continuation>\n{request.continuation}"
        case Estimate():
            yield f"<question> {request.question}\n<text> {request.title}: {request.text}"
        case Search():
            yield f"<query> {request.query} (best {request.n})"
    yield _format_result(call)


def _format_result(call: Call) -> str:
    match call.result:
        case Generation():
            return (
                f"<reply> {format_reply(call.result)}   [{call.result.finish}, "
                f"{call.result.usage.tokens_out} tokens]\n"
            )
        case Score():
            return f"<score> {call.result.value:.4f}\n"
        case Failed() | TooLong():
            return f"<failed> {call.result.reason}\n"
        case found:
            return "\n".join(f"<page> {page.title}: {page.text}" for page in found.passages) + "\n"


def _build_row(
    settings: Settings,
    cell: LoadedCell,
    question: Question,
    placed: PlacedContexts,
    replayed: Replay[Answer],
) -> dict[str, Any]:
    answer, steps = replayed.result, replayed.steps
    usage = tuple(count_usage(call) for calls in replayed.rounds for call in calls)
    prediction = build_prediction(question, placed, Outcome(question.question_id, answer, usage))
    known_contexts = (*build_ranked_contexts(cell.rankings, question), *placed.contexts)
    shown_contexts = build_shown(question, steps, answer.used, known_contexts)
    sample = Sample(question, prediction, placed.contexts, shown=shown_contexts)
    metrics = [
        metric
        for metric in build_metrics(settings)
        if metric.unit == "percent" and not isinstance(metric, JudgedMetric)
    ]
    rows = {metric.heading: metric.compute_row(sample) for metric in metrics}
    values = {metric.heading: _format_value(metric, rows[metric.heading]) for metric in metrics}
    position = placed.gold_position or UNDEFINED
    return {**_name_cell(cell, answer.text), **values, "gold position": position}


def _name_cell(cell: LoadedCell, answer: str) -> dict[str, Any]:
    labels = cell.spec.labels
    return {"strategy": labels.line, "k": labels.k, "gold": labels.gold, "answer": answer}


def _format_value(metric: Metric, row: Row | None) -> str:
    value = None if row is None else metric.compute_value(row)
    return UNDEFINED if value is None else f"{value:.2f}"


STAGE = Stage(show, grid=True, seeds="one")
main = make_main(STAGE)
if __name__ == "__main__":
    main()
