"""Answer questions in every cell of a sweep: strategies, k and placements; each distinct call is made once.

python -m flows.sweep strategy=post_fusion k=5
python -m flows.sweep -m strategy=concatenation,post_fusion k=1,5,10
python -m flows.sweep -m k=5,10,20 dry_run=true
python -m flows.sweep experiment=quick_start
"""

from collections.abc import Iterator, Sequence
from typing import Any

from omegaconf import DictConfig

from flows._cells import announce_cells, resolve_cells, unfiltered
from flows._engines import drive, dry_run_rows, open_engines, open_ledger, summary_text
from flows._entry import entry
from flows._metrics import metrics_digest, read_results
from flows._summary import Summary
from flows._track import log_cell, tracker
from winnow.artifacts.provenance import MANIFEST, write_manifest
from winnow.artifacts.tables import read_predictions
from winnow.driver import Tally
from winnow.identity import ledger_identity
from winnow.reports.cells import CellResult
from winnow.sweeps.run import LoadedCell, iter_jobs, load_cells, run_cells
from winnow.sweeps.spec import CellSpec

_UNFILTERED = "The closed-book filter has not run yet: the first questions of the split are counted as they are."
_RETRIED = "sweep.retry_empty: replies without text are counted as stored here; a run requests all of the engine's again."
_NOTHING_TO_DO = "Every cell was finished already; no call was made."


def sweep(configs: Sequence[DictConfig]) -> Summary:
    """Run all cells of all jobs that are not finished, a driver per set of engines, and log each to MLflow."""
    specs = resolve_cells(configs)
    cells = load_cells(specs)
    groups = list(_by_engines(cells))
    if configs[0].dry_run:
        rows = [row for group in groups for row in _dry_run(configs[0], group)]
        notes = [_UNFILTERED] * unfiltered(configs[0]) + [_RETRIED] * bool(configs[0].sweep.retry_empty)
        return Summary("Dry run: no call was made", rows, "\n".join(notes))
    due = [_due(configs[0], group) for group in groups]
    announce_cells(configs)
    notes = [_run(configs[0], group) for group in due if group]
    results = read_results(configs[0], specs)
    _log(configs[0], cells, results)
    rows = [_row(cell, result) for cell, result in zip(cells, results, strict=True)]
    return Summary(f"Sweep {configs[0].sweep.name}, 95 % intervals", rows, "\n".join(notes) or _NOTHING_TO_DO)


def _by_engines(cells: Sequence[LoadedCell]) -> Iterator[list[LoadedCell]]:
    """Yield the cells that can share a driver: those whose engines are the same."""
    groups: dict[tuple[tuple[str, str], ...], list[LoadedCell]] = {}
    for cell in cells:
        groups.setdefault(tuple((engine.role, engine.key) for engine in cell.spec.engines), []).append(cell)
    yield from groups.values()


def _due(cfg: DictConfig, cells: Sequence[LoadedCell]) -> list[LoadedCell]:
    """Return the cells to run: those that are not finished and, with `sweep.retry_empty`, those with replies without text."""
    return [cell for cell in cells if not cell.spec.is_finished or (cfg.sweep.retry_empty and _has_empty_replies(cell.spec))]


def _has_empty_replies(spec: CellSpec) -> bool:
    return any(usage.empty for prediction in read_predictions(spec.predictions) for usage in prediction.usage)


def _run(cfg: DictConfig, cells: Sequence[LoadedCell]) -> str:
    """Run some cells, and return what it took."""
    specs, tally = cells[0].spec.engines, Tally()
    engines = open_engines(specs)
    with open_ledger(cfg) as ledger:
        if cfg.sweep.retry_empty:
            for cell in cells:
                (cell.spec.folder / MANIFEST).unlink(missing_ok=True)  # a run that is killed leaves them unfinished
            for identity in {ledger_identity(engine) for engine in engines.values()}:
                ledger.forget_empty(identity)
        run_cells(cells, lambda jobs, total: drive(engines, ledger, jobs, total, "sweeping", tally), _finish)
    return summary_text(tally, {spec.role: spec.price for spec in specs})


def _finish(spec: CellSpec, rows: int) -> None:
    write_manifest(spec.folder, key=spec.key, settings={**spec.identity, "config": spec.config}, rows=rows)


def _log(cfg: DictConfig, cells: Sequence[LoadedCell], results: Sequence[CellResult]) -> None:
    runs, metrics = tracker(cfg), metrics_digest(cfg)
    for cell, result in zip(cells, results, strict=True):
        log_cell(runs, cell, result, metrics)


def _row(cell: LoadedCell, result: CellResult) -> dict[str, Any]:
    labels = cell.spec.labels
    return {
        "strategy": labels.strategy,
        "k": labels.k,
        "gold": labels.gold,
        **{name: text for name in ("setting", "seed") if (text := getattr(labels, name))},
        "n": len(result.samples),
        **{metric.heading: result.text(metric.name, 0) for metric in result.metrics if metric.headline},
        "dropped": sum(sample.prediction.truncated_passages for sample in result.samples),
        "short": cell.num_short_rankings,
    }


def _dry_run(cfg: DictConfig, cells: Sequence[LoadedCell]) -> list[dict[str, Any]]:
    due = _due(cfg, cells)
    counts = {"cells": len(cells), "finished": len(cells) - len(due)}
    rows = dry_run_rows(cfg, cells[0].spec.engines, lambda: iter_jobs(due) if due else ())
    return [counts | row for row in rows]


main = entry(sweep, grid=True, dry_run=True, seeds="each")
if __name__ == "__main__":
    main()
