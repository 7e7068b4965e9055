"""The index over run directories: tables and queries, through SQLAlchemy Core."""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args, get_type_hints

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import ArgumentError, DatabaseError

from trtbench.core.codec import prepared_for_decoding
from trtbench.core.errors import StoreError, UsageError, writing
from trtbench.core.plugins import optional_library
from trtbench.core.safety import clean_line, mask
from trtbench.core.units import instant_from_text
from trtbench.host.files import exclusive
from trtbench.store.directory import DamagedIndexError, Entry, ReadOnlyIndexError
from trtbench.store.place import Place

if TYPE_CHECKING:
    from sqlalchemy.dialects.postgresql import Insert as PostgresqlInsert
    from sqlalchemy.dialects.sqlite import Insert as SqliteInsert

BUSY_S = 30
"""Seconds that a writer waits for another one, and that connecting to a database may take."""
IN_MEMORY = "sqlite://"
_LOCKS = zlib.crc32(b"trtbench")
"""First half of the key of every advisory lock, to avoid the locks of other programs."""
_CHUNK = 500  # entries per statement: databases limit the parameters of one statement
_DAMAGED = ("not a database", "malformed", "no such table", "no such column", "has no column",
            "could not decode", "codec can't decode")  # fmt: skip
_READ_ONLY = ("readonly", "read-only", "unable to open database file", "disk is full")


def engine_from_url(url: str) -> Engine:
    """Prepare the connection to an index, without opening it."""
    if url.startswith("sqlite"):
        # An index in memory, for a read-only store without an index, exists in one connection.
        pool = {"poolclass": sa.pool.StaticPool} if url == IN_MEMORY else {}
        engine = sa.create_engine(url, connect_args={"timeout": BUSY_S}, **pool)

        @sa.event.listens_for(engine, "connect")
        def _prepare(connection: sqlite3.Connection, _: object) -> None:
            # Transactions are started explicitly, IMMEDIATE for writers. The journal mode is the
            # default: WAL fails on network folders, and a copied store could lack entries.
            connection.isolation_level = None
            file = Path(url.removeprefix("sqlite:///"))
            name = "SELECT CAST(file AS BLOB) FROM pragma_database_list"
            opened = Path(os.fsdecode(connection.execute(name).fetchone()[0] or bytes(file)))
            if opened.name != file.name or not opened.parent.samefile(file.parent):
                raise sqlite3.DatabaseError("the index is malformed: it is a link")
            connection.execute("PRAGMA foreign_keys=ON")

        return engine
    optional_library("psycopg")
    try:
        parsed = sa.make_url(url)
        limits = {} if "connect_timeout" in parsed.query else {"connect_timeout": BUSY_S}
        # A new connection for each transaction: a sweep pauses for minutes between two, in which a
        # firewall may drop the connection, and children must not share one with their parent.
        return sa.create_engine(parsed, connect_args=limits, poolclass=sa.pool.NullPool)
    except (ArgumentError, ValueError) as problem:
        message = f"{mask(url)} is not the URL of a database"
        fix = "use the form postgresql://user@host/database"
        raise UsageError(message, facts={"reason": problem}, fix=fix) from None


_TABLES = sa.MetaData()

_TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")
"""Compared byte by byte in all databases: other collations sort ids and times differently."""


def _columns_of_entry() -> Iterator[sa.Column[object]]:
    kinds = {str: _TEXT, int: sa.Integer, float: sa.Float}
    for name, hint in get_type_hints(Entry).items():
        kind, *unknown = get_args(hint) or (hint,)
        if name != "tags":
            facts = {"primary_key": name == "id", "nullable": bool(unknown)}
            searched = name in ("created", "model", "sha256")
            yield sa.Column(name, kinds[kind], index=searched, **facts)  # type: ignore[arg-type]


