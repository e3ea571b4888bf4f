"""Builds the metrics and breakdown of a configuration, and computes the metrics of finished cells.

A breakdown divides the questions into groups, for each of which the report shows the metrics.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

from flows.project.artifacts import Project
from flows.project.engines import list_prices, open_engines, resolve_engine_spec
from flows.project.ledger import open_ledger
from flows.project.runs import (
    build_dry_run_rows,
    count_models_of,
    describe_usage,
    iter_outcomes,
)
from flows.settings.components import Component
from flows.settings.composition import (
    CONF,
    describe_missing_option,
    list_options,
    load_option,
)
from flows.settings.door import compose
from flows.settings.pages import Report
from flows.settings.typed import Settings
from flows.tools.summary import progress
from winnow.artifacts.provenance import describe_code, is_code_mixed, read_manifest
from winnow.artifacts.steps import has_steps
from winnow.driver.stats import RunStats
from winnow.errors import ConfigError
from winnow.metrics.base import Input, JudgedMetric, Metric, Row, Sample, collect_inputs
from winnow.metrics.breakdowns import Breakdown
from winnow.metrics.intervals import UNDEFINED
from winnow.records import Role
from winnow.reports.cells import CellResult
from winnow.reports.columns import CellColumns, collect_in_processes, has_many_predictions
from winnow.reports.family import Family
from winnow.reports.page.story import build_headline
from winnow.sweeps.samples import SampleReader, build_judge_jobs, collect_judged_rows
from winnow.sweeps.spec import REPORT_SETTINGS, CellSpec, EngineSpec


def build_metrics(settings: Settings) -> list[Metric]:
    """Build the metrics of the settings; the first one is the metric that the report compares.

    Raises:
        ConfigError: If the name of one is not that of its entry, by which values are found, or if
            two have the same heading, so that no table could show both.
    """
    _check_packages()
    metrics: dict[str, Metric] = {}
    for entry, node in settings.metric.items():
        metric = node.build()
        if metric.name != entry:
            raise ConfigError(
                f"metric.{entry}.name={metric.name!r}: a metric has the name of its entry. Set it "
                f"to {entry!r}."
            )
        if (first := metrics.setdefault(metric.heading, metric)) is not metric:
            raise ConfigError(
                f"The metrics {first.name} and {metric.name} have the same heading "
                f"{metric.heading!r}. Set metric.{metric.name}.title to another one."
            )
    return list(metrics.values())


@cache
def _check_packages() -> None:
    """Raise ConfigError if an option would be composed in the place of another metric."""
    for name in list_options("metric"):
        package = f"# @package metric.{name.rpartition('/')[2]}\n"
        if not (CONF / "metric" / f"{name}.yaml").read_text(encoding="utf-8").startswith(package):
            raise ConfigError(
                f"The first line of conf/metric/{name}.yaml must be {package.strip()!r}."
            )


def build_breakdown(settings: Settings) -> Breakdown | None:
    """Build the breakdown of the settings, or return None if there is none."""
    breakdown = settings.breakdown.build() if settings.breakdown else None
    return breakdown


def build_named_metric(name: str) -> Metric:
    """Build the metric conf/metric/<name>.yaml, which the settings need not list."""
    if name not in list_options("metric"):
        raise ConfigError(f"metric={name}: {describe_missing_option('metric', name)}")
    option = load_option("metric", name)[name]
    refers = "${" in str(option)  # to settings next to the metric
    metric: Metric = (
        compose([f"metric=[{name}]"]).metric[name] if refers else Component(option)
    ).build()
    return metric


def read_results(
    jobs: Sequence[Settings],
    specs: Sequence[CellSpec],
    *,
    hidden: Iterable[str] = (),
    inputs: Iterable[Input] = (),
    stats: RunStats | None = None,
) -> list[CellResult]:
    """Read finished cells, compute their metrics, and make and store the calls of judged metrics.

    Each cell is judged by the models of its own settings.

    Args:
        jobs: Configurations of all jobs, whose metrics and breakdown are the same.
        specs: Specifications of the cells, all of which must be finished.
        hidden: Names of further metrics that plots or a paper's table need, but tables do not show.
        inputs: Fields of the samples that are needed besides those that the metrics and the
            breakdown need.
        stats: Counts, to which those of the calls of judged metrics are added.

    Raises:
        ConfigError: If the jobs differ in settings that are not part of a cell's key, such as the
            judge.
    """
    check_common_settings(jobs)
    settings = jobs[0]
    metrics, breakdown = build_metrics(settings), build_breakdown(settings)
    extra = [
        build_named_metric(name)
        for name in hidden
        if name not in {metric.name for metric in metrics}
    ]
    components = [*metrics, *extra, *([breakdown] if breakdown else [])]
    columns: Mapping[str, CellColumns] = {}
    if has_many_predictions(specs, [*metrics, *extra]):
        with progress("computing metrics", len({spec.key for spec in specs})) as advance:
            columns = collect_in_processes(specs, [*metrics, *extra], advance)
    reader = SampleReader(collect_inputs(components) | set(inputs))
    samples = {spec.key: reader.read(spec) for spec in specs}
    judged_rows, judges = _judge(settings, specs, metrics, samples, stats or RunStats())
    is_mixed = is_code_mixed([spec.folder for spec in specs])
    code_versions = (
        describe_code([read_manifest(spec.folder) for spec in specs])
        if is_mixed
        else [""] * len(specs)
    )
    return [
        CellResult(
            replace(spec.labels, code=code_version),
            samples[spec.key],
            metrics,
            judged_rows.get(spec.key, {}),
            extra,
            _assign_groups(breakdown, samples[spec.key]) if breakdown else (),
            has_steps(spec.folder),
            columns.get(spec.key),
            judges.get(spec.key, {}),
        )
        for spec, code_version in zip(specs, code_versions, strict=True)
    ]


def _assign_groups(breakdown: Breakdown, samples: Sequence[Sample]) -> list[str]:
    """Return the group of each sample; raise ConfigError if there is not one for each."""
    groups = list(breakdown.assign_groups(samples))
    if len(groups) != len(samples):
        raise ConfigError(
            f"{type(breakdown).__qualname__}.assign_groups: expected {len(samples)} groups, one "
            f"for each sample; received {len(groups)}."
        )
    return groups


def check_common_settings(jobs: Sequence[Settings]) -> None:
    """Raise ConfigError if cells differ in settings of which a report has one value for all cells;
    the model of a role that a strategy asks is that of its cell. Metrics that no table can show
    together are refused, too.
    """
    build_metrics(jobs[0])
    cells = [cell for job in jobs for cell in job.cells]
    for name in REPORT_SETTINGS if len(cells) > 1 else ():
        values = {str(cell.plain.get(name)) for cell in cells if name not in cell.roles}
        if len(values) > 1:
            raise ConfigError(
                f"The cells differ in {name}, of which a table has one for all. Run a command for "
                "each, with a report.out of its own."
            )


def build_cell_rows(results: Sequence[CellResult], best: int | None = None) -> list[dict[str, str]]:
    """Build the printed table, a row per cell: the first metric with its interval, others as means.

    Only the first and the headline metrics are shown, and columns in which no cell has an entry are
    left out, so that a row fits on one line. The value of the cell with the index `best` has a
    star.
    """
    rows = []
    for index, result in enumerate(results):
        labels = result.labels
        row = {"strategy": labels.strategy, "k": str(labels.k), "gold": labels.gold}
        row |= {name: getattr(labels, name) for name in ("setting", "seed", "code")} | {
            "n": str(result.num_questions)
        }
        for number, metric in enumerate(result.headlines):
            format_value = result.format_metric if number == 0 else result.format_mean
            row[metric.heading] = format_value(metric.name, 0) + (
                " *" if number == 0 and index == best else ""
            )
        rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    columns = [
        name for name in names if any(row.get(name, "") not in ("", UNDEFINED) for row in rows)
    ]
    return [{name: row.get(name, UNDEFINED) for name in columns} for row in rows]


_MOST_COMPARED = 50
"""Largest number of cells of which all pairs are tested before the table is printed."""


def compare_rows(
    results: Sequence[CellResult], report: Report, selection: str
) -> tuple[list[dict[str, str]], list[str]]:
    """Return a sweep's table rows, with the best cell starred, and its comparison with the others.

    `selection` says what the selection of the questions does to cells without passages, as in
    `build_headline`.
    """
    if not 1 < len(results) <= _MOST_COMPARED:
        return build_cell_rows(results), []
    story = build_headline(Family(results, report.seed), report.cost, selection)
    page = (
        "Charts, questions and all tests: `python -m flows.report` with the same settings "
        f"({report.out}/index.html)."
    )
    return build_cell_rows(results, story.best), [f"* {story.headline.text}", story.cost, page]


ModelCounts = Mapping[tuple[Role, str], int]
"""Number of replies by role and model."""
Judged = Mapping[str, Mapping[str, Sequence[Row | None]]]
"""Rows of judged metrics by the key of the cell and the name of the metric."""


def list_judging_roles(metrics: Sequence[Metric]) -> list[Role]:
    """Return the roles that judged metrics ask."""
    return list(
        dict.fromkeys(
            role for metric in metrics if isinstance(metric, JudgedMetric) for role in metric.roles
        )
    )


def resolve_judge_specs(project: Project, metrics: Sequence[Metric]) -> list[EngineSpec]:
    """Resolve how to open the engine of each role that judged metrics ask."""
    return [resolve_engine_spec(project, role) for role in list_judging_roles(metrics)]


def _judge(
    settings: Settings,
    specs: Sequence[CellSpec],
    metrics: Sequence[Metric],
    samples: Mapping[str, Sequence[Sample]],
    stats: RunStats,
) -> tuple[Judged, dict[str, ModelCounts]]:
    """Run the calls of judged metrics; return, by cell, their rows and reply counts per model."""
    rows: dict[str, Mapping[str, Sequence[Row | None]]] = {}
    counts: dict[str, ModelCounts] = {}
    configs = {spec.key: spec.config for spec in specs}
    for engines, cell_samples in _group_by_judges(specs, metrics, samples):
        models: Counter[tuple[Role, str]] = Counter()
        rows |= _judge_cells(settings, engines, metrics, cell_samples, models, stats)
        _check_one_judge(settings, models)
        first = configs[next(iter(cell_samples))]
        named_counts = {
            (role, _name_judge(first, role, model)): number
            for (role, model), number in models.items()
        }
        shared_counts = Counter(named_counts)  # one object, which reports count once
        counts |= {key: shared_counts for key in cell_samples}  # noqa: C420 (a shared object is meant)
    return rows, counts


Group = tuple[Sequence[EngineSpec], Mapping[str, Sequence[Sample]]]
"""The engines that judge some cells, and the samples of these cells by key."""


def _group_by_judges(
    specs: Sequence[CellSpec],
    metrics: Sequence[Metric],
    samples: Mapping[str, Sequence[Sample]],
) -> list[Group]:
    """Group cells by the engines that judge them; none if no metric is judged."""
    roles = list_judging_roles(metrics)
    groups: dict[tuple[str, ...], tuple[list[EngineSpec], dict[str, Sequence[Sample]]]] = {}
    for spec in specs if roles else ():
        engines = [spec.resolve_engine(role) for role in roles]
        key = tuple(engine.key for engine in engines)
        groups.setdefault(key, (engines, {}))[1][spec.key] = samples[spec.key]
    return list(groups.values())


def estimate_judging(
    settings: Settings, specs: Sequence[CellSpec], counted: set[bytes]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Estimate the calls of the judged metrics of a sweep without making any: the rows of finished
    cells, one per role and group of engines, and a note on cells whose answers are not known yet.
    """
    metrics = build_metrics(settings)
    names = [metric.name for metric in metrics if isinstance(metric, JudgedMetric)]
    if not names:
        return [], []
    finished_specs = [spec for spec in specs if spec.is_finished]
    reader = SampleReader(collect_inputs(metrics))
    samples = {spec.key: reader.read(spec) for spec in finished_specs}
    rows = []
    for engines, cell_samples in _group_by_judges(finished_specs, metrics, samples):
        counts = {"cells": len(cell_samples), "finished": len(cell_samples)}
        build = partial(build_judge_jobs, metrics, cell_samples)
        again = settings.sweep.retry_empty
        estimated_rows = build_dry_run_rows(settings, engines, build, counted, retry_empty=again)
        rows += [counts | row for row in estimated_rows]
    pending = len({spec.key for spec in specs}) - len(samples)
    note = (
        f"The calls of {', '.join(names)} about the answers of {pending} unfinished cells are not "
        "counted, because the answers are not known."
    )
    return rows, [note] if pending else []


