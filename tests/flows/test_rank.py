"""Retrieval plans and damaged searches through the flows, with the small world and its
own corpus.
"""

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from conftest import Run

from winnow.artifacts.tables import read_predictions

PLANS = "retriever.plan.window=3", "retriever.plan.step=2", "retriever.plan.top=6", "rank.limit=4"
CELL = "k=2", "sweep.closed_book_filter=false", "sweep.limit=4", "metric=[em,calls,tokens]"


def _read_ids(folder: Path) -> dict[str, list[str]]:
    """Passage ids by question, best first."""
    rows = pq.read_table(folder / "contexts.parquet").to_pylist()
    return {
        id_: [row["passage_id"] for row in rows if row["question_id"] == id_]
        for id_ in {row["question_id"] for row in rows}
    }


@pytest.mark.slow
def test_a_plan_makes_rankings_that_a_sweep_reads_and_pays_for(
    prepared: Run, tmp_path: Path
) -> None:
    """Bounds of the dry run hold; the ranking is of the same passages; its calls count in the cell;
    nothing is paid twice.
    """
    words = ("retriever=rank_gpt", *PLANS)
    planned = prepared("rank", *words, "dry_run=true", COLUMNS="400").stdout
    (bound,) = re.findall(r"│ reranker +│[^│]+│ *(\d+) or more *│", planned)
    told = prepared("rank", *words, COLUMNS="400").stdout
    calls, tokens_in, tokens_out = map(
        int,
        re.search(
            r"The reranker was called (\d+) times, read (\d+) tokens and wrote (\d+)", told
        ).groups(),  # type: ignore[union-attr]
    )
    assert int(bound) <= calls
    assert "without the plan" in told
    assert "p = " in told
    (folder,) = (tmp_path / "data/retrieval").glob("*-rank_gpt-*")
    ranked = _read_ids(folder)
    (base,) = (
        {id_: ids for id_, ids in _read_ids(one).items() if id_ in ranked}
        for one in (tmp_path / "data/retrieval").glob("*-bm25-*")
    )
    assert len(ranked) == 4
    assert {id_: sorted(ids) for id_, ids in ranked.items()} == {
        id_: sorted(ids) for id_, ids in base.items()
    }
    prepared("sweep", *words, *CELL)
    (cell,) = (tmp_path / "data/predictions").iterdir()
    usage = [
        {one.role: one for one in prediction.usage}
        for prediction in read_predictions(cell / "predictions.parquet")
    ]
    assert sum(one["reranker"].calls for one in usage) == calls
    assert sum(one["reranker"].tokens_in for one in usage) == tokens_in
    assert sum(one["reranker"].tokens_out for one in usage) == tokens_out
    assert {one["reader"].calls for one in usage} == {1}
    assert {tuple(one.passage_ids) for one in read_predictions(cell / "predictions.parquet")} == {
        tuple(ranked[one.question_id][:2]) for one in read_predictions(cell / "predictions.parquet")
    }
    for file in folder.iterdir():
        file.unlink()
    prepared("rank", *words)
    assert _read_ids(folder) == ranked
    assert (
        "Every cell was finished already; no call was made."
        in prepared("sweep", *words, *CELL).stdout
    )


@pytest.mark.slow
def test_other_plans_and_models_have_rankings_of_their_own(prepared: Run, tmp_path: Path) -> None:
    """Queries that a model writes search the corpus; without a plan there is nothing to rank; too
    few questions are named.
    """
    prepared("rank", "retriever=multi_query", "rank.limit=2")
    prepared("rank", "retriever=query_likelihood", "retriever.plan.top=3", "rank.limit=2")
    names = {
        folder.name.rpartition("-")[0].partition("-")[2]
        for folder in (tmp_path / "data/retrieval").iterdir()
    }
    assert {"multi_query", "query_likelihood"} <= names
    failed = prepared("rank", "retriever=rewritten", "rank.limit=2", check=False)
    assert "the queries of the plan of retriever=rewritten found none" in failed.stderr
    failed = prepared("rank", "retriever=bm25", check=False)
    assert "has no plan" in failed.stderr
    failed = prepared("sweep", "retriever=multi_query", "rank.limit=2", *CELL, check=False)
    assert "rank.limit" in failed.stderr


