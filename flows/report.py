"""Build the report of a sweep: a self-contained HTML page, and the same tables as Markdown.

python -m flows.report experiment=quick_start
python -m flows.report 'metric=[em,unk,judged]' breakdown=gold_rank
python -m flows.report -m strategy=concatenation,post_fusion k=1,5,10 report.out=reports/mine
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from omegaconf import DictConfig

from flows import _models
from flows._artifacts import Project
from flows._cells import resolve_cells
from flows._entry import make_main
from flows._metrics import build_breakdown, read_results
from flows._summary import Summary
from winnow.artifacts.files import atomic_write
from winnow.artifacts.provenance import describe_code, read_manifest
from winnow.errors import MissingArtifactError
from winnow.reports.cells import CellResult
from winnow.reports.page import PLOTTED_METRICS, build_report
from winnow.reports.reported import load_paper_part
from winnow.sweeps.spec import CellSpec


def report(configs: Sequence[DictConfig]) -> Summary:
    """Write the report of the cells of all jobs; every cell must be finished."""
    cfg, specs = configs[0], resolve_cells(configs)
    _require_finished(specs)
    paper = cfg.report.paper
    part = load_paper_part(paper.name, paper.part, paper.dataset, paper.model) if paper else None
    hidden_metrics = [*PLOTTED_METRICS, *(part.metrics if part else ()), *_list_difference_metrics(part)]
    results = read_results(cfg, specs, hidden=hidden_metrics)
    breakdown = build_breakdown(cfg)
    page = build_report(
        f"Winnow: {cfg.sweep.name}",
        results,
        _describe_provenance(cfg, specs),
        cfg.report.seed,
        breakdown=breakdown.title if breakdown else "",
        part=part,
        filtered=specs[0].questions.count_questions(),
    )
    out = Path(cfg.report.out)
    for name, text in (
        ("report.html", page.render_html()),
        ("report.md", page.render_markdown()),
        ("metrics.json", _format_metrics(results, cfg.report.seed)),
    ):
        with atomic_write(out / name, required_bytes=2**24) as partial:
            partial.write_text(text, encoding="utf-8")
    table = page.tables[0]
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return Summary(f"{page.title}: {table.caption}", rows, f"Report: {out / 'report.html'}")


def _require_finished(specs: Sequence[CellSpec]) -> None:
    missing = [spec for spec in specs if not spec.is_finished]
    if missing:
        raise MissingArtifactError(
            f"{len(missing)} of {len(specs)} cells are not finished, such as {missing[0].folder}. Run `python -m flows.sweep` "
            "with the same settings first.",
            "sweep",
        )


def _list_difference_metrics(part: object) -> list[str]:
    """Return the metrics of the differences that the paper's table reports."""
    return [difference.metric for difference in getattr(part, "differences", ())]


def _format_metrics(results: Sequence[CellResult], seed: int) -> str:
    """Return the labels of all cells and [mean, low, high] of their metrics as JSON; `seed` is that of the bootstrap."""
    body = []
    for result in results:
        labels = result.labels
        names = {name: getattr(labels, name) for name in ("strategy", "k", "gold", "samples", "setting", "seed")}
        intervals = {metric.name: result.compute_interval(metric.name, seed) for metric in result.metrics}
        bounds = {name: [interval.mean, interval.low, interval.high] for name, interval in intervals.items() if interval.n}
        body.append({**names, **bounds})
    return json.dumps(body, indent=1) + "\n"


def _describe_provenance(cfg: DictConfig, specs: Sequence[CellSpec]) -> Mapping[str, str]:
    """Describe the data, models, seeds and code from which the cells were computed."""
    project = Project(cfg)
    weights = _models.identify_reader_weights(project, cfg.reader, cfg.prompt)
    filtered = ", without those that the reader answers closed-book" if cfg.sweep.closed_book_filter else ""
    return {
        "Data": f"corpus {cfg.corpus.name}, questions {cfg.dataset.name}, split {cfg.sweep.split}{filtered}",
        "Retriever": f"{cfg.retriever.name}, ranked by {cfg.rank_by}",
        "Reader": f"{cfg.reader.name} ({weights}, {_describe_precision(project)})",
        "Seeds": f"split {cfg.dataset.split.get('seed', 'none')}, training {_format_training_seeds(specs, cfg)}, "
        f"bootstrap {cfg.report.seed}",
        "Code": _describe_code(specs),
        "Cells": ", ".join(spec.folder.name for spec in specs),
    }


def _format_training_seeds(specs: Sequence[CellSpec], cfg: DictConfig) -> str:
    """Return the training seeds of the cells, or those of the settings if no cell is labelled with one."""
    seeds = list(dict.fromkeys(spec.labels.seed for spec in specs if spec.labels.seed))
    return ", ".join(seeds) or f"{cfg.training.seed} (reader), {cfg.joint.settings.seed} (estimator)"


def _describe_code(specs: Sequence[CellSpec]) -> str:
    """Describe the code that computed the cells, which may differ from the current checkout."""
    manifests = [read_manifest(spec.folder) for spec in specs]
    counts = Counter(describe_code(manifests))
    if len(counts) > 1:
        return "mixed: " + "; ".join(f"revision {code} ({count} cells)" for code, count in counts.items())
    libraries = ", ".join(f"{name} {number}" for name, number in manifests[0]["versions"].items())
    return f"revision {manifests[0]['git']}; {libraries}"


def _describe_precision(project: Project) -> str:
    """Return the precision of a local reader, or the server of a remote one."""
    engine = project.pinned.identify_settings(project.cfg.reader.engine)
    return str(engine.get("dtype") or engine.get("server"))


main = make_main(report, grid=True, seeds="each")
if __name__ == "__main__":
    main()
