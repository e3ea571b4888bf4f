"""Write the page of a sweep: the answer, charts, tables, and every question with its prompts,
replies and votes.

The page is one file, which needs no server and no network. Prompts are replayed from the ledger,
and no model is loaded. The tables are also Markdown and LaTeX (booktabs), and the numbers of each
cell and each question files that `winnow.load_report` reads. The sweep with the same settings must
be finished; without settings, it is the last one.

python -m flows.report
python -m flows.report experiment=quick_start
python -m flows.report 'metric=[em,unk,judged]' breakdown=gold_rank
# Plots as files, or svg, png
python -m flows.report experiment=quick_start 'report.figures=[pdf,csv]'
# Prompts of more questions than 200
python -m flows.report experiment=quick_start report.questions=500
python -m flows.report -m strategy=concatenation,post_fusion k=1,5,10 report.out=reports/mine
"""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

from flows.project.cases import build_cases, describe_bias, describe_cases, describe_selection
from flows.project.cells import require_finished, resolve_cells
from flows.project.engines import identify_engine_specs
from flows.project.inputs import ArtifactIndex, list_roots
from flows.project.metrics import (
    build_breakdown,
    build_cell_rows,
    list_judging_roles,
    read_results,
)
from flows.project.provenance import describe_provenance, list_filters
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.registry import Stage
from flows.stages.report_folder import ENGINES, open_report_folder
from flows.tools.summary import Summary
from winnow.artifacts.curves import read_curves
from winnow.artifacts.files import write_texts
from winnow.artifacts.frames import CELL_VALUES, QUESTION_VALUES
from winnow.artifacts.provenance import compute_key
from winnow.artifacts.steps import count_control_tokens, count_models
from winnow.metrics.base import Metric
from winnow.metrics.cost import Cost
from winnow.reports.cells import CellResult, name_cells
from winnow.reports.family import Family
from winnow.reports.notes import (
    build_code_notes,
    build_control_token_notes,
    build_model_notes,
    build_unpriced_notes,
)
from winnow.reports.page.cases import Texts
from winnow.reports.page.page import Page, choose_questions
from winnow.reports.plots import FORMATS
from winnow.reports.question_values import write_question_values
from winnow.reports.report import PLOTTED_METRICS, build_report, draw_plots
from winnow.reports.reported import load_paper_part
from winnow.sweeps.spec import CellSpec, QuestionSelection

_LONGEST_NAME = 150
"""Number of bytes of the name of a cell in the name of its file."""
PAGE = "index.html"
"""File of the page in the report's folder."""
FIGURES = "figures"
"""Folder of the plots that `report.figures` asks for, in the report's folder."""


TABLES = ("report.md", "tables.tex", CELL_VALUES, "cells.csv")
"""Files of the tables in the report's folder, which are the same for the same cells and code."""


def report(jobs: Sequence[Settings]) -> Summary:
    """Write the report of the cells of all jobs; every cell must be finished."""
    return report_cells(jobs, resolve_cells(jobs))


def report_cells(jobs: Sequence[Settings], specs: Sequence[CellSpec]) -> Summary:
    """Write the report of the cells of all jobs to `report.out`; every cell must be finished."""
    settings = jobs[0]
    require_finished(specs)
    paper = settings.report.paper
    part = load_paper_part(paper.name, paper.part, paper.dataset, paper.model) if paper else None
    hidden_metrics = [
        *PLOTTED_METRICS,
        settings.report.cost,
        *(part.metrics if part else ()),
        *_list_difference_metrics(part),
    ]
    results = read_results(
        jobs, specs, inputs=("placed", "shown", "ranking"), hidden=hidden_metrics
    )
    chosen = choose_questions(results, settings.report.questions, settings.report.seed)
    texts = Texts()
    cases = build_cases(settings, specs, results, chosen, texts) if chosen else {}
    breakdown = build_breakdown(settings)
    family = Family(results, settings.report.seed)
    made_of = ArtifactIndex(list_roots(settings)).collect([spec.folder for spec in specs])
    tables = build_report(
        f"Winnow: {settings.sweep.name}",
        family,
        describe_provenance(settings, specs, results),
        breakdown=breakdown.title if breakdown else "",
        part=part,
        filtered=_count_filtered([spec.questions for spec in specs]),
        more_notes=[
            *_build_notes(specs, results, made_of),
            *describe_selection(specs),
            *describe_cases(cases, family.num_questions, len(chosen)),
        ],
    )
    keys = [spec.key for spec in specs]
    curves = {folder.name: curves for folder in made_of if (curves := read_curves(folder))}
    page = Page(
        tables, family, texts, cases, settings.report.cost, describe_bias(specs), keys, curves
    )
    out = open_report_folder(settings)
    files = {
        PAGE: page.render(),
        "report.md": tables.render_markdown(),
        "tables.tex": tables.render_latex(),
        CELL_VALUES: _format_metrics(specs, results, settings.report.seed),
        "cells.csv": _format_csv(results),
        ENGINES: json.dumps(_list_engines(specs, results[0].metrics), indent=1) + "\n",
    }
    write_texts(out, files)
    _write_summaries(results, out / "cells")
    write_question_values(results, out / QUESTION_VALUES)
    _save_figures(family, settings, out / FIGURES)
    note = (
        f"{page.story.headline.text}\nPage: {out / PAGE} (open it in a browser; it needs no server "
        "and no network)"
    )
    rows = build_cell_rows(results, page.story.best)
    return Summary(f"{tables.title}, 95 % intervals", rows, note, group="strategy")


