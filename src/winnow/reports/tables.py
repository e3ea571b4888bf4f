"""Tables of a report's cells."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from winnow.reports.cells import (
    CellResult,
    have_same_questions,
    list_label_names,
    list_label_values,
)


@dataclass(frozen=True, slots=True)
class TableView:
    """A table of a report whose values are formatted as text.

    Attributes:
        title: Heading of the table.
        caption: Explanation of what the table covers.
        columns: Column names.
        rows: Rows of the table, with one text per column.
        num_shown: Number of leading rows that an HTML page shows; the others are folded. None shows
            all.
        subject: Names of the columns that the table is about, which stay even if all rows are equal
            there.
    """

    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    num_shown: int | None = None
    subject: Collection[str] = ()

    def drop_constant_columns(self) -> "TableView":
        """Return the table without the columns that are equal in all rows; the caption names them.

        The first column and those of the subject stay, and so does a table in which no other
        differs.
        """
        varying = [
            index
            for index, name in enumerate(self.columns)
            if not index or name in self.subject or len({row[index] for row in self.rows}) > 1
        ]
        if len(self.rows) < 2 or len(varying) in (1, len(self.columns)):
            return self
        constant = [
            f"{self.columns[index]} {self.rows[0][index]}"
            for index in range(len(self.columns))
            if index not in varying
        ]
        caption = f"{self.caption} Equal in all rows: {'; '.join(constant)}.".strip()
        rows = [[row[index] for index in varying] for row in self.rows]
        return replace(
            self, caption=caption, columns=[self.columns[index] for index in varying], rows=rows
        )


def build_metrics_table(
    title: str, caption: str, cells: Sequence[CellResult], seed: int
) -> TableView:
    """Build a table of all metrics with their 95 % intervals, with one row per cell.

    If the cells have different questions, the rows say how many, and the caption that they are not
    the same.
    """
    metrics = cells[0].metrics
    columns = [*list_label_names(cells), *(metric.heading for metric in metrics)]
    rows = [
        [
            *list_label_values(cell, cells),
            *(cell.format_metric(metric.name, seed) for metric in metrics),
        ]
        for cell in cells
    ]
    if not have_same_questions(cells):
        position = len(list_label_names(cells))
        columns.insert(position, "questions")
        for row, cell in zip(rows, cells, strict=True):
            row.insert(position, str(cell.num_questions))
        caption += f" The rows are over different questions. {_describe_pairing(cells)}"
    return TableView(title, caption, columns, rows, subject=[metrics[0].heading])


def build_matrix_table(cells: Sequence[CellResult], seed: int) -> TableView:
    """Tabulate the first metric by strategy and setting (rows) and by k and placement (columns).

    Cells of the same place have a row each, which are numbered.
    """
    metric = cells[0].metrics[0]
    places = sorted(
        dict.fromkeys((cell.labels.k, cell.labels.gold) for cell in cells),
        key=lambda place: place[0],
    )
    by_place: dict[tuple[tuple[str, ...], tuple[int, str]], CellResult] = {}
    for cell in cells:
        line, number = (cell.labels.line, cell.labels.code), 1
        while (
            key := (
                line if number == 1 else (*line, f"({number})"),
                (cell.labels.k, cell.labels.gold),
            )
        ) in by_place:
            number += 1
        by_place[key] = cell
    lines = list(dict.fromkeys(line for line, _ in by_place))
    rows = [
        [
            " ".join(filter(None, line)),
            *(
                at.format_metric(metric.name, seed) if (at := by_place.get((line, place))) else ""
                for place in places
            ),
        ]
        for line in lines
    ]
    columns = ["strategy", *(f"k {k}, {gold}" for k, gold in places)]
    title = f"{metric.heading} by strategy, k and placement"
    caption = "With 95 % intervals."
    if not have_same_questions(cells):
        caption += f" The cells have different questions. {_describe_pairing(cells)}"
    return TableView(title, caption, columns, rows, subject=columns)


def _describe_pairing(cells: Sequence[CellResult]) -> str:
    """Return how cells with different questions are compared."""
    is_one_selection = len({cell.labels.questions for cell in cells}) == 1
    return "Tables of differences pair the questions that two cells share" + (
        "." if is_one_selection else " if these are selected alike."
    )


def build_breakdown_table(cells: Sequence[CellResult], title: str, seed: int) -> TableView:
    """Build a table of the first metric by group, with one row per cell and one column per group.

    The largest groups come first. Each value is followed by the number of questions of the group.

    Args:
        cells: Cells whose samples have groups.
        title: What the questions are grouped by, for the title of the table.
        seed: Seed of the bootstrap.
    """
    group_names = [
        name for name, _ in Counter(group for cell in cells for group in cell.groups).most_common()
    ]
    metric = cells[0].metrics[0]
    groups = [[cell.select_group(name) for name in group_names] for cell in cells]
    rows = [
        [
            *list_label_values(cell, cells),
            *(
                f"{group.format_metric(metric.name, seed)} ({group.num_questions})"
                for group in cell_groups
            ),
        ]
        for cell, cell_groups in zip(cells, groups, strict=True)
    ]
    caption = "The number of questions of each group is in brackets."
    columns = [*list_label_names(cells), *group_names]
    return TableView(f"{metric.heading} by {title}", caption, columns, rows, subject=group_names)
