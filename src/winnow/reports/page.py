"""One self-contained HTML page, and the same tables as Markdown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from winnow.metrics.base import Sample
from winnow.reports.cells import CellResult, TableView, breakdown_table, comparisons_table, metrics_table
from winnow.reports.paper import PaperPart, paper_tables
from winnow.reports.plots import against_k, against_position, against_samples, tokens_by_strategy

PLOTTED = ("em", "unk", "nm", "tokens")
"""The metrics that the page plots, where a cell has them."""


@dataclass(frozen=True, slots=True)
class Report:
    """Tables, plots (SVG) and their provenance."""

    title: str
    tables: Sequence[TableView]
    plots: Sequence[str]
    provenance: Mapping[str, str]

    def html(self) -> str:
        """Return the page; it refers to nothing outside itself."""
        environment = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True)
        return environment.get_template("page.html").render(report=self)

    def markdown(self) -> str:
        """Return the tables and their provenance."""
        parts = [f"# {self.title}"]
        for table in self.tables:
            lines = [f"| {' | '.join(row)} |" for row in (table.columns, ["---"] * len(table.columns), *table.rows)]
            parts.append(f"## {table.title}\n\n{table.caption}\n\n" + "\n".join(lines))
        provenance = "\n".join(f"- {name}: {value}" for name, value in self.provenance.items())
        return "\n\n".join([*parts, f"## Provenance\n\n{provenance}"]) + "\n"


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
    """Build the report of a sweep: all questions, those with a gold passage, paired comparisons, plots.

    Args:
        title: of the page.
        cells: the sweep's.
        provenance: which data, models, seeds and code the numbers come from.
        seed: of the bootstrap.
        breakdown: the title of the cells' groups, for a table by group.
        part: a paper's table or figure, whose values come first, beside ours.
        filtered: questions before and after the closed-book filter, if there was one.

    """
    total = len(cells[0].samples)
    gold = [cell.subset(_has_gold) for cell in _with_provenance(cells)]
    tables = [metrics_table("All questions", f"{total} questions; % and means with 95 % bootstrap intervals", cells, seed)]
    if gold and gold[0].samples:
        count = len(gold[0].samples)
        caption = f"the {count} of {total} questions whose top 100 hold an answer (or whose gold passage is annotated)"
        tables.append(metrics_table("Questions with a gold passage", caption, gold, seed))
    comparisons = comparisons_table(cells, seed)
    tables += [comparisons] if comparisons.rows else []
    if breakdown:
        tables.append(breakdown_table(cells, breakdown, seed))
    if part:
        tables = paper_tables(part, gold if part.gold_only and gold else cells, seed, filtered) + tables
    return Report(title, tables, _plots(cells, gold, seed), provenance)


def _plots(cells: Sequence[CellResult], gold: Sequence[CellResult], seed: int) -> list[str]:
    with_passages = [cell for cell in cells if cell.labels.k]
    known = {name for name in PLOTTED if all(cell.metric(name) for cell in cells)}
    placements = list(dict.fromkeys(cell.labels.gold for cell in with_passages))
    ks = sorted({cell.labels.k for cell in with_passages})
    plots = [against_k(with_passages, name, place, seed) for place in placements for name in ("em", "unk") if name in known]
    plots += [against_k(with_passages, "nm", place, seed) for place in placements if "nm" in known]
    if "em" in known:
        plots += [against_position(gold or with_passages, k, seed) for k in ks]
        if len({cell.labels.samples for cell in with_passages}) > 1:
            plots += [against_samples(with_passages, k, seed) for k in ks]
    return [*plots, tokens_by_strategy(cells, seed)] if "tokens" in known else plots


def _has_gold(sample: Sample) -> bool:
    return sample.prediction.provenance != "none"


def _with_provenance(cells: Sequence[CellResult]) -> list[CellResult]:
    """Return cells whose every prediction has the question's gold provenance; closed-book cells get it from the others."""
    known = {
        sample.question.question_id: sample.prediction.provenance for cell in cells if cell.labels.k for sample in cell.samples
    }
    if not known:
        return []

    def informed(sample: Sample) -> Sample:
        provenance = known.get(sample.question.question_id, "none")
        return replace(sample, prediction=replace(sample.prediction, provenance=provenance))

    return [cell if cell.labels.k else replace(cell, samples=[informed(sample) for sample in cell.samples]) for cell in cells]
