"""Processes of servers: whether they run and answer, how they are stopped, and what they logged."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from winnow.artifacts.owners import read_start_time

CHILDREN: list[subprocess.Popen[bytes]] = []
"""Servers that this process started, which are polled so that ended ones do not remain zombies."""
_LOG_LINES = 15
"""Number of lines of a server's log that an error shows."""
_STOP_SECONDS = 15.0
"""Time that a server has to end by itself."""


def is_alive(state: Mapping[str, Any]) -> bool:
    """Return whether the process of a state runs."""
    for child in CHILDREN:
        child.poll()
    if not state or int(state["pid"]) <= 1:  # signals to the group 1 would reach every process
        return False
    if state["start"]:
        return read_start_time(int(state["pid"])) == str(state["start"])
    try:
        os.kill(int(state["pid"]), 0)  # a system without /proc
    except OSError:
        return False
    return True


def is_ready(address: str) -> bool:
    """Return whether a server answers with status 200."""
    import httpx

    try:
        return httpx.get(address, timeout=5.0, trust_env=False).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def stop(state: Mapping[str, Any]) -> None:
    """End the process group of a server and its children, first with SIGTERM, then with SIGKILL."""
    if not is_alive(state) and not any(child.pid == state.get("pid") for child in CHILDREN):
        return  # another process may have its number by now
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(int(state["pid"]), number)
        deadline = time.monotonic() + _STOP_SECONDS
        while _has_members(int(state["pid"])) and time.monotonic() < deadline:
            time.sleep(0.05)


def _has_members(group: int) -> bool:
    """Return whether a process group has a process that has not ended."""
    for child in CHILDREN:
        child.poll()
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def find_free_port() -> int:
    """Return a port of 127.0.0.1 that no process uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def read_end(log: Path) -> str:
    """Return the last lines of a log."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 2**14))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError as error:
        return f"({error})"
    return "\n".join(lines[-_LOG_LINES:])
