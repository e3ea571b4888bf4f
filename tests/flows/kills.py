"""Runs of a stage that are killed before or after a chosen rename, replacement or synchronisation
of a file.

Runs are processes forked from a server that has imported the libraries, so that hundreds of them
take minutes. pytest itself is not forked, because its threads would be missing in the copy.
"""

import importlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

OPERATIONS = ("rename", "replace", "fsync")
"""Functions of `os` around which a run is killed. `Path.rename`, `Path.replace` and `shutil.move`
call them.
"""
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    [
        "torch",
        "transformers",
        "pyarrow.parquet",
        "hydra",
        "mlflow",
        "sklearn",
        "bm25s",
        "datasets",
        "kills",
    ]
)


def run_stage(
    folder: Path, stage: str, arguments: Sequence[str], *, kill_at: int | None = None
) -> tuple[int, int]:
    """Run a stage in a folder in a process of its own.

    Args:
        folder: Working directory. The output is appended to `kills.log` there.
        stage: Name of the flow.
        arguments: Words of its command line.
        kill_at: Number of the moment at which the process kills itself: 2n is before and 2n + 1
            after operation n.

    Returns:
        Exit status, negative for a signal, and the number of operations that were started.
    """
    log = folder / "kills.log"
    count = folder / "kills.count"
    count.unlink(missing_ok=True)
    process = _SERVER.Process(
        target=_child, args=(folder, stage, list(arguments), kill_at, log, count)
    )
    process.start()
    process.join(300)
    if process.is_alive():
        process.kill()
        process.join()
        raise AssertionError(
            f"{stage} {arguments} did not end within 300 s:\n{log.read_text()[-3000:]}"
        )
    assert process.exitcode is not None
    return process.exitcode, len(count.read_bytes()) if count.exists() else 0


def _child(
    folder: Path, stage: str, arguments: list[str], kill_at: int | None, log: Path, count: Path
) -> None:
    os.chdir(folder)
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.pop("PREFECT_API_URL", None)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    counter = os.open(count, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    moment = 0

    def hooked(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*positional: Any, **named: Any) -> Any:
            nonlocal moment
            os.write(counter, b".")
            before, after = moment, moment + 1
            moment += 2
            if before == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            result = function(*positional, **named)
            if after == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    for name in OPERATIONS:
        setattr(os, name, hooked(getattr(os, name)))
    sys.argv = [f"flows.{stage}", *arguments]
    importlib.import_module(f"flows.{stage}").main()
