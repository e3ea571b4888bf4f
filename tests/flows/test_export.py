"""Rankings go out in other tools' formats and come back the same."""

import json
from pathlib import Path

import pyarrow.parquet as pq
from conftest import Run

TREC = ["retriever=trec_run", "retriever.engine.path=exports/runs"]


def read_rankings(folder: Path, name: str) -> list[tuple[str, str, int]]:
    """Question, passage and rank of the latest rankings of a retriever."""
    (path,) = folder.glob(f"data/*/*-{name}-*/contexts.parquet")
    rows = pq.read_table(path).to_pylist()
    return sorted((row["question_id"], row["passage_id"], row["rank"]) for row in rows)


def test_a_trec_run_comes_back_as_it_went_out(prepared: Run, tmp_path: Path) -> None:
    """All splits of the small world, with judgments and questions; then retriever=trec_run has the
    same ranking.
    """
    for split in ("test", "dev", "train"):
        output = prepared("export", "export.out=exports/" + split, f"export.split={split}").stdout
        assert "with a relevant passage" in output
    (tmp_path / "exports/runs").mkdir()
    for split in ("test", "dev", "train"):
        (tmp_path / f"exports/{split}/run.trec").rename(tmp_path / f"exports/runs/{split}.trec")
    qrels = [
        line.split() for line in (tmp_path / "exports/test/qrels.trec").read_text().splitlines()
    ]
    assert all(len(fields) == 4 and fields[1:4:2] == ["0", "1"] for fields in qrels)
    queries = dict(
        line.split("\t")
        for line in (tmp_path / "exports/test/queries.tsv").read_text().splitlines()
    )
    assert {fields[0] for fields in qrels} <= set(queries)
    prepared("index", *TREC)
    prepared("retrieve", *TREC)
    assert read_rankings(tmp_path, "trecrun") == read_rankings(tmp_path, "bm25")


def test_what_would_overwrite_itself_is_refused(prepared: Run, tmp_path: Path) -> None:
    """Two jobs with one folder, and a grid of which one ranking would be written."""
    failed = prepared("export", "-m", "depth=5,20", check=False).stderr
    assert "export.out='exports/trec' is the folder of 2 jobs" in failed
    failed = prepared("export", "grid={retriever.engine.b:[0.1,0.9]}", check=False).stderr
    assert "The cells of the grid read 2 rankings (bm25)" in failed
    assert not (tmp_path / "exports").exists()


def test_fid_and_beir(prepared: Run, tmp_path: Path) -> None:
    """FiD's file has the contexts in order; BEIR's folder has all passages, the answers, and
    judgments of existing ids.
    """
    prepared("export", "export.format=fid", "export.out=exports/fid")
    rows = json.loads((tmp_path / "exports/fid/test.json").read_text())
    assert len(rows) == 14
    assert all(row["answers"] and len(row["ctxs"]) > 1 for row in rows)
    ranked = [
        (row["id"], context["id"], rank)
        for row in rows
        for rank, context in enumerate(row["ctxs"], start=1)
    ]
    assert set(ranked) <= set(read_rankings(tmp_path, "bm25"))
    prepared("export", "export.format=beir", "export.out=exports/beir")
    corpus = [
        json.loads(line)
        for line in (tmp_path / "exports/beir/corpus.jsonl").read_text().splitlines()
    ]
    queries = [
        json.loads(line)
        for line in (tmp_path / "exports/beir/queries.jsonl").read_text().splitlines()
    ]
    header, *pairs = [
        line.split("\t")
        for line in (tmp_path / "exports/beir/qrels/test.tsv").read_text().splitlines()
    ]
    assert (len(corpus), len(queries), header) == (36, 14, ["query-id", "corpus-id", "score"])
    assert pairs
    assert {pair[0] for pair in pairs} <= {query["_id"] for query in queries}
    assert {pair[1] for pair in pairs} <= {passage["_id"] for passage in corpus}
    prepared(
        "corpus",
        "corpus=beir",
        "corpus.name=back",
        f"corpus.parser.path={tmp_path}/exports/beir/corpus.jsonl",
    )
