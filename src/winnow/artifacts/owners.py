"""Names of processes that are unique across hosts and reused process ids.

Temporary files carry the name of their process, so that other processes can remove the files of a
process that was killed.
"""

import os
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

_ENDED_STATES = "ZX"
"""States of processes that have ended: zombies, and those that are being removed."""


def get_process_name() -> str:
    """Return the name of this process in the form "<id>-<start time>@<host><PID space>"."""
    return f"{os.getpid()}-{read_start_time(os.getpid())}@{get_host_name()}"


def get_host_name() -> str:
    """Return the host's name with one for its PID space, because containers may have equal names.

    The PID space is the machine's boot id and the namespace.
    """
    return socket.gethostname() + _name_process_space()


@cache
def _name_process_space() -> str:
    parts = []
    with suppress(OSError):
        parts = [
            Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            os.readlink("/proc/self/ns/pid"),
        ]
    return "".join(f"+{''.join(filter(str.isalnum, part))}" for part in parts)


def has_ended(owner: str) -> bool | None:
    """Return whether a process has ended, or None if this is unknown.

    It is unknown for a process on another host and for a name in another form.

    Args:
        owner: Name of the process (see `get_process_name`).
    """
    process, _, host = owner.partition("@")
    pid, _, start_time = process.partition("-")
    if host != get_host_name() or not pid.isdigit():
        return None
    return read_start_time(int(pid)) != start_time


def read_start_time(pid: int) -> str:
    """Return a process's start time in clock ticks since boot, or "" if it ended or is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in _ENDED_STATES else fields[19]
