"""The shard of a stage: the calls of some questions, without the artifacts that they are for."""

import collections
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from flows.project.artifacts import Artifact, Project
from flows.project.cells import resolve_cells
from flows.project.engines import list_prices, open_cell_engines
from flows.project.ledger import open_ledger
from flows.project.runs import describe_usage, iter_outcomes
from flows.project.shards import (
    compute_digest,
    divide_limits,
    find_finished,
    finish,
    get_folder,
    hold,
    is_finished,
)
from flows.settings.door import list_cells
from flows.settings.typed import Settings
from flows.tools.summary import Summary
from winnow.driver.stats import RunStats
from winnow.ledger.merging import merge_ledger
from winnow.ledger.stores import is_server, open_store
from winnow.records import Question
from winnow.sweeps.run import LoadedCell, group_by_models, iter_jobs, load_cells
from winnow.sweeps.shards import Shard, list_ledgers
from winnow.sweeps.spec import CellSpec


def run_shard(
    settings: Settings,
    shard: Shard,
    stage: str,
    keys: Sequence[str],
    make_calls: Callable[[], str],
) -> Summary:
    """Make the calls of a shard, unless it is finished.

    Args:
        settings: Settings of the first job.
        shard: The shard.
        stage: Name of the stage.
        keys: Keys of the artifacts for which the calls are made.
        make_calls: Function that makes the calls, and returns a note on them.
    """
    digest = compute_digest(keys)
    title = f"Shard {shard.number} of {shard.count} of {stage}"
    with hold(settings, shard, stage):
        if is_finished(settings, shard, stage, digest) and not settings.sweep.retry_empty:
            return Summary(title, note="The shard was finished already; no call was made.")
        note = make_calls()
        with open_ledger(settings):  # a shard without a call has a ledger too
            finish(settings, shard, stage, digest)
    return Summary(title, note=note)


def run_question_shard(
    jobs: Sequence[Settings],
    shard: Shard,
    stage: str,
    resolve: Callable[[Project], Artifact],
    read_questions: Callable[[Project], Sequence[Question]],
    ask: Callable[[Project, Sequence[Question]], object],
) -> Summary:
    """Make every job's calls, which `ask` makes, of the shard's questions; write no artifacts."""
    projects = [Project(settings) for settings in divide_limits(jobs, shard)]

    def make_calls() -> str:
        selections = [
            [q for q in read_questions(project) if shard.contains(q.question_id)]
            for project in projects
        ]
        for project, questions in zip(projects, selections, strict=True):
            ask(project, questions)
        return f"The calls of {sum(map(len, selections))} questions were made."

    return run_shard(
        jobs[0], shard, stage, [resolve(project).key for project in projects], make_calls
    )


def run_sweep_shard(jobs: Sequence[Settings], shard: Shard) -> Summary:
    """Make the calls of the shard's questions, and write neither predictions nor MLflow runs."""
    cells_of_jobs = divide_limits(list_cells(jobs), shard)
    cells = [
        replace(
            cell,
            questions=[
                question for question in cell.questions if shard.contains(question.question_id)
            ],
        )
        for cell in load_cells(resolve_cells(cells_of_jobs))
    ]

    def make_calls() -> str:
        notes = [_make_calls(jobs[0], group) for group in group_by_models(cells)]
        return "\n".join([f"{sum(len(cell.questions) for cell in cells)} answers.", *notes])

    return run_shard(jobs[0], shard, "sweep", [cell.spec.key for cell in cells], make_calls)


def use_finished_shards(
    settings: Settings, stage: str, artifacts: Sequence[Artifact | CellSpec]
) -> None:
    """Merge the calls of all shards so that only missing calls are made; print missing shards.

    Calls are found by their content, so that those of killed shards, and of shards of other cells,
    count as well.

    Args:
        settings: Settings.
        stage: Name of the stage.
        artifacts: Artifacts of the stage. If all are finished, nothing is merged.
    """
    ledgers = list_ledgers_to_merge(settings, artifacts)
    if not ledgers:
        return
    merge_ledgers(settings, ledgers)
    finished_shards = find_finished(
        settings, stage, compute_digest([artifact.key for artifact in artifacts])
    )
    if not finished_shards:
        return
    counts = collections.Counter(shard.count for shard in finished_shards)
    if any(number == count for count, number in counts.items()):
        return
    count = counts.most_common(1)[0][0]
    missing_shards = [
        f"{number}/{count}"
        for number in range(1, count + 1)
        if Shard(number, count) not in finished_shards
    ]
    print(
        f"These shards were not finished: {', '.join(missing_shards)}. Their calls are made here; "
        "to run "
        f"them elsewhere, stop, and run `python -m flows.{stage} ... shard={missing_shards[0]}` "
        "there."
    )


def list_ledgers_to_merge(
    settings: Settings, artifacts: Sequence[Artifact | CellSpec]
) -> list[Path]:
    """Return the shards' ledgers that `use_finished_shards` merges, which a dry run reads."""
    if all(artifact.is_finished for artifact in artifacts) or is_server(str(settings.paths.ledger)):
        return []
    return list_ledgers(get_folder(settings))


def merge_ledgers(settings: Settings, files: Sequence[Path]) -> int:
    """Merge shards' ledgers into the settings' ledger, and return the number of added calls."""
    num_added = 0
    with open_store(str(settings.paths.ledger)) as ledger:
        for file in files:
            merge = merge_ledger(ledger, file)
            num_added += merge.added
            if merge.conflicts:
                print(merge.describe())
    return num_added


def _make_calls(settings: Settings, cells: Sequence[LoadedCell]) -> str:
    """Run cells with the same language models for their calls alone, and return a summary."""
    stats = RunStats()
    total = sum(len(cell.questions) for cell in cells)
    engines = open_cell_engines(cells)
    with open_ledger(settings, retry_empty=settings.sweep.retry_empty) as ledger:
        outcomes = iter_outcomes(engines, ledger, iter_jobs(cells), total, "sweeping", stats)
        collections.deque(outcomes, maxlen=0)
    return describe_usage(stats, list_prices(engines.values()))