def _list_engines(specs: Sequence[CellSpec], metrics: Sequence[Metric]) -> list[str]:
    """Return the identities in the ledger of the engines that answered the cells or judged them."""
    roles = list_judging_roles(metrics)
    engines = {
        engine.key: engine
        for spec in specs
        for engine in (*spec.engines, *map(spec.resolve_engine, roles))
    }
    identities = [identify_engine_specs([engine]).values() for engine in engines.values()]
    return sorted({identity for own in identities for identity in own})


def _count_filtered(selections: Sequence[QuestionSelection]) -> list[tuple[int, int]]:
    """Count the questions before and after each distinct closed-book filter."""
    counts = [one.count_questions() for one in dict.fromkeys(selections)]
    return list(filter(None, counts))


def _build_notes(
    specs: Sequence[CellSpec], results: Sequence[CellResult], made_of: Sequence[Path]
) -> list[str]:
    """Return notes on reader and judge models unless several are allowed, and on changed code."""
    filters = list_filters(specs)
    counts = [count_models(spec.folder) for spec in specs]
    models = [
        {
            **({} if _allows_changes(spec, "reader") else count),
            **({} if _allows_changes(spec, "judge") else result.judges),
        }
        for spec, result, count in zip(specs, results, counts, strict=True)
    ]
    has_cost = any(isinstance(metric, Cost) for metric in (*results[0].metrics, *results[0].hidden))
    names = [*name_cells(results), *(f"closed-book filter {folder.name}" for folder in filters)]
    return [
        *build_model_notes(names, [*models, *map(count_models, filters)]),
        *build_control_token_notes([count_control_tokens(spec.folder) for spec in specs]),
        *build_code_notes(made_of),
        *(build_unpriced_notes([spec.prices for spec in specs], counts) if has_cost else []),
    ]


def _allows_changes(spec: CellSpec, role: str) -> bool:
    """Return whether a role's settings, or else the reader's, allow replies of several models."""
    node = spec.config.get(role) or spec.config["reader"]
    return bool(node["engine"].get("model_change") == "allow")


def _list_difference_metrics(part: object) -> list[str]:
    """Return the metrics of the differences that the paper's table reports."""
    return [difference.metric for difference in getattr(part, "differences", ())]


def _format_metrics(specs: Sequence[CellSpec], results: Sequence[CellResult], seed: int) -> str:
    """Return the cells' keys, labels and metrics [mean, low, high, n] as JSON, null if undefined.

    n is the number of questions of the value.

    `seed` is the seed of the bootstrap.
    """
    body = []
    for cell, spec, result in zip(name_cells(results), specs, results, strict=True):
        labels = result.labels
        names = {"cell": cell, "key": spec.key}
        names |= {
            name: getattr(labels, name)
            for name in ("strategy", "k", "gold", "samples", "setting", "seed")
        }
        intervals = {
            metric.name: result.compute_interval(metric.name, seed) for metric in result.metrics
        }
        bounds = {
            name: (
                [interval.mean, interval.low, interval.high, interval.n]
                if interval.n
                else [None, None, None, 0]
            )
            for name, interval in intervals.items()
        }
        body.append({**names, **bounds})
    return json.dumps(body, indent=1) + "\n"


def _write_summaries(results: Sequence[CellResult], folder: Path) -> None:
    """Write each cell's headline metrics to its own JSON file, a row of `dvc metrics show`."""
    texts: dict[str, str] = {}
    for name, result in zip(name_cells(results), results, strict=True):
        file = name.replace("/", "_")
        if len(file.encode()) > _LONGEST_NAME or file != name:
            file = (
                f"{file.encode()[:_LONGEST_NAME].decode(errors='ignore')} "
                f"{compute_key({'cell': name})}"
            )
        texts[f"{file}.json"] = json.dumps(_compute_headline_values(result), indent=1)
    write_texts(folder, texts)
    for path in folder.glob("*.json"):
        if path.name not in texts:
            path.unlink()


def _save_figures(family: Family, settings: Settings, folder: Path) -> None:
    """Save the plots in the formats of `report.figures`, and remove those of a former report."""
    extensions = settings.report.figures
    folder.mkdir(exist_ok=True)
    plots = draw_plots(family, settings.report.cost) if extensions else ()
    saved_files = {plot.save(folder, extension) for plot in plots for extension in extensions}
    for path in folder.iterdir():
        if path not in saved_files and path.suffix.removeprefix(".") in FORMATS:
            path.unlink()
    if not saved_files and not any(folder.iterdir()):
        folder.rmdir()


def _format_csv(results: Sequence[CellResult]) -> str:
    """Return a CSV for `dvc plots` with a row of labels and headline metrics per cell."""
    text = io.StringIO()
    rows = []
    for name, result in zip(name_cells(results), results, strict=True):
        labels = result.labels
        names = {
            "cell": name,
            "strategy": labels.strategy,
            "k": labels.k,
            "gold": labels.gold,
            "setting": labels.setting,
        }
        rows.append(names | _compute_headline_values(result) | {"questions": result.num_questions})
    writer = csv.DictWriter(
        text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _compute_headline_values(result: CellResult) -> dict[str, float]:
    """Return the means of the defined headline metrics, rates in percent, rounded as in tables.

    A mean over a part of the questions has their number next to it, as `<metric>_n`.
    """
    intervals = {metric: result.compute_interval(metric.name, 0) for metric in result.headlines}
    values: dict[str, float] = {}
    for metric, interval in intervals.items():
        if interval.n:
            values[metric.name] = round(interval.mean * (100 if metric.unit == "percent" else 1), 3)
            if interval.n < result.num_questions:
                values[f"{metric.name}_n"] = interval.n
    return values


STAGE = Stage(
    report,
    reads=("sweep",),
    settings=("report",),
    grid=True,
    seeds="each",
    last_sweep="used",
)
main = make_main(STAGE)
if __name__ == "__main__":
    main()
