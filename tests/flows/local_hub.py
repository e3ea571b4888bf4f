"""A Hugging Face hub on this machine, with a few small models under the names of large ones, and a
site with files.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "c" * 40
"""The commit of every repository."""


@contextmanager
def serve_hub(folder: Path) -> Iterator[str]:
    """Serve folder/models/<owner>/<name>/ as repositories, and folder/site/ as files; yield the
    address.
    """

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = self.path.partition("?")[0].strip("/").split("/")
            if parts[0] == "site":
                self._send_file(folder.joinpath(*parts))
            elif parts[:2] == ["api", "models"]:
                self._send_facts(folder.joinpath("models", *parts[2:4]), parts[4:])
            elif len(parts) > 4 and parts[2] == "resolve":
                self._send_file(folder.joinpath("models", *parts[:2], *parts[4:]))
            else:
                self._send(b"{}", 404)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.do_GET()

        do_HEAD = do_GET  # noqa: N815 (a name of http.server)

        def _send_facts(self, repository: Path, rest: list[str]) -> None:
            if not repository.is_dir() or rest[:1] not in ([], ["revision"]):
                self._send(b"{}", 404)
                return
            files = [
                {"rfilename": file.name, "size": file.stat().st_size}
                for file in sorted(repository.iterdir())
            ]
            name = "/".join(repository.parts[-2:])
            self._send(
                json.dumps({"id": name, "modelId": name, "sha": COMMIT, "siblings": files}).encode()
            )

        def _send_file(self, file: Path) -> None:
            if file.is_file():
                body = file.read_bytes()
                kind = (
                    "text/html"
                    if file.suffix == ".html"
                    else "application/json"
                    if file.suffix == ".json"
                    else "application/x"
                )
                self._send(
                    body,
                    ETag=f'"{sha256(body).hexdigest()}"',
                    X_Repo_Commit=COMMIT,
                    Content_Type=kind,
                )
            else:
                self._send(b"", 404, X_Error_Code="EntryNotFound")

        def _send(self, body: bytes, status: int = 200, **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
