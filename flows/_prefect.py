"""Runs a stage under Prefect if PREFECT_API_URL is set, and directly otherwise. Prefect is imported only if it is used."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from flows._conf import resolve_settings
from flows._summary import Summary


def run_flow(stage: Callable[[Sequence[DictConfig]], Summary], name: str, retries: int, configs: Sequence[DictConfig]) -> None:
    """Run a stage and print its summary.

    Args:
        stage: Function that runs the stage.
        name: Name of the Prefect flow.
        retries: Number of retries under Prefect.
        configs: Configurations of the jobs.

    """
    if os.environ.get("PREFECT_API_URL"):
        plain = [resolve_settings(cfg) for cfg in configs]
        _run_under_prefect(stage, name, retries, plain)
    else:
        print(f"[{name}] Running without Prefect. Set PREFECT_API_URL to record runs on a Prefect server.")
        stage(configs).show()


def _run_under_prefect(
    stage: Callable[[Sequence[DictConfig]], Summary], name: str, retries: int, plain: Sequence[Any]
) -> None:
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "WARNING")
    from prefect import flow
    from prefect.artifacts import create_table_artifact

    def run(settings: Sequence[Mapping[str, Any]]) -> str:
        summary = stage([OmegaConf.create(dict(job)) for job in settings])
        summary.show()
        if summary.rows:
            rows = [{str(key): str(value) for key, value in row.items()} for row in summary.rows]
            create_table_artifact(rows, key=name.replace("_", "-"), description=f"{summary.title}\n\n{summary.note}")
        return summary.title

    flow(name=name, validate_parameters=False, retries=retries, retry_delay_seconds=5)(run)(plain)
