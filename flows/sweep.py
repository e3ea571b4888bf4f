"""Answer questions in every cell of a sweep, where each distinct model call is made only once.

A cell is one combination of settings, such as a strategy, k and a placement of the contexts.

python -m flows.sweep strategy=post_fusion k=5
python -m flows.sweep -m strategy=concatenation,post_fusion k=1,5,10
python -m flows.sweep -m k=5,10,20 dry_run=true
python -m flows.sweep experiment=quick_start
"""

from collections.abc import Iterator, Sequence
from typing import Any

from omegaconf import DictConfig

from flows._cells import is_filter_pending, print_equivalent_cell, resolve_cells
from flows._engines import build_dry_run_rows, describe_usage, iter_outcomes, open_engines, open_ledger
from flows._entry import make_main
from flows._metrics import compute_metrics_digest, read_results
from flows._summary import Summary
from flows._track import log_cell, open_tracker
from winnow.artifacts.provenance import MANIFEST, write_manifest
from winnow.artifacts.tables import read_predictions
from winnow.driver import RunStats
from winnow.reports.cells import CellResult
from winnow.sweeps.run import LoadedCell, iter_jobs, load_cells, run_cells
from winnow.sweeps.spec import CellSpec

_FILTER_PENDING_NOTE = "The closed-book filter has not run yet, so the first questions of the split are counted without it."
_ALL_FINISHED_NOTE = "Every cell was finished already; no call was made."


def sweep(configs: Sequence[DictConfig]) -> Summary:
    """Run the unfinished cells of all jobs, with one driver per set of engines, and log every cell to MLflow."""
    specs = resolve_cells(configs)
    cells = load_cells(specs)
    groups = list(_group_by_engines(cells))
    if configs[0].dry_run:
        counted: set[bytes] = set()
        rows = [row for group in groups for row in _dry_run(configs[0], group, counted)]
        note = _FILTER_PENDING_NOTE if is_filter_pending(configs[0]) else ""
        return Summary("Dry run: no call was made", rows, note)
    unfinished = [_select_unfinished(configs[0], group) for group in groups]
    print_equivalent_cell(configs)
    notes = [_run_cells(configs[0], group) for group in unfinished if group]
    results = read_results(configs[0], specs)
    _log_to_mlflow(configs[0], cells, results)
    rows = [_build_row(cell, result) for cell, result in zip(cells, results, strict=True)]
    return Summary(f"Sweep {configs[0].sweep.name}, 95 % intervals", rows, "\n".join(notes) or _ALL_FINISHED_NOTE)


def _group_by_engines(cells: Sequence[LoadedCell]) -> Iterator[list[LoadedCell]]:
    """Yield the groups of cells that can share a driver because their engines are the same."""
    groups: dict[tuple[tuple[str, str], ...], list[LoadedCell]] = {}
    for cell in cells:
        groups.setdefault(tuple((engine.role, engine.key) for engine in cell.spec.engines), []).append(cell)
    yield from groups.values()


def _select_unfinished(cfg: DictConfig, cells: Sequence[LoadedCell]) -> list[LoadedCell]:
    """Return the cells that are not finished and, with `sweep.retry_empty`, those with replies without text."""
    return [cell for cell in cells if not cell.spec.is_finished or (cfg.sweep.retry_empty and _has_empty_replies(cell.spec))]


def _has_empty_replies(spec: CellSpec) -> bool:
    return any(usage.empty for prediction in read_predictions(spec.predictions) for usage in prediction.usage)


def _run_cells(cfg: DictConfig, cells: Sequence[LoadedCell]) -> str:
    """Run cells with the same engines, and return a summary of the calls and their cost."""
    specs, stats = cells[0].spec.engines, RunStats()
    engines = open_engines(specs)
    if cfg.sweep.retry_empty:
        for cell in cells:
            (cell.spec.folder / MANIFEST).unlink(missing_ok=True)  # so that they count as unfinished if the run is killed
    with open_ledger(cfg, retry_empty=cfg.sweep.retry_empty) as ledger:
        run_cells(cells, lambda jobs, total: iter_outcomes(engines, ledger, jobs, total, "sweeping", stats), _finish_cell)
    return describe_usage(stats, {spec.role: spec.price for spec in specs})


def _finish_cell(spec: CellSpec, rows: int) -> None:
    """Write the manifest of a cell, which marks it as finished."""
    write_manifest(spec.folder, key=spec.key, settings={**spec.identity, "config": spec.config}, rows=rows)


def _log_to_mlflow(cfg: DictConfig, cells: Sequence[LoadedCell], results: Sequence[CellResult]) -> None:
    runs, metrics = open_tracker(cfg), compute_metrics_digest(cfg)
    for cell, result in zip(cells, results, strict=True):
        log_cell(runs, cell, result, metrics)


def _build_row(cell: LoadedCell, result: CellResult) -> dict[str, Any]:
    """Build the table row of a cell.

    "dropped" counts the passages that did not fit into a prompt, "short" the questions with fewer than k retrieved passages.
    """
    labels = cell.spec.labels
    return {
        "strategy": labels.strategy,
        "k": labels.k,
        "gold": labels.gold,
        **{name: text for name in ("setting", "seed") if (text := getattr(labels, name))},
        "n": len(result.samples),
        **{metric.heading: result.format_metric(metric.name, 0) for metric in result.metrics if metric.headline},
        "dropped": sum(sample.prediction.truncated_passages for sample in result.samples),
        "short": cell.num_short_rankings,
    }


def _dry_run(cfg: DictConfig, cells: Sequence[LoadedCell], counted: set[bytes]) -> list[dict[str, Any]]:
    """Return the estimated calls and costs of a group of cells, one row per role, without calls that other groups counted."""
    unfinished = _select_unfinished(cfg, cells)
    counts = {"cells": len(cells), "finished": len(cells) - len(unfinished)}
    rows = build_dry_run_rows(cfg, cells[0].spec.engines, lambda: iter_jobs(unfinished) if unfinished else (), counted)
    return [counts | row for row in rows]


main = make_main(sweep, grid=True, dry_run=True, seeds="each")
if __name__ == "__main__":
    main()
