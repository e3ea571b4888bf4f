"""Runs a stage directly, or under Prefect (imported only then) if PREFECT_API_URL is set."""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

from flows.settings.typed import Settings
from flows.tools.summary import Summary
from winnow.artifacts.provenance import flatten
from winnow.errors import ConfigError, DownloadError, ServerUnavailableError

_BLOCK_SECONDS = 10.0
"""Duration of the work that one task run shows; a block ends with the first result after this time.
"""
_MAX_PARAMETERS = 500_000
"""Characters of parameters that Prefect shows; its limit is 524,288 bytes."""
_RETRIES = 2
_RETRY_SECONDS = 10
_WORTH_A_RETRY = (ServerUnavailableError, DownloadError)
"""Errors of servers, rather than of a setting, a budget or a bug."""
_MAX_TAGS = 30
"""Number of artifact keys that a flow run has as tags, so that large sweeps stay readable."""


def run_flow(
    stage: Callable[[Sequence[Settings]], Summary],
    name: str,
    jobs: Sequence[Settings],
) -> Summary:
    """Run a stage, and return its summary.

    Args:
        stage: Function that runs the stage.
        name: Name of the Prefect flow.
        jobs: Settings of the jobs.
    """
    if os.environ.get("PREFECT_API_URL"):
        return _run_under_prefect(stage, name, jobs)
    print(
        f"[{name}] Running without Prefect. Set PREFECT_API_URL to record runs on a Prefect server."
    )
    return stage(jobs)


def _run_under_prefect(
    stage: Callable[[Sequence[Settings]], Summary],
    name: str,
    jobs: Sequence[Settings],
) -> Summary:
    """Run a stage as a flow run, whose name is that of the stage and the sweep and whose tags add
    the artifacts' keys. It runs again if a server failed; what was finished is kept.
    """
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "WARNING")
    from prefect import flow, tags

    sweep = jobs[0].sweep.name
    number = f", {len(jobs)} jobs" if len(jobs) > 1 else ""
    summaries: list[Summary] = []

    def run(
        settings: Sequence[Mapping[str, Any]],  # noqa: ARG001 (Prefect shows them as the run's parameters)
    ) -> str:
        summary = _run_with_retries(stage, jobs)
        summaries.append(summary)
        _show_summary(name, summary)
        return summary.title

    _check_server()
    title = f"{name} {sweep}{number}".replace("{", "{{").replace(
        "}", "}}"
    )  # Prefect takes the name for a template
    with tags(name, sweep):
        flow(name=name, flow_run_name=title, validate_parameters=False)(run)(_show_settings(jobs))
    return summaries[-1]


def _show_settings(jobs: Sequence[Settings]) -> list[Mapping[str, Any]]:
    """Return the settings of the first job, and in what the others differ from it; if that is more
    than Prefect takes, the words of the command.
    """
    first = flatten(jobs[0].plain)
    others = [
        {name: value for name, value in flatten(job.plain).items() if first.get(name) != value}
        for job in jobs[1:]
    ]
    shown: list[Mapping[str, Any]] = [jobs[0].plain, *others]
    if len(json.dumps(shown, default=str)) < _MAX_PARAMETERS:
        return shown
    return [{"words": list(jobs[0].words), "jobs": len(jobs)}]


def _run_with_retries(
    stage: Callable[[Sequence[Settings]], Summary], jobs: Sequence[Settings]
) -> Summary:
    """Run a stage, and retry it if a server failed. Prefect itself would retry after any error."""
    num_failed = 0
    while True:
        try:
            summary = stage(jobs)
        except _WORTH_A_RETRY as error:
            if num_failed == _RETRIES:
                raise
            num_failed += 1
            print(f"{error} The stage runs again in {_RETRY_SECONDS} s.", file=sys.stderr)
            time.sleep(_RETRY_SECONDS)
            continue
        if not num_failed:
            return summary
        note = f"Run {num_failed + 1} of the stage; what earlier ones called is not counted here."
        return replace(summary, note=f"{summary.note}\n{note}".strip())


