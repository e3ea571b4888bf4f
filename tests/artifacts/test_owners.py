"""Names of processes."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from winnow.artifacts.owners import get_host_name, get_process_name, has_ended, read_start_time


def start_sleeper() -> subprocess.Popen[bytes]:
    """A process that does nothing."""
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])


def test_a_process_has_ended_once_it_is_killed() -> None:
    """Even if its parent has not waited for it, so that it is a zombie."""
    process = start_sleeper()
    name = f"{process.pid}-{read_start_time(process.pid)}@{get_host_name()}"
    assert has_ended(name) is False
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert Path(f"/proc/{process.pid}").exists()
    assert has_ended(name) is True
    process.wait()
    assert has_ended(name) is True


def test_a_reused_process_id_is_another_process() -> None:
    """The id runs, but it began at another time."""
    host = get_process_name().partition("@")[2]
    assert has_ended(f"{os.getpid()}-{int(read_start_time(os.getpid())) + 1}@{host}") is True


@pytest.mark.parametrize("name", ["1-1@another.host", "1-1@{host}x", "no name", "x-1@{host}", ""])
def test_other_hosts_and_names_are_unknown(name: str) -> None:
    """Nothing is known of them, so that their files are kept."""
    assert has_ended(name.format(host=get_process_name().partition("@")[2])) is None


def test_a_process_of_another_container_is_unknown() -> None:
    """Containers may have the same host name, and ids of their own."""
    assert get_host_name() != socket.gethostname()
    assert has_ended(f"7-123456@{socket.gethostname()}") is None
