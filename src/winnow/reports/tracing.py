"""Trace logging to MLflow: how questions were answered, span by span, with answer assessments."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from winnow.errors import WinnowError

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from winnow.tracking.runs import Tracker

Verdict = Literal["right", "wrong", "unknown"]

_CONTENT_TAG = "winnow.predictions"
"""Tag of a trace with the digest of the predictions that it was made from."""
_QUESTION_TAG = "winnow.question_id"
_ASSESSMENT = "correctness"
"""Name of the assessment of an answer."""
_SHORTEST = 1_000
"""Shortest duration of a span in nanoseconds."""
_BATCH = 100
"""Number of traces that are searched or deleted at once."""


@dataclass(frozen=True, slots=True)
class Span:
    """One step of an answer.

    Attributes:
        name: Name of the step.
        kind: Type of the span in MLflow, such as "RETRIEVER", "CHAIN" or "CHAT_MODEL".
        inputs: What the step received.
        outputs: What it returned. Documents of a "RETRIEVER" have the keys page_content, id and
            metadata.
        seconds: Duration. A span with children takes as long as they do together.
        tokens: Numbers of tokens that a model read and wrote, or None.
        children: Steps within this one, in order.
    """

    name: str
    kind: str
    inputs: Any
    outputs: Any
    seconds: float = 0.0
    tokens: tuple[int, int] | None = None
    children: Sequence[Span] = ()

    @property
    def duration(self) -> int:
        """Return the duration in nanoseconds, positive because MLflow sorts spans by start."""
        return max(
            _SHORTEST, round(self.seconds * 1e9) + sum(child.duration for child in self.children)
        )


@dataclass(frozen=True, slots=True)
class Trace:
    """How one question was answered.

    Attributes:
        question_id: Id of the question.
        question: Question in words.
        answers: Accepted answers.
        answer: Answer that was given.
        verdict: Whether the answer is right, wrong or "unknown".
        rationale: Sentence that explains the verdict.
        spans: Steps in order.
        tags: Further tags, by which traces can be searched.
    """

    question_id: str
    question: str
    answers: Sequence[str]
    answer: str
    verdict: Verdict
    rationale: str
    spans: Sequence[Span]
    tags: Mapping[str, str] = field(default_factory=dict)


def log_traces(
    tracker: Tracker,
    run_id: str,
    content: str,
    started: float,
    question_ids: Sequence[str],
    build: Callable[[str], Trace | None],
    advance: Callable[[], None],
) -> tuple[int, int]:
    """Log traces of some answers of a run, and delete its traces of other predictions or questions.

    Traces that the run has already are kept, and not built again.

    Args:
        tracker: Store and experiment of the run.
        run_id: Id of the run.
        content: Digest of the predictions.
        started: Unix timestamp at which the traces start.
        question_ids: Ids of the questions to log.
        build: Function that builds the trace of a question, or returns None if it has none.
        advance: Function that is called after each question, for a progress bar.

    Returns:
        Number of traces that were logged now, and of those that were kept.

    Raises:
        WinnowError: If MLflow did not store a trace.
    """
    with _send_to(tracker.uri):
        complete_ids, outdated = _divide_traces(tracker, run_id, content, set(question_ids))
        for first in range(0, len(outdated), _BATCH):
            tracker.client.delete_traces(
                tracker.experiment_id, trace_ids=outdated[first : first + _BATCH]
            )
        num_logged = 0
        for question_id in question_ids:
            trace = None if question_id in complete_ids else build(question_id)
            if trace is not None:
                _log_trace(tracker, run_id, content, round(started * 1e9), trace)
                num_logged += 1
            advance()
    return num_logged, len(complete_ids)


@contextmanager
def _send_to(uri: str) -> Iterator[None]:
    """Make MLflow send traces to a store synchronously, instead of to the process's store."""
    import mlflow

    name, former_uri = "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING", mlflow.get_tracking_uri()
    former = os.environ.get(name)
    os.environ[name] = "false"
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(former_uri)
        if former is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = former


def _divide_traces(
    tracker: Tracker, run_id: str, content: str, question_ids: set[str]
) -> tuple[set[str], list[str]]:
    """Divide a run's traces into those to keep, by question id, and those to delete, by trace id.

    One complete trace per question is kept. A trace whose assessment is missing was interrupted.
    """
    complete_ids: set[str] = set()
    outdated = []
    token = None
    while True:
        page = tracker.client.search_traces(
            locations=[tracker.experiment_id],
            run_id=run_id,
            max_results=_BATCH,
            page_token=token,
            include_spans=False,
        )
        for trace in page:
            question_id = trace.info.tags.get(_QUESTION_TAG)
            is_complete = trace.info.tags.get(_CONTENT_TAG) == content and any(
                assessment.name == _ASSESSMENT for assessment in trace.info.assessments
            )
            if is_complete and question_id in question_ids and question_id not in complete_ids:
                complete_ids.add(question_id)
            elif question_id is not None:
                outdated.append(trace.info.trace_id)
        token = page.token
        if not token:
            return complete_ids, outdated


def _log_trace(tracker: Tracker, run_id: str, content: str, start: int, trace: Trace) -> None:
    """Log one trace that starts at a time in nanoseconds, and assess it."""
    import mlflow
    from mlflow.entities import AssessmentSource
    from mlflow.exceptions import MlflowException

    client = tracker.client
    root = client.start_trace(
        trace.question,
        span_type="CHAIN",
        inputs={"question": trace.question},
        tags={**trace.tags, _QUESTION_TAG: trace.question_id, _CONTENT_TAG: content},
        experiment_id=tracker.experiment_id,
        start_time_ns=start,
        run_id=run_id,
    )
    end = start
    for span in trace.spans:
        end = _log_span(client, root.trace_id, root.span_id, span, end)
    client.end_trace(root.trace_id, outputs={"answer": trace.answer}, end_time_ns=end)
    try:
        if trace.answers:
            source = AssessmentSource("CODE", "data set")
            mlflow.log_expectation(
                trace_id=root.trace_id,
                name="accepted_answers",
                value=list(trace.answers),
                source=source,
            )
        mlflow.log_feedback(  # the last write: a trace with it is complete
            trace_id=root.trace_id,
            name=_ASSESSMENT,
            value=trace.verdict,
            rationale=trace.rationale,
            source=AssessmentSource("CODE", "exact_match"),
        )
    except MlflowException as error:
        raise WinnowError(
            f"MLflow at {tracker.uri} did not store the trace of question {trace.question_id!r}: "
            f"{error} Run the command again; traces that are stored are kept."
        ) from error


def _log_span(client: MlflowClient, trace_id: str, parent_id: str, span: Span, start: int) -> int:
    """Log a span with its children, and return its end in nanoseconds."""
    attributes = {}
    if span.tokens is not None:
        input_tokens, output_tokens = span.tokens
        usage = {
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "total_tokens": input_tokens + output_tokens,
        }
        attributes = {"mlflow.chat.tokenUsage": usage}
    logged = client.start_span(
        span.name,
        trace_id,
        parent_id,
        span_type=span.kind,
        inputs=span.inputs,
        attributes=attributes,
        start_time_ns=start,
    )
    inner = start
    for child in span.children:
        inner = _log_span(client, trace_id, logged.span_id, child, inner)
    end = start + span.duration
    client.end_span(trace_id, logged.span_id, outputs=span.outputs, end_time_ns=end)
    return end
