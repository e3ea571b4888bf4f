"""A reader for OpenAI's Batch API, which returns replies within a day at half the price.

A batch outlives the process that created it. Its requests are written to a state file before they are sent. A restarted
reader first polls the batches of its state files. All their results go to the driver, which stores them in the ledger
whether or not this run requests them. A state file is deleted only when the driver confirms that the results are stored.
"""

from __future__ import annotations

import io
import itertools
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from winnow.errors import CallRefusedError, ConfigError, ReaderError
from winnow.keys import request_key
from winnow.readers.openai_engine import OpenAIEngine, as_generate
from winnow.readers.openai_protocol import ModelMismatchError, RetryableError
from winnow.records import Decoding, Failed, Generate, Generation, Message, Request, Result, TooLong, Usage

if TYPE_CHECKING:
    import openai

_TERMINAL = ("completed", "expired", "failed", "cancelled")
_MAX_ATTEMPTS = 3
"""Maximum number of times that a request is sent if its batches return no reply to it."""
_log = logging.getLogger(__name__)
T = TypeVar("T")
Outcome = Generation | TooLong | Failed


@dataclass(slots=True)
class _Entry:
    """A request of this run that has no result yet."""

    request: Generate
    queued: bool = True
    """Whether the request waits to be sent. Otherwise a batch contains it."""
    attempts: int = 0
    reserved: Usage | None = None


