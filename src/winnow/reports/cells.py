"""The cells of a report: their labels, their rows and their measures."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from winnow.metrics.cells import MEASURES, by_name, measure
from winnow.metrics.intervals import Comparison, compare

Row = Mapping[str, Any]
_LABELS = ("strategy", "k", "gold", "setting")


@dataclass(frozen=True, slots=True)
class CellResult:
    """The predictions of one cell under its labels; `gold` names the placement."""

    strategy: str
    k: int
    gold: str
    rows: Sequence[Row]
    setting: str = ""
    """What else sets the cell apart, such as "retriever=dense"; empty where nothing does."""
    samples: int = 1
    """Replies drawn to each prompt."""
    rank_by: str = "retriever"
    weigh_by: str = "none"
    asked: str = ""
    """Which questions these are, such as a split; cells of others are no pairs, whatever ids they have in common."""

    @property
    def line(self) -> str:
        """Return the name of the cell's line in a plot."""
        return f"{self.strategy} ({self.setting})" if self.setting else self.strategy

    @property
    def voted(self) -> bool:
        """Tell whether there is a pool of candidates, without which %NM has no meaning."""
        return any(row["candidates"] for row in self.rows)

    def only(self, keep: Callable[[Row], bool]) -> "CellResult":
        """Return the cell with the rows that are kept."""
        return replace(self, rows=[row for row in self.rows if keep(row)])


@dataclass(frozen=True, slots=True)
class TableView:
    """A table as text: its title, what it is over, its column names and its cells."""

    title: str
    over: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def measures_table(title: str, over: str, cells: Sequence[CellResult], seed: int) -> TableView:
    """Return strategies by k by placement with every measure and its 95 % interval; %NM needs a vote, else "-"."""
    rows = []
    for cell in cells:
        found = measure(cell.rows, seed)
        values = ["-" if m.name == "nm" and not cell.voted else m.show(found[m.name]) for m in MEASURES]
        rows.append([*_labels(cell, cells), *values])
    columns = [*_LABELS[: len(_labels(cells[0], cells))], *(m.title for m in MEASURES)]
    return TableView(title, over, columns, rows)


def types_table(cells: Sequence[CellResult], by: str, seed: int) -> TableView:
    """Return EM by question type, which every row has under "type"; the types with most questions come first."""
    counts = Counter(str(row["type"]) for row in cells[0].rows)
    em, rows = by_name("em"), []
    for cell in cells:
        parts = [cell.only(lambda row, name=name: str(row["type"]) == name) for name, _ in counts.most_common()]  # type: ignore[misc]
        rows.append([*_labels(cell, cells), *(em.show(em.estimate(part.rows, seed)) for part in parts)])
    columns = [*_LABELS[: len(_labels(cells[0], cells))], *(f"{name} ({count})" for name, count in counts.most_common())]
    return TableView(f"EM by {by}", "in brackets: how many questions have that type", columns, rows)


def _labels(cell: CellResult, cells: Sequence[CellResult]) -> list[str]:
    named = [cell.strategy, str(cell.k), cell.gold]
    return [*named, cell.setting] if any(c.setting for c in cells) else named


def comparisons_table(cells: Sequence[CellResult], seed: int) -> TableView:
    """Return each pair of cells that differ in strategy alone, or in setting alone: EM of the one less that of the other.

    Cells without a question in common are left out.
    """
    rows = []
    for n, second in enumerate(cells):
        for first in cells[n + 1 :]:
            if (first.k, first.gold) != (second.k, second.gold) or not paired(first, second):
                continue
            if first.strategy != second.strategy and first.setting != second.setting:
                continue
            found = difference(first, second, "em", seed)
            rows.append([first.line, second.line, str(first.k), first.gold, found.signed(), f"{found.p_value:.3f}"])
    over = "paired bootstrap and McNemar's exact test on the same questions; p is not corrected for the number of pairs"
    columns = ["this", "less this", "k", "gold", "difference in EM", "p"]
    return TableView("Differences between strategies and settings", over, columns, rows)


def paired(first: CellResult, second: CellResult) -> bool:
    """Tell whether two cells were asked of the same questions, and have answers to some in common."""
    ids = {row["question_id"] for row in first.rows}
    return first.asked == second.asked and not ids.isdisjoint(row["question_id"] for row in second.rows)


def difference(first: CellResult, second: CellResult, measure: str, seed: int) -> Comparison:
    """Compare a measure of two cells on the questions that both answered, matched by id."""
    value = by_name(measure).value
    other = {row["question_id"]: value(row) for row in second.rows}
    both = [(value(row), other[row["question_id"]]) for row in first.rows if row["question_id"] in other]
    return compare([a for a, _ in both], [b for _, b in both], seed=seed)
