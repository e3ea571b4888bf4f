"""Strategies of several rounds through the flows, with the small world and its own corpus to search
in.
"""

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from conftest import Run

from winnow.artifacts.tables import read_predictions

METRICS = "em,rounds,searches,repeated_queries,evidence_first,evidence,first_hit,calls"
WORDS = (
    "k=2", "sweep.closed_book_filter=false", "sweep.limit=4", f"metric=[{METRICS}]",
    "grid={strategy:[concatenation,crag_minilm,iter_retgen,ircot,react,self_ask,flare,search_r1,sure]}",
    "estimator=bi_encoder",
)  # fmt: skip


_ROUNDS = ("iter_retgen", "ircot", "react", "self_ask", "flare", "search_r1")


@pytest.mark.slow
def test_a_grid_of_rounds_has_one_driver_and_resumes_from_the_ledger(
    prepared: Run, tmp_path: Path
) -> None:
    """Bounds of the dry run hold; the model is opened once; `show` tells the rounds; without
    predictions no call is made.
    """
    planned = prepared("sweep", *WORDS, "dry_run=true", COLUMNS="400").stdout
    calls = [line.split("│")[5] for line in planned.splitlines() if line[:1] == "│"]
    bounds = [
        match.groups() for text in calls if (match := re.match(r" *(\d+)(?: to (\d+))?", text))
    ]
    first = prepared("sweep", *WORDS).stdout
    summaries = re.findall(r"(\d+) calls requested: (\d+) made", first)
    assert len(summaries) == 1, first
    requested = int(summaries[0][0])
    assert (
        sum(int(low) for low, _ in bounds)
        <= requested
        <= sum(int(high or low) for low, high in bounds)
    )
    folders = {name: next((tmp_path / "data/predictions").glob(f"{name}-*")) for name in _ROUNDS}
    stops = {
        name: set(pq.read_table(folder / "steps.parquet")["stop"].to_pylist())
        for name, folder in folders.items()
    }
    assert stops["iter_retgen"] <= {"stop", "length"}
    assert stops["ircot"] <= {"answer", "max rounds", "empty reply", "prompt too long"}
    assert stops["react"] <= {"answer", "max rounds", "prompt too long"}
    assert stops["flare"] <= {"answer", "max rounds", "empty reply", "prompt too long"}
    assert stops["self_ask"] | stops["search_r1"] <= {
        "answer",
        "max rounds",
        "no marker",
        "prompt too long",
    }
    table = prepared("report", *WORDS, COLUMNS="400").stdout
    strategies = {line.split("│")[1].strip() for line in table.splitlines() if line[:1] == "│"}
    assert {"concatenation", "crag_minilm", *_ROUNDS} <= strategies
    question = read_predictions(folders["iter_retgen"] / "predictions.parquet")[0].question_id
    shown = prepared(
        "show", f"question={question}", "strategy=iter_retgen", *WORDS[:4], "estimator=bi_encoder"
    ).stdout
    assert shown.count("<query>") == 2
    for cell in (tmp_path / "data/predictions").iterdir():
        (cell / "predictions.parquet").unlink()
    again = prepared("sweep", *WORDS).stdout
    assert f"{requested} calls requested: 0 made" in again
