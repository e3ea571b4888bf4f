"""What a report says of its data, models, settings and code."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.project.cells import needs_relevance
from flows.project.models import is_trained
from flows.settings.composition import describe_option
from flows.settings.typed import Settings
from winnow.artifacts.provenance import describe_code, read_manifest
from winnow.artifacts.steps import count_models
from winnow.reports.cells import CellResult
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
    """Return the settings of the first cell with each combination of these groups' settings."""
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
    filter_note = (
        f", {which} those that {reader} answers closed-book"
        if cell.sweep.closed_book_filter
        else ""
    )
    return (
        f"corpus {cell.corpus.name}, questions {cell.dataset.name}, split "
        f"{cell.sweep.split}{limit}{filter_note}"
    )


def _describe_retriever(cell: Settings) -> str:
    """Return a cell's retriever and encoder, if any, or "" for a cell without passages."""
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
    """Return a cell's reader, its weights, and its precision or server, as recorded in the key."""
    cell, inputs = spec.config, spec.identity["inputs"]
    if not Settings.load(dict(cell)).strategy.uses_reader:
        return ""
    place = inputs["reader"].get("dtype") or inputs["reader"].get("server")
    return f"{cell['reader']['name']} ({inputs['weights']}, {place})"


def _describe_models(models: Iterable[Mapping[tuple[str, str], int]]) -> str:
    """Return the models of all replies: names that servers report, or runtimes of local models."""
    counts: Counter[tuple[str, str]] = Counter()
    for one in models:
        counts.update(one)
    return "; ".join(
        f"{role}: {model} ({count} replies)" for (role, model), count in sorted(counts.items())
    )


def list_filters(specs: Sequence[CellSpec]) -> list[Path]:
    """Return the folders of the closed-book artifacts that filtered the questions of the cells."""
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
        "Closed-book filter": _describe_models(map(count_models, list_filters(specs))),
        "Judged by": _describe_models(judges.values()),
    }
    return {name: line for name, line in lines.items() if line}


def _describe_decoding(cell: Settings) -> str:
    decoding = cell.decoding.build()
    kind = f"temperature {decoding.temperature}" if decoding.temperature else "greedy"
    samples = f", {decoding.samples} samples" if decoding.samples > 1 else ""
    return f"{kind}, at most {decoding.max_new_tokens} new tokens{samples}"


def _describe_seeds(settings: Settings, specs: Sequence[CellSpec]) -> str:
    """Return the seeds of the splits, of trainings that the cells use, and of the bootstrap."""
    cells = _select_distinct(
        specs, ("dataset", "reader", "training", "estimator", "joint", "rank_by", "weighting")
    )
    seeds = [f"split {_join(str(cell.dataset.split.get('seed', 'none')) for cell in cells)}"]
    training_seeds = list(dict.fromkeys(spec.labels.seed for spec in specs if spec.labels.seed))
    if training_seeds:
        seeds.append(f"training {', '.join(training_seeds)}")
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
