"""The server of the sweeps' pages, which leads from a cell to its MLflow run and back."""

import json
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from flows.tools.page_server import serve_pages
from flows.tools.start_page import format_cell_address
from winnow.readers.child_processes import find_free_port

CELL = "post_fusion k=5 gold_first"


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirection."""

    def redirect_request(self, *_: object) -> None:
        """Stay."""


def _get(address: str) -> HTTPResponse | urllib.error.HTTPError:
    try:
        response: HTTPResponse = urllib.request.build_opener(_Stay).open(address)
    except urllib.error.HTTPError as error:
        return error
    return response


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """The port of a server with two pages of one cell, the newer one in the folder `b c`, and a run
    of the cell `ab`.
    """
    for number, folder in enumerate(("a", "b c", "without a page")):
        (tmp_path / folder).mkdir()
        values = tmp_path / folder / "metrics.json"
        values.write_text(
            json.dumps([{"cell": "other", "key": "00"}, {"cell": CELL, "key": "ab12"}])
        )
        os.utime(values, (1e9 + number, 1e9 + number))
    for number, text in enumerate(
        ("{", '{"key": "ab12"}', '[{"key": "ab12"}]')
    ):  # of other programs, and newer
        (tmp_path / f"odd{number}").mkdir()
        (tmp_path / f"odd{number}/metrics.json").write_text(text)
        (tmp_path / f"odd{number}/index.html").touch()
    for folder in ("a", "b c"):
        (tmp_path / folder / "index.html").write_text(folder)
    number = find_free_port()
    with serve_pages(
        tmp_path, number, {"ab12": "http://127.0.0.1:5000/#/experiments/1/runs/2"}.get
    ):
        yield number


def test_pages_are_served(port: int) -> None:
    """Files of the folder, but no lists of it and nothing above it."""
    assert _get(f"http://127.0.0.1:{port}/a/index.html").read() == b"a"
    assert _get(f"http://127.0.0.1:{port}/a/").read() == b"a"
    assert _get(f"http://127.0.0.1:{port}/").status == 404
    assert _get(f"http://localhost:{port}/a/index.html").status == 200
    connection = HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/a/index.html", headers={"Host": f"evil.example:{port}"})
    assert connection.getresponse().status == 403
    assert _get(f"http://127.0.0.1:{port}/../conftest.py").status == 404


def test_a_cell_leads_to_the_newest_page_and_to_its_run(port: int) -> None:
    """The address of the questions of the cell; a key that nothing has is said to be missing."""
    found = urlsplit(_get(format_cell_address("ab12", port)).headers["Location"])
    assert (found.path, parse_qs(found.fragment)) == (
        "/b%20c/index.html",
        {"view": ["questions"], "a": [CELL]},
    )
    assert (
        _get(f"http://127.0.0.1:{port}/run/ab12").headers["Location"]
        == "http://127.0.0.1:5000/#/experiments/1/runs/2"
    )
    for kind, words in (("cell", "flows.report"), ("run", "MLflow has no run")):
        missing = _get(f"http://127.0.0.1:{port}/{kind}/cd34")
        assert (missing.status, words in missing.reason) == (404, True)


def test_the_server_is_this_machines_alone_and_ends_with_its_block(port: int) -> None:
    """Other addresses of the machine are refused, and so is what only begins like a cell's address;
    no thread is left.
    """
    with pytest.raises(urllib.error.URLError, match="refused"):
        _get(f"http://127.0.0.2:{port}/a/index.html")
    assert _get(f"http://127.0.0.1:{port}/run/ab12/x").status == 404
    before = set(threading.enumerate())
    with serve_pages(Path(), find_free_port(), {}.get):
        (thread,) = set(threading.enumerate()) - before
    thread.join(2)
    assert not thread.is_alive()
