"""Stories of a few cells."""

from dataclasses import replace

from winnow.reports.cells import CellResult
from winnow.reports.family import Family
from winnow.reports.page.findings import Finding
from winnow.reports.page.story import Story, build_story
from winnow.testing import make_cell_result

N = 40


def make(
    strategy: str,
    right: int,
    *,
    k: int = 5,
    gold: str = "retrieved",
    num: int = N,
    placed: str = "",
) -> CellResult:
    """A cell that answers the first questions right."""
    cell = make_cell_result(strategy, k, gold, [float(n < right) for n in range(num)])
    return replace(cell, labels=replace(cell.labels, placed=placed or gold.replace("_", " ")))


LOW, HIGH, CLOSE = make("concatenation", 4), make("post_fusion", 30), make("pf_concat", 29)


def tell(*cells: CellResult) -> Story:
    """The story of some cells."""
    return build_story(Family(cells, 0))


def find(story: Story, *words: str) -> Finding:
    (found,) = [
        finding for finding in story.findings if all(word in finding.text for word in words)
    ]
    return found
