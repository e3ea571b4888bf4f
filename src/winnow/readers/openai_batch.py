"""A reader for OpenAI's Batch API, which returns replies within a day at half the price.

A batch outlives the process that created it. Its requests are written to a state file before they are sent. A restarted
reader first polls the batches of its state files, and returns all their results to the driver, the component that runs
strategies. The driver stores the results in the ledger whether or not this run requests them. A state file is deleted only
after the next call of `collect`, which confirms that the results are stored.
"""

from __future__ import annotations

import io
import itertools
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from winnow.errors import CallRefusedError, ConfigError, ReaderError
from winnow.identity.markers import SpeedOnly
from winnow.keys import compute_request_key
from winnow.readers.openai_batch_state import find_batch, pack_request, read_packed_requests, unpack_request, write_state
from winnow.readers.openai_engine import OpenAIEngine
from winnow.readers.openai_protocol import ModelMismatchError, RetryableError
from winnow.readers.reply_limit import read_lines
from winnow.readers.token_estimates import estimate_max_usage
from winnow.records import Decoding, Failed, Generate, Generation, Request, Result, TooLong, Usage

if TYPE_CHECKING:
    import openai

_FINISHED_STATUSES = ("completed", "expired", "failed", "cancelled")
"""Statuses of a batch that will return no further results."""
_MAX_ATTEMPTS = 3
"""Maximum number of batches in which a request without a reply is sent."""
_log = logging.getLogger(__name__)
T = TypeVar("T")
BatchResult = Generation | TooLong | Failed


_PLACEHOLDER_REQUEST = Generate((), Decoding())
"""Stands for the request of a line, which is not needed to parse the reply."""


class _GoneError(ReaderError):
    """What a call asked for is not on the server any more, such as a result file whose time has passed."""


@dataclass(slots=True)
class _PendingRequest:
    """A request of this run that has no result yet.

    Attributes:
        request: Original request.
        queued: Whether the request waits to be sent. Otherwise, a batch in progress contains it.
        attempts: Number of batches in which the request was sent.
        reserved: Usage that is reserved in the budget, or None if the request is not in a batch of this run.

    """

    request: Generate
    queued: bool = True
    attempts: int = 0
    reserved: Usage | None = None


