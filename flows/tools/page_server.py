"""Serves the sweeps' pages on this machine, and links each cell to its MLflow run and back."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote, urlencode

from winnow.artifacts.frames import CELL_VALUES


def find_cell(reports: Path, key: str) -> str | None:
    """Return the relative URL of a cell's questions in the newest page that has it, or None."""
    for values in sorted(reports.rglob(CELL_VALUES), key=lambda path: -path.stat().st_mtime):
        if not (page := values.with_name("index.html")).is_file():
            continue
        with suppress(
            json.JSONDecodeError, AttributeError, KeyError
        ):  # another program's file of this name
            for cell in json.loads(values.read_text(encoding="utf-8")):
                if cell.get("key") == key:
                    view = urlencode({"view": "questions", "a": cell["cell"]})
                    return f"/{quote(page.relative_to(reports).as_posix())}#{view}"
    return None


@contextmanager
def serve_pages(reports: Path, port: int, find_run: Callable[[str], str | None]) -> Iterator[None]:
    """Serve the pages of a folder on 127.0.0.1 until the block ends.

    `/cell/<key>` leads to the questions of a cell in its page, and `/run/<key>` to its MLflow run.

    Args:
        reports: Folder of the pages.
        port: Port of the server.
        find_run: Function that returns the address of the MLflow run of a cell by the cell's key,
            or None.
    """
    handler = partial(
        _Handler,
        directory=str(reports),
        find={"cell": partial(find_cell, reports), "run": find_run},
    )
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


class _Handler(SimpleHTTPRequestHandler):
    def __init__(
        self, *args: Any, find: dict[str, Callable[[str], str | None]], **options: Any
    ) -> None:
        self.find = find
        super().__init__(*args, **options)

    def do_GET(self) -> None:
        match = re.fullmatch(r"/(cell|run)/([0-9a-f]+)", self.path)
        if self.headers.get("Host", "").rpartition(":")[0] not in (
            "127.0.0.1",
            "localhost",
        ):  # a name that a site made point here
            self.send_error(HTTPStatus.FORBIDDEN, "Open this server by 127.0.0.1")
        elif not match:
            super().do_GET()
        elif address := self.find[match[1]](match[2]):
            self.send_response(HTTPStatus.FOUND)
            self.send_header("Location", address)
            self.end_headers()
        else:
            what = {
                "cell": "No page has this cell: run `python -m flows.report`",
                "run": "MLflow has no run of this cell",
            }
            self.send_error(HTTPStatus.NOT_FOUND, what[match[1]])

    def list_directory(self, path: Any) -> None:
        """Refuse a folder without a page."""
        self.send_error(HTTPStatus.NOT_FOUND, f"There is no page in {Path(path).name}")

    def log_message(self, *args: Any) -> None:
        """Print nothing for a request."""
