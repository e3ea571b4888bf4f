"""Opens a call store by its URL; the scheme names the implementation."""

from winnow.errors import ConfigError
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import CallStore

SCHEMES = ("sqlite",)


def open_store(url: str) -> CallStore:
    """Return the store of `sqlite:///relative/path`, `sqlite:////absolute/path`, or a plain path, which means SQLite.

    Raises:
        ConfigError: for a scheme without an implementation.

    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return SqliteStore(url)
    if scheme != "sqlite" or not rest.startswith("/"):
        raise ConfigError(
            f"paths.ledger={url!r}: a ledger's URL is sqlite:///PATH (four slashes for an absolute path), or a plain path."
        )
    return SqliteStore(rest[1:])
