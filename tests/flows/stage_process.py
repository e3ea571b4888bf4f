"""Runs stages in processes that are forked from one in which the heavy libraries are imported
already.

A stage behaves as in `python -m flows.<stage>`, but starts within a tenth of a second instead of
seconds. Tests that kill processes or send signals start real ones.
"""

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

_PRELOADED = (
    "bm25s",
    "flows.project.cells",
    "flows.project.engines",
    "flows.stages.command",
    "flows.project.metrics",
    "flows.stages.tracking",
    "hydra.core.override_parser.overrides_parser",
    "jinja2",
    "altair",
    "mlflow",
    "mlflow.store.tracking.sqlalchemy_store",
    "orjson",
    "pyarrow.parquet",
    "scipy.stats",
    "sklearn.linear_model",
    "torch",
    "transformers.models.auto.modeling_auto",
    "transformers.models.llama.modeling_llama",
    "transformers.generation",
    "winnow.readers.local",
    "winnow.reports.report",
    "tests.flows.warm_start",
)


def run_stage(
    stage: str, words: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    """Run a stage in a folder with an environment, and return its exit status and what
    it printed.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_PRELOADED))
    with tempfile.TemporaryDirectory() as name:
        files = [Path(name) / "stdout", Path(name) / "stderr"]
        process = context.Process(
            target=_run, args=(stage, list(words), folder, dict(environment), files)
        )
        process.start()
        process.join()
        stdout, stderr = (file.read_text() if file.exists() else "" for file in files)
    return subprocess.CompletedProcess([stage, *words], process.exitcode or 0, stdout, stderr)


def _run(
    stage: str,
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    files: Sequence[Path],
) -> None:
    """Run the stage in this process, which ends with its exit status."""
    for descriptor, file in enumerate(files, 1):
        target = os.open(file, os.O_CREAT | os.O_WRONLY)
        os.dup2(target, descriptor)
    sys.stdout, sys.stderr = (os.fdopen(descriptor, "w", buffering=1) for descriptor in (1, 2))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:0] = [str(folder), *environment.get("PYTHONPATH", "").split(os.pathsep)]
    sys.argv = [f"flows.{stage}", *words]
    warnings.filterwarnings(
        "ignore", category=RuntimeWarning, module="runpy"
    )  # the module was imported before the fork
    status = 0
    try:
        runpy.run_module(f"flows.{stage}", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
