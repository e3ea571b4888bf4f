"""Questions without accepted answers, such as BEIR's: what needs an answer is undefined, and the
rest is measured.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import TOWNS, Run

from flows.project.artifacts import Project
from flows.project.checks import check_filters
from flows.settings.door import compose
from winnow.artifacts import contracts, parquet
from winnow.artifacts.tables import build_question_rows
from winnow.errors import ConfigError
from winnow.testing import make_question


def _write_queries(folder: Path) -> list[str]:
    """Write judged queries of the small world's corpus, and return the settings that read them."""
    queries = [
        {"_id": f"{town} {n}", "text": text.format(town)}
        for town in TOWNS
        for n, text in enumerate(("Who is the mayor of {}?", "Which river flows by {}?"))
    ]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    judged = [f"{town} {m}\t{3 * n + m}\t1" for n, town in enumerate(TOWNS) for m in (0, 1)]
    (folder / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]))
    return [
        "dataset=beir",
        f"dataset.parser.path={folder}/queries.jsonl",
        f"dataset.parser.qrels={folder}/test.tsv",
        "dataset.split.dev=8",
        "answerable.required=[]",
    ]


@pytest.mark.slow
def test_rankings_are_compared_by_judgments_alone(run: Run, tmp_path: Path) -> None:
    """Plans and estimators rank such questions, and no accuracy by answers is made up."""
    words = [*_write_queries(tmp_path), "score.splits=[test]", "score.limit=3"]
    for stage in ("corpus", "questions", "index", "retrieve"):
        run(stage, *words)
    ranked = run(
        "rank", *words, "retriever=rank_gpt", "retriever.plan.window=3", "retriever.plan.step=2",
        "retriever.plan.top=6", "rank.limit=2", COLUMNS="400",
    ).stdout  # fmt: skip
    assert "Top-k accuracy with the plan minus without it: undefined without accepted" in ranked
    assert "nDCG" in ranked
    scored = run("score", *words, COLUMNS="400").stdout
    assert "undefined, because none of the 3 questions has an accepted answer" in scored
    assert "estimator" not in scored
    (folder,) = (tmp_path / "data/relevance").iterdir()
    rows = parquet.read(folder / "relevance.parquet", contracts.RELEVANCE)
    assert len(set(rows["question_id"].to_pylist())) == 3


def test_each_split_of_a_file_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cells may read two splits of one file, of which the second lacks answers."""
    monkeypatch.chdir(tmp_path)
    cells = [
        compose(["dataset=jsonl", f"closed_book.split={split}", f"sweep.split={split}"])
        for split in ("test", "dev")
    ]
    artifact = Project(cells[0]).questions
    artifact.folder.mkdir(parents=True)
    questions = [
        replace(make_question(question_id="a"), split="test"),
        replace(make_question(question_id="b"), answers=(), split="dev"),
    ]
    rows = build_question_rows(questions)
    artifact.finish(parquet.write(artifact.folder / "questions.parquet", contracts.QUESTIONS, rows))
    check_filters(cells[:1])
    with pytest.raises(ConfigError, match="1 of 1 questions of dataset=jsonl have no accepted"):
        check_filters(cells)
