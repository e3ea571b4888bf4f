"""Traces: the steps by which a cell answered a question, replayed from the ledger for MLflow."""

from collections.abc import Mapping, Sequence
from typing import Any

from winnow.artifacts.steps import QuestionSteps
from winnow.contexts.placed import PlacedContexts
from winnow.errors import LedgerError
from winnow.metrics.answer import exact_match
from winnow.metrics.base import Sample
from winnow.modeling.tool_calls import encode_messages
from winnow.protocols import CallStore
from winnow.records import Context, Role
from winnow.reports.page.outcomes import OUTCOMES, classify
from winnow.reports.tracing import Span, Trace, Verdict
from winnow.requests import (
    Estimate,
    Failed,
    Generate,
    Generation,
    Likelihood,
    Message,
    Pages,
    Search,
    TooLong,
)
from winnow.sweeps.replay import Call, is_same_answer, replay_plan
from winnow.sweeps.run import LoadedCell


def build_trace(
    cell: LoadedCell,
    sample: Sample,
    identities: Mapping[Role, str],
    ledger: CallStore,
    steps: QuestionSteps | None = None,
) -> Trace | None:
    """Replay how a cell answered a question.

    If the ledger no longer yields the stored answer, the trace has the recorded steps, without
    texts of prompts and replies; it is None if there are none.

    Args:
        cell: Cell with its strategy and rankings.
        sample: Question with its prediction, ranking, placed contexts and what was shown.
        identities: Identity under which the ledger stores the results of each role.
        ledger: Open store.
        steps: Recorded steps of the question, if there are any.
    """
    question, prediction = sample.question, sample.prediction
    placed_contexts = cell.place(question)
    rounds = _replay_rounds(cell, sample, placed_contexts, identities, ledger, steps)
    if rounds is None and steps is not None:
        rounds = _build_recorded_rounds(steps)
    if rounds is None:
        return None
    outcome = next(outcome for outcome in OUTCOMES if outcome.name == classify(sample))
    labels, distractors = cell.spec.labels, cell.spec.settings.get("distractors", "retrieved")
    return Trace(
        question_id=question.question_id,
        question=question.text,
        answers=question.answers,
        answer=prediction.answer,
        verdict=_judge(sample),
        rationale=f"{outcome.title}: {outcome.meaning}",
        spans=[
            *_build_context_spans(
                question.text,
                placed_contexts,
                labels.k,
                {"placement": labels.gold, "distractors": distractors},
            ),
            *rounds,
            _build_choice(prediction.answer, prediction.candidates, prediction.trace),
        ],
        tags={
            "strategy": labels.strategy,
            "k": str(labels.k),
            "gold": labels.gold,
            "distractors": distractors,
            "outcome": outcome.name,
        },
    )


def _replay_rounds(
    cell: LoadedCell,
    sample: Sample,
    placed: PlacedContexts,
    identities: Mapping[Role, str],
    ledger: CallStore,
    recorded: QuestionSteps | None,
) -> list[Span] | None:
    """Return a span per replayed round, or None if the ledger does not yield the stored answer."""
    try:
        replay = replay_plan(
            cell.plan(sample.question, placed.contexts),
            identities,
            ledger,
            recorded.steps if recorded else (),
        )
    except LedgerError:
        return None
    if not is_same_answer(replay.result, sample.prediction):
        return None
    return [_build_round(number, calls) for number, calls in enumerate(replay.rounds, start=1)]


def _build_recorded_rounds(steps: QuestionSteps) -> list[Span]:
    """Return a span per round of the recorded steps."""
    rounds: dict[int, list[Span]] = {}
    for step in steps.steps:
        inputs = {
            "query": step.query,
            "passage_ids": [passage.passage_id for passage in step.passages],
            "calls": step.calls,
        }
        rounds.setdefault(step.round, []).append(
            Span(step.role, "CHAIN", inputs, {"finish_reason": step.finish})
        )
    return [
        Span(
            f"round {number}",
            "CHAIN",
            {"requests": len(spans)},
            [span.outputs for span in spans],
            children=spans,
        )
        for number, spans in rounds.items()
    ]


