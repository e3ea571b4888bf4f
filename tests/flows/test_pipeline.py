"""Which settings the stages before a sweep are run for."""

from flows._conf import compose
from flows.pipeline import list_prepared_settings


def test_stages_run_for_the_values_of_a_grid_that_they_read() -> None:
    """Several retrievers are prepared, each once; strategies, k and placements are the sweep's alone."""
    grid = "grid={retriever:[bm25,dense],strategy:[closed_book,concatenation],k:[1,5],placement:[retrieved,gold_first]}"
    prepared = list_prepared_settings([compose([grid])])
    assert [(cfg.retriever.name, cfg.k, cfg.grid) for cfg in prepared] == [("bm25", 5, None), ("dense", 5, None)]
    (alone,) = list_prepared_settings([compose(["k=3"])])
    assert (alone.k, alone.strategy.name) == (3, compose([]).strategy.name)


def test_trainings_are_prepared_and_a_strategy_without_a_reader_adds_none() -> None:
    """RAGE's table 1 is over two trainings, and has a strategy that cites at random."""
    prepared = list_prepared_settings([compose(["experiment=rage/table1"])])
    assert [cfg.training.name for cfg in prepared] == ["none", "cite"]
    jobs = [compose([f"retriever={name}"]) for name in ("bm25", "dense", "bm25")]
    assert len(list_prepared_settings(jobs)) == 2
