"""Processes of servers."""

import http.server
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from winnow.artifacts.owners import read_start_time
from winnow.readers import child_processes
from winnow.readers.child_processes import find_free_port, is_alive, is_ready, read_end, stop

STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""


def start(code: str) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    """Start a process in a group of its own, and return it with its state."""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True
    )
    return process, {"pid": process.pid, "start": read_start_time(process.pid)}


def test_a_server_and_its_children_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that ignores SIGTERM."""
    monkeypatch.setattr(child_processes, "_STOP_SECONDS", 0.5)
    process, state = start(STUBBORN)
    monkeypatch.setattr(child_processes, "CHILDREN", [process])
    assert process.stdout is not None
    child = int(process.stdout.readline())
    assert is_alive(state)
    stop(state)
    assert process.wait(10) == -signal.SIGKILL
    assert read_start_time(child) == ""
    assert not is_alive(state)
    stop(state)  # nothing is left to be stopped


def test_another_process_with_the_same_id_is_not_stopped() -> None:
    """The state is that of an earlier process."""
    process, state = start("import time; time.sleep(60)")
    stop({**state, "start": str(int(state["start"]) - 1)})
    time.sleep(0.2)
    assert process.poll() is None
    stop(state)
    assert process.wait(10) == -signal.SIGTERM


@pytest.mark.parametrize("pid", [-1, 0, 1])
def test_no_process_has_a_special_id(pid: int) -> None:
    """A signal to its group would reach every process."""
    assert not is_alive({"pid": pid, "start": ""})
    assert not is_alive({})


def test_a_server_is_ready_if_it_answers_with_success() -> None:
    """Not with an error, nor if nothing listens."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/health" else 503)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    assert is_ready(f"{address}/health")
    assert not is_ready(f"{address}/loading")
    server.shutdown()
    server.server_close()
    assert not is_ready(f"{address}/health")


def test_a_free_port_can_be_used() -> None:
    """By a server on this machine."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", find_free_port()))


def test_the_end_of_a_log(tmp_path: Path) -> None:
    """The last fifteen lines, also of a large log that is not UTF-8; without a log, why there is
    none.
    """
    log = tmp_path / "server.log"
    log.write_bytes(
        b"x" * 2**15 + b"\n" + "\n".join(f"line {n}" for n in range(40)).encode() + b"\xff\n"
    )
    assert read_end(log).splitlines() == [f"line {n}" for n in range(25, 39)] + ["line 39\ufffd"]
    assert "No such file" in read_end(tmp_path / "missing.log")
