"""Run a stage in shards, processes that each treat a part of the questions, join what they made, and run the stage on it.

Every process has a ledger of its own, so that shards may run on machines without a common database. A shard that failed is
repeated by the same command; those that are finished are not. Indexes are divided by blocks of the corpus.

    python -m flows.shards experiment=quick_start shards.count=4                        # processes of this machine
    python -m flows.shards experiment=quick_start shards.count=2 'shards.gpus=[0,1]'    # each with a GPU of its own
    python -m flows.shards experiment=quick_start shards.count=64 shards.runner=slurm +shards.slurm.slurm_partition=gpu
    python -m flows.shards experiment=quick_start shards.count=64 shards.runner=slurm shards.wait=false  # end once submitted
    python -m flows.shards experiment=quick_start shards.count=4 shards.runner=prefect  # flow runs of a Prefect work pool
    python -m flows.shards experiment=quick_start shards.count=4 shards.stage=closed_book
    python -m flows.shards experiment=quick_start shards.count=4 shards.runner=merge    # shards that were run by hand
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from flows._artifacts import Project
from flows._entry import make_main
from flows._grid import expand_grid
from flows._runners import RUNNERS, submit_with_merge
from flows._shard_calls import merge_shards
from flows._shards import compute_digest, describe_other_settings, get_folder, is_finished
from flows._stages import Stage, get_stage
from flows._summary import Summary
from winnow.errors import ConfigError, WinnowError
from winnow.ledger.stores import is_server
from winnow.sweeps.shards import Shard

_LOG_LINES = 15
_PLACES = ("shards.runner", "shards.wait", "shards.gpus", "shards.slurm")
"""Settings that say where shards run, which the joining of them does not need."""


def shards(configs: Sequence[DictConfig]) -> Summary:
    """Run the stage's shards, merge their ledgers into that of the settings, and run the stage, which replays them."""
    cfg = configs[0]
    if cfg.get("shard") is not None:
        raise ConfigError(f"shard={cfg.shard}: flows.shards runs all shards. Remove it, and set shards.count.")
    stage = get_stage(str(cfg.shards.stage))
    parts = [Shard(number, cfg.shards.count) for number in range(1, cfg.shards.count + 1)]
    commands = [_build_words(shard) for shard in parts]
    logs = [get_folder(cfg) / "logs" / f"{stage.name}-{shard.name}.log" for shard in parts]
    logs[0].parent.mkdir(parents=True, exist_ok=True)
    if not cfg.shards.wait:
        return _submit(cfg, commands, logs)
    failed = RUNNERS[cfg.shards.runner](cfg, commands, logs)
    if failed:
        names, log = ", ".join(parts[index].name for index in failed), logs[failed[0]]
        lines = "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:]) if log.is_file() else ""
        raise WinnowError(
            f"{len(failed)} of {len(parts)} shards failed ({names}). The log of the first, {log}, ends with:\n{lines}\n"
            "Correct the cause and run the same command again; finished shards are kept."
        )
    if stage.shards == "parts" or is_server(str(cfg.paths.ledger)):
        merged = f"{len(parts)} shards."
    else:
        _check_finished(stage, configs, parts)
        merged = f"{len(parts)} shards, {merge_shards(cfg, parts)} calls merged into {cfg.paths.ledger}."
    summary = stage.run(configs)
    return Summary(summary.title, summary.rows, f"{merged}\n{summary.note}", summary.artifacts)


def _submit(cfg: DictConfig, commands: Sequence[list[str]], logs: Sequence[Path]) -> Summary:
    """Submit all shards and the joining of them to Slurm, and do not wait for them."""
    if cfg.shards.runner != "slurm":
        raise ConfigError(
            f"shards.wait=false needs shards.runner=slurm; received {cfg.shards.runner}. Run it in the background."
        )
    words = [word for word in sys.argv[1:] if not word.lstrip("+~").startswith(_PLACES)]
    numbers = submit_with_merge(cfg, commands, logs, [*words, "shards.runner=merge"])
    rows = [{"job": number, "": name} for number, name in zip(numbers, (f"{len(commands)} shards", "joins them"), strict=True)]
    return Summary("Submitted to Slurm", rows, f"The output is in {logs[0].parent}; the last job writes merge.log.")


def _build_words(shard: Shard) -> list[str]:
    """Return the words of one shard: those of this process without those about all shards."""
    words = [word for word in sys.argv[1:] if not word.lstrip("+~").startswith("shards.")]
    return [*words, f"shard={shard.number}/{shard.count}"]


def _check_finished(stage: Stage, configs: Sequence[DictConfig], parts: Sequence[Shard]) -> None:
    """Raise ConfigError if a shard was not finished with these settings, which can be so if the shards were run by hand."""
    cfg = configs[0]
    digest = compute_digest(_resolve_keys(stage, configs))
    for shard in parts:
        if is_finished(cfg, shard, stage.name, digest):
            continue
        words = " ".join(_build_words(shard))
        other = describe_other_settings(cfg, shard, stage.name)
        reason = f" It was last run with other settings: {other}." if other is not None else ""
        raise ConfigError(
            f"Shard {shard.number} of {shard.count} is not finished with these settings.{reason} Run `python -m "
            f"flows.{stage.name} {words}` and copy {shard.find_ledger(get_folder(cfg))} and the marker beside it here."
        )


def _resolve_keys(stage: Stage, configs: Sequence[DictConfig]) -> list[str]:
    """Return the keys of the artifacts for which a stage makes its calls."""
    cells = expand_grid(configs) if stage.grid else configs
    return [stage.resolve_made(Project(cfg)).key for cfg in cells]


STAGE = Stage(shards, grid=True, seeds="each")
main = make_main(STAGE)
if __name__ == "__main__":
    main()
