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
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.project.cases import build_cases, describe_bias, describe_cases, describe_selection
from flows.project.cells import needs_relevance, require_finished, resolve_cells
from flows.project.inputs import ArtifactIndex, list_roots
from flows.project.metrics import build_breakdown, build_cell_rows, read_results
from flows.project.models import is_trained
from flows.settings.composition import describe_option
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.registry import Stage
from flows.stages.report_folder import open_report_folder
from flows.tools.summary import Summary
from winnow.artifacts.curves import read_curves
from winnow.artifacts.files import write_texts
from winnow.artifacts.frames import CELL_VALUES, QUESTION_VALUES
from winnow.artifacts.provenance import compute_key, describe_code, read_manifest
from winnow.artifacts.steps import count_control_tokens, count_models
from winnow.records import Decoding
from winnow.reports.cells import CellResult, name_cells
from winnow.reports.family import Family
from winnow.reports.notes import build_code_notes, build_control_token_notes, build_model_notes
from winnow.reports.page.cases import Texts
from winnow.reports.page.page import Page, choose_questions
from winnow.reports.question_values import write_question_values
from winnow.reports.report import PLOTTED_METRICS, build_report, draw_plots
from winnow.reports.reported import load_paper_part
from winnow.sweeps.spec import CellSpec

_GROUPS_OF_READERS = (
    "strategy",
    "reader",
    "training",
    "prompt",
    "joint",
    "dataset",
    "corpus",
    "retriever",
    "encoder",
)
"""Settings on which the weights of a reader depend."""
_LONGEST_NAME = 150
"""Number of bytes of the name of a cell in the name of its file."""
PAGE = "index.html"
"""File of the page in the report's folder."""


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
    chosen, texts = (
        choose_questions(results, settings.report.questions, settings.report.seed),
        Texts(),
    )
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
        filtered=specs[0].questions.count_questions(),
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
    }
    write_texts(out, files)
    _write_summaries(results, out / "cells")
    write_question_values(results, out / QUESTION_VALUES)
    for plot in draw_plots(family, settings.report.cost) if settings.report.figures else ():
        for extension in settings.report.figures:
            plot.save(out, extension)
    note = (
        f"{page.story.headline.text}\nPage: {out / PAGE} (open it in a browser; it needs no server "
        "and no network)"
    )
    rows = build_cell_rows(results, page.story.best)
    return Summary(f"{tables.title}, 95 % intervals", rows, note, group="strategy")


def _build_notes(
    specs: Sequence[CellSpec], results: Sequence[CellResult], made_of: Sequence[Path]
) -> list[str]:
    """Return notes on the models that answered and judged, unless settings allow several, and on
    code that was changed.
    """
    filters = _list_filters(specs)
    models = [
        {
            **({} if _allows_changes(spec, "reader") else count_models(spec.folder)),
            **({} if _allows_changes(spec, "judge") else result.judges),
        }
        for spec, result in zip(specs, results, strict=True)
    ]
    names = [*name_cells(results), *(f"closed-book filter {folder.name}" for folder in filters)]
    return [
        *build_model_notes(names, [*models, *map(count_models, filters)]),
        *build_control_token_notes([count_control_tokens(spec.folder) for spec in specs]),
        *build_code_notes(made_of),
    ]


def _allows_changes(spec: CellSpec, role: str) -> bool:
    """Return whether the settings of a role allow replies of several models; a judge without any
    has the reader's.
    """
    node = spec.config.get(role) or spec.config["reader"]
    return bool(node["engine"].get("model_change") == "allow")


def _list_difference_metrics(part: object) -> list[str]:
    """Return the metrics of the differences that the paper's table reports."""
    return [difference.metric for difference in getattr(part, "differences", ())]


