"""Logs stages and cells to MLflow, with the tags, parameters and data set that every run has."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from flows.project.artifacts import Artifact, Project
from flows.tools.start_page import format_cell_address
from winnow.artifacts.curves import write_curves
from winnow.artifacts.provenance import (
    compute_key,
    get_git_revision,
    read_content_digest,
    read_manifest,
)
from winnow.reports.cells import CellResult
from winnow.sweeps.run import LoadedCell
from winnow.sweeps.spec import REPORT_SETTINGS, CellSpec
from winnow.tracking.runs import DatasetRef, Run, Tracker
from winnow.tracking.stores import is_logged, mark_logged

_MOST_ANSWERS = 1000
"""Number of answers of a cell in MLflow's table; all are in predictions.parquet."""
_VIEWED = "tags.stage = 'sweep' and attributes.status = 'FINISHED'"
"""Runs of the view: a process that was killed leaves one that is not finished."""
VIEW = "cells"
"""Name of an experiment's saved view, which MLflow shows with `viewStateShareKey=cells`."""


def resolve_uri(uri: str) -> str:
    """Return the address of an MLflow store with an absolute path."""
    scheme, separator, path = uri.partition("sqlite:///")
    return (
        f"sqlite:///{Path(path).resolve()}"
        if separator and not scheme and not path.startswith("/")
        else uri
    )


def open_tracker(tracking: Mapping[str, Any]) -> Tracker:
    """Open the MLflow store and the experiment of the settings `tracking`."""
    return Tracker(
        resolve_uri(str(tracking["uri"])), str(tracking["experiment"]), Path(tracking["artifacts"])
    )


def open_trackers(specs: Iterable[CellSpec]) -> dict[tuple[str, str], Tracker]:
    """Open the experiment of each sweep of the cells, once each, by its store and its name."""
    settings = {get_place(spec): spec.config["tracking"] for spec in specs}
    return {place: open_tracker(tracking) for place, tracking in settings.items()}


def get_place(spec: CellSpec) -> tuple[str, str]:
    """Return the store and the experiment to which a cell is logged."""
    tracking = spec.config["tracking"]
    return resolve_uri(str(tracking["uri"])), str(tracking["experiment"])


def save_view(tracker: Tracker, results: Sequence[CellResult]) -> None:
    """Save a view of the experiment's cells with the first metric, %Unk, strategy, k and gold."""
    metrics = results[0].metrics
    shown_metrics = [metric for metric in metrics if metric is metrics[0] or metric.name == "unk"]
    columns = [
        f"{metric.name}_percent" if metric.unit == "percent" else metric.name
        for metric in shown_metrics
    ]
    tracker.save_view(VIEW, metrics=columns, params=["strategy", "k", "gold"], search=_VIEWED)


@contextmanager
def track(
    project: Project, stage: str, artifact: Artifact, params: Mapping[str, Any]
) -> Iterator[Run]:
    """Open an MLflow run for a stage; it ends as FINISHED, or as FAILED if the block raises.

    What a training logs at its steps is also written to the artifact's folder, where a report finds
    it without MLflow.
    """
    run = open_tracker(project.settings.plain["tracking"]).start_run(
        artifact.folder.name,
        params={**_build_common_params(project.settings.plain), **params},
        tags=_build_tags(stage, artifact.key, str(project.settings.sweep.name)),
        data=[_describe_dataset(str(project.settings.dataset.name), project.questions.folder)],
    )
    try:
        yield run
    except BaseException:
        run.end("FAILED")
        raise
    write_curves(artifact.folder, run.history)
    run.end()


def log_cells(cells: Sequence[LoadedCell], results: Sequence[CellResult]) -> None:
    """Log finished cells, each to the experiment of its sweep, with a view that shows them.

    MLflow is not opened, which takes seconds, if its store has them and nothing was written to it
    since.
    """
    values = [_compute_metrics(cell, result) for cell, result in zip(cells, results, strict=True)]
    contents = [
        [
            cell.spec.key,
            cell.spec.config["sweep"]["name"],
            cell.spec.config["tracking"],
            _select_common_config(cell),
            read_content_digest(cell.spec.folder),
            one,
        ]
        for cell, one in zip(cells, values, strict=True)
    ]
    digest = compute_key(
        {"cells": contents, "metrics": [metric.name for metric in results[0].metrics]}
    )
    uris = {get_place(cell.spec)[0] for cell in cells}
    if all(is_logged(uri, digest) for uri in uris):
        return
    trackers = open_trackers(cell.spec for cell in cells)
    for tracker in trackers.values():
        save_view(tracker, results)
    for cell, result, one in zip(cells, results, values, strict=True):
        log_cell(trackers[get_place(cell.spec)], cell, result, one)
    for uri in uris:
        mark_logged(uri, digest)


def _select_common_config(cell: LoadedCell) -> dict[str, Any]:
    """Return the settings that are not in a cell's key, but on which its metrics depend."""
    names = [name for name in REPORT_SETTINGS if name != "breakdown"]
    return {name: cell.spec.config.get(name) for name in names}


