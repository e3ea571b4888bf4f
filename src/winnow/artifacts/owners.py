"""Names of processes, unique over hosts and over reused process ids, for files and claims that outlive a killed process."""

import os
import socket
from pathlib import Path


def this_process() -> str:
    """Return the name of this process: its id, its start time and its host."""
    return f"{os.getpid()}-{start_time(os.getpid())}@{socket.gethostname()}"


def has_ended(owner: str) -> bool | None:
    """Return whether a named process has ended, or None if it is on another host and cannot be checked from here."""
    process, _, host = owner.partition("@")
    pid, _, started = process.partition("-")
    if host != socket.gethostname() or not pid.isdigit():
        return None
    return start_time(int(pid)) != started


def start_time(pid: int) -> str:
    """Return the start time of a process in ticks since boot, or "" if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
