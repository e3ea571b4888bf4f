"""Runners of shards: local processes, submitit jobs, flow runs of a Prefect work pool, or none.

A runner takes the words of each shard's command line, and the files in which the shards' output
goes. It waits until all have ended, and returns the indices of those that failed.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from flows.settings.typed import Settings
from flows.tools.summary import progress
from winnow.errors import ConfigError

Runner = Callable[[Settings, Sequence[list[str]], Sequence[Path]], list[int]]

_POLL_SECONDS = 0.5
_DEPLOYMENT = "winnow/shard"
_PATIENCE_SECONDS = 30.0
"""How long flow runs may wait for a worker before the command says so."""
_STARTS = 3
"""How many times a flow run that crashed, because its worker vanished for example, is started."""


def _run_here(settings: Settings, commands: Sequence[list[str]], logs: Sequence[Path]) -> list[int]:
    """Run all shards at the same time on this machine.

    The processes share the cores that this one may use equally. If GPUs are given, they take turns
    with them.
    """
    from joblib import cpu_count

    threads = str(max(1, cpu_count() // len(commands)))
    gpus = list(settings.shards.gpus)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for index, (words, log) in enumerate(zip(commands, logs, strict=True)):
            environment = {
                **os.environ,
                "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads),
            }
            if gpus:
                environment["CUDA_VISIBLE_DEVICES"] = str(gpus[index % len(gpus)])
            command = _build_command(settings, words)
            with log.open("wb") as file:
                processes.append(
                    subprocess.Popen(
                        command, env=environment, stdout=file, stderr=subprocess.STDOUT
                    )
                )
        _wait(len(commands), lambda: sum(process.poll() is not None for process in processes))
    except BaseException:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
        raise
    return [index for index, process in enumerate(processes) if process.returncode]


def _run_by_submitit(
    settings: Settings, commands: Sequence[list[str]], logs: Sequence[Path]
) -> list[int]:
    """Run all shards as an array of jobs."""
    jobs = _submit_array(settings, _open_executor(settings, logs[0].parent), commands, logs)
    try:
        _wait(len(jobs), lambda: sum(job.done() for job in jobs))
    except BaseException:
        for job in jobs:
            job.cancel()
        raise
    return [index for index, job in enumerate(jobs) if job.exception() is not None]


def submit_with_merge(
    settings: Settings, commands: Sequence[list[str]], logs: Sequence[Path], merge: Sequence[str]
) -> list[str]:
    """Submit all shards as a Slurm array, and a job that joins them if all of them have succeeded.

    Args:
        settings: Settings.
        commands: Words of each shard's command line.
        logs: Files for the output of the shards; that of the last job is next to them.
        merge: Words of the command line of flows.shards that joins them.

    Returns:
        Number of the array, and that of the last job.
    """
    executor = _open_executor(settings, logs[0].parent)
    number = str(_submit_array(settings, executor, commands, logs)[0].job_id).partition("_")[0]
    parameters: Any = settings.shards.slurm.get("slurm_additional_parameters", {})
    executor.update_parameters(
        name="winnow-merge",
        slurm_additional_parameters={**parameters, "dependency": f"afterok:{number}"},
    )
    command = [sys.executable, "-m", "flows.shards", *merge]
    last = executor.submit(
        run_command, command, str((logs[0].parent / "merge.log").absolute()), os.getcwd()
    )
    return [number, str(last.job_id)]


def _open_executor(settings: Settings, folder: Path) -> Any:
    """Open submitit's executor with the configured parameters; it writes below `folder`."""
    try:
        import submitit
    except ImportError:
        raise ConfigError(
            f"shards.runner={settings.shards.runner} needs submitit. Install Winnow with the extra "
            "`cluster`, or set shards.runner=local."
        ) from None
    cluster = "local" if settings.shards.runner == "submitit_local" else "slurm"
    executor = submitit.AutoExecutor(folder=folder / "submitit", cluster=cluster)
    parameters = settings.shards.slurm
    executor.update_parameters(name=f"winnow-{settings.shards.stage}", **parameters)
    return executor


def _submit_array(
    settings: Settings, executor: Any, commands: Sequence[list[str]], logs: Sequence[Path]
) -> list[Any]:
    complete = [_build_command(settings, words) for words in commands]
    jobs: list[Any] = executor.map_array(
        run_command, complete, [str(log.absolute()) for log in logs], [os.getcwd()] * len(commands)
    )
    return jobs