RUNS = sa.Table(
    "runs",
    _TABLES,
    *_columns_of_entry(),
    sa.Column("instant_s", sa.Float),
    sa.Column("number", sa.Integer),
)
TAGS = sa.Table(
    "tags",
    _TABLES,
    sa.Column("run", _TEXT, sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("tag", _TEXT, primary_key=True, index=True),
)
_VERSION = sa.Table("trtbench_schema", _TABLES, sa.Column("version", sa.Integer, nullable=False))

_INSTANT = RUNS.c.instant_s
"""Seconds since 1970: machines in several time zones write into one index."""
_NUMBER = RUNS.c.number  # counts the runs in the order of creation; clocks may be set back
_NOT_IN_ENTRY = (_INSTANT.name, _NUMBER.name)

SCHEMA = 4  # the version of these tables; an older index is rebuilt from the run directories


class Index:
    """One database of entries; safe for several processes and machines at once."""

    def __init__(self, url: str) -> None:
        self.url, self.was_earlier = url, False
        self._engine = engine_from_url(url)
        if url.startswith("sqlite"):
            self._check_plain()
        # An index that has its tables needs no lock, and can be read-only.
        with self._transaction(write=False) as connection:
            version = _version(connection)
        if version > SCHEMA:
            facts = {"store": mask(self.url), "its version": version, "known here": SCHEMA}
            fix = "pip install --upgrade trtbench"
            raise StoreError("the store was written by a newer trtbench", facts=facts, fix=fix)
        if version == SCHEMA:
            return
        with self._transaction(write=True) as connection:
            lock_name(connection, "migration")
            version, entries = _version(connection), list[Entry]()
            self.was_earlier = 0 < version < SCHEMA
            if self.was_earlier:
                entries = _entries(connection, sa.text("SELECT * FROM runs ORDER BY created"))
                _TABLES.drop_all(connection)
            if version < SCHEMA:  # else another process was faster
                _TABLES.create_all(connection)
                connection.execute(_VERSION.insert().values(version=SCHEMA))
                _put_all(connection, entries)

    def put_all(self, entries: Iterable[Entry]) -> None:
        """Add or replace entries, all or none; new ones are numbered in this order."""
        with self._transaction(write=True) as connection:
            _put_all(connection, entries)

    def check_intact(self) -> None:
        """Raise if the index is damaged, or lacks a table or a column."""
        with self._transaction(write=False) as connection:
            for table in (RUNS, TAGS):
                connection.execute(sa.select(table).limit(1)).all()
            if connection.dialect.name == "sqlite":
                state = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
                if state != "ok":
                    raise sqlite3.DatabaseError(f"the index is malformed: {state}")

    def _check_plain(self) -> None:
        """Raise if the file belongs to another program, or contains views, triggers or the like.

        A view may never end, and a trigger may do anything. trtbench creates none; others who can
        write to the folder might, or might put a link to another database there.
        """
        with self._transaction(write=False) as connection:
            known = connection.exec_driver_sql(
                "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
            ).all()
            if known and not {str(name) for _, name, _ in known} & _TABLES.tables.keys():
                message = "this is the database of another program, not the index of a store"
                facts = {"file": self.url.removeprefix("sqlite:///"), "contains": known[0][1]}
                raise StoreError(message, facts=facts, fix="use another folder with --store")
            computes = any(
                kind in ("trigger", "view") or str(sql).upper().startswith("CREATE VIRTUAL")
                for kind, _, sql in known
            )
            for table in _TABLES.tables:  # columns that are computed when they are read
                columns = connection.exec_driver_sql(f"PRAGMA table_xinfo({table})")
                computes = any(hidden != 0 for *_, hidden in columns) or computes
            if computes:
                raise sqlite3.DatabaseError("the index is malformed: it contains code")

    def ids(self) -> set[str]:
        with self._transaction(write=False) as connection:
            return set(connection.execute(sa.select(RUNS.c.id)).scalars())

    def change(self, run_id: str, work: Callable[[Entry], Entry]) -> Entry | None:
        """Replace an entry by the result of ``work``, in one transaction; returns the new entry."""
        with self._transaction(write=True) as connection:
            lock_name(connection, run_id)
            found = _entries(connection, sa.select(RUNS).where(RUNS.c.id == run_id))
            if not found:
                return None
            entry = work(found[0])
            _put(connection, [entry], _run_numbers(connection, [run_id]))
            return entry

    def remove(self, *ids: str) -> None:
        try:
            self._remove(ids)
        except ReadOnlyIndexError:  # on a full disk, without a journal on it
            with self._transaction(write=False) as connection:
                connection.exec_driver_sql("PRAGMA journal_mode=MEMORY")
            self._remove(ids)

    def _remove(self, ids: Sequence[str]) -> None:
        with self._transaction(write=True) as connection:
            for run_id in ids:
                connection.execute(TAGS.delete().where(TAGS.c.run == run_id))
                connection.execute(RUNS.delete().where(RUNS.c.id == run_id))

    def find(
        self,
        *,
        model: str | None = None,
        runtime: str | None = None,
        tag: str | None = None,
        since: str | None = None,
        until: str | None = None,
        kind: str | None = None,
        id_prefix: str | None = None,
        limit: int | None = None,
        by_creation: bool = False,
    ) -> list[Entry]:
        """List entries, newest first: by recorded time, or by the order of creation."""
        clock = (sa.func.coalesce(_INSTANT, 0.0).desc(), RUNS.c.created.desc(), RUNS.c.id.desc())
        query = sa.select(RUNS).order_by(*[_NUMBER.desc()] * by_creation, *clock).limit(limit)
        wanted = {
            RUNS.c.model.icontains(model or "", autoescape=True): model,
            RUNS.c.runtime == runtime: runtime,
            RUNS.c.kind == kind: kind,
            RUNS.c.id.startswith(id_prefix or "", autoescape=True): id_prefix,
            RUNS.c.id.in_(sa.select(TAGS.c.run).where(TAGS.c.tag == tag)): tag,
            RUNS.c.created >= (since or ""): since,
            RUNS.c.created < (until or ""): until,
        }
        query = query.where(*(clause for clause, value in wanted.items() if value is not None))
        with self._transaction(write=False) as connection:
            return _entries(connection, query)

    @contextlib.contextmanager
    def _transaction(self, *, write: bool) -> Iterator[Connection]:
        """Run the block in a transaction; raises errors of the database as ``StoreError``."""
        try:
            with self._engine.connect() as connection:
                if write and self._engine.dialect.name == "sqlite":
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                yield connection
                connection.commit()
        except (DatabaseError, sqlite3.Error, UnicodeDecodeError) as problem:
            reason = str(getattr(problem, "orig", None) or problem).strip()
            kind, fix = StoreError, "use another folder with --store"
            if self._engine.dialect.name != "sqlite":
                fix = "start the server, or correct the address; --store DIR needs no server"
            elif any(word in reason.lower() for word in _DAMAGED):
                kind, fix = DamagedIndexError, "trtbench runs reindex"
            elif any(word in reason.lower() for word in _READ_ONLY):
                kind, fix = ReadOnlyIndexError, f"{fix}, or a copy of it"
            facts = {"store": mask(self.url), "reason": mask(reason)}
            raise kind("the index of the store cannot be used", facts=facts, fix=fix) from None


def lock_name(connection: Connection, name: str) -> None:
    """Lock a name until the transaction ends; SQLite locks the whole database anyway."""
    if connection.dialect.name == "postgresql":
        key = zlib.crc32(name.encode()) - 2**31  # the database needs signed 32 bits
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCKS - 2**31, key)))


