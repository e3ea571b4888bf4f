"""What the stage `rank` gives to plans, and what it tells of their rankings."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from flows import rank
from winnow.artifacts import contracts, parquet
from winnow.artifacts.tables import build_hit_rows, build_passage_rows, build_retrieval_rows
from winnow.predictions import RoleUsage
from winnow.records import Hit, Passage, Question

TEXTS = {"1": "nothing", "2": "Jane Austen", "3": "gold"}


def _store(folder: Path, rankings: list[str], gold: tuple[str, ...] = ()) -> list[Question]:
    """Rankings of questions, whose answer is in passage 2."""
    folder.mkdir()
    asked = [
        Question(f"q{n}", "Who?", ("Jane Austen",), gold, split="test")
        for n in range(len(rankings))
    ]
    hits = build_hit_rows(
        asked, [[Hit(id_, -float(n)) for n, id_ in enumerate(ids)] for ids in rankings]
    )
    parquet.write(
        folder / "contexts.parquet", contracts.RETRIEVAL, build_retrieval_rows(asked, hits, TEXTS)
    )
    passages = [Passage(id_, "", text) for id_, text in TEXTS.items()]
    parquet.write(folder / "passages.parquet", contracts.CORPUS, build_passage_rows(passages))
    return asked


def _project(folder: Path, **settings: Any) -> Any:
    return SimpleNamespace(
        rankings=SimpleNamespace(require=lambda: folder), settings=SimpleNamespace(**settings)
    )


def test_a_plan_orders_only_what_was_retrieved(tmp_path: Path) -> None:
    """A gold passage that was not would tell it the answer."""
    asked = _store(tmp_path / "x", ["12"], gold=("3",))
    seen: list[tuple[list[str], int]] = []

    def plan(_: Question, contexts: list[Any], depth: int) -> None:
        seen.append(([context.passage.passage_id for context in contexts], depth))

    built = SimpleNamespace(build=lambda: SimpleNamespace(plan=plan))
    list(
        rank._build_jobs(
            _project(tmp_path / "x", depth=7, retriever=SimpleNamespace(plan=built)), asked
        )
    )
    assert seen == [(["1", "2"], 7)]


def test_the_cost_is_told_by_role() -> None:
    """Of language models, with the replies that were cut or empty."""
    usage = {
        "a": (RoleUsage("reranker", 1, 10, 2, 0, 3, 0), RoleUsage("corpus", 9, 0, 0)),
        "b": (RoleUsage("reranker", 2, 5, 1, 0, 1, 1),),
    }
    rankings: Any = SimpleNamespace(usage=usage)
    told = (
        "The reranker was called 3 times, read 15 tokens and wrote 3; 4 replies were cut and 1 "
        "were empty."
    )
    assert rank._describe_cost(rankings) == told


def test_a_plan_that_helps_has_a_positive_difference(tmp_path: Path) -> None:
    """Of the same questions, each with its own ranking."""
    asked = _store(tmp_path / "before", ["12"] * 12)
    _store(tmp_path / "after", ["21"] * 9 + ["12"] * 3)
    project = _project(tmp_path / "before", depth=1, retriever=SimpleNamespace(name="planned"))
    artifact: Any = SimpleNamespace(folder=tmp_path / "after")
    told = rank._describe_comparison(project, artifact, asked)
    assert "changed the ranking of 9 of 12 questions" in told
    assert "@1 +75.0 [20.7, 94.4]" in told
    rows = rank._compute_quality(project, artifact, asked)
    assert [(row["retriever"], row["@1"].mean) for row in rows] == [
        ("without the plan", 0.0),
        ("planned", 0.75),
    ]
