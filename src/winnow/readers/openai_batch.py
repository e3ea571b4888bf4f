"""A reader for OpenAI's Batch API, which returns replies within a day at half the price.

`winnow.readers.batch_queue` sends, polls and pays; `openai_batch_api` knows the form of the API. A
reader for another provider's batches is such a class with its own server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.identity.markers import SpeedOnly
from winnow.keys import compute_request_key
from winnow.readers.batch_queue import BatchQueue, Results
from winnow.readers.batch_state import StateFiles
from winnow.readers.openai_batch_api import BatchApi
from winnow.readers.openai_engine import OpenAIEngine
from winnow.requests import Generate, Request


@dataclass
class OpenAIBatchReader(OpenAIEngine):
    """A reader that serves Generate requests through the endpoint /v1/batches.

    Args (in addition to OpenAIEngine's):
        state: Folder for the state files of batches in progress.
        poll_seconds: Seconds between two polls of the batches.
        capacity: Maximum number of requests per batch (OpenAI's limit is 50,000).
        patience: Seconds for which calls to a failing or unreachable server are retried.
    """

    revision: ClassVar[int] = 1

    state: Annotated[str, SpeedOnly("the folder of the state files does not affect replies")] = (
        "batches"
    )
    poll_seconds: Annotated[
        float,
        Ge(0),
        SpeedOnly("it decides how often a batch is polled but does not affect replies"),
    ] = 30.0
    capacity: Annotated[
        int,
        Ge(1),
        SpeedOnly("it decides how many requests share a batch but does not affect replies"),
    ] = 50_000
    patience: Annotated[
        float,
        SpeedOnly("it decides how long a failing server is retried but does not affect replies"),
    ] = 3600.0

    def close(self) -> None:
        """Close the connections. The next run, of any process, continues the batches."""
        if "_queue" in self.__dict__:
            self._queue.states.release()
        if "_api" in self.__dict__:
            self._api.close()

    def stop(self) -> None:
        """Send no further batch; the next run collects those in progress."""
        self._queue.stop()

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests. The next `collect` sends those that no batch in progress contains."""
        for request in requests:
            generate = self.require_served(request)
            assert isinstance(generate, Generate)
            self._queue.add(compute_request_key(self.identity, request).hex(), generate)

    def collect(self, timeout: float) -> Results:
        """Poll the batches, send queued requests and wait up to `timeout` seconds for results.

        An error that stopped the reader is raised once no batch is in progress.
        """
        return self._queue.collect(timeout)

    @cached_property
    def _queue(self) -> BatchQueue:
        """Requests of this run."""
        # a poll may wait for a failing server as long as it has patience
        silence = 10 * self.poll_seconds + 2 * self.patience
        states = StateFiles(Path(self.state), self.identity, silence)
        return BatchQueue(self._api, states, self.spending, self.poll_seconds)

    @cached_property
    def _api(self) -> BatchApi:
        """Connection to the server, which is made on first use."""
        return BatchApi(self.protocol, self.patience)
