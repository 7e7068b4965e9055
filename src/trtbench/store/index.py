"""The index over run directories: tables, migrations and queries, through SQLAlchemy Core."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from trtbench.boundary import clean_line
from trtbench.domain.codec import learned
from trtbench.errors import StoreError
from trtbench.store.database import Transaction, engine_from_url, lock_name
from trtbench.store.entries import Entry
from trtbench.store.place import without_password
from trtbench.units import instant_from_text

if TYPE_CHECKING:
    from sqlalchemy.dialects.postgresql import Insert as PostgresqlInsert
    from sqlalchemy.dialects.sqlite import Insert as SqliteInsert

_TABLES = sa.MetaData()

_TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")
"""Compared byte by byte everywhere: a database's own language would sort ids and times anew."""

RUNS = sa.Table(
    "runs",
    _TABLES,
    sa.Column("id", _TEXT, primary_key=True),
    sa.Column("kind", _TEXT, nullable=False),
    sa.Column("created", _TEXT, nullable=False, index=True),
    sa.Column("model", _TEXT, nullable=False, index=True),
    sa.Column("sha256", _TEXT, index=True),
    sa.Column("runtime", _TEXT, nullable=False),
    sa.Column("precision", _TEXT),
    sa.Column("batch", sa.Integer),
    sa.Column("protocol", _TEXT),
    sa.Column("host", _TEXT),
    sa.Column("gpu", _TEXT),
    sa.Column("provenance", _TEXT),
    sa.Column("samples", sa.Integer),
    sa.Column("median_s", sa.Float),
    sa.Column("items_per_s", sa.Float),
    sa.Column("warnings", sa.Integer),
    sa.Column("path", _TEXT, nullable=False),
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
_NUMBER = RUNS.c.number
"""Counts the runs as they were made; a clock may be set back."""
_OWN = (_INSTANT.name, _NUMBER.name)
"""Columns that the index keeps for itself."""


def _create(connection: Connection) -> None:
    _TABLES.create_all(connection)


def _add_instants(connection: Connection) -> None:
    """Let runs be sorted by when they were, whatever clock their machine shows."""
    if any(each["name"] == _INSTANT.name for each in sa.inspect(connection).get_columns("runs")):
        return  # a new index has it from the start
    kind = _INSTANT.type.compile(connection.dialect)
    connection.exec_driver_sql(f"ALTER TABLE runs ADD COLUMN {_INSTANT.name} {kind}")
    for run_id, created in connection.execute(sa.select(RUNS.c.id, RUNS.c.created)).all():
        change = RUNS.update().where(RUNS.c.id == run_id)
        connection.execute(change.values(instant_s=instant_from_text(created)))


def _add_numbers(connection: Connection) -> None:
    """Count the runs of an older index by their clocks, for want of anything better."""
    if any(each["name"] == _NUMBER.name for each in sa.inspect(connection).get_columns("runs")):
        return
    kind = _NUMBER.type.compile(connection.dialect)
    connection.exec_driver_sql(f"ALTER TABLE runs ADD COLUMN {_NUMBER.name} {kind}")
    order = (sa.func.coalesce(_INSTANT, 0.0), RUNS.c.created, RUNS.c.id)
    ids = connection.execute(sa.select(RUNS.c.id).order_by(*order)).scalars().all()
    for number, run_id in enumerate(ids, 1):
        connection.execute(RUNS.update().where(RUNS.c.id == run_id).values(number=number))


MIGRATIONS: Sequence[Callable[[Connection], None]] = (_create, _add_instants, _add_numbers)
"""Step N brings an index from version N to N+1; a new step goes at the end."""


class Index:
    """One database of entries; safe for several processes and machines at once."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine = engine_from_url(url)
        self._demand_plain()
        self._migrate()

    def put(self, entry: Entry) -> None:
        """Add an entry, or replace the one with its id."""
        self.put_all([entry])

    def put_all(self, entries: Iterable[Entry]) -> None:
        """Add or replace entries, all or none; new ones count as made in this order."""
        with self._writing() as connection:
            found = connection.execute(sa.select(sa.func.max(_NUMBER))).scalar()
            last = found if isinstance(found, int) else 0
            waiting = list({entry.id: entry for entry in entries}.values())
            for start in range(0, len(waiting), _CHUNK):
                part = waiting[start : start + _CHUNK]
                known = _numbers(connection, [entry.id for entry in part])
                for entry in part:
                    last += entry.id not in known
                    known.setdefault(entry.id, last)
                _put(connection, part, known)

    def demand_sound(self) -> None:
        """Refuse a file that is damaged somewhere, or lacks a table or a column."""
        with self._reading() as connection:
            for table in (RUNS, TAGS):
                connection.execute(sa.select(table).limit(1)).all()
            if connection.dialect.name == "sqlite":
                state = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
                if state != "ok":
                    raise sqlite3.DatabaseError(f"the index is malformed: {state}")

    def _demand_plain(self) -> None:
        """Refuse a file of another program, and one that computes: nothing is done to either.

        A view may never end, a trigger may do anything. trtbench makes none; whoever else writes
        to the folder might, or put a link to another database there.
        """
        if not self.url.startswith("sqlite"):
            return
        with self._reading() as connection:
            known = connection.exec_driver_sql(
                "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
            ).all()
            if known and not {str(name) for _, name, _ in known} & _TABLES.tables.keys():
                raise StoreError(
                    "this is the database of another program, not the index of a store",
                    facts={"file": self.url.removeprefix("sqlite:///"), "it holds": known[0][1]},
                    fix="give another place with --store",
                )
            computes = any(
                kind in ("trigger", "view") or str(sql).upper().startswith("CREATE VIRTUAL")
                for kind, _, sql in known
            )
            if computes or any(_computed(connection, table) for table in _TABLES.tables):
                raise sqlite3.DatabaseError("the index is malformed: it holds code")

    def ids(self) -> set[str]:
        """List the ids of all entries."""
        with self._reading() as connection:
            return set(connection.execute(sa.select(RUNS.c.id)).scalars())

    def change(self, run_id: str, work: Callable[[Entry], Entry]) -> Entry | None:
        """Replace an entry by what ``work`` makes of it, while nobody else changes it."""
        with self._writing() as connection:
            lock_name(connection, run_id)
            found = _entries(connection, sa.select(RUNS).where(RUNS.c.id == run_id))
            if not found:
                return None
            entry = work(found[0])
            _put(connection, [entry], _numbers(connection, [run_id]))
            return entry

    def remove(self, *ids: str) -> None:
        with self._writing() as connection:
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
        as_made: bool = False,
    ) -> list[Entry]:
        """List entries, newest first by their clocks, or in the order in which they were made."""
        clock = (sa.func.coalesce(_INSTANT, 0.0).desc(), RUNS.c.created.desc(), RUNS.c.id.desc())
        query = sa.select(RUNS).order_by(*[_NUMBER.desc()] * as_made, *clock)
        if model is not None:
            query = query.where(RUNS.c.model.icontains(model, autoescape=True))
        for column, value in ((RUNS.c.runtime, runtime), (RUNS.c.kind, kind)):
            if value is not None:
                query = query.where(column == value)
        if id_prefix is not None:
            query = query.where(RUNS.c.id.startswith(id_prefix, autoescape=True))
        if tag is not None:
            tagged = sa.select(TAGS.c.run).where(TAGS.c.tag == tag)
            query = query.where(RUNS.c.id.in_(tagged))
        if since is not None:
            query = query.where(RUNS.c.created >= since)
        if until is not None:
            query = query.where(RUNS.c.created < until)
        if limit is not None:
            query = query.limit(limit)
        with self._reading() as connection:
            return _entries(connection, query)

    def _migrate(self) -> None:
        """Bring an older index up to date; one that is needs no lock, and can be read-only."""
        with self._reading() as connection:
            version = _version(connection)
        if version > len(MIGRATIONS):
            raise self._too_new(version)
        if version == len(MIGRATIONS):
            return
        with self._writing() as connection:
            lock_name(connection, "migration")
            for step in MIGRATIONS[_version(connection) :]:  # another may have done it meanwhile
                step(connection)
            connection.execute(_VERSION.delete())
            connection.execute(_VERSION.insert().values(version=len(MIGRATIONS)))

    def _too_new(self, version: int) -> StoreError:
        return StoreError(
            "the store was written by a newer trtbench",
            facts={
                "store": without_password(self.url),
                "its version": version,
                "known here": len(MIGRATIONS),
            },
            fix="pip install --upgrade trtbench",
        )

    def _writing(self) -> Transaction:
        return Transaction(self._engine, self.url, write=True)

    def _reading(self) -> Transaction:
        return Transaction(self._engine, self.url, write=False)


def _computed(connection: Connection, table: str) -> bool:
    """Say whether a table has columns that are made of others when they are read."""
    columns = connection.exec_driver_sql(f"PRAGMA table_xinfo({table})")
    return any(hidden != 0 for *_, hidden in columns)


def _numbers(connection: Connection, ids: Sequence[str]) -> dict[str, int | None]:
    query = sa.select(RUNS.c.id, _NUMBER).where(RUNS.c.id.in_(ids))
    found = {str(run_id): number for run_id, number in connection.execute(query)}
    return {name: number if isinstance(number, int) else 0 for name, number in found.items()}


def _insert(connection: Connection) -> PostgresqlInsert | SqliteInsert:
    """Find the statement that can replace a row; dialects are loaded when they are spoken."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as postgresql_insert

        return postgresql_insert(RUNS)
    from sqlalchemy.dialects.sqlite import insert

    return insert(RUNS)


def _put(
    connection: Connection, entries: Sequence[Entry], numbers: Mapping[str, int | None]
) -> None:
    """Write entries; their rows are locked before their tags are touched."""
    rows = [_row(entry, number=numbers[entry.id]) for entry in entries]
    new = _insert(connection)
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


def _row(entry: Entry, *, number: int | None) -> dict[str, object]:
    row = {c.name: _value(getattr(entry, c.name)) for c in RUNS.columns if c.name not in _OWN}
    return {**row, _INSTANT.name: instant_from_text(entry.created), _NUMBER.name: number}


def _value(value: object) -> object:
    """Write what every database takes: no number that is none, no text that is not UTF-8."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value if abs(value) < _LARGEST else None
    return clean_line(value) if isinstance(value, str) else value


_CHUNK = 500
"""Entries that are written at a time: databases limit the parameters of one statement."""

_LARGEST = 2**31
"""Beyond what a column of integers holds in every database."""


def _entries(connection: Connection, query: sa.Select[tuple[object, ...]]) -> list[Entry]:
    rows = [dict(row) for row in connection.execute(query).mappings()]
    tags = _tags_of(connection, [row["id"] for row in rows])
    found = (
        {
            **{str(name): row[name] for name in row if name not in _OWN},
            "tags": tags.get(row["id"], ()),
        }
        for row in rows
    )
    return [entry for row in found if (entry := _entry(row)) is not None]


def _entry(row: dict[str, object]) -> Entry | None:
    """Read a row; one that somebody else wrote into the index and that means nothing is none."""
    try:
        return msgspec.convert(row, type=learned(Entry))
    except msgspec.ValidationError:
        return None


def _version(connection: Connection) -> int:
    if not sa.inspect(connection).has_table(_VERSION.name):
        return 0
    version = connection.execute(sa.select(sa.func.max(_VERSION.c.version))).scalar()
    if version is not None and not isinstance(version, int):
        raise sqlite3.DatabaseError("the index is malformed: it has no version")
    return version or 0


def _tags_of(connection: Connection, ids: list[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for start in range(0, len(ids), _CHUNK):
        part = ids[start : start + _CHUNK]
        query = sa.select(TAGS).where(TAGS.c.run.in_(part)).order_by(TAGS.c.tag)
        for run, tag in connection.execute(query):
            found[run] = (*found.get(run, ()), tag)
    return found