def _format_metrics(specs: Sequence[CellSpec], results: Sequence[CellResult], seed: int) -> str:
    """Return the keys and labels of all cells and [mean, low, high, n] of their metrics, null where
    undefined, as JSON.

    n is the number of questions of the value.

    `seed` is that of the bootstrap.
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
    """Write the headline metrics of each cell to a JSON file with its name, each of which is a row
    of `dvc metrics show`.
    """
    texts: dict[str, str] = {}
    for name, result in zip(name_cells(results), results, strict=True):
        file = name.replace("/", "_")
        if len(file.encode()) > _LONGEST_NAME:
            file = (
                f"{file.encode()[:_LONGEST_NAME].decode(errors='ignore')} "
                f"{compute_key({'cell': name})}"
            )
        texts[f"{file}.json"] = json.dumps(_compute_headline_values(result), indent=1)
    write_texts(folder, texts)
    for path in folder.glob("*.json"):
        if path.name not in texts:
            path.unlink()


def _format_csv(results: Sequence[CellResult]) -> str:
    """Return a row per cell with its labels and headline metrics as CSV, which `dvc
    plots` reads.
    """
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
    """Return the means of the defined headline metrics, rates in percent, rounded as tables show
    them.

    A mean over a part of the questions has their number beside it, as `<metric>_n`.
    """
    intervals = {metric: result.compute_interval(metric.name, 0) for metric in result.headlines}
    values: dict[str, float] = {}
    for metric, interval in intervals.items():
        if interval.n:
            values[metric.name] = round(interval.mean * (100 if metric.unit == "percent" else 1), 3)
            if interval.n < result.num_questions:
                values[f"{metric.name}_n"] = interval.n
    return values


def describe_provenance(
    settings: Settings, specs: Sequence[CellSpec], results: Sequence[CellResult] = ()
) -> Mapping[str, str]:
    """Describe the data, models, seeds and code from which the cells were computed."""
    return {
        **_describe_strategies(specs),
        "Data": _join(map(_describe_data, _select_distinct(specs, ("corpus", "dataset", "sweep")))),
        "Retriever": _join(
            map(
                _describe_retriever,
                _select_distinct(specs, ("retriever", "encoder", "depth", "rank_by", "k")),
            )
        ),
        "Reader": _join(map(_describe_reader, _select_first(specs, _GROUPS_OF_READERS))),
        "Models that answered": _describe_models(count_models(spec.folder) for spec in specs),
        **_describe_other_models(specs, results),
        "Decoding": _join(map(_describe_decoding, _select_distinct(specs, ("decoding",)))),
        "Seeds": _describe_seeds(settings, specs),
        "Code": _describe_code(specs),
        "Cells": ", ".join(spec.folder.name for spec in specs),
    }


def _describe_strategies(specs: Iterable[CellSpec]) -> dict[str, str]:
    """Return what each strategy in conf/strategy does."""
    texts = {
        f"Strategy {name}": describe_option("strategy", name)
        for name in (spec.labels.strategy for spec in specs)
    }
    return {title: text for title, text in texts.items() if text}


def _select_distinct(specs: Iterable[CellSpec], groups: Sequence[str]) -> list[Settings]:
    """Return the settings of the first cell with each combination of the settings of
    these groups.
    """
    return [Settings.load(dict(spec.config)) for spec in _select_first(specs, groups)]


def _select_first(specs: Iterable[CellSpec], groups: Sequence[str]) -> list[CellSpec]:
    """Return the first cell with each combination of the settings of these groups."""
    distinct: dict[str, CellSpec] = {}
    for spec in specs:
        distinct.setdefault(str([spec.config.get(group) for group in groups]), spec)
    return list(distinct.values())


def _join(values: Iterable[str]) -> str:
    """Join the distinct values of all cells."""
    return "; ".join(dict.fromkeys(value for value in values if value))


def _describe_data(cell: Settings) -> str:
    limit = "" if cell.sweep.limit is None else f", first {cell.sweep.limit} questions"
    reader = cell.closed_book.reader.name if cell.closed_book.reader else "the reader"
    which = "only" if cell.sweep.closed_book_keeps == "known" else "without"
    filtered = (
        f", {which} those that {reader} answers closed-book"
        if cell.sweep.closed_book_filter
        else ""
    )
    return (
        f"corpus {cell.corpus.name}, questions {cell.dataset.name}, split "
        f"{cell.sweep.split}{limit}{filtered}"
    )


def _describe_retriever(cell: Settings) -> str:
    """Return the retriever of a cell, with its encoder if it has one; nothing for a cell without
    passages.
    """
    if not cell.k:
        return ""
    encoders = [
        cell.encoder.name if node == cell.encoder.model.plain else str(node.get("path"))
        for node in _iter_encoders(cell.retriever.engine.plain)
    ]
    encoder = f" (encoder {_join(encoders)})" if encoders else ""
    return f"{cell.retriever.name}{encoder}, depth {cell.depth}, ranked by {cell.rank_by}"


def _iter_encoders(node: Any) -> Iterator[dict[str, Any]]:
    """Yield the settings of the encoders of a retriever and of its members."""
    for name, value in node.items() if isinstance(node, dict) else ():
        if name == "encoder":
            yield value
        else:
            yield from _iter_encoders(value)


def _describe_reader(spec: CellSpec) -> str:
    """Return the reader of a cell with its weights, and its precision or server, as they are
    recorded in the cell's key.
    """
    cell, inputs = spec.config, spec.identity["inputs"]
    if not Settings.load(dict(cell)).strategy.uses_reader:
        return ""
    place = inputs["reader"].get("dtype") or inputs["reader"].get("server")
    return f"{cell['reader']['name']} ({inputs['weights']}, {place})"


def _describe_models(models: Iterable[Mapping[tuple[str, str], int]]) -> str:
    """Return the models of all replies, by the names that servers report, and the runtimes of local
    ones.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for one in models:
        counts.update(one)
    return "; ".join(
        f"{role}: {model} ({count} replies)" for (role, model), count in sorted(counts.items())
    )


