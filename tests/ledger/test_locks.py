"""Locks that other processes hold."""

import sqlite3

import pytest

from winnow.ledger.locks import retry_while_locked


def test_only_a_lock_is_waited_for() -> None:
    """An operation is repeated while the file is locked; any other error is raised at once."""
    attempts: list[int] = []

    def is_locked_twice() -> None:
        attempts.append(1)
        if len(attempts) < 3:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error

    retry_while_locked(is_locked_twice)
    assert len(attempts) == 3

    def fails() -> None:
        attempts.append(1)
        raise sqlite3.OperationalError("no such table")

    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        retry_while_locked(fails)
    assert len(attempts) == 4
