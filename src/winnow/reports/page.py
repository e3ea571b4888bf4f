"""The report of a sweep: one self-contained HTML page, and the same tables as Markdown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from winnow.metrics.base import Sample
from winnow.reports.cells import CellResult, TableView, breakdown_table, metrics_table
from winnow.reports.comparisons import comparison_tables
from winnow.reports.notes import reply_notes
from winnow.reports.paper import compare_with_paper
from winnow.reports.plots import against_k, against_position, against_samples, tokens_by_strategy
from winnow.reports.reported import PaperPart
from winnow.reports.seeds import seeds_table

PLOTTED = ("em", "unk", "nm", "tokens")
"""Metrics that the page plots if all cells have them."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report: notes that qualify its numbers, tables, plots as SVG, and the provenance of both."""

    title: str
    notes: Sequence[str]
    tables: Sequence[TableView]
    plots: Sequence[str]
    provenance: Mapping[str, str]

    def html(self) -> str:
        """Render a self-contained HTML page."""
        environment = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True)
        return environment.get_template("page.html").render(report=self)

    def markdown(self) -> str:
        """Render the tables and their provenance as Markdown."""
        sections = [f"# {self.title}", *(f"> {note}" for note in self.notes)]
        for table in self.tables:
            lines = [f"| {' | '.join(row)} |" for row in (table.columns, ["---"] * len(table.columns), *table.rows)]
            sections.append(f"## {table.title}\n\n{table.caption}\n\n" + "\n".join(lines))
        provenance = "\n".join(f"- {name}: {value}" for name, value in self.provenance.items())
        return "\n\n".join([*sections, f"## Provenance\n\n{provenance}"]) + "\n"


def build_report(
    title: str,
    cells: Sequence[CellResult],
    provenance: Mapping[str, str],
    seed: int,
    *,
    breakdown: str = "",
    part: PaperPart | None = None,
    filtered: tuple[int, int] | None = None,
) -> Report:
    """Build the report of a sweep: metrics on all questions and on those with a gold passage, comparisons and plots.

    Args:
        title: Title of the page.
        cells: Cells of the sweep.
        provenance: Data, models, seeds and code that produced the numbers.
        seed: Seed of the bootstrap.
        breakdown: Title of the breakdown, for a table by group; empty for none.
        part: Table or figure of a paper, to be compared with our cells in the first tables.
        filtered: Number of questions before and after the closed-book filter, or None without the filter.

    """
    total = len(cells[0].samples)
    gold = [cell.subset(_has_gold) for cell in _with_provenance(cells)]
    caption = f"{total} questions; shares with Wilson's 95 % intervals, means and ratios with bootstrap ones"
    tables = [metrics_table("All questions", caption, cells, seed)]
    if gold and gold[0].samples:
        count = len(gold[0].samples)
        caption = f"the {count} of {total} questions with an annotated gold passage or an answer in the retrieved passages"
        tables.append(metrics_table("Questions with a gold passage", caption, gold, seed))
    spread = seeds_table(cells, seed)
    tables += [spread] if spread else []
    tables += comparison_tables(cells, seed)
    if breakdown:
        tables.append(breakdown_table(cells, breakdown, seed))
    notes = reply_notes(cells, seed)
    if part:
        covered = gold if part.gold_only and gold else cells
        paper_tables, paper_notes = compare_with_paper(part, covered, seed, filtered)
        tables, notes = paper_tables + tables, paper_notes + notes
    return Report(title, notes, tables, _plots(cells, gold, seed), provenance)


def _plots(cells: Sequence[CellResult], gold: Sequence[CellResult], seed: int) -> list[str]:
    with_passages = [cell for cell in cells if cell.labels.k]
    available = {name for name in PLOTTED if all(cell.metric(name) for cell in cells)}
    placements = list(dict.fromkeys(cell.labels.gold for cell in with_passages))
    ks = sorted({cell.labels.k for cell in with_passages})
    plots = [
        against_k(with_passages, name, placement, seed)
        for placement in placements
        for name in ("em", "unk")
        if name in available
    ]
    plots += [against_k(with_passages, "nm", placement, seed) for placement in placements if "nm" in available]
    if "em" in available:
        plots += [against_position(gold or with_passages, k, seed) for k in ks]
        if len({cell.labels.samples for cell in with_passages}) > 1:
            plots += [against_samples(with_passages, k, seed) for k in ks]
    return [*plots, tokens_by_strategy(cells, seed)] if "tokens" in available else plots


def _has_gold(sample: Sample) -> bool:
    return sample.prediction.provenance != "none"


def _with_provenance(cells: Sequence[CellResult]) -> list[CellResult]:
    """Copy the gold provenance of each question from the other cells to the closed-book cells.

    The result is empty if all cells are closed-book.
    """
    provenances = {
        sample.question.question_id: sample.prediction.provenance for cell in cells if cell.labels.k for sample in cell.samples
    }
    if not provenances:
        return []

    def add_provenance(sample: Sample) -> Sample:
        provenance = provenances.get(sample.question.question_id, "none")
        return replace(sample, prediction=replace(sample.prediction, provenance=provenance))

    return [
        cell if cell.labels.k else replace(cell, samples=[add_provenance(sample) for sample in cell.samples]) for cell in cells
    ]