def _list_filters(specs: Sequence[CellSpec]) -> list[Path]:
    """Return the folders of the closed-book artifacts by which the questions of the cells were
    selected.
    """
    return list(
        dict.fromkeys(
            spec.questions.closed_book.parent for spec in specs if spec.questions.closed_book
        )
    )


def _describe_other_models(
    specs: Sequence[CellSpec], results: Sequence[CellResult]
) -> dict[str, str]:
    """Return the models of the closed-book filter and of judged metrics, if there are any."""
    judges = {id(result.judges): result.judges for result in results if result.judges}
    lines = {
        "Closed-book filter": _describe_models(map(count_models, _list_filters(specs))),
        "Judged by": _describe_models(judges.values()),
    }
    return {name: line for name, line in lines.items() if line}


def _describe_decoding(cell: Settings) -> str:
    decoding: Decoding = cell.decoding.build()
    kind = f"temperature {decoding.temperature}" if decoding.temperature else "greedy"
    samples = f", {decoding.samples} samples" if decoding.samples > 1 else ""
    return f"{kind}, at most {decoding.max_new_tokens} new tokens{samples}"


def _describe_seeds(settings: Settings, specs: Sequence[CellSpec]) -> str:
    """Return the seeds of the splits, of trainings that the cells use, and of the bootstrap."""
    cells = _select_distinct(
        specs, ("dataset", "reader", "training", "estimator", "joint", "rank_by", "weighting")
    )
    seeds = [f"split {_join(str(cell.dataset.split.get('seed', 'none')) for cell in cells)}"]
    labeled = list(dict.fromkeys(spec.labels.seed for spec in specs if spec.labels.seed))
    if labeled:
        seeds.append(f"training {', '.join(labeled)}")
    else:
        readers = _join(str(cell.training.seed) for cell in cells if is_trained(cell, cell.reader))
        estimators = _join(
            str(cell.joint.settings.build().seed)
            for cell in cells
            if needs_relevance(cell) and cell.estimator.trained
        )
        seeds += [f"training of the reader {readers}"] if readers else []
        seeds += [f"training of the estimator {estimators}"] if estimators else []
    return ", ".join([*seeds, f"bootstrap {settings.report.seed}"])


def _describe_code(specs: Sequence[CellSpec]) -> str:
    """Describe the code that computed the cells, which may differ from the current checkout."""
    manifests = [read_manifest(spec.folder) for spec in specs]
    counts = Counter(describe_code(manifests))
    if len(counts) > 1:
        return "mixed: " + "; ".join(
            f"revision {code} ({count} cells)" for code, count in counts.items()
        )
    libraries = ", ".join(f"{name} {number}" for name, number in manifests[0]["versions"].items())
    return f"revision {manifests[0]['git']}; {libraries}"


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
