"""Run the stages that the settings need, from downloads to the report and the page of questions, but no finished stage again.

A stage runs for the settings of each job and of each value of a grid's axes, such as several retrievers. What only another
role's model needs, such as a fine-tuned teacher, is run by its own command.

python -m flows.pipeline experiment=quick_start
python -m flows.pipeline corpus=plain_text corpus.parser.path=texts dataset=jsonl dataset.parser.path=qa.jsonl reader=smollm2
python -m flows.pipeline pipeline.goal=retrieve retriever=dense
"""

import importlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from omegaconf import DictConfig, OmegaConf

from flows._checks import check_ahead
from flows._conf import resolve_settings
from flows._entry import make_main
from flows._grid import expand_grid
from flows._hub import use_recorded_commits
from flows._models import check_training_split
from flows._summary import Summary
from flows.acquire import acquire
from winnow.errors import MissingArtifactError

_GOALS = ("sweep", "report", "browse")
"""The stages whose results are wanted by default; the others are run when one of these lacks their artifact."""
_GOALS_WITHOUT_READER = ("corpus", "index", "questions", "retrieve")
_GROUPS_WITHOUT_READER = ("corpus", "dataset", "retriever", "encoder", "search")
"""The groups of settings whose assets these goals need."""
_READ_BY_THE_SWEEP = ("strategy", "k", "placement", "distractors", "weighting", "rank_by", "decoding", "metric")
"""Settings that no stage before the sweep reads."""


def pipeline(configs: Sequence[DictConfig]) -> Summary:
    """Run the stage that is the goal, by default the page of questions, and before it each stage whose artifact is missing."""
    goal = str(configs[0].pipeline.goal)
    uses_reader = goal not in _GOALS_WITHOUT_READER
    prepared = list_prepared_settings(configs)
    for cfg in prepared if uses_reader else ():
        check_training_split(cfg, cfg.reader)
    acquire(prepared, () if uses_reader else _GROUPS_WITHOUT_READER).show()
    stages_run = ["acquire"]
    pinned = [use_recorded_commits(cfg) for cfg in configs]  # with the commits and checksums that `acquire` recorded
    if uses_reader:
        check_ahead(pinned)
    prepared = list_prepared_settings(pinned)
    if goal != _GOALS[-1]:
        summary = _run_stage(goal, pinned, prepared, stages_run)
        return replace(summary, note=f"Stages run: {', '.join(stages_run)}\n{summary.note}".strip())
    _, report, page = (_run_stage(stage, pinned, prepared, stages_run) for stage in _GOALS)
    if configs[0].tracking.traces:
        _run_stage("traces", pinned, prepared, stages_run)
    return Summary(report.title, report.rows, f"Stages run: {', '.join(stages_run)}\n{report.note}\n{page.title}")


def list_prepared_settings(configs: Sequence[DictConfig]) -> list[DictConfig]:
    """Return the distinct settings of the grids' cells in what the stages before the sweep read, without the grids."""
    distinct: dict[str, DictConfig] = {}
    for cfg in configs:
        for cell in expand_grid([cfg]):
            uses_reader = cell.strategy.get("uses_reader", True)
            for name in (*_READ_BY_THE_SWEEP, *(() if uses_reader else ("training",))):  # which the grid sets to "none" then
                if name in cfg:
                    OmegaConf.update(cell, name, cfg[name], merge=False, force_add=True)
            distinct.setdefault(json.dumps(resolve_settings(cell), sort_keys=True, default=str), cell)
    return list(distinct.values())


def _run_stage(stage: str, configs: Sequence[DictConfig], prepared: Sequence[DictConfig], stages_run: list[str]) -> Summary:
    """Run a stage after the stages whose artifacts it lacks, and print the summaries of those.

    Args:
        stage: Name of the stage, which is also that of its module and function.
        configs: Configurations of all jobs.
        prepared: Configurations for the stages before; see `list_prepared_settings`.
        stages_run: Names of the stages that were run before; the stages that are run now are appended.

    Raises:
        MissingArtifactError: If an artifact is missing although its stage was run.

    """
    function: Any = getattr(importlib.import_module(f"flows.{stage}"), stage)
    while True:
        try:
            summary: Summary = function(configs)
        except MissingArtifactError as error:
            if error.stage in stages_run:
                raise MissingArtifactError(
                    f"{error} The stage {error.stage} has run for the settings as they are, so that another model of them "
                    "needs it, such as the teacher of a training: run it with that choice."
                ) from error
            if not error.stage:
                raise
            _run_stage(error.stage, prepared, prepared, stages_run).show()
        else:
            stages_run.append(stage)
            return summary


main = make_main(pipeline, grid=True, seeds="each")
if __name__ == "__main__":
    main()
