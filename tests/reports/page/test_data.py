"""What the page's script reads."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.reports.page.page_browser import CELLS, build_page
from winnow.reports.page.page import _compress_library
from winnow.testing import make_cell_result


def test_the_frontier_has_no_cell_with_gold_labels() -> None:
    """By hand: 4 and 1 of 6 are right without them, at the same cost; the cell that uses them, all
    right, does not count.
    """
    cells = [CELLS[0], make_cell_result("concatenation", 5, "gold_first", [1.0] * 6), CELLS[2]]
    ((cost, best, low, high),) = build_page(cells)._build_data()["frontier"]
    assert (cost, round(best, 1)) == (104.5, 66.7)
    assert low < best < high


def test_questions_with_a_gold_passage_are_counted_in_a_cell_that_shows_passages() -> None:
    """Every second of six has one, whichever cell comes first."""
    closed = make_cell_result("closed_book", 0, "retrieved", [1.0] * 6)
    data = build_page([closed, CELLS[0]])._build_data()
    assert (data["numGold"], data["numQuestions"]) == ("3", 6)


def test_cells_with_other_gold_passages_have_a_range() -> None:
    """Two retrievers find other gold passages, and one number would be of one of them."""
    samples = [
        replace(sample, prediction=replace(sample.prediction, provenance="none"))
        for sample in CELLS[0].samples
    ]
    none = replace(CELLS[0], samples=samples)
    assert build_page([CELLS[0], none])._build_data()["numGold"] == "0 to 3"


def test_the_chart_library_is_kept_between_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the user's cache, by its version; a cache that cannot be used changes nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    texts = []
    for _ in range(2):
        _compress_library.cache_clear()
        texts.append(_compress_library())
    (file,) = (tmp_path / "cache/winnow").iterdir()
    assert texts[0] == texts[1] == file.read_text()
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    _compress_library.cache_clear()
    assert _compress_library() == texts[0]
    _compress_library.cache_clear()


def test_the_number_of_questions_is_that_of_the_largest_cell() -> None:
    """Also if it shows no passages."""
    closed = make_cell_result("closed_book", 0, "retrieved", [1.0] * 8)
    few = make_cell_result("concatenation", 5, "retrieved", [1.0] * 6)
    assert build_page([few, closed])._build_data()["numQuestions"] == 8
