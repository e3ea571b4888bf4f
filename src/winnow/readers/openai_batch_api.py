"""OpenAI's Batch API: creating, finding and polling batches, and reading their result files."""

from __future__ import annotations

import io
import itertools
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from winnow.errors import ReaderError
from winnow.readers.batch_queue import BatchResult, BatchStatus, GoneError
from winnow.readers.openai_errors import RetryableError
from winnow.readers.openai_protocol import ChatProtocol, is_loopback
from winnow.readers.reply_limit import read_lines
from winnow.requests import Generate, Generation, TooLong

if TYPE_CHECKING:
    import openai

_ENDPOINT: Final = "/v1/chat/completions"
_FINISHED_STATUSES = ("completed", "expired", "failed", "cancelled")
"""Statuses of a batch that will return no further results."""
_MAX_BYTES = 190_000_000
"""Size of the largest file; OpenAI takes 200 MB."""
_QUEUE_FULL = "token_limit_exceeded"
"""Code of the error of a batch with more tokens than an account may have in its queue."""
T = TypeVar("T")
_log = logging.getLogger(__name__)


class BatchApi:
    """A `BatchServer`: a connection to the Batch API of a server. Failed calls are retried.

    Args:
        protocol: Protocol of the requests and replies in a batch, with the server's address.
        patience: Seconds for which calls to a failing or unreachable server are retried.
    """

    def __init__(self, protocol: ChatProtocol, patience: float) -> None:
        """Create the openai package's client. It does not retry, because `_with_retries` does."""
        import openai

        self.protocol = protocol
        self.patience = patience
        self.client = openai.OpenAI(
            api_key=protocol.read_api_key(),
            base_url=protocol.base_url,
            max_retries=0,
            http_client=openai.DefaultHttpxClient(trust_env=not is_loopback(protocol.base_url)),
        )

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def create(self, name: str, requests: Mapping[str, Generate]) -> str:
        """Create a batch of the requests by key, which `find` finds by name, and return its id."""
        lines = "".join(self._build_line(key, request) for key, request in requests.items())
        file = self._with_retries(
            lambda: self.client.files.create(
                file=(f"{name}.jsonl", io.BytesIO(lines.encode())), purpose="batch"
            )
        )
        attempts = itertools.count()

        def create_once() -> str:
            """Create the batch unless an earlier attempt did, to avoid paying for a second one."""
            existing_id = self._find_once(name) if next(attempts) else None
            if existing_id is not None:
                return existing_id
            return self.client.batches.create(
                input_file_id=file.id,
                endpoint=_ENDPOINT,
                completion_window="24h",
                metadata={"winnow": name},
            ).id

        return self._with_retries(create_once)

    @property
    def max_bytes(self) -> int:
        """Return the size of the largest file of a batch."""
        return _MAX_BYTES

    def count_bytes(self, key: str, request: Generate) -> int:
        """Return the length of the line of a request."""
        return len(self._build_line(key, request).encode())

    def _build_line(self, key: str, request: Generate) -> str:
        body = self.protocol.build_body(request)
        line = {"custom_id": key, "method": "POST", "url": _ENDPOINT, "body": body}
        return json.dumps(line) + "\n"

    def find(self, name: str) -> str | None:
        """Return the batch's id by name, or None. A process may have ended before saving the id."""
        return self._with_retries(lambda: self._find_once(name))

    def _find_once(self, name: str) -> str | None:
        batches = self.client.batches.list(limit=100)
        return next(
            (batch.id for batch in batches if (batch.metadata or {}).get("winnow") == name), None
        )

    def poll(self, batch_id: str) -> BatchStatus:
        """Return what the server says of a batch; raise GoneError if it no longer has it."""
        batch = self._with_retries(lambda: self.client.batches.retrieve(batch_id))
        files = tuple(file_id for file_id in (batch.output_file_id, batch.error_file_id) if file_id)
        error = (
            self.protocol.mask_api_key(str(batch.errors))[:300] if batch.status == "failed" else ""
        )
        return BatchStatus(
            batch.status, batch.status in _FINISHED_STATUSES, files, error, _QUEUE_FULL in error
        )

    def iter_results(
        self, file_id: str, requests: Mapping[str, Generate]
    ) -> Iterator[tuple[str, BatchResult | Exception]]:
        """Yield the keys of the requests in a result file, each with its result or the error that
        its call would have raised. A line in an unknown format is skipped.
        """
        for line in filter(str.strip, self.download(file_id)):
            try:
                row = json.loads(line)
                key = row["custom_id"]
                if not isinstance(key, str):
                    raise TypeError(f"custom_id is {type(key).__name__}")
                if key not in requests:
                    continue
                outcome = self._parse_line(row, requests[key])
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                excerpt = self.protocol.mask_api_key(line)[:80]
                _log.warning(
                    "Skipped a line of file %s in an unknown format (%s): %r",
                    file_id,
                    type(error).__name__,
                    excerpt,
                )
                continue
            yield key, outcome

    def _parse_line(self, row: Mapping[str, Any], request: Generate) -> BatchResult | Exception:
        """Return the result in a line, or the error with which its request failed."""
        try:
            return parse_line(self.protocol, row, request)
        except (RetryableError, ReaderError) as error:
            return error

    def download(self, file_id: str) -> list[str]:
        """Return the lines of a result file; raise GoneError if the server no longer has it."""
        return self._with_retries(lambda: self._download_once(file_id))

    def _download_once(self, file_id: str) -> list[str]:
        import httpx

        try:
            with self.client.files.with_streaming_response.content(file_id) as response:
                return read_lines(response.iter_bytes())
        except httpx.HTTPError as error:
            failure = RetryableError(
                f"the download of {file_id} broke off ({type(error).__name__})"
            )
        raise failure

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
            reason = self.protocol.mask_api_key(
                f"{self.protocol.base_url} refused a call of the Batch API: {failure}"
            )
            raise GoneError(reason) if is_gone else ReaderError(reason)

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
                f"{self.protocol.base_url} failed for {self.patience:.0f} s. The last failure was: "
                f"{error}. Run the command again to continue the batch."
            )
        raise failure


def parse_line(
    protocol: ChatProtocol, row: Mapping[str, Any], request: Generate
) -> Generation | TooLong:
    """Parse a line of a result file; raise RetryableError or ReaderError if its request failed."""
    reply = row.get("response") or {}
    if reply.get("status_code") == 200:
        return protocol.parse_reply(json.dumps(reply["body"]), [request])[0]
    error = (reply.get("body") or {}).get("error") or row.get("error") or {}
    if not isinstance(error, Mapping):
        error = {"message": str(error)}
    return protocol.convert_refusal(
        int(reply.get("status_code") or 500), error, {}, str(error.get("code") or "")
    )
