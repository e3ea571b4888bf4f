"""A small web on this machine: pages and APIs with canned responses, and a record of what was
requested.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import sleep


@dataclass(frozen=True)
class Reply:
    """A response; `pause` is a wait in seconds before each byte of the body."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    pause: float = 0.0


@dataclass
class SmallWeb:
    """The responses by path, which tests set, and the requests as (method, path with query,
    headers, body).
    """

    url: str
    replies: dict[str, Reply | list[Reply]] = field(default_factory=dict)
    requests: list[tuple[str, str, Mapping[str, str], bytes]] = field(default_factory=list)

    def add(
        self,
        path: str,
        body: str | bytes = b"",
        status: int = 200,
        pause: float = 0.0,
        **headers: str,
    ) -> str:
        """Set the response of a path and return its address."""
        content = body if isinstance(body, bytes) else body.encode()
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        self.replies[path] = Reply(
            content, status, {"Content-Type": "text/html; charset=utf-8", **names}, pause
        )
        return self.url + path

    def paths(self) -> list[str]:
        """Return the requested paths."""
        return [path for _, path, _, _ in self.requests]


@contextmanager
def serve_web() -> Iterator[SmallWeb]:
    """Serve a small web on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            web.requests.append((self.command, self.path, dict(self.headers), body))
            found = web.replies.get(self.path.partition("?")[0], Reply(b"nothing here", 404))
            reply = (
                (found.pop(0) if len(found) > 1 else found[0]) if isinstance(found, list) else found
            )
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            try:
                for byte in reply.body if reply.pause else ():
                    sleep(reply.pause)
                    self.wfile.write(bytes([byte]))
                    self.wfile.flush()
                if not reply.pause:
                    self.wfile.write(reply.body)
            except OSError:  # the reader hung up
                return

        do_POST = do_GET  # noqa: N815 (the name that http.server calls)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    web = SmallWeb(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    ).start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
