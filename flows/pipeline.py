r"""Run the stages that the settings need, from downloads to the page of the sweep, but no finished
stage again.

A stage runs for the settings of each job and of each value of a grid's axes, such as several
retrievers. What only another role's model needs, such as a fine-tuned teacher, is run by its own
command.

python -m flows.pipeline experiment=quick_start
python -m flows.pipeline corpus=plain_text corpus.parser.path=texts dataset=jsonl \
    dataset.parser.path=qa.jsonl reader=smollm2
python -m flows.pipeline pipeline.goal=retrieve retriever=dense
# Downloads, stages and calls that this would take
python -m flows.pipeline experiment=quick_start dry_run=true
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from flows.acquire import acquire, plan_downloads
from flows.project.artifacts import Project
from flows.project.checks import check_ahead
from flows.project.models import check_training_split
from flows.settings.door import drop_equal, reopen
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.last_sweep import remember_sweep
from flows.stages.registry import Stage, choose_stage, get_stage, list_ancestors, list_needed
from flows.tools.summary import Summary
from winnow.errors import MissingArtifactError

_LAST_WITHOUT_READER = "retrieve"
"""The last of the stages that use no reader."""
_GROUPS_WITHOUT_READER = ("corpus", "dataset", "retriever", "encoder", "search")
"""The groups of settings whose assets these stages need."""
_READ_BY_THE_SWEEP = (
    "strategy",
    "k",
    "placement",
    "distractors",
    "context",
    "weighting",
    "rank_by",
    "decoding",
    "metric",
)
"""Settings that no stage before the sweep reads."""


def pipeline(jobs: Sequence[Settings]) -> Summary:
    """Run each stage whose artifact is missing, then the goal, by default the page of the sweep."""
    goal, prepared_settings, groups = _choose_goal(jobs)
    acquire(prepared_settings, groups).show()
    stages_run = ["acquire"]
    pinned_jobs = [
        reopen(job) for job in jobs
    ]  # with the commits and checksums that `acquire` recorded
    remember_sweep(jobs[0].words, pinned_jobs)
    if not groups:
        check_ahead(pinned_jobs)
    _run_missing(goal, pinned_jobs, stages_run)
    summary = _run(get_stage(goal), pinned_jobs, stages_run)
    if goal == "report" and jobs[0].tracking.traces:
        _run(get_stage("traces"), pinned_jobs, stages_run)
    return replace(summary, note=f"Stages run: {', '.join(stages_run)}\n{summary.note}".strip())


def _choose_goal(jobs: Sequence[Settings]) -> tuple[str, list[Settings], tuple[str, ...]]:
    """Return the name of the stage that is the goal, the settings of the stages before it, and the
    groups of settings whose assets they need: () for all, if one of them uses a reader.

    Raises:
        ConfigError: If the reader was trained on questions that it would answer.
    """
    goal = choose_stage(
        "pipeline.goal", jobs[0].pipeline.goal, lambda stage: bool(stage.reads)
    ).name
    without = (_LAST_WITHOUT_READER, *(one.name for one in list_ancestors(_LAST_WITHOUT_READER)))
    prepared_settings = list_prepared_settings(jobs)
    if goal in without:
        return goal, prepared_settings, _GROUPS_WITHOUT_READER
    for settings in prepared_settings:
        check_training_split(settings, settings.reader)
    return goal, prepared_settings, ()


def list_prepared_settings(
    jobs: Sequence[Settings], is_needed: Callable[[Settings], bool] = lambda _: True
) -> list[Settings]:
    """Return the cell settings, without grids, that are distinct for the stages before the sweep.

    Args:
        jobs: Settings of all jobs.
        is_needed: Function that selects cells by all their settings.
    """
    pairs: list[tuple[Settings, dict[str, Any]]] = []
    for job in jobs:
        for cell in filter(is_needed, job.cells):
            names = _READ_BY_THE_SWEEP + (
                () if cell.strategy.uses_reader else ("training",)
            )  # which the grid sets to "none"
            pairs.append((cell, {name: job.plain[name] for name in names if name in job.plain}))
    return [
        cell.replace(**own)
        for cell, own in drop_equal(pairs, lambda pair: {**pair[0].plain, **pair[1]})
    ]


def _run_missing(goal: str, jobs: Sequence[Settings], stages_run: list[str]) -> None:
    """Run the stages with missing artifacts before the goal, in order, and print their summaries.

    Args:
        goal: Name of a stage.
        jobs: Settings of all jobs.
        stages_run: Names of the stages that were run before; the stages that are run now are
            appended.
    """
    for stage in list_ancestors(goal):
        if stage.grid:
            _run(stage, jobs, stages_run)  # it skips finished cells
            continue
        prepared_settings = list_prepared_settings(jobs, partial(_needs, goal, stage.name))
        if not all(
            artifact.is_finished
            for settings in prepared_settings
            for artifact in stage.resolve(Project(settings))
        ):
            _run(stage, prepared_settings, stages_run).show()


def _dry_run(jobs: Sequence[Settings]) -> Summary:
    """Say what would be downloaded, which stages would run, and which calls the sweep would make if
    all before it are finished; nothing is run.
    """
    goal, prepared_settings, groups = _choose_goal(jobs)
    plan_downloads(prepared_settings, groups).show()
    rows: list[dict[str, str]] = []
    stages = [*list_ancestors(goal), get_stage(goal)]
    for stage in (one for one in stages if not one.grid):
        for settings in list_prepared_settings(jobs, partial(_needs, goal, stage.name)):
            try:
                artifacts = list(stage.resolve(Project(settings)))
            except MissingArtifactError as error:
                rows.append(
                    {"stage": stage.name, "artifact": "", "": f"would run after {error.stage}"}
                )
                continue
            for (
                artifact
            ) in artifacts:  # the name of one that is not there may follow from others that are not
                is_done = artifact.is_finished
                place = artifact.folder if is_done else artifact.folder.parent
                rows.append(
                    {
                        "stage": stage.name,
                        "artifact": str(place),
                        "": "finished already" if is_done else "would run",
                    }
                )
    before = Summary("Dry run: no stage was run", list(drop_equal(rows, dict)))
    sweep = get_stage("sweep")
    if sweep not in stages:
        return before
    if any(row[""] != "finished already" for row in rows):
        return replace(
            before,
            note=(
                "The calls of the sweep are counted when these stages are finished: repeat this "
                "command then."
            ),
        )
    before.show()
    return sweep.start(jobs)


def _needs(goal: str, stage: str, cell: Settings) -> bool:
    """Return whether the goal is or needs a stage for one cell."""
    return stage == goal or stage in list_needed(goal, cell)


def _run(stage: Stage, jobs: Sequence[Settings], stages_run: list[str]) -> Summary:
    """Run a stage, and explain what to do if an artifact is missing although its stage was run."""
    try:
        summary = stage.run(jobs)
    except MissingArtifactError as error:
        if error.stage not in stages_run:
            raise
        raise MissingArtifactError(
            f"{error} The stage {error.stage} has run for the settings as they are, so that "
            "another model of them needs it, such as the teacher of a training: run it with that "
            "choice."
        ) from error
    stages_run.append(stage.name)
    return summary


STAGE = Stage(pipeline, grid=True, dry_run=_dry_run, seeds="each", last_sweep="set")
main = make_main(STAGE)
if __name__ == "__main__":
    main()
