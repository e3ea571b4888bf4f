"""The Batch API: a file of requests now, a file of replies within a day, at half the price.

A batch outlives the process that sent it. What it asks is written down before it is sent, and a reader that starts again
first takes up what is still out: all its results are handed to the driver, which puts them into the ledger, whether or
not this run asks for them. A note is removed only when the driver comes back after that.
"""

from __future__ import annotations

import io
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from winnow.errors import ConfigError, ReaderError
from winnow.keys import request_key
from winnow.readers.openai_engine import OpenAIEngine, as_generate
from winnow.readers.openai_protocol import RetryableError
from winnow.records import Decoding, Generate, Generation, Message, Request, Result, TooLong, Usage

if TYPE_CHECKING:
    import openai

_FINISHED = ("completed", "expired", "failed", "cancelled")
_SENDINGS = 3
"""How often a request is sent that comes back failed."""
_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass
class OpenAIBatchReader(OpenAIEngine):
    """Serves Generate requests through /v1/batches.

    Args (with those of OpenAIEngine):
        state: folder that remembers batches which are out.
        poll_seconds: how often a batch is asked for.
        capacity: requests a batch holds at most (OpenAI's limit is 50,000).
        patience: seconds for which a server that fails, or cannot be reached, is asked again.

    """

    state: str = "batches"
    poll_seconds: float = 30.0
    capacity: int = 50_000
    patience: float = 3600.0
    _fresh: dict[str, Generate] = field(default_factory=dict, repr=False)
    _wanted: dict[str, Generate] = field(default_factory=dict, repr=False)
    _aside: dict[str, Usage] = field(default_factory=dict, repr=False)
    _sent: Counter[str] = field(default_factory=Counter, repr=False)
    _stored: list[Path] = field(default_factory=list, repr=False)
    """Notes on batches whose results were handed on."""
    _stopped: Exception | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse settings under which nothing could be asked."""
        if self.capacity < 1 or self.poll_seconds < 0:
            raise ConfigError(
                f"reader.capacity starts at 1 and poll_seconds at 0; received {self.capacity}, {self.poll_seconds}."
            )
        super().__post_init__()

    def close(self) -> None:
        """Leave the batches that are out to the next run."""
        if "_client" in self.__dict__:
            self._client.close()

    def submit(self, requests: Sequence[Request]) -> None:
        """Take requests; they are sent when results are next asked for, unless a batch that is out has them."""
        for request in requests:
            key = request_key(self.identity, request).hex()
            self._wanted[key] = self._fresh[key] = as_generate(request)

    def collect(self) -> Sequence[tuple[Request, Result | TooLong]]:
        """Send what is new and wait for a batch; return its results, and at last raise what ended the work."""
        for note in self._stored:
            note.unlink(missing_ok=True)
        self._stored = []
        while self._wanted:
            found = [pair for note in self._notes() for pair in self._take(note)]
            if found or self._stored:
                return found
            if self._stopped is not None and not self._notes():
                raise self._stopped
            out = {key for note in self._notes() for key in json.loads(note.read_text())["asked"]}
            new = {key: asked for key, asked in self._fresh.items() if key not in out}
            self._fresh = {}
            if new and self._stopped is None:
                self._send(new)
            time.sleep(self.poll_seconds)
        return []

    def _notes(self) -> list[Path]:
        """Return the notes on batches of this model that are out."""
        found = (path for path in sorted(Path(self.state).glob("*.json")) if path not in self._stored)
        return [path for path in found if json.loads(path.read_text())["engine"] == self.identity]

    def _send(self, new: Mapping[str, Generate]) -> None:
        """Send as many requests as the budget allows as one batch, written down before and after."""
        chosen = {}
        for key, asked in new.items():
            most = self.protocol.most(asked)
            if not self.spending.set_aside(most):
                self._stopped = self.spending.exhausted()
                break
            chosen[key] = asked
            self._aside[key] = most
        if not chosen:
            return
        self._sent.update(chosen.keys())
        lines = "".join(
            json.dumps({"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": self.protocol.body(asked)})
            + "\n"
            for key, asked in chosen.items()
        )
        name = f"winnow-{time.time_ns()}"
        path = Path(self.state) / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        note = {"engine": self.identity, "name": name, "batch": None, "asked": {k: _packed(q) for k, q in chosen.items()}}
        _write(path, note)
        file = self._patiently(
            lambda: self._client.files.create(file=(f"{name}.jsonl", io.BytesIO(lines.encode())), purpose="batch")
        )
        batch = self._patiently(
            lambda: self._client.batches.create(
                input_file_id=file.id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata={"winnow": name},
            )
        )
        _write(path, note | {"batch": batch.id})
        _log.warning("Batch %s: %d requests sent; it is taken up again if this process ends.", batch.id, len(chosen))

    def _take(self, path: Path) -> list[tuple[Request, Result | TooLong]]:
        """Ask for one batch; if it is finished, return its results. What has none is sent again."""
        note = json.loads(path.read_text())
        batch_id = note["batch"] or self._found(note["name"])
        if batch_id is None:
            _log.warning("Batch %s was never created; its requests are sent anew.", note["name"])
            return self._taken(path, note, {})
        batch = self._patiently(lambda: self._client.batches.retrieve(batch_id))
        if batch.status not in _FINISHED:
            return []
        if batch.status == "failed":
            told = self.protocol.scrub(str(batch.errors))[:300]
            self._stopped = ReaderError(f"The server refused batch {batch_id}: {told}. What was answered is in the ledger.")
        outcomes: dict[str, Generation | TooLong] = {}
        for file_id in (batch.output_file_id, batch.error_file_id):
            outcomes.update(self._read(file_id) if file_id else ())
        if len(outcomes) < len(note["asked"]):
            _log.warning("Batch %s is %s with %d of %d answers.", batch_id, batch.status, len(outcomes), len(note["asked"]))
        return self._taken(path, note, outcomes)

    def _taken(
        self, path: Path, note: Mapping[str, Any], outcomes: Mapping[str, Generation | TooLong]
    ) -> list[tuple[Request, Result | TooLong]]:
        """Settle a finished batch, and queue again what this run still wants and has no outcome."""
        self._stored.append(path)
        found: list[tuple[Request, Result | TooLong]] = []
        for key, packed in note["asked"].items():
            outcome = outcomes.get(key)
            if (most := self._aside.pop(key, None)) is not None:
                self.spending.settle(most, outcome.usage if isinstance(outcome, Generation) else Usage())
            if outcome is not None:
                found.append((self._wanted.pop(key) if key in self._wanted else _unpacked(packed), outcome))
            elif key in self._wanted and self._sent[key] < _SENDINGS:
                self._fresh[key] = self._wanted[key]
            elif key in self._wanted and self._stopped is None:
                self._stopped = ReaderError(
                    f"A request came back without an answer {_SENDINGS} times. The rest is in the ledger."
                )
        return found

    def _found(self, name: str) -> str | None:
        """Return the id of the batch with this name, if the process died between sending it and writing down its id."""
        listed = self._patiently(lambda: list(self._client.batches.list(limit=100)))
        return next((batch.id for batch in listed if (batch.metadata or {}).get("winnow") == name), None)

    def _read(self, file_id: str) -> Iterator[tuple[str, Generation | TooLong]]:
        """Yield the outcome of each line that has one; a line that was refused for good ends the run, after the others."""
        for line in self._patiently(lambda: self._client.files.content(file_id).text).split("\n"):
            if not line.strip():
                continue
            row = json.loads(line)
            reply = row.get("response") or {}
            try:
                if reply.get("status_code") == 200:
                    yield row["custom_id"], self.protocol.generations(json.dumps(reply["body"]), [_NOBODY])[0]
                    continue
                told = (reply.get("body") or {}).get("error") or row.get("error") or {}
                status = int(reply.get("status_code") or 500)
                yield row["custom_id"], self.protocol.status(status, told, {}, str(told.get("code") or ""))
            except RetryableError:
                continue
            except ReaderError as error:
                self._stopped = error

    def _patiently(self, call: Callable[[], T]) -> T:
        """Make a call to the server, again and again for `patience` seconds where it fails."""
        import openai
        import tenacity

        def once() -> T:
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
            return retrying(once)
        except RetryableError as error:
            failure = ReaderError(
                f"The server failed for {self.patience:.0f} s; the last failure: {error}. Run again to go on."
            )
        raise failure

    @cached_property
    def _client(self) -> openai.OpenAI:
        import openai

        return openai.OpenAI(api_key=self.protocol.key(), base_url=self.base_url, max_retries=0)


def _packed(asked: Generate) -> dict[str, Any]:
    return {"messages": [asdict(m) for m in asked.messages], "decoding": asdict(asked.decoding), "sample": asked.sample}


def _unpacked(packed: Mapping[str, Any]) -> Generate:
    messages = tuple(Message(**message) for message in packed["messages"])
    return Generate(messages, Decoding(**packed["decoding"]), packed["sample"])


_NOBODY = Generate((), Decoding())
"""Stands for the request of a line: its reply is read without it."""


def _write(path: Path, note: Mapping[str, Any]) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(note))
    partial.rename(path)