def _version(connection: Connection) -> int:
    if not sa.inspect(connection).has_table(_VERSION.name):
        return 0
    version = connection.execute(sa.select(sa.func.max(_VERSION.c.version))).scalar()
    if version is not None and not isinstance(version, int):
        raise sqlite3.DatabaseError("the index is malformed: it has no version")
    return version or 0


def _run_numbers(connection: Connection, ids: Sequence[str]) -> dict[str, int]:
    found = connection.execute(sa.select(RUNS.c.id, _NUMBER).where(RUNS.c.id.in_(ids)))
    return {str(name): number if isinstance(number, int) else 0 for name, number in found}


def _put_all(connection: Connection, entries: Iterable[Entry]) -> None:
    found = connection.execute(sa.select(sa.func.max(_NUMBER))).scalar()
    last = found if isinstance(found, int) else 0
    waiting = list({entry.id: entry for entry in entries}.values())
    for start in range(0, len(waiting), _CHUNK):
        part = waiting[start : start + _CHUNK]
        known = _run_numbers(connection, [entry.id for entry in part])
        for entry in part:
            last += entry.id not in known
            known.setdefault(entry.id, last)
        _put(connection, part, known)


def _put(connection: Connection, entries: Sequence[Entry], numbers: Mapping[str, int]) -> None:
    """Write entries; first their rows, which locks them, then their tags."""
    names = [column.name for column in RUNS.columns if column.name not in _NOT_IN_ENTRY]
    rows = []
    for entry in entries:
        row: dict[str, object] = {name: _storable(getattr(entry, name)) for name in names}
        own = {"instant_s": instant_from_text(entry.created), "number": numbers[entry.id]}
        rows.append({**row, **own})
    # Each dialect has its own statement to insert or replace a row.
    dialect = importlib.import_module(f"sqlalchemy.dialects.{connection.dialect.name}")
    new: PostgresqlInsert | SqliteInsert = dialect.insert(RUNS)
    change = {name: new.excluded[name] for name in rows[0]}
    connection.execute(new.on_conflict_do_update(index_elements=["id"], set_=change), rows)
    connection.execute(TAGS.delete().where(TAGS.c.run.in_([entry.id for entry in entries])))
    tags = [
        {"run": entry.id, "tag": tag}
        for entry in entries
        for tag in sorted(set(map(clean_line, entry.tags)))
    ]
    if tags:
        connection.execute(TAGS.insert(), tags)


