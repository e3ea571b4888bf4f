"""Opens the ledger of the settings, the store of finished model calls."""

from collections.abc import Sequence
from pathlib import Path

from flows.project.shards import get_folder, get_shard
from flows.settings.typed import Settings
from winnow.ledger.layered import LayeredStore
from winnow.ledger.retrying import RetryingStore
from winnow.ledger.stores import is_server, open_store
from winnow.protocols import CallStore


def open_ledger(
    settings: Settings,
    *,
    retry_empty: bool = False,
    dry_run: bool = False,
    shard_ledgers: Sequence[Path] = (),
) -> CallStore:
    """Open the settings' ledger, which also reads the base ledgers; use it as a context manager.

    The ledger of a shard is its own, and the one that the settings name is a base of it, unless
    that is a database that all shards can use.

    Args:
        settings: Settings, which name the ledger.
        retry_empty: Whether replies without text count as missing, so that they are requested
            again.
        dry_run: Whether such replies are only counted.
        shard_ledgers: Ledgers of shards, which a dry run reads as base ledgers, because the run
            will merge them.
    """
    address, bases = (
        str(settings.paths.ledger),
        [*shard_ledgers, *(Path(base) for base in settings.paths.base_ledgers)],
    )
    shard = get_shard(settings)
    if shard is not None and not is_server(address):
        main = Path(address.removeprefix("sqlite:///"))
        address, bases = (
            str(shard.find_ledger(get_folder(settings))),
            [*([main] if main.is_file() else []), *bases],
        )
    store: CallStore = open_store(address)
    keeps = shard is not None and not dry_run
    ledger = LayeredStore(store, bases, keeps) if bases else store
    return RetryingStore(ledger, keep=dry_run) if retry_empty else ledger