@pytest.mark.slow
def test_a_damaged_corpus_is_searched_without_its_relevant_passages(
    prepared: Run, tmp_path: Path
) -> None:
    """Share 1 leaves none that holds an answer; share 0 finds what the whole corpus gives; each is
    a cell of its own.
    """
    words = (
        "strategy=iter_retgen",
        *CELL,
        "metric=[em,evidence_first,evidence]",
        "strategy.plan.rounds=2",
    )
    prepared("sweep", *words)
    prepared("sweep", *words, "search=damaged", "grid={search.damage.share:[0.0,1.0]}")
    prepared("sweep", *words, "search=poisoned", "search.damage.share=1.0")
    cells = sorted(
        (tmp_path / "data/predictions").iterdir(), key=lambda folder: folder.stat().st_mtime
    )
    assert len(cells) == 4
    found = []
    for cell in cells:
        passages = {
            row["number"]: row for row in pq.read_table(cell / "step_passages.parquet").to_pylist()
        }
        steps = [
            step
            for row in pq.read_table(cell / "steps.parquet").to_pylist()
            for step in row["steps"]
        ]
        found.append(
            [
                [passages[n]["passage_id"] for n in step["passages"]]
                for step in steps
                if step["kind"] == "search"
            ]
        )
    (questions,) = (tmp_path / "data/questions").glob("*/questions.parquet")
    asked = {
        row["question_id"] for row in pq.read_table(questions).to_pylist() if row["split"] == "test"
    }
    (rankings,) = (tmp_path / "data/retrieval").glob("*/contexts.parquet")
    rows = [row for row in pq.read_table(rankings).to_pylist() if row["question_id"] in asked]
    relevant = {row["passage_id"] for row in rows if row["has_answer"]}
    whole, spared, removed, poisoned = ({id_ for ids in one for id_ in ids} for one in found)
    assert whole == spared
    assert whole & relevant
    assert not removed & relevant
    assert any(id_.endswith("#poisoned") for id_ in poisoned)
    assert {id_.removesuffix("#poisoned") for id_ in poisoned} == whole


@pytest.mark.slow
def test_found_passages_are_placed_and_searches_have_a_budget(
    prepared: Run, tmp_path: Path
) -> None:
    """Each prompt of each round begins with the gold passage; without a budget there is one round;
    an agent needs no k.
    """
    words = ("strategy=iter_retgen", *CELL, "strategy.plan.rounds=3", "placement=gold_first")
    prepared("sweep", *words, "search.rules.placed=true")
    prepared(
        "sweep", *words, "grid={search.rules.max_searches:[0,1],search.rules.max_tokens:[null]}"
    )
    prepared("sweep", *words, "search.rules.max_tokens=1")
    placed, none, one, tokens = sorted(
        (tmp_path / "data/predictions").iterdir(), key=lambda folder: folder.stat().st_mtime
    )
    passages = {
        row["number"]: row for row in pq.read_table(placed / "step_passages.parquet").to_pylist()
    }
    (questions,) = (tmp_path / "data/questions").glob("*/questions.parquet")
    gold = {
        row["question_id"]: set(row["gold_passage_ids"])
        for row in pq.read_table(questions).to_pylist()
    }
    (rankings,) = (tmp_path / "data/retrieval").glob("*/contexts.parquet")
    relevant = {
        (row["question_id"], row["passage_id"])
        for row in pq.read_table(rankings).to_pylist()
        if row["has_answer"]
    }
    num_rounds = 0
    for row in pq.read_table(placed / "steps.parquet").to_pylist():
        id_ = row["question_id"]
        for step in row["steps"]:
            if step["kind"] == "generate":
                first = passages[step["passages"][0]]["passage_id"]
                assert first in gold[id_] if gold[id_] else (id_, first) in relevant
                num_rounds += 1
    assert num_rounds == 4 * 3
    for cell, searches in ((none, 0), (one, 1), (tokens, 0)):
        rows = pq.read_table(cell / "steps.parquet").to_pylist()
        assert [sum(step["kind"] == "search" for step in row["steps"]) for row in rows] == [
            searches
        ] * 4
        assert {row["stop"] for row in rows} == {"budget"}
    assert "react" in prepared("sweep", "strategy=react", *CELL[1:], "k=0").stdout
