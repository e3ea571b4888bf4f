"""Runs a stage under Prefect if PREFECT_API_URL is set, and directly otherwise. Prefect is imported
only if it is used.
"""

import os
import time
from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from flows.settings.typed import Settings
from flows.tools.summary import Summary
from winnow.errors import ConfigError, ServerUnavailableError
from winnow.steps import Outcome

T = TypeVar("T")

_BLOCK_SECONDS = 10.0
"""Duration of the work that one task run shows; a block ends with the first result after this time.
"""
_BLOCK_RETRIES = 2
_RETRY_SECONDS = 10
_MAX_TAGS = 30
"""Number of artifact keys that a flow run has as tags, so that large sweeps stay readable."""


def run_flow(
    stage: Callable[[Sequence[Settings]], Summary],
    name: str,
    retries: int,
    jobs: Sequence[Settings],
) -> Summary:
    """Run a stage, and return its summary.

    Args:
        stage: Function that runs the stage.
        name: Name of the Prefect flow.
        retries: Number of retries under Prefect.
        jobs: Settings of the jobs.

    """
    if os.environ.get("PREFECT_API_URL"):
        return _run_under_prefect(stage, name, retries, jobs)
    print(
        f"[{name}] Running without Prefect. Set PREFECT_API_URL to record runs on a Prefect server."
    )
    return stage(jobs)


def _run_under_prefect(
    stage: Callable[[Sequence[Settings]], Summary],
    name: str,
    retries: int,
    jobs: Sequence[Settings],
) -> Summary:
    """Run a stage as a flow run, whose name is that of the stage and the sweep and whose tags add
    the artifacts' keys.
    """
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "WARNING")
    from prefect import flow, tags
    from prefect.artifacts import create_table_artifact

    sweep = jobs[0].sweep.name
    number = f", {len(jobs)} jobs" if len(jobs) > 1 else ""
    summaries: list[Summary] = []

    def run(
        settings: Sequence[Mapping[str, Any]],  # noqa: ARG001 (Prefect shows them as the run's parameters)
    ) -> str:
        summary = stage(jobs)
        summaries.append(summary)
        _add_tags([folder.name for folder in summary.artifacts][:_MAX_TAGS])
        if summary.rows:
            rows = [{str(key): str(value) for key, value in row.items()} for row in summary.rows]
            create_table_artifact(
                rows, key=name.replace("_", "-"), description=f"{summary.title}\n\n{summary.note}"
            )
        return summary.title

    _check_server()
    title = f"{name} {sweep}{number}".replace("{", "{{").replace(
        "}", "}}"
    )  # Prefect takes the name for a template
    with tags(name, sweep):
        flow(
            name=name,
            flow_run_name=title,
            validate_parameters=False,
            retries=retries,
            retry_delay_seconds=5,
        )(run)([job.plain for job in jobs])
    return summaries[-1]


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


def _add_tags(new: Sequence[str]) -> None:
    """Add tags to the current flow run."""
    from prefect.client.orchestration import get_client
    from prefect.context import get_run_context

    flow_run = get_run_context().flow_run  # type: ignore[union-attr]  # the context is that of a flow
    with get_client(sync_client=True) as client:
        client.update_flow_run(flow_run.id, tags=[*flow_run.tags, *new])  # type: ignore[union-attr]


def run_in_blocks(
    start: Callable[[Container[Hashable]], Iterator[Outcome[T]]], total: int, label: str
) -> Iterator[Outcome[T]]:
    """Yield the outcomes of jobs. Within a flow run, each ten seconds of work are a task run, which
    is retried alone.

    A retry starts the jobs again that have no outcome yet; their finished calls come from the
    ledger.

    Args:
        start: Function that starts the jobs, except those with the given tags, and yields their
            outcomes.
        total: Number of jobs.
        label: Name of the work.

    """
    if not _is_in_flow_run():
        yield from start(())
        return
    yield from _run_tasks(start, total, label)


def _is_in_flow_run() -> bool:
    if not os.environ.get("PREFECT_API_URL"):
        return False
    from prefect.context import FlowRunContext

    return FlowRunContext.get() is not None


def _run_tasks(
    start: Callable[[Container[Hashable]], Iterator[Outcome[T]]], total: int, label: str
) -> Iterator[Outcome[T]]:
    """Yield the outcomes of jobs, one Prefect task run per block, and show the progress as an
    artifact of the flow run.
    """
    import httpx
    from prefect import task
    from prefect.artifacts import create_progress_artifact, update_progress_artifact
    from prefect.cache_policies import NO_CACHE
    from prefect.exceptions import PrefectException

    finished: set[Hashable] = set()
    block: list[Outcome[T]] = []
    stream: Iterator[Outcome[T]] | None = None
    is_complete = False

    def run_block() -> None:
        nonlocal stream, is_complete
        deadline = time.monotonic() + _BLOCK_SECONDS
        if stream is None:
            stream = start(finished)
        try:
            for outcome in stream:
                finished.add(outcome.tag)
                block.append(outcome)
                if time.monotonic() > deadline:
                    return
        except BaseException:
            stream = None
            raise
        is_complete = True

    artifact = None
    with suppress(httpx.HTTPError, PrefectException):  # progress is not worth the run
        key = label.replace(" ", "-").replace("'", "")
        artifact = create_progress_artifact(0.0, key=key, description=f"{label}: {total} questions")
    while not is_complete:
        name = f"{label}, from {len(finished) + 1} of {total}"
        task(
            name=label, task_run_name=name, retries=_BLOCK_RETRIES,
            retry_delay_seconds=_RETRY_SECONDS, retry_condition_fn=_is_worth_a_retry,
            cache_policy=NO_CACHE, persist_result=False,
        )(run_block)()  # fmt: skip
        yield from block
        block.clear()
        if artifact is not None:
            with suppress(httpx.HTTPError, PrefectException):
                update_progress_artifact(artifact, 100.0 * len(finished) / max(total, 1))  # type: ignore[arg-type]


def _is_worth_a_retry(_task: object, _run: object, state: Any) -> bool:
    """Return whether a block failed because a server did, rather than because of a setting, a
    budget or a bug.
    """
    return isinstance(state.result(raise_on_failure=False), ServerUnavailableError)
