"""Corrective retrieval through the flows, with the small world's encoder as the evaluator and its
own corpus to search in.
"""

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import TOWNS, Run
from small_web import serve_web

import winnow
from flows.evaluate_evaluator import _build_evaluator
from flows.settings.door import compose
from winnow.artifacts.provenance import read_manifest, write_manifest
from winnow.artifacts.tables import read_predictions
from winnow.searchers.web.identity import get_current_month
from winnow.text.containment import has_answers

CORRECTION = "strategy.plan.correction"
WORDS = (
    "strategy=crag", "k=4", "estimator=bi_encoder", "sweep.closed_book_filter=false",
    f"{CORRECTION}.refinement.segmenter.size=1", f"{CORRECTION}.refinement.segmenter.min_words=1",
)  # fmt: skip


@pytest.mark.parametrize(
    ("estimator", "scale"), [("t5_regression", "none"), ("cross_encoder", "tanh")]
)
@pytest.mark.parametrize("evaluator", ["judge", "estimator"])
def test_scores_are_scaled_as_the_estimator_says(
    evaluator: str, estimator: str, scale: str
) -> None:
    """A regression's scores are relevance already, also if only judges are listed."""
    cfg = compose([f"estimator={estimator}", f"evaluator={evaluator}"])
    assert _build_evaluator(cfg).scale == scale


@pytest.mark.slow
def test_corrective_retrieval_runs_and_other_thresholds_need_no_new_estimate(
    prepared: Run, tmp_path: Path
) -> None:
    """All actions occur; the trace, the report and `show` tell them; the evaluator is asked once
    for each pair.
    """
    first = prepared(
        "sweep",
        *WORDS,
        f"{CORRECTION}.thresholds.upper=0.9999",
        f"{CORRECTION}.thresholds.lower=0.9",
    ).stdout
    made = int(re.search(r"(\d+) made", first)[1])  # type: ignore[index]
    assert made > 20
    (folder,) = (tmp_path / "data/predictions").glob("crag-*")
    predictions = read_predictions(folder / "predictions.parquet")
    for prediction in predictions:
        assert prediction.trace[0].startswith("action: ")
        roles = {usage.role for usage in prediction.usage}
        assert ("search" in roles) == (prediction.trace[0] != "action: correct")
        assert all("#" in strip for strip in prediction.used_ids)
    shown = prepared(
        "show",
        f"question={predictions[0].question_id}",
        *WORDS,
        f"{CORRECTION}.thresholds.upper=0.9999",
        f"{CORRECTION}.thresholds.lower=0.9",
    ).stdout
    assert predictions[0].trace[0] in shown
    again = prepared(
        "sweep", *WORDS, f"{CORRECTION}.thresholds.upper=-1", f"{CORRECTION}.thresholds.lower=-1"
    ).stdout
    actions = Counter(
        prediction.trace[0]
        for cell in (tmp_path / "data/predictions").glob("crag-*")
        for prediction in read_predictions(cell / "predictions.parquet")
    )
    assert actions["action: correct"] >= len(predictions)
    assert int(re.search(r"(\d+) made", again)[1]) <= len(predictions)  # type: ignore[index]  # prompts only
    prepared(
        "report", *WORDS, f"{CORRECTION}.thresholds.upper=-1", f"{CORRECTION}.thresholds.lower=-1"
    )
    dry = prepared(
        "sweep",
        *WORDS,
        f"{CORRECTION}.thresholds.upper=2",
        f"{CORRECTION}.search.n=3",
        "dry_run=true",
    ).stdout
    assert all(role in dry for role in ("estimator", "search", "rewriter", "reader"))


