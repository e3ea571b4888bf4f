"""What later stages of an experiment need, checked before a call is paid or a step is trained."""

import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil

from flows.project.artifacts import Project
from flows.project.cells import needs_relevance, resolve_closed_book_artifact
from flows.project.engines import resolve_closed_book_spec, resolve_engine_spec, resolve_reader_spec
from flows.project.metrics import build_breakdown, build_metrics, list_judging_roles
from flows.project.models import is_trained, list_trainings, resolve_trained_reader
from flows.settings.commits import PLACEHOLDER
from flows.settings.components import iter_components
from flows.settings.door import list_cells
from flows.settings.trainings import Training
from flows.settings.typed import Settings
from winnow.artifacts import contracts, parquet
from winnow.artifacts.provenance import flatten
from winnow.artifacts.steps import count_models
from winnow.errors import ConfigError, MissingArtifactError, WinnowError
from winnow.identity.markers import get_input_file_settings
from winnow.modeling.devices import pick_device
from winnow.modeling.weights import count_weight_bytes
from winnow.protocols import MODEL_ROLES, Engine
from winnow.readers.local_engine import LocalEngine
from winnow.readers.openai_engine import OpenAIEngine
from winnow.reports.reported import load_paper_part
from winnow.sweeps.spec import CellSpec, EngineSpec

_MIN_FREE_BYTES = 2 * 2**30
_NAMED = (
    *(f"{role}.base" for role in (*MODEL_ROLES, "closed_book.reader", "estimator", "nli")),
    *("encoder.model.path", "corpus.parser.path", "dataset.parser.path"),
)


def check_ahead(jobs: Sequence[Settings]) -> None:
    """Check the splits, metrics, tables and models that the stages up to the report will read.

    What an earlier stage has yet to make is not checked; the stages after it check again.

    Raises:
        ConfigError: If something is missing. The message names the setting.
    """
    cells = list_cells(jobs)
    for check in (
        check_splits, check_filters, check_ranked, check_names, check_trainings, check_report,
        check_engines,
    ):  # fmt: skip
        check(cells)


def check_splits(cells: Sequence[Settings]) -> None:
    """Check that the questions have every split that a later stage reads; if they do not exist yet,
    those that `dataset.split` will make, unless the files name them.
    """
    splits: dict[Path, list[str]] = {}
    for cell in cells:
        project = Project(cell)
        file = project.questions.folder
        if file not in splits:
            splits[file] = cell.dataset.split.build().names
            if project.questions.is_finished:
                table = parquet.read(project.questions_file, contracts.QUESTIONS, columns=["split"])
                splits[file] = sorted(table["split"].unique().to_pylist())
        for setting, split in _iter_splits(cell):
            if splits[file] and split not in splits[file]:
                raise ConfigError(
                    f"{setting}={split}: the questions of dataset={cell.dataset.name} have the "
                    f"splits {', '.join(splits[file])}. Choose one of these, or change "
                    "dataset.split."
                )


FILTER = "the closed-book filter (or set sweep.closed_book_filter=false)"
"""What rests on accepted answers where a closed-book filter decides."""


def check_answers(accepted: Sequence[Sequence[str]], dataset: str, of: str) -> None:
    """Raise ConfigError if questions have no accepted answer, on which something rests."""
    num_unanswered = sum(not answers for answers in accepted)
    if num_unanswered:
        raise ConfigError(
            f"{num_unanswered} of {len(accepted)} questions of dataset={dataset} have no accepted "
            f"answer. Choose a data set with answers for {of}."
        )


def check_filters(cells: Sequence[Settings]) -> None:
    """Check that the questions of closed-book filters, if they exist, have accepted answers."""
    selections: dict[tuple[Path, str], str] = {}
    for cell in cells:
        project = Project(cell)
        if cell.sweep.closed_book_filter and project.questions.is_finished:
            selections[project.questions_file, cell.closed_book.split] = cell.dataset.name
    for (file, split), dataset in selections.items():
        rows = parquet.read(file, contracts.QUESTIONS, columns=["split", "answers"]).to_pylist()
        check_answers([row["answers"] for row in rows if row["split"] == split], dataset, FILTER)


