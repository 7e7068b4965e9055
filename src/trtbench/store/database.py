"""Connections to the index's database, and its errors in the user's words."""

from __future__ import annotations

import importlib.util
import sqlite3
import zlib
from types import TracebackType

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import ArgumentError, DatabaseError

from trtbench.boundary import mask
from trtbench.errors import StoreError, UnavailableError, UsageError
from trtbench.store.entries import DamagedIndexError, ReadOnlyIndexError
from trtbench.store.place import without_password

BUSY_S = 30
"""How long a writer waits for another one, and anybody for a database to answer."""

IN_MEMORY = "sqlite://"

_LOCKS = zlib.crc32(b"trtbench")
"""First half of the key of every advisory lock, so that other programs' locks are not met."""


def engine_from_url(url: str) -> Engine:
    """Prepare the connection to an index; nothing is opened yet."""
    return _sqlite(url) if url.startswith("sqlite") else _postgresql(url)


def lock_name(connection: Connection, name: str) -> None:
    """Keep others who ask for this name waiting until the transaction ends.

    A transaction that writes to SQLite excludes all others as it is.
    """
    if connection.dialect.name == "postgresql":
        key = zlib.crc32(name.encode()) - 2**31  # the database wants signed 32 bits
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCKS - 2**31, key)))


_DAMAGED = ("not a database", "malformed", "no such table", "no such column", "has no column",
            "could not decode", "codec can't decode")  # fmt: skip
_READ_ONLY = ("readonly", "read-only", "unable to open database file")


class Transaction:
    """A transaction whose database errors are ours."""

    def __init__(self, engine: Engine, url: str, *, write: bool) -> None:
        self._engine, self._url, self._write = engine, url, write

    def __enter__(self) -> Connection:
        try:
            self._connection = self._engine.connect()
            if self._write and self._engine.dialect.name == "sqlite":
                self._connection.exec_driver_sql("BEGIN IMMEDIATE")
        except (DatabaseError, sqlite3.Error) as problem:
            raise self._error(problem) from None
        return self._connection

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if problem is None:
                self._connection.commit()
            else:
                self._connection.rollback()
        except (DatabaseError, sqlite3.Error) as trouble:
            raise self._error(trouble) from None
        finally:
            self._connection.close()
        if isinstance(problem, (DatabaseError, sqlite3.Error, UnicodeDecodeError)):
            raise self._error(problem) from None

    def _error(self, problem: DatabaseError | sqlite3.Error | UnicodeDecodeError) -> StoreError:
        reason = str(getattr(problem, "orig", None) or problem).strip()
        kind, fix = StoreError, "give another place with --store"
        if self._engine.dialect.name == "sqlite":
            if any(word in reason.lower() for word in _DAMAGED):
                kind, fix = DamagedIndexError, "trtbench runs fsck"
            elif any(word in reason.lower() for word in _READ_ONLY):
                kind, fix = ReadOnlyIndexError, "give another place with --store, or a copy of it"
        return kind(
            "the index of the store cannot be used",
            facts={"store": without_password(self._url), "reason": mask(reason)},
            fix=fix,
        )


def _sqlite(url: str) -> Engine:
    # An index in memory, for a store that cannot have one on its disk, lives in one connection.
    pool = {"poolclass": sa.pool.StaticPool} if url == IN_MEMORY else {}
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_S}, **pool)

    @sa.event.listens_for(engine, "connect")
    def _prepare(connection: sqlite3.Connection, _: object) -> None:
        # Transactions are begun by hand, IMMEDIATE for writers. The journal stays SQLite's own:
        # WAL would not work on network folders, and a copied store would lack half of its index.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    return engine


def _postgresql(url: str) -> Engine:
    if importlib.util.find_spec("psycopg") is None:
        raise UnavailableError(
            "a store in PostgreSQL needs the driver psycopg",
            facts={"store": without_password(url)},
            fix="pip install 'trtbench[postgres]'",
        )
    try:
        parsed = sa.make_url(url)
        limits = {} if "connect_timeout" in parsed.query else {"connect_timeout": BUSY_S}
        # A connection of its own for each transaction: a sweep rests for minutes between two, long
        # enough for a firewall to drop one, and children must not share one with their parent.
        return sa.create_engine(parsed, connect_args=limits, poolclass=sa.pool.NullPool)
    except (ArgumentError, ValueError) as problem:
        raise UsageError(
            f"{without_password(url)} is not the URL of a database",
            facts={"reason": problem},
            fix="write it like postgresql://user@host/database",
        ) from None
