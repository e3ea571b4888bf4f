"""Traces in a real MLflow store: logged once, kept, replaced, and completed if they were
interrupted.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from winnow.reports.tracing import Span, Trace, log_traces
from winnow.tracking.runs import Tracker

MODEL = Span("reader", "CHAT_MODEL", {"prompt": "Q"}, {"reply": "Oslo"}, 0.5, (7, 1))
ROUND = Span("round 1", "CHAIN", {}, {}, 0.0, None, [MODEL, MODEL])


def test_a_span_takes_as_long_as_its_children() -> None:
    """And is never without duration, by which MLflow orders spans."""
    assert MODEL.duration == 500_000_000
    assert ROUND.duration == 1_000_000_000
    assert Span("placed", "CHAIN", {}, {}).duration == 1_000


def _build(built: list[str], missing: str = "") -> Callable[[str], Trace | None]:
    def build(question_id: str) -> Trace | None:
        built.append(question_id)
        if question_id == missing:
            return None
        return Trace(
            question_id,
            "Where?",
            ["Oslo"],
            "Oslo",
            "right",
            "right: it is.",
            [ROUND],
            {"strategy": "s"},
        )

    return build


@pytest.mark.slow
def test_traces_are_logged_once_and_replaced_with_the_predictions(tmp_path: Path) -> None:
    """A second call builds nothing; other predictions replace all traces, and questions that are
    not chosen lose theirs.
    """
    tracker = Tracker(f"sqlite:///{tmp_path / 'mlflow.db'}", "e", tmp_path / "files")
    run = tracker.start_run("r", params={}, tags={})
    steps: list[str] = []

    def log(content: str, ids: list[str], missing: str = "") -> tuple[tuple[int, int], list[str]]:
        built: list[str] = []
        return (
            log_traces(
                tracker,
                run.run_id,
                content,
                1e9,
                ids,
                _build(built, missing),
                lambda: steps.append(""),
            ),
            built,
        )

    assert log("one", ["q0", "q1", "q2"], missing="q2") == ((2, 0), ["q0", "q1", "q2"])
    assert len(steps) == 3
    assert log("one", ["q0", "q1"]) == ((0, 2), [])
    assert log("one", ["q1"]) == ((0, 1), [])
    traces = tracker.client.search_traces(locations=[tracker.experiment_id])
    (trace,) = traces
    assert trace.info.tags["winnow.question_id"] == "q1"
    assert trace.info.tags["strategy"] == "s"
    assert sorted(span.name for span in trace.data.spans) == [
        "Where?",
        "reader",
        "reader",
        "round 1",
    ]
    assert {one.name for one in trace.info.assessments} == {"accepted_answers", "correctness"}
    assert log("two", ["q1"]) == ((1, 0), ["q1"])
    (replaced,) = tracker.client.search_traces(locations=[tracker.experiment_id])
    assert replaced.info.trace_id != trace.info.trace_id