def log_cell(
    runs: Tracker, cell: LoadedCell, result: CellResult, values: Mapping[str, float]
) -> None:
    """Log a finished cell, or update its run if a value or the predictions have changed since.

    Args:
        runs: Store of the runs.
        cell: The cell with its questions.
        result: Metrics of the cell.
        values: What is logged of them. A digest of these is a tag of the run, by which a change is
            recognized, whether a setting, a price, the judge or the code of a metric changed.
    """
    spec, labels = cell.spec, cell.spec.labels
    metrics = compute_key(values, _select_common_config(cell))
    tags = _build_tags("sweep", spec.key, str(spec.config["sweep"]["name"]))
    existing_run = runs.find_run(config_hash=spec.key, sweep=tags["sweep"])
    manifest, predictions = read_manifest(spec.folder), read_content_digest(spec.folder)
    if existing_run is not None and (
        existing_run.get_tag("metrics"),
        existing_run.get_tag("predictions"),
    ) == (
        metrics,
        predictions,
    ):
        return
    run = existing_run
    if run is None:
        title = f"{labels.strategy} k={labels.k} {labels.gold} {labels.setting}".strip()
        names = {"strategy": labels.strategy, "k": labels.k, "gold": labels.gold}
        names |= {"seed": labels.seed} if labels.seed else {}
        words = {
            "cell": labels.words,
            "passages": labels.passages,
        }  # MLflow's charts show a text as a category, k as 5.00000
        settings = {
            "rank_by": labels.rank_by,
            "weight_by": labels.weight_by,
            "context": labels.context,
        }
        parts = {
            "decoding": spec.config["decoding"],
            "prompt": spec.config["prompt"],
            "questions": result.num_questions,
        }
        params = {**_build_common_params(spec.config), **names, **words, **settings, **parts}
        data = _describe_dataset(str(spec.config["dataset"]["name"]), spec.questions.path.parent)
        page = (
            f"[Questions, prompts and replies]({format_cell_address(spec.key)}), while `python -m "
            "flows.ui` runs."
        )
        tags["mlflow.note.content"] = page
        run = runs.start_run(
            title, params=params, tags=tags, data=[data], started=manifest.get("started")
        )
    run.log_text(
        yaml.safe_dump(json.loads(json.dumps(spec.config)), sort_keys=False), "config.yaml"
    )
    if run.get_tag("predictions") != predictions:
        run.log_file(spec.predictions)
        former_names = runs.client.get_run(run.run_id).data.metrics  # of the former predictions
        values = {**dict.fromkeys(former_names, math.nan), **values}
    run.log_table(*_build_answers_table(result), "answers.json")
    run.log_metrics(values)
    run.set_tag("metrics", metrics)
    run.set_tag("predictions", predictions)
    for name, text in _build_source_tags("sweep", str(manifest["git"])).items():
        run.set_tag(name, text)
    run.end(ended=manifest.get("finished"))


def _build_answers_table(result: CellResult) -> tuple[list[str], list[list[Any]]]:
    """Return the columns and rows of a table of a cell's first answers, with the question texts."""
    metric = result.metrics[0]
    values = result.get_values(metric.name)
    rows: list[list[Any]] = [
        [
            sample.question.question_id,
            sample.question.text,
            "; ".join(sample.question.answers),
            sample.prediction.answer,
            sample.prediction.reply,
            values.get(sample.question.question_id),
        ]
        for sample in result.samples[:_MOST_ANSWERS]
    ]
    return ["question_id", "question", "accepted", "answer", "reply", metric.name], rows


def _compute_metrics(cell: LoadedCell, result: CellResult) -> dict[str, float]:
    """Return the means, interval bounds and question counts of a cell's metrics, and its counts.

    The mean of a metric that is undefined is NaN, so that it takes the place of a former value. A
    share is logged in percent with one digit, too, as tables show it.
    """
    intervals = {metric.name: result.compute_interval(metric.name, 0) for metric in result.metrics}
    return {
        **{name: interval.mean for name, interval in intervals.items()},
        **{
            f"{metric.name}_percent": round(100 * intervals[metric.name].mean, 1)
            for metric in result.metrics
            if metric.unit == "percent"
        },
        **{
            f"{name}_{part}": getattr(interval, part)
            for name, interval in intervals.items()
            for part in ("low", "high", "n")
        },
        "questions": float(result.num_questions),
        "num_short_rankings": float(cell.num_short_rankings),
        "truncated_passages": float(sum(result.columns.truncated)),
    }


def _build_common_params(settings: Mapping[str, Any]) -> dict[str, str]:
    groups = ("dataset", "corpus", "retriever", "reader", "estimator")
    return {group: str(settings[group]["name"]) for group in groups}


def _build_tags(stage: str, key: str, sweep: str) -> dict[str, str]:
    return {
        "stage": stage,
        "config_hash": key,
        "sweep": sweep,
        **_build_source_tags(stage, get_git_revision()),
    }


def _build_source_tags(stage: str, revision: str) -> dict[str, str]:
    """Return the source tags of a run in MLflow; "git" also says whether files were changed."""
    source = {"mlflow.source.name": f"python -m flows.{stage}", "mlflow.source.type": "LOCAL"}
    return {"git": revision, "mlflow.source.git.commit": revision.partition("+")[0], **source}


def _describe_dataset(name: str, questions: Path) -> DatasetRef:
    """Return the reference of a questions artifact, whose folder name ends with its key."""
    return DatasetRef(name, questions.name.rpartition("-")[2], str(questions))


def discard_metrics(metrics: Mapping[str, float], step: int) -> None:
    """Log nothing, for trainings without an MLflow run, such as in all processes but the first."""
