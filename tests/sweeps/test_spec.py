"""Labels that tell cells apart."""

from dataclasses import replace
from typing import Any

import pytest

from winnow.predictions import Price
from winnow.sweeps.labels import CellLabels
from winnow.sweeps.spec import CellSpec, EngineSpec, list_varying_settings


def spec(settings: dict[str, str], strategy: str = "a", **config: Any) -> CellSpec:
    """A cell of which only labels and settings matter."""
    unused: Any = None
    return CellSpec(
        "key",
        unused,
        CellLabels(strategy, 5, "g"),
        settings,
        unused,
        unused,
        None,
        None,
        unused,
        unused,
        unused,
        config=config,
    )


def test_settings_that_vary_are_named() -> None:
    """And those that do not are left out."""
    cells = [spec({"retriever": "bm25", "split": "test"}), spec({"retriever": "dense", "split": "test"})]
    assert list_varying_settings(cells) == [[("retriever", "bm25")], [("retriever", "dense")]]
    assert list_varying_settings(cells[:1]) == [[]]
    assert list_varying_settings([]) == []


def test_cells_with_equal_labels_are_told_apart_by_their_configuration() -> None:
    """Any other setting in which they differ, shortened; where and how a report is written does not count."""
    cells = [
        spec({}, weighting={"by": "retriever", "scale": 0.1}, report={"out": "a"}),
        spec({}, weighting={"by": "retriever", "scale": 1.0}, report={"out": "b"}),
        spec({}, "b", weighting={"by": "retriever", "scale": 1.0}),
    ]
    assert list_varying_settings(cells) == [[("weighting.scale", "0.1")], [("weighting.scale", "1.0")], []]
    prompts = [spec({}, prompt={"system": letter * 100}) for letter in "xy"]
    assert list_varying_settings(prompts)[0] == [("prompt.system", f"{'x' * 37}...")]


def test_prices_are_those_of_the_engines_of_rankings_too() -> None:
    """Without those that have none, so that the money of a plan counts."""

    def engine(role: str, *price: float) -> EngineSpec:
        return EngineSpec(role, "k", lambda _: pytest.fail("opened"), Price(*price))

    ranking = (engine("reranker", 1.0, 2.0), engine("corpus"))
    one = replace(spec({}), ranking_engines=ranking, engines=(engine("reader", 3.0, 4.0),))
    assert one.prices == {"reranker": Price(1.0, 2.0), "reader": Price(3.0, 4.0)}
