"""Export the calls of finished cells from the ledger to a file, from which another machine can
replay them without a model.

The ledger is a database that every command changes, so DVC does not track it. It tracks this file,
which never changes once it is written: it holds the calls that the predictions and the judged
metrics of the cells used.

python -m flows.calls experiment=quick_start
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.project.artifacts import Artifact, Project
from flows.project.cells import require_finished, resolve_cells
from flows.project.engines import identify_engine_specs
from flows.project.ledger import open_ledger
from flows.project.metrics import build_metrics, list_judging_roles
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.registry import Stage
from flows.tools.dvc import CALLS
from flows.tools.summary import Summary, progress
from winnow.artifacts.provenance import read_content_digest
from winnow.artifacts.steps import read_steps
from winnow.artifacts.tables import read_predictions
from winnow.errors import ConfigError, LedgerError
from winnow.ledger.postgres import PostgresStore
from winnow.ledger.sqlite import SqliteStore
from winnow.ledger.tools import export_calls
from winnow.metrics.base import JudgedMetric, collect_inputs
from winnow.predictions import Prediction
from winnow.protocols import CallStore
from winnow.records import Role
from winnow.requests import Plan, TooLong
from winnow.steps import Step
from winnow.sweeps.replay import is_same_answer, replay_plan
from winnow.sweeps.run import iter_jobs, load_cells
from winnow.sweeps.samples import SampleReader, build_judge_jobs
from winnow.sweeps.spec import CellSpec


def calls(jobs: Sequence[Settings]) -> Summary:
    """Export the calls of the cells of all jobs; every cell must be finished."""
    settings, specs = jobs[0], resolve_cells(jobs)
    require_finished(specs)
    artifact = resolve_calls_artifact(settings, specs)
    if artifact.is_finished:
        row = {"calls": artifact.folder, "number": "exported already"}
        return Summary("Calls", [row], artifacts=[artifact.folder])
    number, num_incomplete = export_used_calls(settings, specs, artifact.folder / CALLS)
    if num_incomplete:
        return Summary(
            f"Nothing was exported: {num_incomplete} answers cannot be replayed. The ledger lacks "
            "their calls, or has replies that were requested again since.",
            note=(
                "Import the calls (`winnow ledger import LEDGER FILE`), or remove the predictions "
                "and make them again with `python -m flows.sweep`. With DVC, run `dvc repro "
                "--force calls` afterwards."
            ),
        )
    artifact.finish(number)
    return Summary(
        "Calls", [{"calls": artifact.folder, "number": number}], artifacts=[artifact.folder]
    )


def export_used_calls(settings: Settings, specs: Sequence[CellSpec], file: Path) -> tuple[int, int]:
    """Write the calls of finished cells and their judged metrics, unless the ledger lacks some.

    Returns:
        Number of the calls, and number of the plans of which the ledger lacks a call.
    """
    with open_ledger(settings) as ledger:
        if not isinstance(ledger, SqliteStore | PostgresStore):
            raise ConfigError(
                f"paths.base_ledgers={list(settings.paths.base_ledgers)}: calls are exported from "
                "one ledger. Merge these into it (`winnow ledger merge`), and remove the "
                "setting."
            )
        keys, num_incomplete = collect_keys(settings, specs, ledger)
        return (0, num_incomplete) if num_incomplete else (export_calls(ledger, file, keys), 0)


def resolve_calls_artifact(settings: Settings, specs: Sequence[CellSpec]) -> Artifact:
    """Return the artifact with the exported calls of finished cells."""
    project = Project(settings)
    metrics = build_metrics(settings)
    metric_names = [metric.name for metric in metrics if isinstance(metric, JudgedMetric)]
    inputs = {
        "cells": {spec.key: read_content_digest(spec.folder) for spec in specs},
        "judged": {name: settings.metric[name] for name in metric_names},
        "judges": list(
            dict.fromkeys(
                spec.resolve_engine(role).key
                for role in list_judging_roles(metrics)
                for spec in specs
            )
        ),
    }
    return project.resolve_artifact("calls", "calls", str(settings.sweep.name), inputs)


def collect_keys(
    settings: Settings, specs: Sequence[CellSpec], ledger: CallStore
) -> tuple[set[bytes], int]:
    """Replay finished cells and their judged metrics.

    Returns:
        Keys of all calls that they use, and the number of plans that cannot be replayed, because
        the ledger lacks a call or now gives another answer than the stored one.
    """
    keys: set[bytes] = set()
    num_incomplete = 0
    with progress("replaying", None) as advance:
        for plan, identities, recorded_steps, prediction in _iter_plans(settings, specs):
            try:
                replay = replay_plan(plan, identities, ledger, recorded_steps)
            except LedgerError:
                num_incomplete += 1
            else:
                keys.update(
                    call.key
                    for calls in replay.rounds
                    for call in calls
                    if not isinstance(call.result, TooLong)
                )
                num_incomplete += prediction is not None and not is_same_answer(
                    replay.result, prediction
                )
            advance()
    return keys, num_incomplete


def _iter_plans(
    settings: Settings, specs: Sequence[CellSpec]
) -> Iterator[tuple[Plan[Any], Mapping[Role, str], Sequence[Step], Prediction | None]]:
    """Yield all plans of the cells and judged metrics with engine identities, recorded steps and,
    for those of cells, the stored prediction.
    """
    for cell in load_cells(specs):
        identities = identify_engine_specs(cell.spec.engines)
        steps = read_steps(
            cell.spec.folder,
            cell.rankings.passages,
            {question.question_id for question in cell.questions},
        )
        predictions = {one.question_id: one for one in read_predictions(cell.spec.predictions)}
        for question, job in zip(cell.questions, iter_jobs([cell]), strict=True):
            own = steps.get(question.question_id)
            prediction = predictions[question.question_id]
            yield job.plan, identities, own.steps if own else (), prediction
    metrics = [metric for metric in build_metrics(settings) if isinstance(metric, JudgedMetric)]
    if metrics:
        reader = SampleReader(collect_inputs(metrics))
        for spec in specs:  # each cell is judged by the models of its own settings
            judge = identify_engine_specs(
                [spec.resolve_engine(role) for role in list_judging_roles(metrics)]
            )
            yield from (
                (job.plan, judge, (), None)
                for job in build_judge_jobs(metrics, {spec.key: reader.read(spec)})
            )


STAGE = Stage(
    calls,
    version=2,
    reads=("sweep",),
    grid=True,
    seeds="each",
)
main = make_main(STAGE)
if __name__ == "__main__":
    main()