def check_ranked(cells: Sequence[Settings]) -> None:
    """Check, before any call, that a retriever's plan ranks passages for the sweep's questions."""
    for cell in cells:
        if cell.retriever.plan and cell.sweep.split not in cell.rank.splits:
            raise ConfigError(
                f"sweep.split={cell.sweep.split}, but the plan of retriever={cell.retriever.name} "
                f"ranks passages for rank.splits={cell.rank.splits}. Set "
                f"rank.splits=[{cell.sweep.split}]."
            )
        limit = cell.rank.limit if cell.retriever.plan else None
        sweep_limit = cell.closed_book.limit if cell.sweep.closed_book_filter else cell.sweep.limit
        if (
            limit is not None
            and (sweep_limit is None or sweep_limit > limit)
            and _count_questions(cell) > limit
        ):
            setting = "closed_book.limit" if cell.sweep.closed_book_filter else "sweep.limit"
            raise ConfigError(
                f"rank.limit={limit}: the plan of retriever={cell.retriever.name} ranks passages "
                "for fewer questions than the sweep may answer "
                f"({setting}={'null' if sweep_limit is None else sweep_limit}). Raise rank.limit "
                f"(null means all), or lower {setting}."
            )


def _count_questions(cell: Settings) -> float:
    """Return the number of questions of the sweep's split, or infinity if they do not exist yet."""
    project = Project(cell)
    if not project.questions.is_finished:
        return math.inf
    splits: list[str] = parquet.read(
        project.questions_file, contracts.QUESTIONS, columns=["split"]
    )["split"].to_pylist()
    return splits.count(cell.sweep.split)


