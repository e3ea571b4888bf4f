"""A search engine over an index on this machine."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.errors import ConfigError
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import build_engine_map
from winnow.records import Hit, Passage, Question
from winnow.requests import Plan, Search
from winnow.retrievers.bm25 import BM25
from winnow.searchers.local import LocalSearch
from winnow.testing import PASSAGES


def _two_searches() -> Plan[tuple[Passage, ...]]:
    (pages,) = yield [Search("capital of Germany", 1)]
    (more,) = yield [Search("river through France", 2)]
    return (*pages.passages, *more.passages)


def test_a_plan_searches_and_a_replay_needs_no_index(tmp_path: Path) -> None:
    """Results are passages, best first; the ledger serves them again."""
    BM25().build(lambda: iter(PASSAGES), tmp_path / "index")
    opened = []

    def open_index() -> object:
        opened.append(1)
        return BM25().open(tmp_path / "index")

    for _ in range(2):
        engine = LocalSearch(open_index, lambda: {p.passage_id: p for p in PASSAGES}, "bm25@1")  # type: ignore[arg-type]
        with SqliteStore(tmp_path / "ledger.sqlite") as ledger:
            driver = Driver(build_engine_map(engine), ledger)
            (outcome,) = driver.run([Job("q", _two_searches())])
        assert [p.passage_id for p in outcome.result][:1] == ["b"]
        assert len(outcome.result) == 3
        assert [(part.role, part.calls) for part in outcome.usage] == [("search", 2)]
    assert len(opened) == 1


def test_an_empty_query_is_refused() -> None:
    """It would return passages at random."""
    engine = LocalSearch(lambda: None, dict, "x")  # type: ignore[arg-type, return-value]
    assert "needs a query" in (engine.explain_refusal(Search(" ", 1)) or "")
    assert engine.explain_refusal(Search("x", 1)) is None


class DepthDependent:
    """A fused index: what is first depends on how deep it looks."""

    def search(self, questions: Sequence[Question], depth: int) -> list[list[Hit]]:
        """Return passages "a" first at depth 1, "b" first below that."""
        return [
            [Hit(name, 0.0) for name in ("a" if depth == 1 else "bac")][:depth] for _ in questions
        ]


def test_a_search_has_the_results_of_its_own_depth() -> None:
    """Beside a deeper one it returns what it returns alone."""
    texts = {name: Passage(name, name, name) for name in "abc"}
    engine = LocalSearch(DepthDependent, lambda: texts, "x")
    engine.submit([Search("q", 3), Search("q", 1)])
    pages = {request.n: result.passages for request, result in engine.collect(0.0)}  # type: ignore[union-attr]
    assert [[p.passage_id for p in pages[n]] for n in (1, 3)] == [["a"], ["b", "a", "c"]]


class Averaging(DepthDependent):
    """An index of vectors, which names what was averaged."""

    def search_averages(
        self, texts: Sequence[tuple[str, Sequence[str]]], depth: int
    ) -> list[list[Hit]]:
        """Return a passage for each query, whose score is the number of texts."""
        return [[Hit("c", float(len(averaged)))][:depth] for _, averaged in texts]


def test_texts_are_averaged_by_indexes_of_vectors_only() -> None:
    """Beside plain searches of the same depth; another index is refused."""
    texts = {name: Passage(name, name, name) for name in "abc"}
    engine = LocalSearch(Averaging, lambda: texts, "x")
    engine.submit([Search("q", 2), Search("q", 2, ("x", "y"))])
    found = {
        request.averaged: (result.passages, result.scores)
        for request, result in engine.collect(0.0)
    }  # type: ignore[union-attr]
    assert found == {
        (): ((texts["b"], texts["a"]), (0.0, 0.0)),
        ("x", "y"): ((texts["c"],), (2.0,)),
    }
    engine = LocalSearch(DepthDependent, lambda: texts, "x")
    engine.submit([Search("q", 2, ("x",))])
    with pytest.raises(ConfigError, match="no vectors"):
        engine.collect(0.0)
