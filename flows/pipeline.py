"""Run all stages that the settings need, in order, from downloads to the report. Finished stages are not run again.

python -m flows.pipeline experiment=quick_start
python -m flows.pipeline corpus=plain_text corpus.parser.path=texts dataset=jsonl dataset.parser.path=qa.jsonl reader=smollm2
"""

import importlib
from collections.abc import Sequence
from typing import Any

from omegaconf import DictConfig

from flows._entry import make_main
from flows._models import check_training_split
from flows._summary import Summary
from winnow.errors import MissingArtifactError

_GOALS = ("acquire", "sweep", "report")
"""The stages whose results are wanted; the others are run when one of these lacks their artifact."""


def pipeline(configs: Sequence[DictConfig]) -> Summary:
    """Run the sweep and the report of all jobs, and before them each stage whose artifact is missing."""
    for cfg in configs:
        check_training_split(cfg, cfg.reader)
    stages_run: list[str] = []
    summaries = [_run_stage(stage, configs, stages_run) for stage in _GOALS]
    report = summaries[-1]
    return Summary(report.title, report.rows, f"Stages run: {', '.join(stages_run)}\n{report.note}")


def _run_stage(stage: str, configs: Sequence[DictConfig], stages_run: list[str]) -> Summary:
    """Run a stage after the stages whose artifacts it lacks, and print the summaries of those.

    Args:
        stage: Name of the stage, which is also that of its module and function.
        configs: Configurations of all jobs.
        stages_run: Names of the stages that were run before; the stages that are run now are appended.

    Raises:
        MissingArtifactError: If an artifact is missing although its stage was run.

    """
    function: Any = getattr(importlib.import_module(f"flows.{stage}"), stage)
    while True:
        try:
            summary: Summary = function(configs)
        except MissingArtifactError as error:
            if not error.stage or error.stage in stages_run:
                raise
            _run_stage(error.stage, configs, stages_run).show()
        else:
            stages_run.append(stage)
            return summary


main = make_main(pipeline, grid=True, seeds="each")
if __name__ == "__main__":
    main()
