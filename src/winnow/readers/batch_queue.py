"""Requests that a server answers in batches, hours later: sending, polling, retrying and paying.

A batch outlives the process that sent it. Its requests are written to a state file before they are
sent. A restarted queue first polls the batches of its state files, and returns all their results to
the driver, the component that runs strategies. The driver stores the results in the ledger whether
or not this run requests them. A state file is deleted only after the next call of `collect`, which
confirms that the results are stored. Batches of a process that still runs, such as another shard's,
are left to it.

What a provider calls a batch, and how it writes requests and replies, is a `BatchServer`:
`winnow.readers.openai_batch_api` is OpenAI's.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from winnow.errors import CallRefusedError, ReaderError, StoppedError
from winnow.keys import compute_request_key
from winnow.readers.batch_state import SentBatch, StateFiles
from winnow.readers.budget import Spending
from winnow.readers.openai_errors import ModelMismatchError, RetryableError
from winnow.readers.token_estimates import estimate_max_usage
from winnow.requests import Failed, Generate, Generation, Request, Result, TooLong, Usage

_MAX_ATTEMPTS = 3
"""Maximum number of batches in which a request without a reply is sent."""
_log = logging.getLogger(__name__)
BatchResult = Generation | TooLong | Failed
Results = list[tuple[Request, Result | TooLong]]


class GoneError(ReaderError):
    """Raised when the server no longer has what a call asks for, such as an expired result file."""


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """What the server says of a batch.

    Attributes:
        status: Status in the words of the server.
        is_finished: Whether no further results will follow.
        files: Ids of the result files: first the one of replies, then the one of errors.
        error: Why the whole batch failed, without the API key; "" if it did not.
        is_queue_full: Whether it failed because the account's queue had no room for it.
    """

    status: str
    is_finished: bool
    files: tuple[str, ...] = ()
    error: str = ""
    is_queue_full: bool = False


class BatchServer(Protocol):
    """A server that takes batches. Its methods retry failed calls, and raise ReaderError if the
    server refuses them or fails for long.
    """

    @property
    def max_bytes(self) -> int:
        """Return the size of the largest batch."""

    def count_bytes(self, key: str, request: Generate) -> int:
        """Return what a request adds to the size of its batch."""

    def create(self, name: str, requests: Mapping[str, Generate]) -> str:
        """Create a batch of the requests by key, and return its id."""

    def find(self, name: str) -> str | None:
        """Return the id of the batch with this name, or None."""

    def poll(self, batch_id: str) -> BatchStatus:
        """Return what the server says of a batch; raise GoneError if it no longer has it."""

    def iter_results(
        self, file_id: str, requests: Mapping[str, Generate]
    ) -> Iterator[tuple[str, BatchResult | Exception]]:
        """Yield the keys of the requests in a result file, each with its result or the error that
        its call would have raised; raise GoneError if the server no longer has the file.

        What is damaged, or belongs to none of the requests by key, is left out.
        """


@dataclass(slots=True)
class _PendingRequest:
    """A request of this run that has no result yet.

    Attributes:
        request: Original request.
        attempts: Number of batches in which the request was sent.
        reserved: Usage that is reserved in the budget, or None if the request is not in a batch of
            this run.
        is_lost: Whether the server may charge for its last reply, which could not be used.
    """

    request: Generate
    attempts: int = 0
    reserved: Usage | None = None
    is_lost: bool = False


@dataclass
class BatchQueue:
    """The requests of a run that wait for a batch or its results.

    Args:
        server: Server that answers them.
        states: State files of the batches in progress.
        spending: Record of what the run spends, which keeps it within its budget.
        poll_seconds: Seconds between two polls of the batches.
    """

    server: BatchServer
    states: StateFiles
    spending: Spending
    poll_seconds: float
    _pending: dict[str, _PendingRequest] = field(default_factory=dict)
    """Requests without a result, by key."""
    _delivered: list[SentBatch] = field(default_factory=list)
    """Batches whose results were returned but are not confirmed as stored."""
    _error: Exception | None = None
    """Error that is raised once no batch is in progress. Until then, nothing more is sent."""
    _room: int | None = None
    """Number of requests that the account's queue has room for, or None if it has not been full."""
    _next_poll: float = 0.0
    """Time of the next poll on the clock of `time.monotonic`."""

    def add(self, key: str, request: Generate) -> None:
        """Add a request, which the next `collect` sends unless a batch in progress contains it."""
        self._pending[key] = _PendingRequest(request)

    def stop(self) -> None:
        """Send no new batch, and poll those in progress once more; the next run collects them."""
        self._error, self._next_poll = StoppedError("The batch queue was stopped."), 0.0

    def collect(self, timeout: float) -> Results:
        """Poll the batches, send waiting requests, and wait up to `timeout` seconds for results.

        An error that stopped the queue is raised once no batch is in progress.
        """
        for batch in self._delivered:
            batch.path.unlink(missing_ok=True)
        self._delivered = []
        if not self._pending:
            return []
        deadline = time.monotonic() + timeout
        while True:
            if time.monotonic() >= self._next_poll:
                batches = self.states.read()
                results = self._poll_all(batches)
                if results or self._delivered:
                    return results
                if self._error is not None and (
                    not batches or isinstance(self._error, StoppedError)
                ):
                    raise self._error
                self._send(batches)
                self._next_poll = time.monotonic() + self.poll_seconds
            wait_seconds = min(self._next_poll, deadline) - time.monotonic()
            if wait_seconds > 0:
                time.sleep(wait_seconds)
            if time.monotonic() >= deadline:
                return []

    def _send(self, in_progress: Sequence[SentBatch]) -> None:
        """Send the requests that no batch in progress contains, in as many batches as their size
        needs and as far as the budget allows. A full queue takes one batch after another.
        """
        if self._room is not None and in_progress:
            return
        sent_keys = {key for batch in in_progress for key in batch.requests}
        if not self._pending.keys() <= sent_keys:
            sent_keys |= self.states.read_other_keys()
        pending_keys = deque([key for key in self._pending if key not in sent_keys][: self._room])
        while requests := self._take(pending_keys):
            batch = self.states.add(requests)
            batch = self.states.save_id(batch, self.server.create(batch.name, requests))
            _log.warning(
                "Sent %d requests in batch %s. If this process ends, the next run continues it.",
                len(requests),
                batch.id,
            )

    def _take(self, waiting: deque[str]) -> dict[str, Generate]:
        """Take the first waiting requests that fit a batch; drop the rest where the budget ends."""
        requests: dict[str, Generate] = {}
        size = 0
        while waiting:
            request = self._pending[waiting[0]].request
            size += self.server.count_bytes(waiting[0], request)
            if requests and size > self.server.max_bytes:
                break
            if not self._reserve(waiting[0]):
                waiting.clear()
                break
            requests[waiting.popleft()] = request
        return requests

    def _reserve(self, key: str) -> bool:
        """Reserve a request's maximum usage; return False if over budget or after an error."""
        pending = self._pending[key]
        max_usage = estimate_max_usage(pending.request)
        if self._error is None and not self.spending.reserve(max_usage):
            self._error = self.spending.build_budget_error()
        if self._error is not None:
            return False
        pending.reserved, pending.attempts = max_usage, pending.attempts + 1
        return True

    def _poll_all(self, batches: Sequence[SentBatch]) -> Results:
        """Poll every batch and return their results.

        If polling a batch fails, the results of the batches before it are returned first. The next
        poll raises the error.
        """
        results: Results = []
        for batch in batches:
            try:
                results += self._poll(batch)
            except ReaderError:
                if not results and not self._delivered:
                    raise
                break
        return results

    def _poll(self, batch: SentBatch) -> Results:
        """Return the results of a batch if it is finished. Requests without a result are resent."""
        batch_id = batch.id or self.server.find(batch.name)
        if batch_id is None:
            _log.warning("Batch %s was never created. Its requests are sent again.", batch.name)
            return self._finish(batch, {})
        try:
            status = self.server.poll(batch_id)
        except GoneError:
            _log.warning(
                "The server no longer has batch %s (%s). Its requests are sent again.",
                batch_id,
                batch.path,
            )
            return self._finish(batch, {})
        except ReaderError as error:
            raise ReaderError(
                f"{error} The batch's state is in {batch.path}; `rm {batch.path}` abandons it."
            ) from error
        if not status.is_finished:
            return []
        if status.is_queue_full and len(batch.requests) > 1:
            self._shrink(batch, status)
        elif status.error:
            self._error = ReaderError(
                f"The server refused batch {batch_id}: {status.error}. Finished calls are in the "
                "ledger."
            )
        results = self._read_results(batch, batch_id, status.files)
        if len(results) < len(batch.requests):
            _log.warning(
                "Batch %s is %s with %d of %d replies.",
                batch_id,
                status.status,
                len(results),
                len(batch.requests),
            )
        return self._finish(batch, results)

    def _shrink(self, batch: SentBatch, status: BatchStatus) -> None:
        """After a full queue, halve the requests sent at once, and do not count the attempt."""
        self._room = len(batch.requests) // 2
        for pending in filter(None, map(self._pending.get, batch.requests)):
            pending.attempts = 0
        _log.warning("%s. %d requests are sent at a time.", status.error, self._room)

    def _read_results(
        self, batch: SentBatch, batch_id: str, files: Sequence[str]
    ) -> dict[str, BatchResult]:
        """Return the results in a batch's files by key. The first result of a request is kept."""
        results: dict[str, BatchResult] = {}
        for file_id in files:
            try:
                for key, outcome in self.server.iter_results(file_id, batch.requests):
                    if key in results:
                        continue
                    if not isinstance(outcome, Exception):
                        results[key] = outcome
                    elif (failure := self._take_error(key, outcome)) is not None:
                        results[key] = failure
            except GoneError:
                _log.warning(
                    "The server no longer has the file %s of batch %s (%s). Requests without a "
                    "result are sent again; to abandon them, stop this run and remove the state "
                    "file.",
                    file_id,
                    batch_id,
                    batch.path,
                )
        return results

    def _take_error(self, key: str, error: Exception) -> Failed | None:
        """Return a refusal as the result of a request that may fail, or None if the request is to
        be sent again or is of another run. Another permanent refusal stops the queue.

        Raises:
            ModelMismatchError: If another model replied. The next run reads the batch again, when
                the user has accepted the model.
        """
        if isinstance(error, ModelMismatchError):
            raise error
        pending = self._pending.get(key)
        if pending is None:
            return None
        if isinstance(error, RetryableError):
            pending.is_lost = error.billed
            return None
        if isinstance(error, CallRefusedError) and pending.request.may_fail:
            return Failed(str(error))
        self._error = error
        return None

    def _finish(self, batch: SentBatch, results: Mapping[str, BatchResult]) -> Results:
        """Commit the usage of a finished batch and return its results.

        Requests without a result are sent again. If one was sent `_MAX_ATTEMPTS` times, the queue
        stops.
        """
        self._delivered.append(batch)
        delivered_results: Results = []
        for key in batch.requests:
            result, pending = results.get(key), self._pending.get(key)
            if pending is not None and pending.reserved is not None:
                lost = pending.reserved if pending.is_lost else Usage()
                usage = result.usage if isinstance(result, Generation) else lost
                self.spending.commit(pending.reserved, usage)
                pending.reserved, pending.is_lost = None, False
            if result is not None and (request := self._get_request(batch, key)) is not None:
                delivered_results.append((request, result))
                self._pending.pop(key, None)
            elif pending is not None and pending.attempts >= _MAX_ATTEMPTS and self._error is None:
                self._error = ReaderError(
                    f"A request was sent in {_MAX_ATTEMPTS} batches and received no reply. "
                    "Finished calls are in the ledger. Run the command again to send the request "
                    "again."
                )
        return delivered_results

    def _get_request(self, batch: SentBatch, key: str) -> Generate | None:
        """Return the request of a key, or None if the state file does not hold the whole request of
        another run: its result would be stored as the result of something else.
        """
        if (pending := self._pending.get(key)) is not None:
            return pending.request
        request = batch.requests[key]
        if compute_request_key(self.states.engine, request).hex() == key:
            return request
        _log.warning(
            "A request in %s does not have its key. Its reply is not stored; it is requested again "
            "if a run needs it.",
            batch.path,
        )
        return None
