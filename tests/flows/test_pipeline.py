"""The pipeline runs each stage that the settings need, for each value of a grid."""

import json
import re
from pathlib import Path

from conftest import Run

from flows.pipeline import list_prepared_settings
from flows.settings.door import compose


def test_stages_run_for_the_values_of_a_grid_that_they_read() -> None:
    """Several retrievers are prepared, each once; strategies, k and placements are the sweep's
    alone.
    """
    grid = (
        "grid={retriever:[bm25,dense],strategy:[closed_book,concatenation],k:[1,5],"
        "placement:[retrieved,gold_first]}"
    )
    prepared = list_prepared_settings([compose([grid])])
    assert [(cfg.retriever.name, cfg.k, cfg.grid) for cfg in prepared] == [
        ("bm25", 5, None),
        ("dense", 5, None),
    ]
    (alone,) = list_prepared_settings([compose(["k=3"])])
    assert (alone.k, alone.strategy.name) == (3, compose([]).strategy.name)


def test_trainings_are_prepared_and_a_strategy_without_a_reader_adds_none() -> None:
    """RAGE's table 1 is over two trainings, and has a strategy that cites at random."""
    prepared = list_prepared_settings([compose(["experiment=rage/table1"])])
    assert [cfg.training.name for cfg in prepared] == ["none", "cite"]
    jobs = [compose([f"retriever={name}"]) for name in ("bm25", "dense", "bm25")]
    assert len(list_prepared_settings(jobs)) == 2


def test_a_pipeline_runs_the_stages_that_its_words_need(
    run: Run, world: Path, tmp_path: Path
) -> None:
    """Own texts and questions to a report with one command; the next start runs no stage but the
    goals, and makes no call.
    """
    (tmp_path / "texts").mkdir()
    for number in range(20):
        (tmp_path / "texts" / f"{number}.txt").write_text(
            f"The mayor of Town{number} is Person{number}. " * 3
        )
    rows = [
        {"q": f"Who is the mayor of Town{number}?", "a": f"Person{number}"} for number in range(6)
    ]
    (tmp_path / "qa.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = [
        "corpus=plain_text", "corpus.parser.path=texts", "dataset=jsonl",
        "dataset.parser.path=qa.jsonl", "dataset.parser.question=q", "dataset.parser.answers=a",
        "depth=10", "k=3", "closed_book.limit=null", "encoder=folder",
        f"encoder.model.path={world}/encoder",
    ]  # fmt: skip
    planned = run("pipeline", "pipeline.goal=retrieve", *words, "dry_run=true", small=False).stdout
    assert re.search(r"retrieve +│ data/retrieval +│ would run", planned)
    ranked = run("pipeline", "pipeline.goal=retrieve", *words, small=False).stdout
    assert "Retrieval, % [95 % interval]" in ranked
    assert "Stages run: acquire, corpus, index, questions, retrieve" in ranked
    refused = run("pipeline", *words, small=False, check=False).stderr
    assert "has only the split 'test' (dataset.split.all). Add reader=smollm2" in refused
    words += [
        "reader=folder",
        "reader.name=tiny",
        f"reader.base={world}/lm",
        "reader.engine.dtype=float32",
    ]
    planned = run("pipeline", *words, "dry_run=true", small=False).stdout
    assert re.search(r"retrieve +│ data/retrieval/jsonl-bm25-\w+ +│ finished already", planned)
    assert re.search(r"closed_book +│ data/closed_book +│ would run", planned)
    assert "repeat this command then" in planned
    assert not (tmp_path / "data/closed_book").exists()
    first = run("pipeline", *words, small=False).stdout
    assert "Stages run: acquire, closed_book, sweep, report" in first
    assert (tmp_path / "reports/jsonl/index.html").is_file()
    again = run("pipeline", *words, small=False).stdout
    assert "Stages run: acquire, sweep, report" in again
    planned = run("pipeline", *words, "k=2", "dry_run=true", small=False).stdout
    assert "would run" not in planned
    assert "Dry run: no call was made" in planned
    both = run("pipeline", *words, "grid={retriever:[bm25,dense]}", small=False).stdout
    assert "Stages run: acquire, index, retrieve, sweep, report" in both
    report = (tmp_path / "reports/jsonl/report.md").read_text()
    assert (
        "- Retriever: bm25, depth 10, ranked by retriever; dense (encoder folder), depth 10, "
        "ranked by retriever" in report
    )
    assert "- Reader: tiny (" in report
    assert re.search(r"- Seeds: split none, bootstrap 0$", report, re.MULTILINE)
