"""Opening of call stores: the scheme of a URL selects the class of the store."""

from winnow.errors import ConfigError
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import CallStore


def open_store(url: str) -> CallStore:
    """Create the store for `sqlite:///relative/path`, `sqlite:////absolute/path`, or a plain path, which means SQLite.

    Raises:
        ConfigError: If the URL has another scheme or form.

    """
    scheme, separator, path = url.partition("://")
    if not separator:
        return SqliteStore(url)
    if scheme != "sqlite" or not path.startswith("/"):
        raise ConfigError(
            f"paths.ledger={url!r} is not supported: a ledger's URL is sqlite:///PATH (four slashes for an absolute path), or "
            "a plain path."
        )
    return SqliteStore(path[1:])
