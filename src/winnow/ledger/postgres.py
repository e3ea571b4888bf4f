"""A PostgreSQL call store for workers on several machines that come and go and share claims.

Every operation is one transaction that can be repeated. If the database does not answer, the
operation is repeated for some minutes, so that a restart of the database does not end a run; after
that the run ends with an error, and finished calls are kept.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_delay,
    wait_exponential_jitter,
)

from winnow.artifacts.parquet import batched
from winnow.errors import ConfigError, LedgerError
from winnow.ledger.claims import LEASE_SECONDS, Renewal, has_lapsed, make_owner
from winnow.ledger.rows import COLUMNS, encode_rows, read_result
from winnow.requests import Request, Result

if TYPE_CHECKING:
    from psycopg import Connection

T = TypeVar("T")
_PRUNE = r"""
DELETE FROM calls
WHERE (cardinality(%s::text[]) = 0 OR engine = ANY(%s)) AND (%s::float8 IS NULL OR created < %s)
AND (NOT %s OR value LIKE '{"failed":%%')
AND (NOT %s OR value ~ '^\{"text":"( |\\[tnr])*",' AND value NOT LIKE '%%"tool_calls":%%')
"""
_HAS_TABLES = "SELECT to_regclass('calls_by_engine') IS NOT NULL"
_TABLES = """
CREATE TABLE IF NOT EXISTS calls (
    key bytea PRIMARY KEY, kind text NOT NULL, engine text NOT NULL, value text NOT NULL,
    seconds double precision NOT NULL, created double precision NOT NULL, crc bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS claims (
    key bytea PRIMARY KEY, owner text NOT NULL, expires double precision NOT NULL
);
CREATE INDEX IF NOT EXISTS calls_by_engine ON calls (engine);
"""
_NOW = "extract(epoch FROM clock_timestamp())::float8"
"""The time of the database, because the clocks of workers differ."""
_RENEW = f"UPDATE claims SET expires = {_NOW} + %s WHERE owner = %s"  # noqa: S608 (constants)
_CLAIM = f"""
INSERT INTO claims SELECT key, %(owner)s, {_NOW} + %(lease)s FROM unnest(%(keys)s::bytea[]) AS key
WHERE NOT EXISTS (SELECT 1 FROM calls WHERE calls.key = key.key) ORDER BY key
ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, expires = excluded.expires
WHERE claims.owner = excluded.owner OR (claims.expires < {_NOW} AND
    pg_postmaster_start_time() < clock_timestamp() - make_interval(secs => %(grace)s)) RETURNING key
"""  # noqa: S608 (constants)
"""A claim of another owner is taken over if its lease expired, but not before owners could renew
theirs after a restart of the database."""
_CONNECTION = {
    # poolers of connections may not know prepared statements
    "autocommit": True, "prepare_threshold": None, "connect_timeout": 10, "keepalives_idle": 30,
    "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000,
}  # fmt: skip
"""Options of a connection, by which a server that vanished is noticed within a minute or two."""
_REFUSALS = (
    "does not exist",
    "authentication failed",
    "no password supplied",
    "could not translate",
    "not known",
    "no pg_hba",
)
"""Parts of messages on which waiting has no effect."""
GRACE_SECONDS = LEASE_SECONDS
"""Time after a start of the database in which no claim of another owner is taken over."""
_ROWS_AT_ONCE = 5000
_LOCK = 2_026_112_507
"""Number of the advisory lock under which the tables are made."""
_log = logging.getLogger(__name__)


class PostgresStore:
    """The calls in a database, used as a context manager.

    Attributes:
        url: Address of the database, without a password (libpq reads it from PGPASSWORD or
            ~/.pgpass).
        patience: Number of seconds for which an operation waits for a database that does not
            answer.
        owner: Name under which this store claims calls.
    """

    def __init__(self, url: str, patience: float = 300.0) -> None:
        """Store the address. The connection is opened on entering the context.

        Raises:
            ConfigError: If the address contains a password.
        """
        parts = urlsplit(url)
        if parts.password is not None or "password=" in parts.query:
            raise ConfigError(
                "paths.ledger contains a password, which would be stored with the settings. Remove "
                "it from the URL, and set the environment variable PGPASSWORD, or write it to "
                "~/.pgpass."
            )
        self.url, self.patience, self.owner = url, patience, make_owner()
        self._connection: Connection[Any] | None = None
        self._renewal: Renewal | None = None

    def __enter__(self) -> PostgresStore:
        """Connect, create any missing tables, and begin to renew this owner's claims."""

        def create(db: Connection[Any]) -> None:
            db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            db.execute(_TABLES)

        if not self._fetch(_HAS_TABLES)[0][
            0
        ]:  # creating what exists would wait for the writes of others
            self._repeat(create)
        self._renewal = Renewal(self._renew_claims)
        return self

    def _renew_claims(self) -> None:
        """Renew this owner's claims by a connection of the calling thread."""
        import psycopg

        with suppress(psycopg.Error), psycopg.connect(self.url, **_CONNECTION) as db:  # type: ignore[arg-type]
            db.execute(_RENEW, (LEASE_SECONDS, self.owner))

    def __exit__(self, *error: Any) -> None:
        """Release this process's claims and close the connection."""
        if self._renewal is not None:
            self._renewal.stop()
        if self._connection is not None and not self._connection.closed:
            with suppress(Exception):  # claims expire by themselves once this process has ended
                with self._connection.transaction():
                    self._connection.execute("DELETE FROM claims WHERE owner = %s", (self.owner,))
                self._connection.close()
        self._connection = None

    def __len__(self) -> int:
        return int(self._fetch("SELECT count(*) FROM calls")[0][0])

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Result]:
        """Return the results that are stored, by key, and delete damaged rows with a warning."""
        if not keys:
            return {}
        rows = self._fetch(
            "SELECT key, value, seconds, crc FROM calls WHERE key = ANY(%s)", (list(keys),)
        )
        results = {
            key: read_result(key, value.encode(), seconds, crc) for key, value, seconds, crc in rows
        }
        damaged_keys = [key for key, result in results.items() if result is None]
        if damaged_keys:
            _log.warning(
                "The ledger %s: %d damaged calls were deleted; they will be rerun.",
                self.url,
                len(damaged_keys),
            )
            self.delete(damaged_keys)
        return {key: result for key, result in results.items() if result is not None}

    def put(self, engine: str, rows: Iterable[tuple[bytes, Request, Result, float]]) -> None:
        """Store results in one transaction, and release the claims on their calls.

        Args:
            engine: Identity of the engine that computed the results.
            rows: Tuples of key, request, result and engine time in seconds.

        Raises:
            LedgerError: If a result contains NaN. The other results are stored first.
        """
        encoded_rows, errors = encode_rows(engine, rows)
        encoded_rows.sort()

        def store(db: Connection[Any]) -> None:
            with db.cursor() as cursor:
                cursor.executemany(
                    f"INSERT INTO calls VALUES (%s, %s, %s, %s, %s, {_NOW}, %s) ON CONFLICT DO "  # noqa: S608 (constants)
                    "NOTHING",
                    encoded_rows,
                )
            db.execute(
                "DELETE FROM claims WHERE key = ANY(%s)", ([row[0] for row in encoded_rows],)
            )

        self._repeat(store)
        if errors:
            self.release(list(errors))
            raise next(iter(errors.values()))

    def claim(self, keys: Sequence[bytes]) -> set[bytes]:
        """Claim and return keys that are neither stored nor validly claimed by another owner."""
        if not keys:
            return set()
        values = {
            "owner": self.owner,
            "lease": LEASE_SECONDS,
            "grace": GRACE_SECONDS,
            "keys": list(keys),
        }

        def insert(db: Connection[Any]) -> set[bytes]:
            claimed = {key for (key,) in db.execute(_CLAIM, values)}
            others = db.execute(
                "SELECT key, owner FROM claims WHERE key = ANY(%s) AND owner <> %s",
                (list(keys), self.owner),
            )
            ended = [
                (key, owner) for key, owner in others if has_lapsed(owner, float("inf"), 0.0)
            ]  # processes of this host
            if ended:
                with db.cursor() as cursor:
                    cursor.executemany(
                        "DELETE FROM claims WHERE key = %s AND owner = %s", sorted(ended)
                    )
                claimed |= {key for (key,) in db.execute(_CLAIM, values)}
            return claimed

        claimed = self._repeat(insert)
        # Another process may have stored a call, and released its claim, after the statement above
        # looked for stored calls.
        stored_keys = {
            key
            for (key,) in self._fetch("SELECT key FROM calls WHERE key = ANY(%s)", (list(claimed),))
        }
        if stored_keys:
            self.release(list(stored_keys))
        return claimed - stored_keys

    def release(self, keys: Sequence[bytes]) -> None:
        """Release this owner's claims on calls that will not be made."""
        values = (list(keys), self.owner)
        self._repeat(
            lambda db: db.execute("DELETE FROM claims WHERE key = ANY(%s) AND owner = %s", values)
        )

    def find_owners(self, keys: Sequence[bytes]) -> set[str]:
        """Return the owners of the claims on these calls."""
        return {
            owner
            for (owner,) in self._fetch(
                "SELECT owner FROM claims WHERE key = ANY(%s)", (list(keys),)
            )
        }

    def release_lapsed_claims(self, *, elsewhere: bool = False) -> int:
        """Release and count the claims of ended local processes and expired claims of other hosts.

        Args:
            elsewhere: Whether to release the claims of other hosts before they expire.
        """
        rows = self._fetch(f"SELECT key, owner, expires, {_NOW} FROM claims")  # noqa: S608 (constants)
        lapsed = sorted(
            (key, owner)
            for key, owner, expires, now in rows
            if owner != self.owner and has_lapsed(owner, -math.inf if elsewhere else expires, now)
        )

        def delete(db: Connection[Any]) -> None:
            with db.cursor() as cursor:
                cursor.executemany("DELETE FROM claims WHERE key = %s AND owner = %s", lapsed)

        self._repeat(delete)
        return len(lapsed)

    def delete(self, keys: Sequence[bytes]) -> None:
        """Delete the results of these keys, so that the calls are repeated."""
        self._repeat(lambda db: db.execute("DELETE FROM calls WHERE key = ANY(%s)", (list(keys),)))

    def compute_mean_seconds(self, engine: str) -> float | None:
        """Return the mean time of an engine's stored calls in seconds, or None if it has none."""
        ((value,),) = self._fetch("SELECT avg(seconds) FROM calls WHERE engine = %s", (engine,))
        return None if value is None else float(value)

    def read_rows(self, keys: Sequence[bytes]) -> dict[bytes, tuple[str, float]]:
        """Return the encoded results and storage times of these keys, without damaged rows."""
        rows = self._fetch(
            "SELECT key, value, seconds, crc, created FROM calls WHERE key = ANY(%s)", [list(keys)]
        )
        return {
            bytes(key): (value, storage_time)
            for key, value, seconds, crc, storage_time in rows
            if read_result(bytes(key), value.encode(), seconds, crc) is not None
        }

    def insert_missing(self, rows: Iterable[Sequence[Any]]) -> None:
        """Insert rows of `winnow.ledger.rows.COLUMNS` with new keys."""
        for batch in batched(rows, _ROWS_AT_ONCE):

            def insert(db: Connection[Any], batch: Sequence[Any] = batch) -> None:
                with db.cursor() as cursor:
                    cursor.executemany(
                        "INSERT INTO calls VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO "
                        "NOTHING",
                        batch,
                    )

            self._repeat(insert)

    def prune(
        self, engines: Sequence[str], before: float | None, *, failed: bool, empty: bool
    ) -> int:
        """Delete and count calls that match all conditions of `winnow.ledger.tools.prune_calls`."""
        conditions = (list(engines), list(engines), before, before, failed, empty)
        return self._repeat(lambda db: db.execute(_PRUNE, conditions).rowcount)

    def iter_rows(self) -> Iterator[Sequence[Any]]:
        """Yield all calls' rows, ordered by key, with the columns `winnow.ledger.rows.COLUMNS`."""
        last = b""
        while rows := self._fetch(
            f"SELECT {COLUMNS} FROM calls WHERE key > %s ORDER BY key LIMIT 10000",  # noqa: S608 (constants)
            (last,),
        ):
            yield from rows
            last = rows[-1][0]

    def _fetch(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        return self._repeat(lambda db: db.execute(query, values).fetchall())

    def _repeat(self, operation: Callable[[Connection[Any]], T]) -> T:
        """Run an operation in a transaction, and repeat it while the database does not answer.

        Raises:
            LedgerError: If the database refuses the operation, or does not answer for too long.
        """
        import psycopg

        def run() -> T:
            if self._connection is None or self._connection.closed:
                self._connection = psycopg.connect(self.url, **_CONNECTION)  # type: ignore[arg-type]
            with self._connection.transaction():
                return operation(self._connection)

        def warn(state: RetryCallState) -> None:
            if state.attempt_number == 1:
                _log.warning("The database %s does not answer. Waiting for it.", self.url)

        retrying = Retrying(
            retry=retry_if_exception(_is_worth_waiting),
            wait=wait_exponential_jitter(initial=0.2, max=10.0),
            stop=stop_after_delay(self.patience),
            before_sleep=warn,
            reraise=True,
        )
        try:
            return retrying(run)
        except psycopg.Error as error:
            raise LedgerError(
                f"The ledger {self.url} cannot be used ({str(error).strip()}). Finished calls are "
                "kept; start the database, or correct paths.ledger, PGUSER and PGPASSWORD, and "
                "run the same command again."
            ) from error


def _is_worth_waiting(error: BaseException) -> bool:
    """Return whether an error may pass: a lost connection, shutdown or deadlock, not a refusal."""
    import psycopg

    return isinstance(error, psycopg.OperationalError) and not any(
        text in str(error) for text in _REFUSALS
    )
