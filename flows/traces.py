"""Log traces of single questions to MLflow: what was retrieved, placed, asked, replied and voted,
with an assessment.

A trace takes about 0.1 seconds and 30 kB, so that tracking.traces, the number of questions per
cell, is 0 unless it is set. Questions on which cells disagree come first, then errors. Prompts are
replayed from the ledger, and no model is loaded; the sweep with the same settings must be finished.
MLflow shows the traces of an experiment under "Traces".

    python -m flows.traces experiment=quick_start tracking.traces=20
"""

from collections.abc import Callable, Sequence
from typing import Any

from flows.project.cells import require_finished, resolve_cells
from flows.project.engines import identify_engine_specs
from flows.project.ledger import open_ledger
from flows.project.metrics import read_results
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.registry import Stage
from flows.stages.tracking import get_place, open_trackers
from flows.tools.summary import Summary, progress
from winnow.artifacts.provenance import read_content_digest, read_manifest
from winnow.artifacts.steps import read_steps
from winnow.errors import ConfigError, MissingArtifactError
from winnow.protocols import CallStore
from winnow.reports.cells import CellResult
from winnow.reports.page.page import choose_questions, list_chosen_ids
from winnow.reports.traces import build_trace
from winnow.reports.tracing import Trace, log_traces
from winnow.sweeps.run import LoadedCell, load_cells
from winnow.tracking.runs import Tracker


def traces(jobs: Sequence[Settings]) -> Summary:
    """Log the traces of the chosen questions in every cell; existing traces are kept."""
    settings, specs = jobs[0], resolve_cells(jobs)
    if not settings.tracking.traces:
        raise ConfigError(
            "tracking.traces=0: no trace would be logged. Set it to a number of questions, such as "
            "tracking.traces=20."
        )
    require_finished(specs)
    results = read_results(jobs, specs, inputs=("placed", "shown", "ranking"))
    chosen = choose_questions(results, settings.tracking.traces, settings.report.seed)
    ids_by_cell = [list_chosen_ids(result, chosen) for result in results]
    cells = {cell.spec.key: cell for cell in load_cells(specs)}
    trackers = open_trackers(specs)
    rows = []
    with (
        open_ledger(settings) as ledger,
        progress("logging traces", sum(map(len, ids_by_cell))) as advance,
    ):
        for spec, result, ids in zip(specs, results, ids_by_cell, strict=True):
            tracker = trackers[get_place(spec)]
            rows.append(_log_cell(cells[spec.key], result, ids, tracker, ledger, advance))
    return Summary(
        "Traces",
        rows,
        'MLflow (`make ui`) shows them under "Traces" of the experiment of each sweep.',
    )


def _log_cell(
    cell: LoadedCell,
    result: CellResult,
    ids: Sequence[str],
    tracker: Tracker,
    ledger: CallStore,
    advance: Callable[[], None],
) -> dict[str, Any]:
    """Log the traces of one cell under its run, and return a row of their numbers."""
    spec = cell.spec
    run = tracker.find_run(config_hash=spec.key, sweep=str(spec.config["sweep"]["name"]))
    if run is None:
        raise MissingArtifactError(
            f"MLflow at {tracker.uri} has no run of the cell {spec.folder.name}. Run `python -m "
            "flows.sweep` with the same settings, which logs it without a call.",
            "sweep",
        )
    samples = {sample.question.question_id: sample for sample in result.samples}
    identities = identify_engine_specs(spec.engines)

    steps = read_steps(spec.folder, cell.rankings.passages, ids)

    def build(question_id: str) -> Trace | None:
        return build_trace(cell, samples[question_id], identities, ledger, steps.get(question_id))

    start_time = float(read_manifest(spec.folder)["started"])
    logged, num_kept = log_traces(
        tracker, run.run_id, read_content_digest(spec.folder), start_time, ids, build, advance
    )
    return {
        "cell": spec.folder.name,
        "logged": logged,
        "kept": num_kept,
        "not replayed": len(ids) - logged - num_kept,
    }


STAGE = Stage(
    traces,
    reads=("sweep",),
    grid=True,
    seeds="each",
    last_sweep="used",
)
main = make_main(STAGE)
if __name__ == "__main__":
    main()
