"""Show how one question was answered: contexts, every prompt and reply, votes and answer, replayed from the ledger.

No model is loaded and no call is made; the cell must be finished (`python -m flows.sweep` with the same settings).

    python -m flows.show question=general-12 strategy=post_fusion k=5
    python -m flows.show question=general-12 strategy=concat_pf k=5 placement=gold_first
"""

from collections.abc import Iterator, Sequence
from typing import Any

from omegaconf import DictConfig
from rich.console import Console

from flows._cells import resolve_cells
from flows._engines import open_engines, open_ledger
from flows._entry import entry
from flows._metrics import configured_metrics
from flows._summary import Summary
from winnow.errors import ConfigError, nearest
from winnow.identity import ledger_identity
from winnow.metrics.base import JudgedMetric, Metric, Row, Sample
from winnow.metrics.intervals import UNDEFINED
from winnow.records import (
    Answer,
    Estimate,
    Failed,
    Generate,
    Generation,
    Likelihood,
    Outcome,
    PlacedContexts,
    Question,
    Score,
    Search,
)
from winnow.sweeps.replay import Call, Replay, replay
from winnow.sweeps.run import LoadedCell, build_prediction, load_cells


def show(configs: Sequence[DictConfig]) -> Summary:
    """Print each cell's replay of the question, and tabulate the answers."""
    cfg = configs[0]
    if cfg.get("question") is None:
        raise ConfigError("flows.show needs a question id: question=ID. The ids are in the predictions and questions.")
    cells = load_cells(resolve_cells(configs))
    console = Console(soft_wrap=True, highlight=False, markup=False)
    rows = []
    for cell in cells:
        question = _question(cell, str(cfg.question))
        placed = cell.place(question)
        answered = _replay(cfg, cell, question, placed)
        for line in _lines(cell, question, placed, answered):
            console.print(line)
        rows.append(_row(cfg, cell, question, placed, answered.result))
    return Summary(f"Question {cfg.question}", rows)


def _question(cell: LoadedCell, question_id: str) -> Question:
    questions = {question.question_id: question for question in cell.questions}
    if question_id not in questions:
        known = list(questions)
        raise ConfigError(
            f"question={question_id!r} is not among the {len(known)} questions of {cell.spec.labels.strategy} "
            f"({', '.join(known[:3])}, ...)." + nearest(question_id, known)
        )
    return questions[question_id]


def _replay(cfg: DictConfig, cell: LoadedCell, question: Question, placed: PlacedContexts) -> Replay[Answer]:
    engines = open_engines(cell.spec.engines, check=False)
    identities = {role: ledger_identity(engine) for (_, role), engine in engines.items()}
    with open_ledger(cfg) as ledger:
        return replay(cell.strategy.plan(question, placed.contexts), identities, ledger)


def _lines(cell: LoadedCell, question: Question, placed: PlacedContexts, answered: Replay[Answer]) -> Iterator[str]:
    labels = cell.spec.labels
    yield f"{'=' * 100}\n{labels.line}, k = {labels.k}, gold: {labels.gold}\n"
    yield f"Question  {question.text}\nAccepted  {'; '.join(question.answers)}\n"
    yield from _context_lines(placed)
    for number, calls in enumerate(answered.rounds, start=1):
        for place, call in enumerate(calls, start=1):
            yield from _call_lines(f"Round {number}, request {place} of {len(calls)}", call)
    answer = answered.result
    yield f"{'-' * 100}\nAnswer      {answer.text}{' (unknown)' if answer.unknown else ''}"
    yield f"Candidates  {'; '.join(answer.candidates) or '-'}"
    yield f"Trace       {'; '.join(answer.trace) or '-'}\n"


def _context_lines(placed: PlacedContexts) -> Iterator[str]:
    for position, context in enumerate(placed.contexts, start=1):
        flags = [name for name, flag in (("gold", context.is_gold), ("has answer", context.has_answer)) if flag]
        scores = "no score" if context.score is None else f"score {context.score:.3g}"
        if context.log_odds is not None:
            scores += f", log-odds {context.log_odds:.3g}"
        if context.log_weight:
            scores += f", log-weight {context.log_weight:.3g}"
        rank = f"rank {context.rank}" if context.rank else "not retrieved"
        notes = ", ".join([rank, scores, *flags])
        yield f"[{position}] {context.passage.title} ({notes})\n    {context.passage.text}\n"


def _call_lines(title: str, call: Call) -> Iterator[str]:
    request = call.request
    cut = f", {call.dropped} passages dropped" if call.dropped else ""
    yield f"{'-' * 100}\n{title}: {type(request).__name__}, role {request.role}{cut}"
    match request:
        case Generate():
            yield from (f"<{message.role}>\n{message.content}" for message in request.messages)
        case Likelihood():
            yield from (f"<{message.role}>\n{message.content}" for message in request.messages)
            yield f"<continuation>\n{request.continuation}"
        case Estimate():
            yield f"<question> {request.question}\n<text> {request.title}: {request.text}"
        case Search():
            yield f"<query> {request.query} (best {request.n})"
    yield _result_text(call)


def _result_text(call: Call) -> str:
    match call.result:
        case Generation():
            return f"<reply> {call.result.text}   [{call.result.finish}, {call.result.usage.tokens_out} tokens]\n"
        case Score():
            return f"<score> {call.result.value:.4f}\n"
        case Failed():
            return f"<failed> {call.result.reason}\n"
        case pages:
            return "\n".join(f"<page> {page.title}: {page.text}" for page in pages.passages) + "\n"


def _row(cfg: DictConfig, cell: LoadedCell, question: Question, placed: PlacedContexts, answer: Answer) -> dict[str, Any]:
    labels = cell.spec.labels
    sample = Sample(question, build_prediction(question, placed, Outcome(question.question_id, answer)), placed.contexts)
    metrics = [m for m in configured_metrics(cfg) if m.unit == "percent" and not isinstance(m, JudgedMetric)]
    rows = {metric.heading: metric.row(sample) for metric in metrics}
    values = {metric.heading: _value(metric, rows[metric.heading]) for metric in metrics}
    names = {"strategy": labels.line, "k": labels.k, "gold": labels.gold, "answer": answer.text}
    return {**names, **values, "gold position": placed.gold_position or UNDEFINED}


def _value(metric: Metric, row: Row | None) -> str:
    value = None if row is None else metric.value(row)
    return UNDEFINED if value is None else f"{value:.2f}"


main = entry(show, grid=True, seeds="one")
if __name__ == "__main__":
    main()
