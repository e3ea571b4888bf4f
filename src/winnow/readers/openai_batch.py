"""A reader for OpenAI's Batch API, which returns replies within a day at half the price.

A batch outlives the process that created it. Its requests are written to a state file before they
are sent. A restarted reader first polls the batches of its state files, and returns all their
results to the driver, the component that runs strategies. The driver stores the results in the
ledger whether or not this run requests them. A state file is deleted only after the next call of
`collect`, which confirms that the results are stored. Batches of a process that still runs, such as
another shard's, are left to it.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

from winnow.errors import CallRefusedError, ConfigError, ReaderError
from winnow.identity.markers import SpeedOnly
from winnow.keys import compute_request_key
from winnow.readers.openai_batch_api import BatchApi, GoneError, parse_line
from winnow.readers.openai_batch_state import (
    StateFiles,
    pack_request,
    read_packed_requests,
    unpack_request,
)
from winnow.readers.openai_engine import OpenAIEngine
from winnow.readers.openai_errors import ModelMismatchError, RetryableError
from winnow.readers.token_estimates import estimate_max_usage
from winnow.requests import Failed, Generate, Generation, Request, Result, TooLong, Usage

_MAX_ATTEMPTS = 3
"""Maximum number of batches in which a request without a reply is sent."""
_log = logging.getLogger(__name__)
BatchResult = Generation | TooLong | Failed


@dataclass(slots=True)
class _PendingRequest:
    """A request of this run that has no result yet.

    Attributes:
        request: Original request.
        attempts: Number of batches in which the request was sent.
        reserved: Usage that is reserved in the budget, or None if the request is not in a batch of
            this run.

    """

    request: Generate
    attempts: int = 0
    reserved: Usage | None = None


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
        float, SpeedOnly("it decides how often a batch is polled but does not affect replies")
    ] = 30.0
    capacity: Annotated[
        int, SpeedOnly("it decides how many requests share a batch but does not affect replies")
    ] = 50_000
    patience: Annotated[
        float,
        SpeedOnly("it decides how long a failing server is retried but does not affect replies"),
    ] = 3600.0
    _pending: dict[str, _PendingRequest] = field(default_factory=dict, repr=False)
    """Requests without a result, by key."""
    _delivered: list[Path] = field(default_factory=list, repr=False)
    """State files of batches whose results were returned but are not confirmed as stored."""
    _error: Exception | None = field(default=None, repr=False)
    """Error that is raised once no batch is in progress."""
    _max_requests: int | None = field(default=None, repr=False)
    """Number of requests that the account's queue has room for, or None if it has not been full."""
    _next_poll: float = field(default=0.0, repr=False)
    """Time of the next poll on the clock of `time.monotonic`."""

    def __post_init__(self) -> None:
        """Raise ConfigError for settings with which no request could be sent."""
        if self.capacity < 1 or self.poll_seconds < 0:
            raise ConfigError(
                "reader.engine: capacity must be at least 1 and poll_seconds at least 0; received "
                f"{self.capacity} and {self.poll_seconds}."
            )
        super().__post_init__()

    def close(self) -> None:
        """Close the connections. The next run continues the batches in progress."""
        if "_api" in self.__dict__:
            self._api.close()

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests. The next call of `collect` sends those that no batch in progress
        contains.
        """
        for request in requests:
            generate = self.require_served(request)
            assert isinstance(generate, Generate)
            self._pending[compute_request_key(self.identity, request).hex()] = _PendingRequest(
                generate
            )

    def collect(self, timeout: float) -> Sequence[tuple[Request, Result | TooLong]]:
        """Poll the batches, send queued requests and wait up to `timeout` seconds for results.

        An error that stopped the reader is raised once no batch is in progress.
        """
        for path in self._delivered:
            path.unlink(missing_ok=True)
        self._delivered = []
        if not self._pending:
            return []
        deadline = time.monotonic() + timeout
        while True:
            if time.monotonic() >= self._next_poll:
                states = self._states.read()
                results = self._poll_all(states)
                if results or self._delivered:
                    return results
                if self._error is not None and not states:
                    raise self._error
                self._send(states)
                self._next_poll = time.monotonic() + self.poll_seconds
            wait_seconds = min(self._next_poll, deadline) - time.monotonic()
            if wait_seconds > 0:
                time.sleep(wait_seconds)
            if time.monotonic() >= deadline:
                return []

    def _poll_all(
        self, states: Mapping[Path, Mapping[str, Any]]
    ) -> list[tuple[Request, Result | TooLong]]:
        """Poll every batch and return their results.

        If polling a batch fails, the results of the batches before it are returned first. The next
        poll raises the error.
        """
        results: list[tuple[Request, Result | TooLong]] = []
        for path, state in states.items():
            try:
                results += self._poll(path, state)
            except ReaderError:
                if not results and not self._delivered:
                    raise
                break
        return results

    def _send(self, states: Mapping[Path, Mapping[str, Any]]) -> None:
        """Send the requests that no batch in progress contains in one batch, as far as the budget
        allows. A full queue takes one batch after another.
        """
        if self._max_requests is not None and states:
            return
        keys_in_progress = {key for state in states.values() for key in read_packed_requests(state)}
        if not self._pending.keys() <= keys_in_progress:
            keys_in_progress |= self._states.read_other_keys()
        selected: dict[str, Generate] = {}
        for key, pending in self._pending.items():
            if key in keys_in_progress:
                continue
            max_usage = estimate_max_usage(pending.request)
            if self._max_requests is not None and len(selected) == self._max_requests:
                break
            if self._error is not None or not self.spending.reserve(max_usage):
                self._error = self._error or self.spending.build_budget_error()
                break
            pending.reserved, pending.attempts = max_usage, pending.attempts + 1
            selected[key] = pending.request
        if selected:
            self._create_batch(selected)

    def _create_batch(self, requests: Mapping[str, Generate]) -> None:
        """Create a batch. Its state file is written before, and completed with the id of the batch
        after.
        """
        name = f"winnow-{time.time_ns()}"
        path = Path(self.state) / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        packed_requests = {key: pack_request(request) for key, request in requests.items()}
        state = {"name": name, "batch": None, "requests": packed_requests}
        self._states.write(path, state)
        bodies = {key: self.protocol.build_body(request) for key, request in requests.items()}
        batch_id = self._api.create(name, bodies)
        self._states.write(path, state | {"batch": batch_id})
        _log.warning(
            "Sent %d requests in batch %s. If this process ends, the next run continues it.",
            len(requests),
            batch_id,
        )

    def _poll(self, path: Path, state: Mapping[str, Any]) -> list[tuple[Request, Result | TooLong]]:
        """Return the results of a batch if it is finished. Requests without a result are sent
        again.
        """
        batch_id = state["batch"] or self._api.find(state["name"])
        if batch_id is None:
            _log.warning("Batch %s was never created. Its requests are sent again.", state["name"])
            return self._finish_batch(path, state, {})
        try:
            batch = self._api.poll(batch_id)
        except GoneError:
            _log.warning(
                "The server no longer has batch %s (%s). Its requests are sent again.",
                batch_id,
                path,
            )
            return self._finish_batch(path, state, {})
        except ReaderError as error:
            raise ReaderError(
                f"{error} The batch's state is in {path}; `rm {path}` abandons it."
            ) from error
        if not batch.is_finished:
            return []
        requests = read_packed_requests(state)
        if batch.is_queue_full and len(requests) > 1:
            self._max_requests = len(requests) // 2
            for pending in filter(None, map(self._pending.get, requests)):
                pending.attempts = 0
            _log.warning("%s. %d requests are sent at a time.", batch.error, self._max_requests)
        elif batch.error:
            self._error = ReaderError(
                f"The server refused batch {batch_id}: {batch.error}. Finished calls are in the "
                "ledger."
            )
        results: dict[str, BatchResult] = {}
        for file_id in batch.files:
            try:
                self._read_results(file_id, requests, results)
            except GoneError:
                _log.warning(
                    "The server no longer has the file %s of batch %s (%s). Requests without a "
                    "result are sent again; to abandon them, stop this run and remove the state "
                    "file.",
                    file_id,
                    batch_id,
                    path,
                )
        if len(results) < len(requests):
            _log.warning(
                "Batch %s is %s with %d of %d replies.",
                batch_id,
                batch.status,
                len(results),
                len(requests),
            )
        return self._finish_batch(path, state, results)

    def _finish_batch(
        self, path: Path, state: Mapping[str, Any], results_by_key: Mapping[str, BatchResult]
    ) -> list[tuple[Request, Result | TooLong]]:
        """Commit the usage of a finished batch and return its results.

        Requests without a result are sent again. If one was sent `_MAX_ATTEMPTS` times, the reader
        stops.
        """
        self._delivered.append(path)
        results: list[tuple[Request, Result | TooLong]] = []
        for key, packed in read_packed_requests(state).items():
            result, pending = results_by_key.get(key), self._pending.get(key)
            if pending is not None and pending.reserved is not None:
                self.spending.commit(
                    pending.reserved, result.usage if isinstance(result, Generation) else Usage()
                )
                pending.reserved = None
            if result is not None:
                results.append(
                    (unpack_request(packed) if pending is None else pending.request, result)
                )
                self._pending.pop(key, None)
            elif pending is not None and pending.attempts >= _MAX_ATTEMPTS and self._error is None:
                self._error = ReaderError(
                    f"A request was sent in {_MAX_ATTEMPTS} batches and received no reply. "
                    "Finished calls are in the ledger. Run the command again to send the request "
                    "again."
                )
        return results

    def _read_results(
        self, file_id: str, requests: Mapping[str, Any], results: dict[str, BatchResult]
    ) -> None:
        """Add the results of a result file to the results of the batch, by key. The first result of
        a request is kept.

        A line without a result, or in an unknown format, is skipped, and its request is sent again.
        A permanent refusal stops the reader after all results are returned.
        """
        for line in self._api.download(file_id):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                key = row["custom_id"]
                if not isinstance(key, str):
                    raise TypeError(f"custom_id is {type(key).__name__}")
                is_wanted = key in requests and key not in results
                result = (
                    self._convert_line(key, row, unpack_request(requests[key]))
                    if is_wanted
                    else None
                )
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                excerpt = self.protocol.mask_api_key(line)[:80]
                _log.warning(
                    "Skipped a line of file %s in an unknown format (%s): %r",
                    file_id,
                    type(error).__name__,
                    excerpt,
                )
                continue
            if result is not None:
                results[key] = result

    def _convert_line(
        self, key: str, row: Mapping[str, Any], request: Generate
    ) -> BatchResult | None:
        """Convert a line to its result.

        Returns:
            The result, or None if the request is to be sent again, was permanently refused, or is
            of another run.

        """
        try:
            return parse_line(self.protocol, row, request)
        except RetryableError:
            return None
        except ModelMismatchError:
            raise  # the next run reads the batch again, when the user has accepted the model
        except ReaderError as error:
            pending = self._pending.get(key)
            if pending is None:
                return None  # the request is of another run, and this run does not need its result
            if isinstance(error, CallRefusedError) and pending.request.may_fail:
                return Failed(str(error))
            self._error = error
            return None

    @cached_property
    def _states(self) -> StateFiles:
        """State files of the batches of this model."""
        # a poll may wait for a failing server as long as it has patience
        silence = 10 * self.poll_seconds + 2 * self.patience
        return StateFiles(Path(self.state), self.identity, silence)

    @cached_property
    def _api(self) -> BatchApi:
        """Connection to the server, which is made on first use."""
        return BatchApi(self.protocol, self.patience)
