"""The metrics and the breakdown of a configuration, and cells as the report sees them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from omegaconf import DictConfig, OmegaConf

from flows._artifacts import Project
from flows._build import build
from flows._conf import compose, options
from flows._engines import drive, engine_spec, open_engines, open_ledger
from flows._identity import Pinned
from winnow.artifacts.provenance import compute_key, describe_code, read_manifest
from winnow.errors import ConfigError, nearest
from winnow.metrics.base import JudgedMetric, Metric, Row, Sample, required_inputs
from winnow.metrics.breakdowns import Breakdown
from winnow.reports.cells import CellResult
from winnow.sweeps.samples import judge_jobs, judged_rows, read_samples
from winnow.sweeps.spec import CellSpec


def configured_metrics(cfg: DictConfig) -> list[Metric]:
    """Return the metrics of the settings; the first is the one that comparisons are about."""
    return [build(node) for node in cfg.metric.values()]


def configured_breakdown(cfg: DictConfig) -> Breakdown | None:
    """Return the breakdown of the settings, if there is one."""
    breakdown: Breakdown | None = build(cfg.breakdown) if cfg.get("breakdown") else None
    return breakdown


def metric_named(name: str) -> Metric:
    """Return a metric of conf/metric that the settings do not list."""
    if name not in options("metric"):
        raise ConfigError(f"There is no conf/metric/{name}.yaml." + nearest(name, options("metric")))
    metric: Metric = build(compose([f"metric=[{name}]"]).metric[name])
    return metric


def read_results(cfg: DictConfig, specs: Sequence[CellSpec], *, hidden: Iterable[str] = ()) -> list[CellResult]:
    """Return finished cells with their metrics; judged metrics are run through the driver, into the ledger.

    Args:
        cfg: names metrics, breakdown and judge.
        specs: the cells, all finished.
        hidden: names of further metrics that plots or a paper's table need.

    """
    metrics, breakdown = configured_metrics(cfg), configured_breakdown(cfg)
    extra = [metric_named(name) for name in hidden if name not in {metric.name for metric in metrics}]
    components = [*metrics, *extra, *([breakdown] if breakdown else [])]
    samples = {spec.key: read_samples(spec, required_inputs(components)) for spec in specs}
    judged = _judge(cfg, metrics, samples)
    code = describe_code([read_manifest(spec.folder) for spec in specs])
    is_mixed = len(set(code)) > 1
    return [
        CellResult(
            replace(spec.labels, code=made_by if is_mixed else ""),
            samples[spec.key],
            metrics,
            judged.get(spec.key, {}),
            extra,
            breakdown.assign_groups(samples[spec.key]) if breakdown else (),
        )
        for spec, made_by in zip(specs, code, strict=True)
    ]


Judged = Mapping[str, Mapping[str, Sequence[Row | None]]]


def _judge(cfg: DictConfig, metrics: Sequence[Metric], samples: Mapping[str, Sequence[Sample]]) -> Judged:
    jobs = judge_jobs(metrics, samples)
    if not jobs:
        return {}
    engines = open_engines([engine_spec(Project(cfg), "judge")])
    with open_ledger(cfg) as ledger:
        return judged_rows(drive(engines, ledger, jobs, len(jobs), "judging answers"), samples)


def metrics_digest(cfg: DictConfig) -> str:
    """Return what identifies the metrics of the settings, so that a run in MLflow gets those that it lacks."""
    judge = any(isinstance(metric, JudgedMetric) for metric in configured_metrics(cfg))
    prices = OmegaConf.to_container(cfg.prices, resolve=True)
    judge_key = engine_spec(Project(cfg), "judge").key if judge else ""
    return compute_key(Pinned.of(cfg).settings(cfg.metric), prices, judge_key)
