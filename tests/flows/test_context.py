"""Context processors through the flows, with the small world."""

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from conftest import Run
from report_data import read_report_data

WORDS = (
    "k=3", "sweep.closed_book_filter=false", "sweep.limit=4", "metric=[em,evidence,tokens]",
    "estimator=bi_encoder",
)  # fmt: skip
CONTEXTS = (
    "none",
    "sentences",
    "recomp_extractive",
    "summary",
    "selective",
    "longllmlingua",
    "ends",
)


@pytest.mark.slow
def test_every_processor_is_an_axis_beside_strategies(prepared: Run, tmp_path: Path) -> None:
    """Bounds of the dry run hold; prompts show what the processor made, under the ids of what it
    was made of; it resumes.
    """
    words = (
        *WORDS,
        f"grid={{context:[{','.join(CONTEXTS)}],strategy:[concatenation,post_fusion]}}",
    )
    planned = prepared("sweep", *words, "dry_run=true", COLUMNS="400").stdout
    calls = [line.split("│")[5] for line in planned.splitlines() if line[:1] == "│"]
    bounds = [
        match.groups() for text in calls if (match := re.match(r" *(\d+)(?: to (\d+))?", text))
    ]
    told = prepared("sweep", *words, COLUMNS="400").stdout
    ((requested, _),) = re.findall(r"(\d+) calls requested: (\d+) made", told)
    assert (
        sum(int(low) for low, _ in bounds)
        <= int(requested)
        <= sum(int(high or low) for low, high in bounds)
    )
    assert all(f"context={name}" in told or f" {name} " in told for name in CONTEXTS)
    cells = list((tmp_path / "data/predictions").iterdir())
    assert len(cells) == 2 * len(CONTEXTS)
    (rankings,) = (tmp_path / "data/retrieval").glob("*/passages.parquet")
    texts = {row["passage_id"]: row["text"] for row in pq.read_table(rankings).to_pylist()}
    num_changed = 0
    for cell in cells:
        for row in pq.read_table(cell / "step_passages.parquet").to_pylist():
            assert set(row["sources"] or [row["passage_id"]]) <= texts.keys()
            if row["text"] is not None and row["sources"]:
                num_changed += row["text"] != texts[row["sources"][0]]
    assert num_changed
    question = next(
        iter(pq.read_table(next(iter(cells)) / "predictions.parquet")["question_id"].to_pylist())
    )
    shown = prepared(
        "show", f"question={question}", "strategy=post_fusion", "context=summary", *WORDS
    ).stdout
    assert shown.index("Summary:") < shown.index("Round 2, request 1 of 1"), (
        "the rewriter's call, and one of the reader"
    )
    prepared("report", *words)
    (page,) = (tmp_path / "reports").rglob("index.html")
    cases = [
        case for cases in read_report_data(page.parent)["cases"].values() for case in cases.values()
    ]
    assert cases
    assert {case["note"] for case in cases} == {""}
    for cell in cells:
        (cell / "predictions.parquet").unlink()
    assert f"{requested} calls requested: 0 made" in prepared("sweep", *words).stdout
    assert "context" in prepared("report", *words, COLUMNS="400").stdout