def _judge(sample: Sample) -> Verdict:
    answers = sample.question.answers
    if answers and exact_match(sample.prediction.answer, answers):
        return "right"
    return "unknown" if sample.prediction.unknown else "wrong"


def _build_context_spans(
    question: str, placed: PlacedContexts, k: int, rules: Mapping[str, str]
) -> list[Span]:
    """Build the spans of contexts by rank and of their placement; a cell without passages has none.

    Contexts come from the prompt, also where distractors have replaced retrieved ones.
    """
    if not k:
        return []
    ranking = sorted(placed.contexts, key=lambda context: (context.rank == 0, context.rank))
    outputs = {
        "passage_ids": [context.passage.passage_id for context in placed.contexts],
        "gold_position": placed.gold_position,
        "provenance": placed.provenance,
    }
    return [
        Span(
            "retrieve",
            "RETRIEVER",
            {"question": question, "k": k},
            [_describe_context(context) for context in ranking],
        ),
        Span("place", "RERANKER", dict(rules), outputs),
    ]


def _describe_context(context: Context) -> dict[str, Any]:
    """Return a context as MLflow shows retrieved documents."""
    metadata = {
        "title": context.passage.title,
        "rank": context.rank,
        "score": context.score,
        "log_odds": context.log_odds,
        "is_gold": context.is_gold,
        "has_answer": context.has_answer,
    }
    return {
        "id": context.passage.passage_id,
        "page_content": context.passage.text,
        "metadata": metadata,
    }


def _build_round(number: int, calls: Sequence[Call]) -> Span:
    """Build the span of requests that were served together, with one span per call."""
    spans = [_build_call(call) for call in calls]
    return Span(
        f"round {number}",
        "CHAIN",
        {"requests": len(calls)},
        [span.outputs for span in spans],
        children=spans,
    )


def _build_call(call: Call) -> Span:
    request, result = call.request, call.result
    inputs: dict[str, Any]
    match request:
        case Generate():
            kind, inputs = "CHAT_MODEL", {"messages": encode_messages(request.messages)}
        case Likelihood():
            kind, inputs = (
                "LLM",
                {
                    "messages": encode_messages(request.messages),
                    "continuation": request.continuation,
                },
            )
        case Estimate():
            kind, inputs = (
                "RERANKER",
                {"question": request.question, "title": request.title, "text": request.text},
            )
        case Search():
            kind, inputs = "TOOL", {"query": request.query, "n": request.n}
    match result:
        case Generation():
            usage = result.usage
            (reply,) = encode_messages([Message("assistant", result.text, result.tool_calls)])
            reply |= {"reasoning": result.reasoning} if result.reasoning else {}
            outputs: Any = {"choices": [{"message": reply, "finish_reason": result.finish}]}
            return Span(
                request.role,
                kind,
                inputs,
                outputs,
                usage.seconds,
                (usage.tokens_in, usage.tokens_out),
            )
        case Failed() | TooLong():
            outputs = {"failed": result.reason}
        case Pages():
            outputs = [
                {
                    "id": page.passage_id,
                    "page_content": page.text,
                    "metadata": {"title": page.title},
                }
                for page in result.passages
            ]
        case _:
            outputs = {"score": result.value}
    return Span(request.role, kind, inputs, outputs)


def _build_choice(answer: str, candidates: Sequence[str], trace: Sequence[str]) -> Span:
    """Build the span of the answer choice, with what the strategy recorded, such as the votes."""
    name = "vote" if any(entry.startswith("vote") for entry in trace) else "answer"
    return Span(
        name, "PARSER", {"candidates": list(candidates), "trace": list(trace)}, {"answer": answer}
    )
