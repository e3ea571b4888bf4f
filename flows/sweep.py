"""Answer questions in every cell of a sweep, where each distinct model call is made only once.

A cell is one combination of settings, such as a strategy, k and a placement of the contexts.

python -m flows.sweep strategy=post_fusion k=5
python -m flows.sweep -m strategy=concatenation,post_fusion k=1,5,10
python -m flows.sweep -m k=5,10,20 dry_run=true
python -m flows.sweep experiment=quick_start
# The calls of every fourth question; see flows.shards
python -m flows.sweep experiment=quick_start shard=2/4
"""

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import Any

from flows.project.cases import describe_bias, describe_other_empty
from flows.project.cells import (
    is_filter_pending,
    list_stages_of_cell,
    print_equivalent_cell,
    resolve_cell_artifact,
    resolve_cells,
)
from flows.project.checks import check_ahead, check_one_model
from flows.project.engines import list_prices, open_cell_engines
from flows.project.ledger import open_ledger
from flows.project.metrics import (
    check_common_settings,
    compare_rows,
    estimate_judging,
    read_results,
)
from flows.project.runs import (
    build_dry_run_rows,
    describe_usage,
    iter_outcomes,
    render_first_prompts,
)
from flows.settings.door import list_cells
from flows.settings.typed import Settings
from flows.stages import shard_calls
from flows.stages.command import make_main
from flows.stages.registry import Stage
from flows.stages.tracking import get_place, log_cells
from flows.tools.summary import Summary
from winnow.artifacts.provenance import MANIFEST, write_manifest
from winnow.artifacts.steps import has_steps
from winnow.artifacts.tables import read_predictions
from winnow.driver.stats import RunStats
from winnow.protocols import MODEL_ROLES
from winnow.reports.cells import CellResult
from winnow.reports.notes import build_code_notes, build_short_context_notes
from winnow.sweeps.run import (
    LoadedCell,
    group_by_engines,
    group_by_models,
    iter_jobs,
    load_cells,
    write_cells,
)
from winnow.tracking.stores import open_ahead

_FILTER_PENDING_NOTE = (
    "The closed-book filter has not run yet, so the first questions of the split are counted "
    "without it."
)
_ALL_FINISHED_NOTE = "Every cell was finished already."
_NO_CALL_NOTE = "Every cell was finished already; no call was made."


def sweep(jobs: Sequence[Settings]) -> Summary:
    """Run all unfinished cells, with one driver per set of models, and log every cell to MLflow."""
    check_common_settings(jobs)
    specs = resolve_cells(jobs)
    cells = load_cells(specs)
    unfinished = _select_unfinished(jobs[0], cells)
    if unfinished:
        check_ahead(jobs)
        print_equivalent_cell(jobs)
    shard_calls.use_finished_shards(jobs[0], "sweep", [cell.spec for cell in cells])
    with open_ahead(get_place(cell.spec)[0] for cell in unfinished):
        notes = [_run_cells(jobs[0], group) for group in group_by_models(unfinished)]
    judging = RunStats()
    results = read_results(jobs, specs, hidden=[jobs[0].report.cost], stats=judging)
    log_cells(cells, results)
    rows, sentences = compare_rows(results, jobs[0].report, describe_bias(specs))
    title, folders = f"Sweep {jobs[0].sweep.name}, 95 % intervals", [spec.folder for spec in specs]
    notes = [
        *sentences,
        *(describe_other_empty(specs) if jobs[0].sweep.retry_empty else []),
        *(notes or [_ALL_FINISHED_NOTE if judging.executed else _NO_CALL_NOTE]),
        *build_code_notes(folders),
        _describe_passages(results),
    ]
    return Summary(title, rows, "\n".join(filter(None, notes)), folders, group="strategy")


def _select_unfinished(settings: Settings, cells: Sequence[LoadedCell]) -> list[LoadedCell]:
    """Return the cells to run: unfinished ones, and those that the sweep's settings ask for again.

    `sweep.retry_empty` asks for cells with replies without text, and `sweep.record_steps` for cells
    without recorded steps.
    """
    again = settings.sweep
    return [
        cell
        for cell in cells
        if not cell.spec.is_finished
        or (
            again.retry_empty
            and any(
                one.empty for row in read_predictions(cell.spec.predictions) for one in row.usage
            )
        )
        or (again.record_steps and not has_steps(cell.spec.folder))
    ]


