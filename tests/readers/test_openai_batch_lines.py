"""Lines of batches that are damaged, odd or too long."""

from pathlib import Path

import pytest

from tests.readers.batch_cases import plan, reader, sweep
from winnow.testing.chat_server import ChatServer

ODD_LINES = [
    "<html>Bad gateway</html>",
    '{"id": "x", "response": {"status_code": 200',
    '{"response": {"status_code": 200, "body": {}}}',
    '{"custom_id": 7, "response": {"status_code": 200, "body": {}}}',
    '{"custom_id": "someone", "error": "broken"}',
    '{"custom_id": "someone", "response": "broken"}',
    '{"custom_id": "someone", "response": {"status_code": "many"}}',
    "[1]",
    "[" * 100_000,
]


@pytest.mark.parametrize("odd", ODD_LINES, ids=range(len(ODD_LINES)))
def test_an_odd_line_loses_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: str
) -> None:
    """Before and between good lines: each good one is stored, and the request of a broken one is
    sent again.
    """
    server = ChatServer()
    with server.serve() as url:
        engine = reader(url, tmp_path)
        download = engine._api.download
        seen: list[str] = []

        def odd_content(file_id: str) -> list[str]:
            lines = download(file_id)
            if not seen:
                lines = [odd, lines[0], odd, *lines[2:]]  # the second line is replaced
            seen.append(file_id)
            return lines

        monkeypatch.setattr(engine._api, "download", odd_content)
        outcomes, _ = sweep(engine, tmp_path, [plan(p) for p in "abc"])
    assert {o.result.text for o in outcomes.values()} == {"A", "B", "C"}
    assert sorted(server.received.values()) == [1, 1, 2]
    assert not list((tmp_path / "batches").glob("*"))


def test_half_a_character_in_a_batch_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was paid is stored; a replay reads it."""
    server = ChatServer()
    with server.serve() as url:
        engine = reader(url, tmp_path)
        download = engine._api.download
        monkeypatch.setattr(
            engine._api,
            "download",
            lambda i: [line.replace('"A"', '"A\\ud800"') for line in download(i)],
        )
        outcomes, _ = sweep(engine, tmp_path, [plan("a")])
        again, driver = sweep(reader(url, tmp_path), tmp_path, [plan("a")])
    assert outcomes[0].result.text == again[0].result.text == "A\N{REPLACEMENT CHARACTER}"
    assert driver.stats.executed == 0


def test_a_line_that_would_fill_the_memory_is_cut_and_its_request_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other replies of the file are stored; a reply that is short the second time is too."""
    lengths = iter([100_000, 1])
    server = ChatServer(reply=lambda prompt: "x" * next(lengths) if prompt == "long" else "A")
    with server.serve() as url:
        monkeypatch.setattr("winnow.readers.reply_limit.MAX_REPLY_BYTES", 10_000)
        outcomes, _ = sweep(reader(url, tmp_path), tmp_path, [plan("long"), plan("short")])
    assert [outcomes[n].result.text for n in (0, 1)] == ["x", "A"]
    assert server.received == {"long": 2, "short": 1}