@pytest.mark.slow
def test_the_search_may_have_a_corpus_of_its_own(prepared: Run, tmp_path: Path) -> None:
    """The stages corpus and index build it as well, and its passages reach the prompt; before, a
    message says what to run.
    """
    facts = [
        f"On the web, the mayor, the river and the anthem of {town} are well known."
        for town in TOWNS
    ]
    rows = [{"_id": f"web{number}", "title": "", "text": text} for number, text in enumerate(facts)]
    (tmp_path / "web.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = [
        *WORDS, "search=second_half", "corpus@search.corpus=beir", "search.corpus.name=web",
        f"search.corpus.parser.path={tmp_path}/web.jsonl", f"{CORRECTION}.search.rewriting=''",
        f"{CORRECTION}.thresholds.upper=2", f"{CORRECTION}.thresholds.lower=2",
    ]  # fmt: skip
    failed = prepared("sweep", *words, check=False)
    assert "python -m flows.index" in failed.stderr or "python -m flows.corpus" in failed.stderr
    assert "web-" in prepared("corpus", *words).stdout
    prepared("index", *words)
    prepared("sweep", *words)
    (file,) = (tmp_path / "data/predictions").glob("crag-*/predictions.parquet")
    predictions = read_predictions(file)
    assert any(prediction.used_ids for prediction in predictions)
    assert all(
        strip.startswith("web") for prediction in predictions for strip in prediction.used_ids
    )


@pytest.mark.slow
def test_the_web_is_searched_once_and_replayed_from_the_exported_calls(
    prepared: Run, tmp_path: Path
) -> None:
    """Pages become strips with their address; without the web, and on another ledger, the same
    predictions are made.
    """
    with serve_web() as web:
        text = " ".join(f"{town} has a mayor and a river." for town in TOWNS)
        read = web.add("/towns", f"<html><body><p>{text}</p></body></html>")
        found = [
            {"url": read, "title": "Towns"},
            {"url": f"{web.url}/missing", "content": "An excerpt."},
        ]
        web.add("/search", json.dumps({"results": found}), Content_Type="application/json")
        words = [
            *WORDS, "search=searxng", f"search.engine.api.url={web.url}/search",
            "search.engine.pages.allow_private=true", f"{CORRECTION}.search.rewriting=''",
            f"{CORRECTION}.thresholds.upper=2", f"{CORRECTION}.thresholds.lower=2",
        ]  # fmt: skip
        prepared("sweep", *words)
    (folder,) = (tmp_path / "data/predictions").glob("crag-*")
    predictions = read_predictions(folder / "predictions.parquet")
    used = {strip.partition("#")[0] for prediction in predictions for strip in prediction.used_ids}
    assert {read} <= used <= {read, f"{web.url}/missing"}
    assert all("pages not read: 1 of 2" in prediction.trace for prediction in predictions)
    prepared("report", *words)
    (page,) = (tmp_path / "reports").rglob("report.md")
    assert "Questions with a page that could not be read" in page.read_text()
    month = get_current_month()
    assert (
        f"searxng/{month}@"
        in prepared("sweep", *words, "dry_run=true", f"{CORRECTION}.search.n=4").stdout
    )
    exported = prepared("calls", *words).stdout
    (calls,) = (tmp_path / "data/calls").rglob("calls.jsonl.gz")
    assert "exported" in exported or str(calls.parent.name) in exported
    shutil.rmtree(folder)
    subprocess.run(
        [sys.executable, "-m", "winnow.cli", "ledger", "import", tmp_path / "other.sqlite", calls],
        check=True,
    )
    prepared("sweep", *words, f"paths.ledger=sqlite:///{tmp_path}/other.sqlite")
    assert read_predictions(folder / "predictions.parquet") == predictions