@dataclass
class OpenAIBatchReader(OpenAIEngine):
    """Serves Generate requests through /v1/batches.

    Args (in addition to those of OpenAIEngine):
        state: Folder of the state files of batches in progress.
        poll_seconds: Seconds between two polls of the batches.
        capacity: Maximum number of requests per batch (OpenAI's limit is 50,000).
        patience: Seconds for which calls to a failing or unreachable server are retried.

    """

    revision: ClassVar[int] = 1
    speed_only: ClassVar[Mapping[str, str]] = {
        "state": "where the state of batches is stored",
        "poll_seconds": "how often a batch is polled",
        "capacity": "how many requests share a batch",
        "patience": "how long a failing server is retried",
    }

    state: str = "batches"
    poll_seconds: float = 30.0
    capacity: int = 50_000
    patience: float = 3600.0
    _entries: dict[str, _Entry] = field(default_factory=dict, repr=False)
    _delivered: list[Path] = field(default_factory=list, repr=False)
    """State files of batches whose results were returned but are not confirmed as stored."""
    _error: Exception | None = field(default=None, repr=False)
    _next_poll: float = field(default=0.0, repr=False)

    def __post_init__(self) -> None:
        """Raise ConfigError for settings under which no request could be sent."""
        if self.capacity < 1 or self.poll_seconds < 0:
            raise ConfigError(
                f"reader.capacity starts at 1 and poll_seconds at 0; received {self.capacity}, {self.poll_seconds}."
            )
        super().__post_init__()

    def close(self) -> None:
        """Close the connections. Batches in progress are left to the next run."""
        if "_client" in self.__dict__:
            self._client.close()

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests. The next `collect` sends those that no batch in progress contains."""
        for request in requests:
            self._entries[request_key(self.identity, request).hex()] = _Entry(as_generate(request))

    def collect(self, timeout: float) -> Sequence[tuple[Request, Result | TooLong]]:
        """Poll the batches, send queued requests and wait for results for up to `timeout` seconds.

        A stored error is raised once no batch is in progress.
        """
        for path in self._delivered:
            path.unlink(missing_ok=True)
        self._delivered = []
        if not self._entries:
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
            pause = min(self._next_poll, deadline) - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            if time.monotonic() >= deadline:
                return []

    def _poll_all(self) -> list[tuple[Request, Result | TooLong]]:
        """Poll every batch; if one fails, return the results of those before it first, and raise at the next poll."""
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
        """Send the queued requests that the budget allows as one batch."""
        in_progress = {key for path in self._state_files() for key in _packed_requests(json.loads(path.read_text()))}
        selected: dict[str, _Entry] = {}
        for key, entry in self._entries.items():
            if not entry.queued or key in in_progress:
                entry.queued = False
                continue
            max_usage = self.protocol.max_usage(entry.request)
            if self._error is not None or not self.spending.reserve(max_usage):
                self._error = self._error or self.spending.exhausted()
                break
            entry.queued, entry.reserved, entry.attempts = False, max_usage, entry.attempts + 1
            selected[key] = entry
        if selected:
            self._create({key: entry.request for key, entry in selected.items()})

    def _create(self, requests: Mapping[str, Generate]) -> None:
        """Create a batch, and write its state file before and after."""
        endpoint = {"method": "POST", "url": "/v1/chat/completions"}
        lines = "".join(
            json.dumps({"custom_id": key, **endpoint, "body": self.protocol.body(request)}) + "\n"
            for key, request in requests.items()
        )
        name = f"winnow-{time.time_ns()}"
        path = Path(self.state) / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        packed_requests = {key: _pack(request) for key, request in requests.items()}
        state = {"engine": self.identity, "name": name, "batch": None, "requests": packed_requests}
        _write(path, state)
        file = self._with_retries(
            lambda: self._client.files.create(file=(f"{name}.jsonl", io.BytesIO(lines.encode())), purpose="batch")
        )
        attempts = itertools.count()

        def create() -> str:
            """Create the batch, unless an earlier attempt did, whose reply was lost: a second batch would be paid for too."""
            existing = _named(name, self._client.batches.list(limit=100)) if next(attempts) else None
            if existing is not None:
                return existing
            batch = self._client.batches.create(
                input_file_id=file.id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata={"winnow": name},
            )
            return batch.id

        batch_id = self._with_retries(create)
        _write(path, state | {"batch": batch_id})
        _log.warning("Batch %s: %d requests sent; the next run continues it if this process ends.", batch_id, len(requests))

    def _poll(self, path: Path) -> list[tuple[Request, Result | TooLong]]:
        """Return the results of a batch if it is finished. Requests without an outcome are queued again."""
        state = json.loads(path.read_text())
        batch_id = state["batch"] or self._find_batch(state["name"])
        if batch_id is None:
            _log.warning("Batch %s was never created; its requests are sent again.", state["name"])
            return self._finish(path, state, {})
        batch = self._with_retries(lambda: self._client.batches.retrieve(batch_id))
        if batch.status not in _TERMINAL:
            return []
        if batch.status == "failed":
            reason = self.protocol.scrub(str(batch.errors))[:300]
            self._error = ReaderError(f"The server refused batch {batch_id}: {reason}. Finished calls are in the ledger.")
        outcomes: dict[str, Outcome] = {}
        for file_id in (batch.output_file_id, batch.error_file_id):
            outcomes.update(self._read(file_id) if file_id else ())
        total = len(_packed_requests(state))
        if len(outcomes) < total:
            _log.warning("Batch %s is %s with %d of %d replies.", batch_id, batch.status, len(outcomes), total)
        return self._finish(path, state, outcomes)

    def _finish(
        self, path: Path, state: Mapping[str, Any], outcomes: Mapping[str, Outcome]
    ) -> list[tuple[Request, Result | TooLong]]:
        """Commit the usage of a finished batch and return its results. Requests without an outcome are queued again."""
        self._delivered.append(path)
        results: list[tuple[Request, Result | TooLong]] = []
        for key, packed in _packed_requests(state).items():
            outcome, entry = outcomes.get(key), self._entries.get(key)
            if entry is not None and entry.reserved is not None:
                self.spending.commit(entry.reserved, outcome.usage if isinstance(outcome, Generation) else Usage())
                entry.reserved = None
            if outcome is not None:
                results.append((_unpack(packed) if entry is None else entry.request, outcome))
                self._entries.pop(key, None)
            elif entry is not None and entry.attempts < _MAX_ATTEMPTS:
                entry.queued = True
            elif entry is not None and self._error is None:
                self._error = ReaderError(
                    f"A request came back without a reply {_MAX_ATTEMPTS} times. Finished calls are in the ledger."
                )
        return results

    def _find_batch(self, name: str) -> str | None:
        """Find the id of a batch by name, in case a process ended between creating it and saving its id."""
        return self._with_retries(lambda: _named(name, self._client.batches.list(limit=100)))

    def _read(self, file_id: str) -> Iterator[tuple[str, Outcome]]:
        """Yield the outcome of each line that has one. A permanent refusal ends the run after all results are returned.

        A line that is not of the protocol loses no other: its request, if it can be told, is sent again.
        """
        for line in self._with_retries(lambda: self._client.files.content(file_id).text).split("\n"):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                key = row["custom_id"]
                if not isinstance(key, str):
                    raise TypeError(f"custom_id is {type(key).__name__}")
                outcome = self._line_outcome(key, row)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                excerpt = self.protocol.scrub(line[:80])
                _log.warning("A line of file %s is not of the protocol (%s): %r", file_id, type(error).__name__, excerpt)
                continue
            if outcome is not None:
                yield key, outcome

    def _line_outcome(self, key: str, row: Mapping[str, Any]) -> Outcome | None:
        """Return the outcome of a line, or None if its request is to be sent again, or is of another run and was refused."""
        try:
            return self._outcome(row)
        except RetryableError:
            return None
        except ModelMismatchError:
            raise  # the batch is read again once the model is accepted
        except ReaderError as error:
            entry = self._entries.get(key)
            if entry is None:
                return None  # a call of another run, for which no plan of this run waits
            if isinstance(error, CallRefusedError) and entry.request.may_fail:
                return Failed(str(error))
            self._error = error
            return None

    def _outcome(self, row: Mapping[str, Any]) -> Generation | TooLong:
        reply = row.get("response") or {}
        if reply.get("status_code") == 200:
            return self.protocol.generations(json.dumps(reply["body"]), [_ANY_REQUEST])[0]
        error = (reply.get("body") or {}).get("error") or row.get("error") or {}
        if not isinstance(error, Mapping):
            error = {"message": str(error)}
        return self.protocol.status(int(reply.get("status_code") or 500), error, {}, str(error.get("code") or ""))

    def _with_retries(self, call: Callable[[], T]) -> T:
        """Make a call to the server and retry it for `patience` seconds if it fails."""
        import openai
        import tenacity

        def attempt() -> T:
            failure: openai.OpenAIError | None = None
            try:
                return call()
            except openai.OpenAIError as error:
                failure = error
            self.protocol.outcome(failure)
            raise ReaderError(self.protocol.scrub(f"The server refused a batch: {failure}"))

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
                f"The server failed for {self.patience:.0f} s; the last failure: {error}. Run again to continue."
            )
        raise failure

    @cached_property
    def _client(self) -> openai.OpenAI:
        import openai

        return openai.OpenAI(api_key=self.protocol.key(), base_url=self.base_url, max_retries=0)


def _packed_requests(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the packed requests of a batch by key."""
    requests: Mapping[str, Any] = state["requests"] if "requests" in state else state["asked"]  # the name in version 0.1
    return requests


def _pack(request: Generate) -> dict[str, Any]:
    return {
        "messages": [asdict(message) for message in request.messages],
        "decoding": asdict(request.decoding),
        "sample": request.sample,
    }


def _unpack(packed: Mapping[str, Any]) -> Generate:
    messages = tuple(Message(**message) for message in packed["messages"])
    return Generate(messages, Decoding(**packed["decoding"]), packed["sample"])


_ANY_REQUEST = Generate((), Decoding())
"""Placeholder for the request of a batch line. The reply is parsed without it."""


def _named(name: str, batches: Iterable[Any]) -> str | None:
    """Return the id of the batch with this name in its metadata, or None if there is none."""
    return next((batch.id for batch in batches if (batch.metadata or {}).get("winnow") == name), None)


def _write(path: Path, state: Mapping[str, Any]) -> None:
    """Write a state file atomically."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(state))
    partial.rename(path)