def _show_summary(name: str, summary: Summary) -> None:
    """Add the table of a summary and the names of its artifacts to the current flow run. A server
    that does not take them does not fail the stage, which has ended.
    """
    import httpx
    from prefect.artifacts import create_table_artifact
    from prefect.client.orchestration import get_client
    from prefect.context import get_run_context
    from prefect.exceptions import PrefectException

    flow_run = get_run_context().flow_run  # type: ignore[union-attr]  # the context is that of a flow
    names = [folder.name for folder in summary.artifacts][:_MAX_TAGS]
    with suppress(httpx.HTTPError, PrefectException), get_client(sync_client=True) as client:
        client.update_flow_run(flow_run.id, tags=[*flow_run.tags, *names])  # type: ignore[union-attr]
        if summary.rows:
            rows = [{str(key): str(value) for key, value in row.items()} for row in summary.rows]
            create_table_artifact(
                rows, key=name.replace("_", "-"), description=f"{summary.title}\n\n{summary.note}"
            )


def _check_server() -> None:
    """Raise ConfigError if the Prefect server does not answer, or is of another major version."""
    import httpx
    from prefect.client.orchestration import get_client

    try:
        with get_client(sync_client=True) as client:
            client.raise_for_api_version_mismatch()
    except (httpx.HTTPError, RuntimeError) as error:
        raise ConfigError(
            f"The Prefect server in PREFECT_API_URL cannot be used: {error}. Start one of this "
            "environment with `make prefect-ui`, correct the address, or unset PREFECT_API_URL "
            "to run without Prefect."
        ) from error


@contextmanager
def show_blocks(label: str, total: int) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each finished job. In a flow run, it shows each ten seconds of
    work as a task run, and the progress as an artifact.

    Args:
        label: Name of the work.
        total: Number of jobs.
    """
    if not _is_in_flow_run():
        yield lambda: None
        return
    blocks = _Blocks(label, total)
    try:
        yield blocks.count
    except BaseException as error:
        blocks.end(failure=f"{type(error).__name__}: {error}")
        raise
    blocks.end()


def _is_in_flow_run() -> bool:
    if not os.environ.get("PREFECT_API_URL"):
        return False
    from prefect.context import FlowRunContext

    return FlowRunContext.get() is not None


class _Blocks:
    """Task runs and progress of the current flow run. Errors of the server do not stop the work."""

    def __init__(self, label: str, total: int) -> None:
        """Begin the first block."""
        import httpx
        from prefect import task
        from prefect.artifacts import create_progress_artifact
        from prefect.context import get_run_context
        from prefect.exceptions import PrefectException

        self._errors = (httpx.HTTPError, PrefectException)
        self._label, self._total, self._num_finished = label, total, 0
        self._task = task(name=label)(lambda: None)
        self._flow_run = get_run_context().flow_run.id  # type: ignore[union-attr]  # the context is that of a flow
        self._artifact: Any = None
        with suppress(*self._errors):
            key = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")  # all that Prefect allows
            description = f"{label}: {total} questions"
            self._artifact = create_progress_artifact(0.0, key=key, description=description)
        self._begin()

    def count(self) -> None:
        """Count a finished job, and begin another block if this one lasts long enough."""
        self._num_finished += 1
        if self._num_finished < self._total and time.monotonic() > self._deadline:
            self.end()
            self._begin()

    def end(self, failure: str = "") -> None:
        """End the block, as failed if a reason is given."""
        from prefect.artifacts import update_progress_artifact
        from prefect.client.orchestration import get_client
        from prefect.states import Completed, Failed

        state: Any = Failed(message=failure) if failure else Completed()
        with suppress(*self._errors):
            if self._artifact is not None:
                share = 100.0 * self._num_finished / max(self._total, 1)
                update_progress_artifact(self._artifact, share)
            with get_client(sync_client=True) as client:
                client.set_task_run_state(self._run, state, force=True)

    def _begin(self) -> None:
        from prefect.client.orchestration import get_client
        from prefect.states import Running

        self._deadline, self._run = time.monotonic() + _BLOCK_SECONDS, uuid4()
        name = f"{self._label}, from {self._num_finished + 1} of {self._total}"
        with suppress(*self._errors), get_client(sync_client=True) as client:
            client.create_task_run(
                self._task, self._flow_run, str(self._run), self._run, name, state=Running()
            )
