"""One self-contained HTML page, and the same tables as Markdown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from winnow.reports.cells import CellResult, TableView, comparisons_table, measures_table, types_table
from winnow.reports.paper import Part, beside
from winnow.reports.plots import against_k, against_position, against_samples, tokens_by_strategy


@dataclass(frozen=True, slots=True)
class Report:
    """Tables, plots (SVG) and what made them."""

    title: str
    tables: Sequence[TableView]
    plots: Sequence[str]
    made_by: Mapping[str, str]

    def html(self) -> str:
        """Return the page; it refers to nothing outside itself."""
        environment = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True)
        return environment.get_template("page.html").render(report=self)

    def markdown(self) -> str:
        """Return the tables and what made them."""
        parts = [f"# {self.title}"]
        for table in self.tables:
            lines = [f"| {' | '.join(row)} |" for row in (table.columns, ["---"] * len(table.columns), *table.rows)]
            parts.append(f"## {table.title}\n\n{table.over}\n\n" + "\n".join(lines))
        made = "\n".join(f"- {name}: {value}" for name, value in self.made_by.items())
        return "\n\n".join([*parts, f"## What made this\n\n{made}"]) + "\n"


def report(
    title: str,
    cells: Sequence[CellResult],
    made_by: Mapping[str, str],
    seed: int,
    *,
    by: str | None = None,
    part: Part | None = None,
    counted: tuple[int, int] | None = None,
) -> Report:
    """Draw up the report of a sweep: all questions, those with a gold passage, paired comparisons, plots.

    Args:
        title: of the page.
        cells: what was swept.
        made_by: what data, models, seeds and code made it.
        seed: of the bootstrap.
        by: the question type that rows have under "type", for a table by type.
        part: a paper's table or figure, whose values stand first, beside ours.
        counted: questions before and after the closed-book filter, if there was one.

    """
    every = len(cells[0].rows)
    gold = [cell.only(lambda row: row["provenance"] != "none") for cell in _with_provenance(cells)]
    tables = [measures_table("All questions", f"{every} questions; % and means with 95 % bootstrap intervals", cells, seed)]
    if gold and gold[0].rows:
        over = (
            f"the {len(gold[0].rows)} of {every} questions whose top 100 hold an answer (or whose gold passage is annotated)"
        )
        tables.append(measures_table("Questions with a gold passage", over, gold, seed))
    paired = comparisons_table(cells, seed)
    tables += [paired] if paired.rows else []
    if by:
        tables.append(types_table(cells, by, seed))
    if part:
        tables = beside(part, gold if part.gold_only and gold else cells, seed, counted) + tables
    shown = [cell for cell in cells if cell.k]
    plots = [against_k(shown, name, place, seed) for place in dict.fromkeys(c.gold for c in shown) for name in ("em", "unk")]
    plots += [against_k(shown, "nm", place, seed) for place in dict.fromkeys(c.gold for c in shown)]
    plots += [against_position(gold or shown, k, seed) for k in sorted({c.k for c in shown})]
    if len({c.samples for c in shown}) > 1:
        plots += [against_samples(shown, k, seed) for k in sorted({c.k for c in shown})]
    plots += [tokens_by_strategy(cells, seed)]
    return Report(title, tables, plots, made_by)


def _with_provenance(cells: Sequence[CellResult]) -> list[CellResult]:
    """Return cells whose every row says how the gold passage is known; closed-book rows learn it from the others."""
    known = {row["question_id"]: row["provenance"] for cell in cells if cell.k for row in cell.rows}
    if not known:
        return []
    return [
        c if c.k else replace(c, rows=[{**row, "provenance": known.get(row["question_id"], "none")} for row in c.rows])
        for c in cells
    ]