def _storable(value: object) -> object:
    """Return a value that every database accepts: finite numbers, text in UTF-8."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value if abs(value) < 2**31 else None  # limit of integer columns in all databases
    return clean_line(value) if isinstance(value, str) else value


def _entries(connection: Connection, query: sa.Executable) -> list[Entry]:
    rows = [dict(row) for row in connection.execute(query).mappings()]
    ids = [row["id"] for row in rows]
    tags: dict[str, tuple[str, ...]] = {}
    for start in range(0, len(ids), _CHUNK):
        part = TAGS.c.run.in_(ids[start : start + _CHUNK])
        for run, tag in connection.execute(sa.select(TAGS).where(part).order_by(TAGS.c.tag)):
            tags[run] = (*tags.get(run, ()), tag)
    found = []
    for row in rows:
        values = {str(name): value for name, value in row.items() if name not in _NOT_IN_ENTRY}
        # Rows that another program wrote may be invalid; they are skipped.
        with contextlib.suppress(msgspec.ValidationError):
            values["tags"] = tags.get(row["id"], ())
            found.append(msgspec.convert(values, type=prepared_for_decoding(Entry)))
    return found


def open_index(place: Place) -> tuple[Index, str | None]:
    """Open an index; the text says why its runs shall be read again, and is ``None`` otherwise.

    The tables of an earlier version are made anew with their entries, since the directories of some
    runs may be on other machines. A damaged file is renamed, never deleted. A read-only store
    without an index gets one in memory, so that it can be read.
    """
    file = Path(place.url.removeprefix("sqlite:///"))
    try:
        index = _opened(place, file)
        return index, "the index was of an earlier version" if index.was_earlier else None
    except ReadOnlyIndexError:
        if place.index_folder is None or (file.exists() and file.stat().st_size):
            raise
        return Index(IN_MEMORY), "the store is read-only; its runs are listed from its folders"
    except DamagedIndexError:
        pass
    with writing(file), exclusive(file.parent):
        try:
            return _opened(place, file), None  # another process has replaced it meanwhile
        except DamagedIndexError:
            backup = file.with_name(f"{file.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
            file.rename(backup)
        return _opened(place, file), f"the index was damaged; it is kept as {backup.name}"


def _opened(place: Place, file: Path) -> Index:
    is_file = file.is_file() or file.is_dir() or not file.exists()
    if not place.is_shared and (file.is_symlink() or not is_file):
        raise DamagedIndexError(f"{file} is not a file")
    index = Index(place.url)
    index.check_intact()
    return index
