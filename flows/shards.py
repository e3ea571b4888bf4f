"""Run a stage in shards, processes that each answer a part of the questions, merge their calls, and run the stage on these.

Every process has a ledger of its own, so that shards may run on machines without a common database. A shard that failed is
repeated by the same command; those that are finished are not.

    python -m flows.shards experiment=quick_start shards.count=4                        # processes of this machine
    python -m flows.shards experiment=quick_start shards.count=2 'shards.gpus=[0,1]'    # each with a GPU of its own
    python -m flows.shards experiment=quick_start shards.count=64 shards.runner=slurm +shards.slurm.slurm_partition=gpu
    python -m flows.shards experiment=quick_start shards.count=4 shards.stage=closed_book
"""

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from flows._entry import make_main
from flows._shards import get_folder
from flows._summary import Summary, progress
from winnow.errors import ConfigError, WinnowError
from winnow.ledger.sqlite import SqliteStore
from winnow.ledger.tools import merge_ledger
from winnow.sweeps.shards import Shard

_LOG_LINES = 15
_POLL_SECONDS = 0.5


def shards(configs: Sequence[DictConfig]) -> Summary:
    """Run the stage's shards, merge their ledgers into that of the settings, and run the stage, which replays them."""
    cfg = configs[0]
    if cfg.get("shard") is not None:
        raise ConfigError(f"shard={cfg.shard}: flows.shards runs all shards. Remove it, and set shards.count.")
    stage, parts = str(cfg.shards.stage), [Shard(number, cfg.shards.count) for number in range(1, cfg.shards.count + 1)]
    commands = [_build_command(stage, shard) for shard in parts]
    logs = [get_folder(cfg) / "logs" / f"{stage}-{shard.name}.log" for shard in parts]
    logs[0].parent.mkdir(parents=True, exist_ok=True)
    run = _run_here if cfg.shards.runner == "local" else _run_by_submitit
    failed = run(cfg, commands, logs)
    if failed:
        names, log = ", ".join(parts[index].name for index in failed), logs[failed[0]]
        lines = "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:])
        raise WinnowError(
            f"{len(failed)} of {len(parts)} shards failed ({names}). The log of the first, {log}, ends with:\n{lines}\n"
            "Correct the cause and run the same command again; finished shards are kept."
        )
    added = _merge(cfg, parts)
    summary: Summary = getattr(importlib.import_module(f"flows.{stage}"), stage)(configs)
    note = f"{len(parts)} shards, {added} calls merged into {cfg.paths.ledger}.\n{summary.note}"
    return Summary(summary.title, summary.rows, note, summary.artifacts)


def _build_command(stage: str, shard: Shard) -> list[str]:
    """Return the command of one shard: the words of this process without those about all shards."""
    words = [word for word in sys.argv[1:] if not word.lstrip("+~").startswith("shards.")]
    return [sys.executable, "-m", f"flows.{stage}", *words, f"shard={shard.number}/{shard.count}"]


def _run_here(cfg: DictConfig, commands: Sequence[list[str]], logs: Sequence[Path]) -> list[int]:
    """Run all commands at the same time on this machine; return the indices of those that failed.

    The processes share the processor's cores equally. If GPUs are given, they take turns with them.
    """
    threads = str(max(1, (os.cpu_count() or 1) // len(commands)))
    gpus = list(cfg.shards.gpus)
    running: list[subprocess.Popen[bytes]] = []
    try:
        for index, (command, log) in enumerate(zip(commands, logs, strict=True)):
            environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads)}
            if gpus:
                environment["CUDA_VISIBLE_DEVICES"] = str(gpus[index % len(gpus)])
            with log.open("wb") as file:
                running.append(subprocess.Popen(command, env=environment, stdout=file, stderr=subprocess.STDOUT))
        _wait(len(commands), lambda: sum(process.poll() is not None for process in running))
    except BaseException:
        for process in running:
            process.terminate()
        for process in running:
            process.wait()
        raise
    return [index for index, process in enumerate(running) if process.returncode]


def _run_by_submitit(cfg: DictConfig, commands: Sequence[list[str]], logs: Sequence[Path]) -> list[int]:
    """Run all commands as an array of jobs, and wait for them; return the indices of those that failed."""
    try:
        import submitit
    except ImportError:
        raise ConfigError(
            f"shards.runner={cfg.shards.runner} needs submitit. Install Winnow with the extra `cluster`, or set "
            "shards.runner=local."
        ) from None
    cluster = "local" if cfg.shards.runner == "submitit_local" else "slurm"
    executor = submitit.AutoExecutor(folder=logs[0].parent / "submitit", cluster=cluster)
    parameters: Any = OmegaConf.to_container(cfg.shards.slurm, resolve=True)
    executor.update_parameters(name=f"winnow-{cfg.shards.stage}", **parameters)
    jobs = executor.map_array(run_command, commands, [str(log.absolute()) for log in logs], [os.getcwd()] * len(commands))
    try:
        _wait(len(jobs), lambda: sum(job.done() for job in jobs))
    except BaseException:
        for job in jobs:
            job.cancel()
        raise
    return [index for index, job in enumerate(jobs) if job.exception() is not None]


def run_command(command: list[str], log: str, folder: str) -> None:
    """Run the command of a shard in a job of submitit, with its output in a log file."""
    with Path(log).open("wb") as file:
        subprocess.run(command, cwd=folder, stdout=file, stderr=subprocess.STDOUT, check=True)


def _wait(total: int, count: Callable[[], int]) -> None:
    """Wait until all processes or jobs have ended, with a progress bar."""
    with progress("shards", total) as advance:
        done = 0
        while done < total:
            time.sleep(_POLL_SECONDS)
            ended = count()
            advance(ended - done)
            done = ended


def _merge(cfg: DictConfig, parts: Sequence[Shard]) -> int:
    """Add the calls of the shards' ledgers to the ledger of the settings, and return the number of added calls."""
    path = str(cfg.paths.ledger).removeprefix("sqlite:///")
    with SqliteStore(path) as ledger:
        return sum(merge_ledger(ledger, shard.find_ledger(get_folder(cfg))) for shard in parts)


main = make_main(shards, grid=True, seeds="each")
if __name__ == "__main__":
    main()
