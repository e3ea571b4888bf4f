"""The report of a sweep or estimator, rendered as a self-contained HTML page or as Markdown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from winnow.reports.best import build_best_table
from winnow.reports.cells import CellResult, format_question_count
from winnow.reports.comparisons import build_comparison_tables
from winnow.reports.dialects import build_dialect_tables
from winnow.reports.family import Family
from winnow.reports.frontier import plot_frontier
from winnow.reports.glossary import build_glossary
from winnow.reports.latex import format_latex_table
from winnow.reports.notes import (
    build_incident_notes,
    build_missing_steps_notes,
    build_no_verdict_notes,
    build_partial_notes,
    build_reply_notes,
    build_short_context_notes,
)
from winnow.reports.paper import compare_with_paper
from winnow.reports.plots import Plot, plot_against_k, plot_against_position, plot_against_samples
from winnow.reports.reported import PaperPart
from winnow.reports.seeds import build_seeds_table
from winnow.reports.tables import (
    TableView,
    build_breakdown_table,
    build_matrix_table,
    build_metrics_table,
)

PLOTTED_METRICS = ("unk", "nm")
"""Names of the metrics that are plotted next to the first one if all cells have them."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report with tables and plots.

    Attributes:
        title: Title of the page.
        notes: Warnings that are shown above the tables.
        tables: Tables in the order in which they are shown.
        plots: Plots, which Markdown leaves out. The page of a sweep has charts instead.
        provenance: Description of the data, models, seeds and code from which the report was built,
            by topic.
        glossary: Meaning of each column by its name.
        how_to_read: How the differences of the tables are tested, or "" if there are none.
    """

    title: str
    notes: Sequence[str]
    tables: Sequence[TableView]
    plots: Sequence[Plot]
    provenance: Mapping[str, str]
    glossary: Mapping[str, str] = field(default_factory=dict)
    how_to_read: str = ""

    @property
    def shortened_tables(self) -> list[TableView]:
        """Return the tables without columns that are equal in all rows."""
        return [table.drop_constant_columns() for table in self.tables]

    def render_html(self) -> str:
        """Render the report as a self-contained HTML page."""
        from jinja2 import Environment, FileSystemLoader

        environment = Environment(
            loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True
        )
        return environment.get_template("report.html").render(report=self)

    def render_markdown(self) -> str:
        """Render the notes, tables and provenance as Markdown, without the plots."""
        sections = [f"# {self.title}", *(f"> {note}" for note in self.notes)]
        for table in self.shortened_tables:
            rows = [
                [" ".join(str(value).split()).replace("|", "\\|") for value in row]
                for row in (table.columns, *table.rows)
            ]
            rows.insert(1, ["---"] * len(table.columns))
            lines = [f"| {' | '.join(row)} |" for row in rows]
            sections.append(f"## {table.title}\n\n{table.caption}\n\n" + "\n".join(lines))
        if self.how_to_read:
            sections.append(f"## How to read the differences\n\n{self.how_to_read}")
        for title, entries in (("Columns", self.glossary), ("Provenance", self.provenance)):
            if entries:
                sections.append(
                    f"## {title}\n\n"
                    + "\n".join(f"- {name}: {value}" for name, value in entries.items())
                )
        return "\n\n".join(sections) + "\n"

    def render_latex(self) -> str:
        """Render the tables as LaTeX for the package booktabs, one `table` each."""
        return "\n".join(format_latex_table(table) for table in self.shortened_tables)


def build_report(
    title: str,
    family: Family,
    provenance: Mapping[str, str],
    *,
    breakdown: str = "",
    part: PaperPart | None = None,
    filtered: Sequence[tuple[int, int]] = (),
    more_notes: Sequence[str] = (),
) -> Report:
    """Build the report of a sweep from its cells.

    The tables are, in this order: a paper's values next to ours, a matrix of the first metric,
    paired comparisons, those of the best cell, the breakdown, all metrics on all questions and on
    those with a gold passage, and the answers on which the rules of a metric differ.

    Args:
        title: Title of the page.
        family: Cells of the sweep with the tests of their differences.
        provenance: Description of the data, models, seeds and code that produced the numbers, by
            topic.
        breakdown: What the questions are grouped by, for a table of the first metric by group. If
            it is empty, there is no such table.
        part: Table or figure of a paper. If it is given, the first tables compare the cells with
            it.
        filtered: Distinct numbers of questions before and after the closed-book filters of the
            cells; each reader has its own.
        more_notes: Notes on what only the stages know, such as the models and the code behind the
            cells.
    """
    cells, seed = family.cells, family.seed
    gold_cells = _select_gold_questions(cells)
    tables = [build_matrix_table(cells, seed)] if len(cells) > 1 else []
    tables += build_comparison_tables(family)
    best_table = build_best_table(family, is_filtered=bool(filtered))
    if best_table:
        tables.append(best_table)
    if breakdown:
        tables.append(build_breakdown_table(cells, breakdown, seed))
    caption = (
        f"{format_question_count(cells)} questions. The 95 % intervals are Wilson's for shares, "
        "and bootstrap intervals for means and ratios; those of ratios of counts, such as "
        "(3/750), resample the questions to which the counts belong."
    )
    if judges := _describe_judges(cells):
        caption += f" Judged by {judges}."
    tables.append(build_metrics_table("All questions", caption, cells, seed))
    if any(cell.num_questions for cell in gold_cells):
        caption = (
            f"{format_question_count(gold_cells)} of {format_question_count(cells)} questions have "
            "an annotated gold passage or an answer in the retrieved passages."
        )
        tables.append(
            build_metrics_table("Questions with a gold passage", caption, gold_cells, seed)
        )
    spread_table = build_seeds_table(cells, seed)
    if spread_table:
        tables.append(spread_table)
    tables += build_dialect_tables(cells)
    notes = [
        *build_missing_steps_notes(cells),
        *build_short_context_notes(cells),
        *build_reply_notes(cells, seed),
        *build_incident_notes(cells),
        *build_partial_notes(cells, seed),
        *build_no_verdict_notes(cells),
        *more_notes,
    ]
    if part:
        covered_cells = gold_cells if part.gold_only and gold_cells else cells
        paper_tables, paper_notes = compare_with_paper(part, covered_cells, seed, filtered)
        tables, notes = paper_tables + tables, paper_notes + notes
    how_to_read = family.how_to_read if family.num_tests else ""
    return Report(
        title, notes, tables, [], provenance, build_glossary(cells[0].metrics), how_to_read
    )


def _describe_judges(cells: Sequence[CellResult]) -> str:
    """Name the models whose verdicts the judged metrics are, as their servers report them."""
    names = {f"{model} ({role})" for cell in cells if cell.judged for role, model in cell.judges}
    return ", ".join(sorted(names))


def draw_plots(family: Family, cost: str = "tokens") -> list[Plot]:
    """Draw the plots of the first metric and of those in `PLOTTED_METRICS` that all cells have.

    Args:
        family: Cells of the sweep.
        cost: Name of the metric against which the first metric is plotted.
    """
    cells, seed = family.cells, family.seed
    gold_cells = _select_gold_questions(cells)
    with_passages = [cell for cell in cells if cell.labels.k]
    if not with_passages:
        return []
    first = cells[0].metrics[0].name
    placements = list(dict.fromkeys(cell.labels.gold for cell in with_passages))
    ks = sorted({cell.labels.k for cell in with_passages})
    names = [
        name
        for name in dict.fromkeys([first, *PLOTTED_METRICS])
        if _is_defined(with_passages, name, seed)
    ]
    plots = [
        plot_against_k(with_passages, name, gold, seed)
        for gold in placements
        for name in names
        if name != "nm"
    ]
    plots += [
        plot_against_k(with_passages, name, gold, seed)
        for gold in placements
        for name in names
        if name == "nm"
    ]
    if first in names:
        has_gold = any(cell.num_questions for cell in gold_cells)
        position_cells = gold_cells if has_gold else with_passages
        questions = f"{format_question_count(position_cells)} questions"
        questions += " with a gold passage" if has_gold else ""
        plots += [plot_against_position(position_cells, first, k, seed, questions) for k in ks]
        if len({cell.labels.samples for cell in with_passages}) > 1:
            plots += [plot_against_samples(with_passages, first, k, seed) for k in ks]
    if cost != first and all(cell.find_metric(cost) for cell in cells):
        plots += filter(
            None, [plot_frontier(cells, first, cost, gold, seed) for gold in placements]
        )
    return plots


def _is_defined(cells: Sequence[CellResult], metric: str, seed: int) -> bool:
    """Return whether all cells have a metric, and at least one a value."""
    return all(cell.find_metric(metric) for cell in cells) and any(
        cell.compute_interval(metric, seed).n for cell in cells
    )


def _select_gold_questions(cells: Sequence[CellResult]) -> list[CellResult]:
    """Return the cells with only questions that have a gold passage, or [] if all are closed-book.

    Closed-book cells have no passages, so that the cells with passages and the same selection of
    questions say which of their questions have a gold passage.
    """
    if not any(cell.labels.k for cell in cells):
        return []
    gold: list[set[str]] = []
    by_selection: dict[str, set[str]] = {}
    for cell in cells:
        pairs = zip(cell.columns.question_ids, cell.columns.provenances, strict=True)
        gold.append(
            {
                question_id
                for question_id, provenance in pairs
                if cell.labels.k and provenance != "none"
            }
        )
        by_selection.setdefault(cell.labels.questions, set()).update(gold[-1])
    return [
        cell.select_questions(
            question_ids if cell.labels.k else by_selection[cell.labels.questions]
        )
        for cell, question_ids in zip(cells, gold, strict=True)
    ]