@pytest.mark.slow
def test_an_evaluator_is_trained_evaluated_and_used(
    prepared: Run, world: Path, tmp_path: Path
) -> None:
    """Training, the page on evaluators with judges, thresholds, and the study of damaged
    retrievers.
    """
    words = [
        "corpus@search.corpus=beir", "search.corpus.name=web",
        f"search.corpus.parser.path={world}/corpus.jsonl", "estimator.engine.dtype=float32",
        "estimator.engine.separate_layers=2", "joint.settings.precision=float32",
        "joint.settings.epochs=1", "joint.data.questions=6", "joint.data.contexts=6",
        "joint.data.dev_questions=4", "joint.data.dev_contexts=4", "sweep.limit=4",
        "decoding.max_new_tokens=4", "k=3",
    ]  # fmt: skip
    trained = prepared("train_joint", *words, "experiment=crag/trained").stdout
    assert "accuracy" in trained
    assert "squared_error" in trained
    page = prepared("evaluate_evaluator", *words, "experiment=crag/table4").stdout
    assert "thresholds.upper=" in page
    report = (tmp_path / "reports/crag/table4/report.md").read_text()
    assert re.search(r"\| judge_cot \| its verdict", report)
    assert "| T5-large (CRAG, PopQA) |  | 84.3 |" in report
    found = json.loads((tmp_path / "reports/crag/table4/thresholds.json").read_text())
    assert found["lower"] <= found["upper"]
    for share in ("slides: 0.5, -0.9", "## Calibration"):
        assert share in report
    for wrong, message in (
        ("evaluate_evaluator.dev=test", "is also the split on which thresholds are chosen"),
        ("evaluate_evaluator.test=train", "or the estimator is trained"),
        ("rank_by=estimator", "rank_by=estimator and k=3"),
    ):
        assert (
            message
            in prepared(
                "evaluate_evaluator", *words, "experiment=crag/table4", wrong, check=False
            ).stderr
        )
    prepared("corpus", *words, "experiment=crag/robustness")
    prepared("index", *words, "experiment=crag/robustness")
    prepared("sweep", *words, "experiment=crag/robustness", "grid.placement.rule.share=[0.0,1.0]")
    prepared("report", *words, "experiment=crag/robustness", "grid.placement.rule.share=[0.0,1.0]")
    assert "damaged_1" in (tmp_path / "reports/crag/robustness/report.md").read_text()


@pytest.mark.slow
def test_metrics_of_what_was_shown_read_searched_passages(
    prepared: Run, world: Path, tmp_path: Path
) -> None:
    """Answers from a searched passage are not invented; cells without steps say so until they are
    recorded, without a call.
    """
    words = [
        "strategy=crag", "k=2", "estimator=bi_encoder", "sweep.closed_book_filter=false",
        "search=second_half", "corpus@search.corpus=beir", "search.corpus.name=web",
        f"search.corpus.parser.path={world}/corpus.jsonl", f"{CORRECTION}.search.rewriting=''",
        f"{CORRECTION}.thresholds.upper=2", f"{CORRECTION}.thresholds.lower=2",
    ]  # fmt: skip
    report = ["metric=[em,from_gold,from_other,invented]", "breakdown=sufficiency"]
    prepared("corpus", *words)
    prepared("index", *words)
    prepared("sweep", *words)
    (folder,) = (tmp_path / "data/predictions").glob("crag-*")
    frame = winnow.load_steps(folder)
    assert set(frame["role"]) >= {"estimator", "search", "reader"}
    shown = frame[frame["role"] == "reader"]
    assert all(
        passage["origin"] == "search" and passage["text"]
        for passages in shown["passages"]
        for passage in passages
    )
    assert set(frame["stop"]) <= {"stop", "length"}
    for prediction in read_predictions(folder / "predictions.parquet"):
        (passages,) = shown[shown["question_id"] == prediction.question_id]["passages"]
        assert tuple(passage["passage_id"] for passage in passages) == prediction.used_ids
    prepared("report", *words, *report)
    values = _read_cell(tmp_path)
    texts = {
        row["question_id"]: [p["text"] for p in row["passages"]] for row in shown.to_dict("records")
    }
    found = [
        any(has_answers(texts[one.question_id], [one.answer]))
        for one in read_predictions(folder / "predictions.parquet")
        if not one.unknown
    ]
    assert values["invented"][0] <= 1 - sum(found) / len(found)
    (folder / "steps.parquet").unlink()
    write_manifest(folder, **_describe(folder))
    prepared("report", *words, *report)
    assert _read_cell(tmp_path)["invented"] == [None, None, None, 0]
    assert (
        "was not recorded for 1 of 1 cells"
        in next((tmp_path / "reports").rglob("report.md")).read_text()
    )
    assert "0 made" in prepared("sweep", *words, "sweep.record_steps=true").stdout
    prepared("report", *words, *report)
    assert _read_cell(tmp_path) == values


def _read_cell(folder: Path) -> dict[str, Any]:
    """The metrics of the only cell of the report."""
    ((cell,),) = (
        json.loads(path.read_text()) for path in (folder / "reports").rglob("metrics.json")
    )
    return dict(cell)


def _describe(folder: Path) -> dict[str, Any]:
    """What the manifest of a cell is written with."""
    manifest = read_manifest(folder)
    return {name: manifest[name] for name in ("key", "settings", "rows", "started")}
