"""Labels that tell cells apart."""

from typing import Any

from winnow.sweeps.labels import CellLabels
from winnow.sweeps.spec import CellSpec, list_varying_settings


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
