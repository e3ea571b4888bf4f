"""Claims on calls: who holds one, when it lapses, and how a living process keeps its own."""

import itertools
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from winnow.artifacts.owners import get_host_name, read_start_time
from winnow.protocols import CallStore

LEASE_SECONDS = 45.0
"""How long a claim is valid after it was made or renewed."""
RENEWAL_SECONDS = 5.0
"""Time between two renewals of the claims of a living process."""
_PATIENCE_SECONDS = 3.0
"""How long a run waits for the calls of others before it says so."""
_log = logging.getLogger(__name__)
_OWNER_NUMBERS = itertools.count()
"""Distinguishes the stores that one process opens."""


class Renewal:
    """Renewal of a store's claims in a thread, because a call may outlast a lease, e.g. in a batch.

    A process that is killed stops renewing, so that others make its calls after `LEASE_SECONDS` at
    most.
    """

    def __init__(self, renew: Callable[[], None]) -> None:
        """Start the thread. `renew` is called every `RENEWAL_SECONDS`; it must not raise."""
        self._renew, self._is_closing = renew, threading.Event()
        self._thread = threading.Thread(target=self._run, name="winnow-claims", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_closing.wait(RENEWAL_SECONDS):
            self._renew()

    def stop(self) -> None:
        """End the thread."""
        self._is_closing.set()
        self._thread.join()


def make_owner() -> str:
    """Return the name under which a store claims calls: its host, process and store number.

    The host is named by its boot and by the space of its process ids too, because containers may
    have equal names.
    """
    host = get_host_name()
    return f"{host}:{os.getpid()}:{read_start_time(os.getpid())}:{next(_OWNER_NUMBERS)}"


def describe_owner(owner: str) -> str:
    """Return an owner's host and process in readable form, such as "process 71 of node3"."""
    host, pid = [*owner.rsplit(":", 3), ""][:2]
    return f"process {pid} of {host.partition('+')[0]}"


def has_lapsed(owner: str, expires: float, now: float) -> bool:
    """Return whether a claim has lapsed: its process on this host ended, or its lease expired.

    If the system does not report when a process started, only the lease counts. A claim of an
    invalid owner has lapsed.

    Args:
        owner: Owner of the claim (see `make_owner`).
        expires: Unix timestamp at which the lease expires.
        now: Current Unix timestamp.
    """
    try:
        host, pid, start, _ = owner.rsplit(":", 3)
        is_here = host in (socket.gethostname(), get_host_name())
        return read_start_time(int(pid)) != start if is_here and start else expires < now
    except ValueError:
        return True


@dataclass
class AwaitedClaims:
    """Logger of the owners that an idle run waits for, once for each set, after some seconds."""

    _since: float | None = None
    _owners: set[str] = field(default_factory=set)

    def describe(self, store: CallStore, keys: Sequence[bytes]) -> None:
        """Log the owners of the claims on these calls, if they have not been logged yet."""
        now = time.monotonic()
        if self._since is None or now - self._since > 2 * _PATIENCE_SECONDS:
            self._since = now
        if now - self._since < _PATIENCE_SECONDS:
            return
        self._since = now
        owners = store.find_owners(keys)
        if owners and owners != self._owners:
            self._owners = owners
            _log.warning(
                "Waiting for %d calls that are claimed by %s. A process that has ended loses its "
                "claims, on another host after %d seconds; `winnow ledger release` frees them at "
                "once.",
                len(keys),
                ", ".join(sorted(map(describe_owner, owners))),
                LEASE_SECONDS,
            )