def _run_cells(settings: Settings, cells: Sequence[LoadedCell]) -> str:
    """Run cells with the same language models, and return a summary of the calls and their cost."""
    stats, cells = RunStats(), _select_unfinished(settings, cells)  # others may have finished some
    for cell in cells:
        # so that they count as unfinished if the run is killed
        (cell.spec.folder / MANIFEST).unlink(missing_ok=True)
    if not cells:
        return ""
    engines = open_cell_engines(cells)
    with open_ledger(settings, retry_empty=settings.sweep.retry_empty) as ledger:
        total = sum(len(cell.questions) for cell in cells)
        outcomes = iter_outcomes(engines, ledger, iter_jobs(cells), total, "sweeping", stats)
        with closing(outcomes):  # also if a cell cannot be finished
            write_cells(cells, outcomes, _finish_cell)
    return describe_usage(stats, list_prices(engines.values()))


def _finish_cell(cell: LoadedCell, rows: int) -> None:
    """Write the manifest of a cell, which marks it as finished."""
    spec = cell.spec
    if spec.config["reader"]["engine"].get("model_change") == "stop":
        check_one_model(spec)
    settings = {**spec.identity, "config": spec.config}
    write_manifest(spec.folder, key=spec.key, settings=settings, rows=rows, started=cell.started)


def _describe_passages(results: Sequence[CellResult]) -> str:
    """Say how many passages did not fit into prompts and where fewer than k were retrieved, or
    return "" if nowhere.
    """
    num_dropped = sum(sum(result.columns.truncated) for result in results)
    notes = [f"{num_dropped} passages did not fit into prompts."] if num_dropped else []
    return " ".join([*notes, *build_short_context_notes(results)])


def _dry_run(jobs: Sequence[Settings]) -> Summary:
    """Estimate the calls and costs of the unfinished cells and of the judges, one row per role of
    each set of engines; a row leaves out calls that an earlier one counted.
    """
    check_common_settings(jobs)
    rows: list[dict[str, Any]] = []
    notes = [_FILTER_PENDING_NOTE] if any(map(is_filter_pending, list_cells(jobs))) else []
    counted_keys: set[bytes] = set()
    specs = resolve_cells(jobs)
    estimate = partial(
        build_dry_run_rows, jobs[0], counted=counted_keys, retry_empty=jobs[0].sweep.retry_empty,
        shard_ledgers=shard_calls.list_ledgers_to_merge(jobs[0], specs),
    )  # fmt: skip
    for cells in group_by_engines(load_cells(specs)):
        unfinished, engines = _select_unfinished(jobs[0], cells), cells[0].spec.engines
        counts = {"cells": len(cells), "finished": len(cells) - len(unfinished)}
        rows += [counts | row for row in estimate(engines, partial(iter_jobs, unfinished))]
        if unfinished:
            notes += render_first_prompts(engines, iter_jobs(unfinished))
    judging_rows, pending = estimate_judging(jobs[0], specs, counted_keys)
    rows, notes = rows + judging_rows, notes + pending
    return Summary("Dry run: no call was made", rows, "\n".join(notes))


_SETTINGS = (
    "strategy", "placement", "distractors", "context", "k", "rank_by", "weighting", "metric",
    "breakdown", "search", "rewriting", "sweep", "grid", *MODEL_ROLES[1:], "nli", "prices",
)  # fmt: skip
STAGE = Stage(
    sweep,
    version=9,
    resolve=lambda project: [resolve_cell_artifact(project)],
    reads=("retrieve", "rank", "score", "closed_book", "train_reader", "train_joint"),
    needs=list_stages_of_cell,
    settings=_SETTINGS,
    run_shard=shard_calls.run_sweep_shard,
    shards="calls",
    grid=True,
    dry_run=_dry_run,
    seeds="each",
    last_sweep="set",
)
main = make_main(STAGE)
if __name__ == "__main__":
    main()
