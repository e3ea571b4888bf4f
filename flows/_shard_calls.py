"""The shard of a sweep: the calls of a part of the questions, without predictions."""

import collections
from collections.abc import Sequence
from dataclasses import replace

from omegaconf import DictConfig

from flows._cells import resolve_cells
from flows._engines import describe_usage, iter_outcomes, open_engines
from flows._ledger import open_ledger
from flows._shards import compute_digest, divide_limits, finish, hold, is_finished
from flows._summary import Summary
from winnow.driver import RunStats
from winnow.sweeps.run import LoadedCell, group_by_engines, iter_jobs, load_cells
from winnow.sweeps.shards import Shard


def make_shard_calls(configs: Sequence[DictConfig], shard: Shard) -> Summary:
    """Make the calls of the shard's questions, and write neither predictions nor MLflow runs."""
    configs = divide_limits(configs, shard)
    cfg = configs[0]
    cells = [
        replace(cell, questions=[question for question in cell.questions if shard.contains(question.question_id)])
        for cell in load_cells(resolve_cells(configs))
    ]
    digest = compute_digest([cell.spec.key for cell in cells])
    title = f"Shard {shard.number} of {shard.count}: {sum(len(cell.questions) for cell in cells)} answers"
    with hold(cfg, shard, "sweep"):
        if is_finished(cfg, shard, "sweep", digest):
            return Summary(title, note="The shard was finished already; no call was made.")
        notes = [_make_calls(cfg, group) for group in group_by_engines(cells)]
        finish(cfg, shard, "sweep", digest, cells=sorted(cell.spec.folder.name for cell in cells), notes=notes)
    return Summary(title, note="\n".join(notes))


def _make_calls(cfg: DictConfig, cells: Sequence[LoadedCell]) -> str:
    """Run the plans of cells with the same engines for their calls alone, and return a summary of these."""
    specs, stats = cells[0].spec.engines, RunStats()
    total = sum(len(cell.questions) for cell in cells)
    with open_ledger(cfg, retry_empty=cfg.sweep.retry_empty) as ledger:
        outcomes = iter_outcomes(lambda: open_engines(specs), ledger, lambda: iter_jobs(cells), total, "sweeping", stats)
        collections.deque(outcomes, maxlen=0)
    return describe_usage(stats, {spec.role: spec.price for spec in specs})
