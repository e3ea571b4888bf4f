"""Opening of call stores: the scheme of a URL selects the class of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winnow.errors import ConfigError
from winnow.ledger.sqlite import SqliteStore

if TYPE_CHECKING:
    from winnow.ledger.postgres import PostgresStore

_SERVERS = ("postgresql", "postgres")
"""Schemes of databases that several machines share."""


def open_store(url: str) -> SqliteStore | PostgresStore:
    """Create the store of a URL.

    `sqlite:///relative/path`, `sqlite:////absolute/path` and a plain path are files of SQLite;
    `postgresql://user@host/database` is a database of PostgreSQL.

    Raises:
        ConfigError: If the URL has another scheme or form, or contains a password.
    """
    scheme, separator, path = url.partition("://")
    if not separator:
        return SqliteStore(url)
    if is_server(url):
        from winnow.ledger.postgres import PostgresStore

        return PostgresStore(url)
    if scheme != "sqlite" or not path.startswith("/"):
        raise ConfigError(
            f"paths.ledger={url!r} is not supported: a ledger's URL is sqlite:///PATH (four "
            "slashes for an absolute path), postgresql://USER@HOST/DATABASE, or a plain path."
        )
    return SqliteStore(path[1:])


def is_server(url: str) -> bool:
    """Return whether a ledger is a database that several machines share."""
    return url.partition("://")[0] in _SERVERS
