"""Traces of single questions in a real MLflow store."""

from pathlib import Path

import mlflow
from conftest import Run
from mlflow import MlflowClient

WORDS = ["-m", "strategy=closed_book,concatenation,post_fusion", "k=2"]


def find_traces(folder: Path) -> list:  # type: ignore[type-arg]
    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("towns")
    assert experiment is not None
    return list(client.search_traces(locations=[experiment.experiment_id], max_results=100))


def test_traces_show_what_was_retrieved_placed_asked_replied_and_voted(
    prepared: Run, tmp_path: Path
) -> None:
    """One per question and cell, with a span a round; the same questions in all cells; a second run
    logs none.
    """
    prepared("sweep", *WORDS)
    output = prepared("traces", *WORDS, "tracking.traces=3").stdout
    assert "logged" in output
    traces = find_traces(tmp_path)
    assert len(traces) == 3 * 3
    by_strategy: dict[str, list] = {}  # type: ignore[type-arg]
    for trace in traces:
        by_strategy.setdefault(trace.info.tags["strategy"], []).append(trace)
    ids = {
        name: {trace.info.tags["winnow.question_id"] for trace in found}
        for name, found in by_strategy.items()
    }
    assert ids["closed_book"] == ids["concatenation"] == ids["post_fusion"]
    fused = by_strategy["post_fusion"][0]
    spans = {span.name: span for span in fused.data.spans}
    question = fused.data.spans[0].name
    ordered = [span.name for span in sorted(fused.data.spans, key=lambda span: span.start_time_ns)]
    assert sorted(ordered) == sorted(
        [question, "retrieve", "place", "round 1", "reader", "reader", "vote"]
    )
    assert [name for name in ordered if name not in (question, "round 1", "reader")] == [
        "retrieve",
        "place",
        "vote",
    ]
    documents = spans["retrieve"].outputs
    assert len(documents) == 2
    assert [document["metadata"]["rank"] for document in documents] == [1, 2]
    calls = [span for span in fused.data.spans if span.name == "reader"]
    assert question in calls[0].inputs["messages"][-1]["content"]
    assert all(
        documents[n]["page_content"] in calls[n].inputs["messages"][-1]["content"] for n in range(2)
    )
    assert calls[0].outputs["choices"][0]["message"]["role"] == "assistant"
    assert calls[0].parent_id == spans["round 1"].span_id
    assert calls[0].attributes["mlflow.chat.tokenUsage"]["input_tokens"] > 0
    assert spans["vote"].inputs["trace"][-1].startswith("vote: ")
    assert spans["vote"].outputs == {"answer": fused.data.spans[0].outputs["answer"]}
    verdicts = {one.name: one for one in fused.info.assessments}
    assert verdicts["correctness"].value in ("right", "wrong", "unknown")
    assert ": " in verdicts["correctness"].rationale
    assert verdicts["accepted_answers"].value
    assert "retrieve" not in {
        span.name for trace in by_strategy["closed_book"] for span in trace.data.spans
    }

    again = prepared("traces", *WORDS, "tracking.traces=3").stdout
    assert {trace.info.trace_id for trace in find_traces(tmp_path)} == {
        trace.info.trace_id for trace in traces
    }
    assert again.count(" 3 ") >= 3
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    interrupted = traces[0].info
    assessment = next(one for one in interrupted.assessments if one.name == "correctness")
    mlflow.delete_assessment(trace_id=interrupted.trace_id, assessment_id=assessment.assessment_id)
    prepared("traces", *WORDS, "tracking.traces=3")
    completed = {trace.info.trace_id for trace in find_traces(tmp_path)}
    assert len(completed) == 9
    assert interrupted.trace_id not in completed
    assert len(completed & {trace.info.trace_id for trace in traces}) == 8

    prepared("traces", *WORDS, "tracking.traces=1")
    kept = find_traces(tmp_path)
    assert len(kept) == 3
    assert {trace.info.trace_id for trace in kept} <= completed


def test_traces_need_a_number_of_questions_and_a_finished_sweep(prepared: Run) -> None:
    """Both are said, with what to do."""
    failed = prepared("traces", "k=2", check=False)
    assert failed.returncode
    assert "tracking.traces=0: no trace would be logged" in failed.stderr
    failed = prepared("traces", "k=2", "tracking.traces=2", check=False)
    assert failed.returncode
    assert "Run `python -m flows.sweep`" in failed.stderr
