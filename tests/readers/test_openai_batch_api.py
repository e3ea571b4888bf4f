"""The Batch API's form, against a server on this machine."""

from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.readers.batch_cases import plan, sweep
from winnow.errors import ReaderError
from winnow.readers.batch_queue import GoneError
from winnow.readers.openai_batch import OpenAIBatchReader
from winnow.readers.openai_batch_api import BatchApi, parse_line
from winnow.readers.openai_errors import RetryableError
from winnow.readers.openai_protocol import ChatProtocol
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Message
from winnow.testing.chat_server import ChatServer

REQUEST = Generate((Message("user", "a"),), Decoding())


def connect(url: str) -> BatchApi:
    return BatchApi(ChatProtocol("m", url), patience=60.0)


def test_a_batch_from_its_creation_to_its_lines() -> None:
    """It is found by its name, polled until it is finished, and each result has the key of its
    request.
    """
    with ChatServer(num_polls=1).serve() as url:
        api = connect(url)
        batch_id = api.create("winnow-1", {"key": REQUEST})
        assert api.find("winnow-1") == batch_id
        assert api.find("winnow-2") is None
        assert not api.poll(batch_id).is_finished
        status = api.poll(batch_id)
        assert status.is_finished
        (file_id,) = status.files
        ((key, result),) = api.iter_results(file_id, {"key": REQUEST})
        assert not list(api.iter_results(file_id, {"another": REQUEST}))
        api.close()
    assert key == "key"
    assert isinstance(result, Generation)
    assert result.text == "A"


def test_a_request_counts_as_long_as_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Letters that take several bytes too; a file stays below OpenAI's 200 MB."""
    requests = {
        name: Generate((Message("user", text),), Decoding())
        for name, text in (("a", "x" * 500), ("b", "東京"))
    }
    with ChatServer().serve() as url:
        api = connect(url)
        uploaded: list[int] = []
        upload = api.client.files.create

        def watch(**body: Any) -> Any:
            uploaded.append(len(body["file"][1].getvalue()))
            return upload(**body)

        monkeypatch.setattr(api.client.files, "create", watch)
        api.create("winnow-1", requests)
        api.close()
    assert [sum(api.count_bytes(*item) for item in requests.items())] == uploaded
    assert api.max_bytes < 200_000_000


def test_a_creation_that_was_not_confirmed_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server made the batch, and its reply was lost: the retry finds it by its name, and
    nothing is paid twice.
    """
    server = ChatServer()
    with server.serve() as url:
        api = connect(url)
        create, lost = api.client.batches.create, []

        def lossy(**body: Any) -> Any:
            batch = create(**body)
            if not lost:
                lost.append(batch.id)
                raise openai.APIConnectionError(request=httpx.Request("POST", url))  # type: ignore[arg-type]
            return batch

        monkeypatch.setattr(api.client.batches, "create", lossy)
        monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
        assert [api.create("winnow-1", {"key": REQUEST})] == lost == list(server._batches)


def test_a_download_that_breaks_off_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The results are paid already: a lost connection ends no run."""
    with ChatServer(num_polls=0).serve() as url:
        api = connect(url)
        (file_id,) = api.poll(api.create("winnow-1", {"key": REQUEST})).files
        files = api.client.files.with_streaming_response
        content, failures = (
            files.content,
            iter([httpx.ReadError("cut"), httpx.RemoteProtocolError("cut")]),
        )

        def broken(file_id: str) -> Any:
            if (failure := next(failures, None)) is not None:
                raise failure
            return content(file_id)

        monkeypatch.setattr(files, "content", broken)
        monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
        assert len(api.download(file_id)) == 1


def test_a_batch_that_is_too_large_for_the_queue() -> None:
    """It is finished, without files, and says why."""
    with ChatServer(max_queued=0).serve() as url:
        api = connect(url)
        status = api.poll(api.create("winnow-1", {"key": REQUEST}))
    assert status.is_finished
    assert status.is_queue_full
    assert status.files == ()


def test_lines_of_requests_that_failed() -> None:
    """A filter is a result, a failing server is worth a retry, another refusal is permanent."""
    protocol = ChatProtocol("m", "http://127.0.0.1:1/v1")
    filtered = {"response": {"status_code": 400, "body": {"error": {"code": "content_filter"}}}}
    assert parse_line(protocol, filtered, REQUEST) == Generation("", "content_filter")
    with pytest.raises(RetryableError, match="HTTP 500"):
        parse_line(protocol, {"error": "broken"}, REQUEST)
    with pytest.raises(ReaderError, match="HTTP 401"):
        parse_line(
            protocol,
            {"response": {"status_code": 401, "body": {"error": {"message": "no"}}}},
            REQUEST,
        )
    assert issubclass(GoneError, ReaderError)


def test_a_proxy_is_not_used_for_batches_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is not for single calls."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with ChatServer().serve() as url:
        engine = OpenAIBatchReader("m", "m", url, state=str(tmp_path / "batches"), patience=0.0)
        engine.poll_seconds = 0.01
        outcomes, _ = sweep(engine, tmp_path, [plan("a")])
    assert outcomes[0].result.text == "A"