def _iter_splits(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the settings that name a split which the stages of a cell read, with its name."""
    yield "sweep.split", str(settings.sweep.split)
    if settings.sweep.closed_book_filter:
        yield "closed_book.split", str(settings.closed_book.split)
    if settings.retriever.plan:
        yield from (("rank.splits", split) for split in settings.rank.splits)
    if needs_relevance(settings):
        yield from (("score.splits", str(split)) for split in settings.score.splits)
        if settings.estimator.trained:
            yield from (
                (f"joint.data.{name}", str(getattr(settings.joint.data, name)))
                for name in ("split", "dev")
            )
    for name, training in _iter_trainings(settings):
        yield f"{name}.split", str(training.split)
        yield f"{name}.evaluation.split", str(training.evaluation.split)
    for name, prompt in (
        ("prompt", settings.prompt),
        ("reader.trained_on", settings.reader.trained_on),
    ):
        if prompt and prompt.get("shots"):
            yield f"{name}.shots.split", str(prompt["shots"]["split"])


def check_names(cells: Sequence[Settings]) -> None:
    """Check that no model or data set is the placeholder, for which no hub should be asked."""
    for cell in cells:
        values = flatten(cell.plain)
        own = cell.reader.joint or not cell.strategy.uses_reader  # made by a training, or not used
        for setting in _NAMED[1:] if own else _NAMED:
            name = str(values.get(setting) or "")
            if name.partition("@")[0] == PLACEHOLDER:
                raise ConfigError(
                    f"{setting}={name} stands for one of yours. Set it to a folder or a name on "
                    "the hub."
                )


def check_trainings(cells: Sequence[Settings]) -> None:
    """Check that there is a GPU for trainings in 4 bits, before their teacher is asked."""
    for cell in cells:
        for name, training in _iter_unfinished_trainings(cell):
            setting = "method" if training.method else f"{name}.settings"
            quantize = (training.method or training.settings).get("quantize", "none")
            if quantize == "none":
                continue
            device = pick_device(str(training.settings["device"]))
            if device.type != "cuda":
                raise ConfigError(
                    f"{setting}.quantize={quantize} needs a GPU, but the device is {device}. Set "
                    f"{setting}.quantize=none."
                )


def _iter_trainings(cell: Settings) -> Iterator[tuple[str, Training]]:
    """Yield the trainings of a cell's reader with their setting names, the last training first."""
    if cell.strategy.uses_reader and is_trained(cell, cell.reader):
        name = "training"
        for training in reversed(list_trainings(cell)):
            yield name, training
            name += ".start"


def _iter_unfinished_trainings(cell: Settings) -> Iterator[tuple[str, Training]]:
    """Yield the trainings whose reader is not there yet."""
    project = Project(cell)
    for name, training in _iter_trainings(cell):
        if not resolve_trained_reader(project, cell.reader, cell.prompt, training).is_finished:
            yield name, training


def check_evaluated_split(settings: Settings, stage: str, dev: str, test: str) -> None:
    """Raise ConfigError if the test split is also used for thresholds or training the estimator."""
    data = settings.joint.data
    learned = [data.split, data.dev] if settings.estimator.trained else []
    if test in (dev, *learned):
        raise ConfigError(
            f"{stage}.test={test!r} is also the split on which thresholds are chosen "
            f"({stage}.dev={dev!r}) or the estimator is trained ({learned}). Choose another one; "
            "dataset.split divides a data set that has only one."
        )


def check_report(cells: Sequence[Settings]) -> None:
    """Check that the metrics, the breakdown and the paper's table of the report can be built."""
    for cell in cells:
        build_metrics(cell)
        build_breakdown(cell)
        for name, node in iter_components(cell.plain["metric"], "metric"):
            for setting in get_input_file_settings(node.component_class):
                if node.get(setting) and not Path(node[setting]).exists():
                    raise ConfigError(
                        f"{name}.{setting}={node[setting]}: there is no such file, and the metric "
                        "reads it after all answers were made. Provide it, or choose another "
                        "metric."
                    )
        if paper := cell.report.paper:
            load_paper_part(paper.name, paper.part, paper.dataset, paper.model)


def check_engines(cells: Sequence[Settings]) -> None:
    """Check that all API keys and weights exist, except those that a training has yet to make."""
    for engine in _iter_engines(cells):
        engine.close()


def _iter_engines(cells: Sequence[Settings]) -> Iterator[Engine]:
    """Open and check each engine of the cells and their judges, without loading weights."""
    opened_keys = set[str]()
    for cell in cells:
        project = Project(cell)
        judges = list_judging_roles(build_metrics(cell))
        makers: list[Callable[[], EngineSpec]] = [
            partial(resolve_engine_spec, project, role)
            for role in dict.fromkeys([*judges, *cell.retriever.engines, *cell.roles])
        ]
        makers += [
            partial(resolve_reader_spec, project, training.teacher.reader, cell.prompt)
            for _, training in _iter_unfinished_trainings(cell)
            if training.teacher is not None
        ]
        if cell.sweep.closed_book_filter and not resolve_closed_book_artifact(project).is_finished:
            makers.append(partial(resolve_closed_book_spec, project))
        for make in makers:
            with suppress(MissingArtifactError):  # a training has yet to make it
                spec = make()
                if spec.key not in opened_keys:
                    opened_keys.add(spec.key)
                    yield spec.open(True)


def check_servers(cells: Sequence[Settings]) -> None:
    """Check that every server replies. No model is called."""
    for engine in _iter_engines(cells):
        if isinstance(engine, OpenAIEngine):
            engine.check_reachable()
        engine.close()


def check_memory(cells: Sequence[Settings]) -> None:
    """Check that the weights of all local CPU readers fit into the available memory together."""
    weight_bytes: dict[str, int] = {}
    for engine in _iter_engines(cells):
        if isinstance(engine, LocalEngine) and pick_device(engine.device).type == "cpu":
            weight_bytes[engine.path] = count_weight_bytes(engine.path)
        engine.close()
    available = psutil.virtual_memory().available
    if sum(weight_bytes.values()) > available:
        models = ", ".join(
            f"{path} ({size / 2**30:.1f} GiB)" for path, size in weight_bytes.items()
        )
        raise ConfigError(
            f"The weights of {models} do not fit into the {available / 2**30:.1f} GiB of memory "
            "that are left. Choose smaller models, or end other programs."
        )


def check_disk(cells: Sequence[Settings]) -> None:
    """Check that the disks of data and models have 2 GiB left."""
    for name in ("data", "models"):
        folder = Path(getattr(cells[0].paths, name)).absolute()
        existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
        free = shutil.disk_usage(existing).free
        if free < _MIN_FREE_BYTES:
            raise ConfigError(
                f"paths.{name}={folder}: the disk has {free / 2**30:.1f} GiB left, and 2 are "
                "needed. Free some."
            )


CHECKS: dict[str, Callable[[Sequence[Settings]], None]] = {
    "splits of the questions": check_splits,
    "answers of the questions": check_filters,
    "names of models": check_names,
    "trainings": check_trainings,
    "metrics and tables": check_report,
    "API keys and weights": check_engines,
    "servers": check_servers,
    "memory": check_memory,
    "disk space": check_disk,
}
"""Checks of `flows.check`, over the cells of the grid, by name."""


def run_checks(jobs: Sequence[Settings]) -> list[dict[str, str]]:
    """Run every check and return a row for each, with what is wrong."""
    rows, cells = [], list_cells(jobs)
    for name, check in CHECKS.items():
        try:
            check(cells)
            rows.append({"check": name, "result": "ok"})
        except WinnowError as error:
            rows.append({"check": name, "result": f"{type(error).__name__}: {error}"})
    return rows


def check_one_model(spec: CellSpec) -> None:
    """Raise ConfigError if several reader models answered a cell, in this run or an earlier one."""
    models = {
        model: count
        for (role, model), count in count_models(spec.folder).items()
        if role == "reader"
    }
    if len(models) > 1:
        model_list = ", ".join(
            f"{model} ({count} replies)" for model, count in sorted(models.items())
        )
        raise ConfigError(
            f"{spec.folder.name}: several models answered: {model_list}. The cell is not finished, "
            "and its calls are stored. Pin a snapshot with reader.base, or accept them with "
            "reader.engine.model_change=mark."
        )
