"""Waiting for locks of SQLite that other processes hold."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random

BUSY_SECONDS = 60.0
"""How long an operation waits for a lock of SQLite that another process holds."""


def retry_while_locked(operation: Callable[[], None]) -> None:
    """Retry while other processes open or close the file, which SQLite's busy timeout ignores."""
    locked_codes = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    retry = retry_if_exception(
        lambda error: (
            isinstance(error, sqlite3.OperationalError)
            and getattr(error, "sqlite_errorcode", 0) & 0xFF in locked_codes
        )
    )
    Retrying(
        retry=retry,
        wait=wait_random(0.01, 0.1),
        stop=stop_after_delay(BUSY_SECONDS),
        reraise=True,
    )(operation)
