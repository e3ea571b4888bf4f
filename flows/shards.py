r"""Run a stage in shards, processes that each treat a part of the questions, join what they made,
and run the stage on it.

Every process has a ledger of its own, so that shards may run on machines without a common database.
A shard that failed is repeated by the same command; those that are finished are not. Indexes are
divided by blocks of the corpus.

    python -m flows.shards experiment=quick_start shards.count=4
    python -m flows.shards experiment=quick_start shards.count=4 shards.stage=closed_book
    # Each process with a GPU of its own
    python -m flows.shards experiment=quick_start shards.count=2 'shards.gpus=[0,1]'
    # Jobs of Slurm; with shards.wait=false the command ends once they are submitted
    python -m flows.shards experiment=quick_start shards.count=64 shards.runner=slurm \
        +shards.slurm.slurm_partition=gpu
    # Flow runs of a Prefect work pool
    python -m flows.shards experiment=quick_start shards.count=4 shards.runner=prefect
    # Join shards that were run by hand
    python -m flows.shards experiment=quick_start shards.count=4 shards.runner=merge
"""

import shlex
from collections.abc import Sequence
from pathlib import Path

from flows.project.artifacts import Project
from flows.project.shards import compute_digest, describe_other_settings, get_folder, is_finished
from flows.settings.door import list_cells
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.last_sweep import remember_sweep
from flows.stages.registry import Stage, choose_stage
from flows.stages.runners import RUNNERS, submit_with_merge
from flows.stages.shard_calls import merge_ledgers
from flows.tools.summary import Summary
from winnow.errors import ConfigError, WinnowError
from winnow.ledger.stores import is_server
from winnow.sweeps.shards import Shard

_LOG_LINES = 15
_PLACES = ("shards.runner", "shards.wait", "shards.gpus", "shards.slurm")
"""Settings that say where shards run, which the joining of them does not need."""


def shards(jobs: Sequence[Settings]) -> Summary:
    """Run the stage's shards, merge their ledgers, and run the stage, which replays the calls."""
    settings = jobs[0]
    stage = choose_stage("shards.stage", settings.shards.stage, lambda stage: bool(stage.shards))
    parts = [Shard(number, settings.shards.count) for number in range(1, settings.shards.count + 1)]
    commands = [_build_words(settings, shard) for shard in parts]
    logs = [get_folder(settings) / "logs" / f"{stage.name}-{shard.name}.log" for shard in parts]
    logs[0].parent.mkdir(parents=True, exist_ok=True)
    if not settings.shards.wait:
        return _submit(settings, commands, logs)
    failed_indices = RUNNERS[settings.shards.runner](settings, commands, logs)
    if failed_indices:
        names, log = (
            ", ".join(parts[index].name for index in failed_indices),
            logs[failed_indices[0]],
        )
        lines = (
            "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:])
            if log.is_file()
            else ""
        )
        raise WinnowError(
            f"{len(failed_indices)} of {len(parts)} shards failed ({names}). The log of the first, "
            f"{log}, "
            f"ends with:\n{lines}\nCorrect the cause and run the same command again; finished "
            "shards are kept."
        )
    if stage.shards == "parts" or is_server(str(settings.paths.ledger)):
        merge_note = f"{len(parts)} shards."
    else:
        _check_finished(stage, jobs, parts)
        files = [shard.find_ledger(get_folder(settings)) for shard in parts]
        merge_note = (
            f"{len(parts)} shards, {merge_ledgers(settings, files)} calls merged into "
            f"{settings.paths.ledger}."
        )
    if stage.last_sweep == "set":
        own = [word for word in settings.words if not word.lstrip("+~").startswith("shards.")]
        remember_sweep(own, jobs)
    summary = stage.run(jobs)
    return Summary(summary.title, summary.rows, f"{merge_note}\n{summary.note}", summary.artifacts)


def _submit(settings: Settings, commands: Sequence[list[str]], logs: Sequence[Path]) -> Summary:
    """Submit all shards and the joining of them to Slurm, and do not wait for them."""
    if settings.shards.runner != "slurm":
        raise ConfigError(
            f"shards.wait=false needs shards.runner=slurm; received {settings.shards.runner}. Run "
            "it in the background."
        )
    words = [word for word in settings.words if not word.lstrip("+~").startswith(_PLACES)]
    numbers = submit_with_merge(settings, commands, logs, [*words, "shards.runner=merge"])
    rows = [
        {"job": number, "": name}
        for number, name in zip(numbers, (f"{len(commands)} shards", "joins them"), strict=True)
    ]
    return Summary(
        "Submitted to Slurm",
        rows,
        f"The output is in {logs[0].parent}; the last job writes merge.log.",
    )


def _build_words(settings: Settings, shard: Shard) -> list[str]:
    """Return the words of one shard: those of this command without those about all shards."""
    words = [word for word in settings.words if not word.lstrip("+~").startswith("shards.")]
    return [*words, f"shard={shard.number}/{shard.count}"]


def _check_finished(stage: Stage, jobs: Sequence[Settings], parts: Sequence[Shard]) -> None:
    """Raise ConfigError if a shard, perhaps run by hand, was not finished with these settings."""
    settings = jobs[0]
    digest = compute_digest(_resolve_keys(stage, jobs))
    for shard in parts:
        if is_finished(settings, shard, stage.name, digest):
            continue
        words = shlex.join(_build_words(settings, shard))
        other = describe_other_settings(settings, shard, stage.name)
        reason = f" It was last run with other settings: {other}." if other is not None else ""
        raise ConfigError(
            f"Shard {shard.number} of {shard.count} is not finished with these settings.{reason} "
            f"Run `python -m flows.{stage.name} {words}` and copy "
            f"{shard.find_ledger(get_folder(settings))} and the marker beside it here."
        )


def _resolve_keys(stage: Stage, jobs: Sequence[Settings]) -> list[str]:
    """Return the keys of the artifacts for which a stage makes its calls."""
    cells = list_cells(jobs) if stage.grid else jobs
    return [stage.resolve_made(Project(settings)).key for settings in cells]


STAGE = Stage(shards, grid=True, seeds="each")
main = make_main(STAGE)
if __name__ == "__main__":
    main()