def _name_judge(config: Mapping[str, Any], role: Role, model: str) -> str:
    """Return a judge's name: as its server reports it, or a local reader's with its library."""
    reader = config.get(role) or config["reader"]
    return model if "base_url" in reader["engine"] else f"{reader['name']} by {model}"


def _judge_cells(
    settings: Settings,
    engines: Sequence[EngineSpec],
    metrics: Sequence[Metric],
    samples: Mapping[str, Sequence[Sample]],
    models: Counter[tuple[Role, str]],
    stats: RunStats,
) -> Judged:
    """Judge the cells that the same engines judge; return the rows by cell, count the replies of
    each model and the calls, and print what calls cost.
    """
    own, opened_engines = RunStats(), open_engines(engines)
    jobs = build_judge_jobs(metrics, samples)
    with open_ledger(settings, retry_empty=settings.sweep.retry_empty) as ledger:
        outcomes = iter_outcomes(opened_engines, ledger, jobs, len(jobs), "judging answers", own)
        rows = collect_judged_rows(count_models_of(outcomes, models), samples)
    if own.executed:
        prices = list_prices([opened_engines])
        print(f"Metrics by a model: {describe_usage(own, prices)}")
    stats.executed += own.executed
    return rows


def _check_one_judge(settings: Settings, models: ModelCounts) -> None:
    """Raise ConfigError if several models judged, now or earlier, and model_change is "stop"."""
    node = settings.judge
    names = sorted(model for role, model in models if role == "judge")
    if node and node.engine.get("model_change") == "stop" and len(names) > 1:
        raise ConfigError(
            f"Several models judged the answers: {', '.join(names)}. Pin a snapshot with "
            "judge.base, or accept them with judge.engine.model_change=mark."
        )
