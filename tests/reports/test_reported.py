"""Values of papers: where they stand, and beside which cells."""

import math

import pytest

from winnow.errors import ConfigError
from winnow.reports.reported import (
    ReportedValue,
    find_value,
    has_labels,
    load_paper_part,
    load_reported_question_counts,
)
from winnow.sweeps.labels import CellLabels

CELL = CellLabels("concatenation", 5, "retrieved")


def test_a_value_is_beside_the_cells_with_its_labels_alone() -> None:
    """The first that fits; a cell without a counterpart has none."""
    values = [
        ReportedValue("em", 1.0, 1.0, {"strategy": "concatenation", "k": 1}),
        ReportedValue("f1", 2.0, 2.0, {"strategy": "concatenation"}),
        ReportedValue("em", 3.0, 4.0, {"strategy": "concatenation"}),
    ]
    assert find_value(values, "em", CELL) is values[2]
    assert find_value(values, "f1", CELL) is values[1]
    assert find_value(values, "em", CellLabels("post_fusion", 5, "retrieved")) is None
    assert (
        values[0].format(),
        values[2].format(),
        ReportedValue("em", math.nan, math.nan, {}).format(),
    ) == (
        "1",
        "3 to 4",
        "–",
    )


def test_a_value_is_of_passages_as_they_are_unless_it_names_another_context() -> None:
    """So that a paper's RAG is not beside a cell whose passages are compressed."""
    compressed = CellLabels("concatenation", 5, "retrieved", context="selective")
    assert has_labels(CELL, {"strategy": "concatenation"})
    assert not has_labels(compressed, {"strategy": "concatenation"})
    assert has_labels(compressed, {"strategy": "concatenation", "context": "selective"})


@pytest.mark.parametrize(
    ("dataset", "context", "metric", "value"),
    [
        ("nq", "none", "em", 35.1),
        ("nq", "selective", "em", 30.5),
        ("popqa", "longllmlingua", "f1", 38.7),
    ],
)
def test_flashrags_values_are_told_apart_by_context(
    dataset: str, context: str, metric: str, value: float
) -> None:
    """Its table names exact match for three data sets and F1 for the others."""
    part = load_paper_part("flashrag", "table", dataset, "")
    found = find_value(
        part.reported, metric, CellLabels("concatenation", 5, "retrieved", context=context)
    )
    assert found is not None
    assert found.low == value
    other = "f1" if metric == "em" else "em"
    assert (
        find_value(
            part.reported, other, CellLabels("concatenation", 5, "retrieved", context=context)
        )
        is None
    )
    assert "REPLUG" in part.other_systems


def test_what_a_paper_does_not_have_is_refused_by_name() -> None:
    """With the choices, and the nearest one."""
    with pytest.raises(
        ConfigError,
        match=r"report\.paper\.paper='crg' is unknown. Choose one of .* Did you mean 'crag'",
    ):
        load_paper_part("crg", "table1", "PopQA", "")
    with pytest.raises(ConfigError, match=r"report\.paper\.part='table9' is unknown"):
        load_paper_part("crag", "table9", "PopQA", "")
    assert load_reported_question_counts("crag", "nothing") == {}