def run_command(command: list[str], log: str, folder: str) -> None:
    """Run the command of a shard in a job of submitit, with its output in a log file."""
    with Path(log).open("wb") as file:
        subprocess.run(command, cwd=folder, stdout=file, stderr=subprocess.STDOUT, check=True)


def _run_by_prefect(
    settings: Settings, commands: Sequence[list[str]], logs: Sequence[Path]
) -> list[int]:
    """Run each shard as a flow run of the deployment, below this flow run, on its pool's workers.

    A flow run that crashed is started again, alone. The message of a failed one is written to its
    log.
    """
    if not os.environ.get("PREFECT_API_URL"):
        raise ConfigError(
            "shards.runner=prefect needs the address of a Prefect server in PREFECT_API_URL "
            "(docs/prefect.md)."
        )
    from prefect.client.orchestration import get_client
    from prefect.states import Cancelling

    stage = str(settings.shards.stage)
    runs, ended, is_told = dict[int, Any](), dict[int, Any](), False
    starts = dict.fromkeys(range(len(commands)), 1)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    with get_client(sync_client=True) as client:

        def count_ended() -> int:
            nonlocal is_told
            num_waiting = 0
            for index in [index for index in runs if index not in ended]:
                state = client.read_flow_run(runs[index]).state
                num_waiting += state is None or state.is_scheduled()
                if state is not None and state.is_crashed() and starts[index] < _STARTS:
                    runs[index], starts[index] = (
                        _start_flow_run(stage, commands[index]),
                        starts[index] + 1,
                    )
                elif state is not None and state.is_final():
                    ended[index] = state
            if num_waiting and not is_told and time.monotonic() > deadline:
                print(
                    f"{num_waiting} shards wait for a worker. Start one by `prefect worker start "
                    "--pool winnow`."
                )
                is_told = True
            return len(ended)

        try:
            for index, words in enumerate(commands):
                runs[index] = _start_flow_run(stage, words)
            _wait(len(runs), count_ended)
        except BaseException:
            for index in [index for index in runs if index not in ended]:
                with suppress(Exception):  # the first error counts
                    client.set_flow_run_state(runs[index], Cancelling())
            raise
    failed_indices = [index for index, state in sorted(ended.items()) if not state.is_completed()]
    for index in failed_indices:
        logs[index].write_text(f"{ended[index].type.value}: {ended[index].message}\n")
    return failed_indices


def _start_flow_run(stage: str, words: Sequence[str]) -> Any:
    """Start a flow run of a shard, and return its id.

    Raises:
        ConfigError: If the deployment does not exist on the server.
    """
    from prefect.deployments import run_deployment
    from prefect.exceptions import ObjectNotFound

    parameters = {"stage": stage, "settings": list(words)}
    try:
        return run_deployment(_DEPLOYMENT, parameters=parameters, timeout=0).id  # type: ignore[union-attr]  # the flow is synchronous
    except ObjectNotFound:
        raise ConfigError(
            f"The Prefect server has no deployment {_DEPLOYMENT}. Run `prefect work-pool create "
            "--type process winnow` and `prefect --no-prompt deploy --all` in the project's "
            "folder first (docs/prefect.md)."
        ) from None


def _run_none(settings: Settings, commands: Sequence[list[str]], logs: Sequence[Path]) -> list[int]:  # noqa: ARG001 (a Runner)
    """Run no shard, because all were run by hand."""
    return []


def _build_command(settings: Settings, words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", f"flows.{settings.shards.stage}", *words]


def _wait(total: int, count: Callable[[], int]) -> None:
    """Wait until all processes or jobs have ended, with a progress bar."""
    with progress("shards", total) as advance:
        num_finished = 0
        while num_finished < total:
            time.sleep(_POLL_SECONDS)
            ended = count()
            advance(ended - num_finished)
            num_finished = ended


RUNNERS: Mapping[str, Runner] = {
    "local": _run_here,
    "slurm": _run_by_submitit,
    "submitit_local": _run_by_submitit,
    "prefect": _run_by_prefect,
    "merge": _run_none,
}
"""Runners by the name in `shards.runner`."""