@dataclass
class OpenAIBatchReader(OpenAIEngine):
    """A reader that serves Generate requests through the endpoint /v1/batches.

    Args (in addition to those of OpenAIEngine):
        state: Folder for the state files of batches in progress.
        poll_seconds: Seconds between two polls of the batches.
        capacity: Maximum number of requests per batch (OpenAI's limit is 50,000).
        patience: Seconds for which calls to a failing or unreachable server are retried.

    """

    revision: ClassVar[int] = 1

    state: Annotated[str, SpeedOnly("the folder of the state files does not affect replies")] = "batches"
    poll_seconds: Annotated[float, SpeedOnly("it decides how often a batch is polled but does not affect replies")] = 30.0
    capacity: Annotated[int, SpeedOnly("it decides how many requests share a batch but does not affect replies")] = 50_000
    patience: Annotated[float, SpeedOnly("it decides how long a failing server is retried but does not affect replies")] = (
        3600.0
    )
    _pending: dict[str, _PendingRequest] = field(default_factory=dict, repr=False)
    """Requests without a result, by key."""
    _delivered: list[Path] = field(default_factory=list, repr=False)
    """State files of batches whose results were returned but are not confirmed as stored."""
    _error: Exception | None = field(default=None, repr=False)
    """Error that is raised once no batch is in progress."""
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
        if "_client" in self.__dict__:
            self._client.close()

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests. The next call of `collect` sends those that no batch in progress contains."""
        for request in requests:
            generate = self.require_served(request)
            assert isinstance(generate, Generate)
            self._pending[compute_request_key(self.identity, request).hex()] = _PendingRequest(generate)

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
                results = self._poll_all()
                if results or self._delivered:
                    return results
                if self._error is not None and not self._state_files():
                    raise self._error
                self._send()
                self._next_poll = time.monotonic() + self.poll_seconds
            wait_seconds = min(self._next_poll, deadline) - time.monotonic()
            if wait_seconds > 0:
                time.sleep(wait_seconds)
            if time.monotonic() >= deadline:
                return []

    def _poll_all(self) -> list[tuple[Request, Result | TooLong]]:
        """Poll every batch and return their results.

        If polling a batch fails, the results of the batches before it are returned first. The next poll raises the error.
        """
        results: list[tuple[Request, Result | TooLong]] = []
        for path in self._state_files():
            try:
                results += self._poll(path)
            except ReaderError:
                if not results and not self._delivered:
                    raise
                break
        return results

    def _state_files(self) -> list[Path]:
        """Return the state files of this model's batches in progress."""
        paths = (path for path in sorted(Path(self.state).glob("*.json")) if path not in self._delivered)
        return [path for path in paths if json.loads(path.read_text())["engine"] == self.identity]

    def _send(self) -> None:
        """Send the queued requests in one batch, as far as the budget allows."""
        keys_in_progress = {key for path in self._state_files() for key in read_packed_requests(json.loads(path.read_text()))}
        selected: dict[str, Generate] = {}
        for key, pending in self._pending.items():
            if not pending.queued or key in keys_in_progress:
                pending.queued = False
                continue
            max_usage = estimate_max_usage(pending.request)
            if self._error is not None or not self.spending.reserve(max_usage):
                self._error = self._error or self.spending.build_budget_error()
                break
            pending.queued, pending.reserved, pending.attempts = False, max_usage, pending.attempts + 1
            selected[key] = pending.request
        if selected:
            self._create_batch(selected)

    def _create_batch(self, requests: Mapping[str, Generate]) -> None:
        """Create a batch. Its state file is written before, and completed with the id of the batch after."""
        endpoint = {"method": "POST", "url": "/v1/chat/completions"}
        lines = "".join(
            json.dumps({"custom_id": key, **endpoint, "body": self.protocol.build_body(request)}) + "\n"
            for key, request in requests.items()
        )
        name = f"winnow-{time.time_ns()}"
        path = Path(self.state) / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        packed_requests = {key: pack_request(request) for key, request in requests.items()}
        state = {"engine": self.identity, "name": name, "batch": None, "requests": packed_requests}
        write_state(path, state)
        file = self._with_retries(
            lambda: self._client.files.create(file=(f"{name}.jsonl", io.BytesIO(lines.encode())), purpose="batch")
        )
        attempts = itertools.count()

        def create_once() -> str:
            """Create the batch, unless an earlier attempt did and its reply was lost. A second batch would be billed too."""
            existing_id = find_batch(name, self._client.batches.list(limit=100)) if next(attempts) else None
            if existing_id is not None:
                return existing_id
            batch = self._client.batches.create(
                input_file_id=file.id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata={"winnow": name},
            )
            return batch.id

        batch_id = self._with_retries(create_once)
        write_state(path, state | {"batch": batch_id})
        _log.warning("Sent %d requests in batch %s. If this process ends, the next run continues it.", len(requests), batch_id)

    def _poll(self, path: Path) -> list[tuple[Request, Result | TooLong]]:
        """Return the results of a batch if it is finished. Requests without a result are queued again."""
        state = json.loads(path.read_text())
        batch_id = state["batch"] or self._find_batch_id(state["name"])
        if batch_id is None:
            _log.warning("Batch %s was never created. Its requests are sent again.", state["name"])
            return self._finish_batch(path, state, {})
        try:
            batch = self._with_retries(lambda: self._client.batches.retrieve(batch_id))
        except _GoneError:
            _log.warning("The server no longer has batch %s (%s). Its requests are sent again.", batch_id, path)
            return self._finish_batch(path, state, {})
        except ReaderError as error:
            raise ReaderError(f"{error} The batch's state is in {path}; `rm {path}` abandons it.") from error
        if batch.status not in _FINISHED_STATUSES:
            return []
        if batch.status == "failed":
            reason = self.protocol.mask_api_key(str(batch.errors))[:300]
            self._error = ReaderError(f"The server refused batch {batch_id}: {reason}. Finished calls are in the ledger.")
        results: dict[str, BatchResult] = {}
        for file_id in (batch.output_file_id, batch.error_file_id):
            try:
                results.update(self._read_results(file_id) if file_id else ())
            except _GoneError:
                _log.warning(
                    "The server no longer has the file %s of batch %s (%s). Requests without a result are sent again; to "
                    "abandon them, stop this run and remove the state file.",
                    file_id,
                    batch_id,
                    path,
                )
        total = len(read_packed_requests(state))
        if len(results) < total:
            _log.warning("Batch %s is %s with %d of %d replies.", batch_id, batch.status, len(results), total)
        return self._finish_batch(path, state, results)

    def _finish_batch(
        self, path: Path, state: Mapping[str, Any], results_by_key: Mapping[str, BatchResult]
    ) -> list[tuple[Request, Result | TooLong]]:
        """Commit the usage of a finished batch and return its results.

        Requests without a result are queued again. If one was sent `_MAX_ATTEMPTS` times, the reader stops.
        """
        self._delivered.append(path)
        results: list[tuple[Request, Result | TooLong]] = []
        for key, packed in read_packed_requests(state).items():
            result, pending = results_by_key.get(key), self._pending.get(key)
            if pending is not None and pending.reserved is not None:
                self.spending.commit(pending.reserved, result.usage if isinstance(result, Generation) else Usage())
                pending.reserved = None
            if result is not None:
                results.append((unpack_request(packed) if pending is None else pending.request, result))
                self._pending.pop(key, None)
            elif pending is not None and pending.attempts < _MAX_ATTEMPTS:
                pending.queued = True
            elif pending is not None and self._error is None:
                self._error = ReaderError(
                    f"A request was sent in {_MAX_ATTEMPTS} batches and received no reply. Finished calls are in the ledger. "
                    "Run the command again to send the request again."
                )
        return results

    def _find_batch_id(self, name: str) -> str | None:
        """Return the id of the batch with this name, or None. A process may have ended before it saved the id."""
        return self._with_retries(lambda: find_batch(name, self._client.batches.list(limit=100)))

    def _read_results(self, file_id: str) -> Iterator[tuple[str, BatchResult]]:
        """Yield the key and the result of each line of a result file.

        A line without a result, or in an unknown format, is skipped, and its request is sent again. A permanent refusal
        stops the reader after all results are returned.
        """
        for line in self._with_retries(lambda: self._download(file_id)):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                key = row["custom_id"]
                if not isinstance(key, str):
                    raise TypeError(f"custom_id is {type(key).__name__}")
                result = self._convert_line(key, row)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                excerpt = self.protocol.mask_api_key(line)[:80]
                _log.warning("Skipped a line of file %s in an unknown format (%s): %r", file_id, type(error).__name__, excerpt)
                continue
            if result is not None:
                yield key, result

    def _download(self, file_id: str) -> list[str]:
        """Return the lines of a result file."""
        import httpx

        try:
            with self._client.files.with_streaming_response.content(file_id) as response:
                return read_lines(response.iter_bytes())
        except httpx.HTTPError as error:
            failure = RetryableError(f"the download of {file_id} broke off ({type(error).__name__})")
        raise failure

    def _convert_line(self, key: str, row: Mapping[str, Any]) -> BatchResult | None:
        """Convert a line to its result.

        Returns:
            The result, or None if the request is to be sent again, was permanently refused, or is of another run.

        """
        try:
            return self._parse_line(row)
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

    def _parse_line(self, row: Mapping[str, Any]) -> Generation | TooLong:
        """Parse a line of a result file; raise RetryableError or ReaderError if its request failed."""
        reply = row.get("response") or {}
        if reply.get("status_code") == 200:
            return self.protocol.parse_reply(json.dumps(reply["body"]), [_PLACEHOLDER_REQUEST])[0]
        error = (reply.get("body") or {}).get("error") or row.get("error") or {}
        if not isinstance(error, Mapping):
            error = {"message": str(error)}
        return self.protocol.convert_refusal(int(reply.get("status_code") or 500), error, {}, str(error.get("code") or ""))

    def _with_retries(self, call: Callable[[], T]) -> T:
        """Call the server, and retry the call for `patience` seconds if it fails."""
        import openai
        import tenacity

        def attempt() -> T:
            failure: openai.OpenAIError | None = None
            try:
                return call()
            except openai.OpenAIError as error:
                failure = error
            is_gone = isinstance(failure, openai.NotFoundError)
            if not is_gone:
                self.protocol.convert_error(failure)
            reason = self.protocol.mask_api_key(f"{self.base_url} refused a call of the Batch API: {failure}")
            raise _GoneError(reason) if is_gone else ReaderError(reason)

        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_delay(self.patience),
            wait=tenacity.wait_random_exponential(multiplier=1, max=60),
            retry=tenacity.retry_if_exception_type(RetryableError),
            reraise=True,
        )
        try:
            return retrying(attempt)
        except RetryableError as error:
            failure = ReaderError(
                f"{self.base_url} failed for {self.patience:.0f} s. The last failure was: {error}. Run the command again to "
                "continue the batch."
            )
        raise failure

    @cached_property
    def _client(self) -> openai.OpenAI:
        """Client of the openai package. It does not retry, because `_with_retries` does."""
        import openai

        return openai.OpenAI(api_key=self.protocol.read_api_key(), base_url=self.base_url, max_retries=0)
