"""The Prefect flow that the deployments of prefect.yaml run: any stage, with the words of its
command line as parameters.

prefect deploy --all
prefect deployment run winnow/sweep --param settings='["-m", "k=1,5"]'
"""

import os
from collections.abc import Sequence

from prefect import flow
from prefect.runtime import flow_run

from flows.stages.command import run_command
from flows.stages.errors import exit_on_errors
from flows.stages.registry import get_stage
from winnow.errors import WinnowError


class StageFailedError(WinnowError):
    """Raised when a stage ends with an error, so that its flow run fails."""


def _name_run() -> str:
    """Return the name of the current flow run: its stage and, if it has one, its shard."""
    parameters = flow_run.parameters
    shards = [word for word in parameters["settings"] if word.startswith("shard=")]
    return " ".join([parameters["stage"], *shards])


@flow(name="winnow", flow_run_name=_name_run, log_prints=True)
def run(stage: str = "pipeline", settings: Sequence[str] = ("experiment=quick_start",)) -> None:
    """Run a stage as a child of this flow run.

    Args:
        stage: Name of the stage, as in `python -m flows.<stage>`.
        settings: Words of its command line.

    Raises:
        ConfigError: If there is no such stage.
        StageFailedError: If the stage ends with an error.
    """
    from prefect.settings import PREFECT_API_URL

    os.environ.setdefault("PREFECT_API_URL", str(PREFECT_API_URL.value()))
    try:
        with exit_on_errors():
            run_command(get_stage(stage), settings)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise StageFailedError(f"{stage}: {end.code}") from end
