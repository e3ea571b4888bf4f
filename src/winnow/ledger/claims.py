"""Claims on calls: who holds one, and when it lapses."""

import itertools
import os
import socket

from winnow.artifacts.owners import read_start_time

LEASE_SECONDS = 600.0
"""How long a claim is valid after it was made or renewed."""
_OWNER_NUMBERS = itertools.count()
"""Distinguishes the stores that one process opens."""


def make_owner() -> str:
    """Return a name under which a store claims calls, made of the host, the process and the number of the store."""
    return f"{socket.gethostname()}:{os.getpid()}:{read_start_time(os.getpid())}:{next(_OWNER_NUMBERS)}"


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
        can_check_process = host == socket.gethostname() and bool(start)
        return read_start_time(int(pid)) != start if can_check_process else expires < now
    except ValueError:
        return True
