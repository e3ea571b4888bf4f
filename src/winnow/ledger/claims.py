"""Claims on calls: who holds one, and when it lapses."""

import itertools
import os
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

from winnow.artifacts.owners import read_start_time

LEASE_SECONDS = 600.0
"""How long a claim is valid after it was made or renewed."""
_OWNER_NUMBERS = itertools.count()
"""Distinguishes the stores that one process opens."""


def make_owner(*, is_shared: bool = False) -> str:
    """Return a name under which a store claims calls, made of the host, the process and the number of the store.

    Args:
        is_shared: Whether other machines use the store, so that the host is named by its boot and by the space of its process
            ids: containers may have equal names.

    """
    host = socket.gethostname() + (_name_process_space() if is_shared else "")
    return f"{host}:{os.getpid()}:{read_start_time(os.getpid())}:{next(_OWNER_NUMBERS)}"


def has_lapsed(owner: str, expires: float, now: float) -> bool:
    """Return whether a claim has lapsed: its process on this host has ended, or its lease has expired.

    If the system does not report when a process started, only the lease counts. A claim of an invalid owner has lapsed.

    Args:
        owner: Owner of the claim (see `make_owner`).
        expires: Unix timestamp at which the lease expires.
        now: Current Unix timestamp.

    """
    try:
        host, pid, start, _ = owner.rsplit(":", 3)
        is_here = host in (socket.gethostname(), socket.gethostname() + _name_process_space())
        return read_start_time(int(pid)) != start if is_here and start else expires < now
    except ValueError:
        return True


@cache
def _name_process_space() -> str:
    """Return a name of the space of process ids in which this process lives: the boot of the machine and the namespace."""
    parts = []
    with suppress(OSError):
        parts = [Path("/proc/sys/kernel/random/boot_id").read_text().strip(), os.readlink("/proc/self/ns/pid")]
    return "".join(f"/{''.join(filter(str.isalnum, part))}" for part in parts)
