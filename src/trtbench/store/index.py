"""The index over run directories: tables, migrations and queries, through SQLAlchemy Core."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DatabaseError

from trtbench.domain.result import Record, RunRecord
from trtbench.domain.spec import Value
from trtbench.errors import StoreError

BUSY_S = 30
"""How long a writer waits for another one."""

_TABLES = sa.MetaData()

RUNS = sa.Table(
    "runs",
    _TABLES,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("kind", sa.String, nullable=False),
    sa.Column("created", sa.String, nullable=False, index=True),
    sa.Column("model", sa.String, nullable=False, index=True),
    sa.Column("sha256", sa.String, index=True),
    sa.Column("runtime", sa.String, nullable=False),
    sa.Column("precision", sa.String),
    sa.Column("batch", sa.Integer),
    sa.Column("protocol", sa.String),
    sa.Column("host", sa.String),
    sa.Column("gpu", sa.String),
    sa.Column("provenance", sa.String),
    sa.Column("samples", sa.Integer),
    sa.Column("median_s", sa.Float),
    sa.Column("items_per_s", sa.Float),
    sa.Column("warnings", sa.Integer),
    sa.Column("path", sa.String, nullable=False),
)
TAGS = sa.Table(
    "tags",
    _TABLES,
    sa.Column("run", sa.String, sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("tag", sa.String, primary_key=True, index=True),
)
_VERSION = sa.Table("trtbench_schema", _TABLES, sa.Column("version", sa.Integer, nullable=False))


def _create(connection: Connection) -> None:
    _TABLES.create_all(connection)


MIGRATIONS: Sequence[Callable[[Connection], None]] = (_create,)
"""Step N brings an index from version N to N+1; a new step goes at the end."""


class Entry(Value, frozen=True, kw_only=True):
    """What the index knows of a run without opening its directory."""

    id: str
    kind: str
    created: str
    model: str
    runtime: str
    path: str
    sha256: str | None = None
    precision: str | None = None
    batch: int | None = None
    protocol: str | None = None
    host: str | None = None
    gpu: str | None = None
    provenance: str | None = None
    samples: int | None = None
    median_s: float | None = None
    items_per_s: float | None = None
    warnings: int | None = None
    tags: tuple[str, ...] = ()


class Cached(Value, frozen=True, kw_only=True):
    """Numbers of a run that the index keeps for listing; never the only copy."""

    samples: int
    median_s: float
    items_per_s: float | None = None


def entry_from_record(record: Record, *, path: str, cached: Cached | None = None) -> Entry:
    """Describe a record for the index."""
    spec, environment = record.spec, record.environment
    finished = isinstance(record, RunRecord)
    return Entry(
        id=record.id,
        kind="run" if finished else "failed",
        created=record.created,
        model=spec.model.name,
        runtime=spec.runtime,
        path=path,
        sha256=spec.model.sha256,
        precision=spec.precision,
        batch=record.items_per_query if isinstance(record, RunRecord) else spec.batch,
        protocol=spec.protocol,
        host=environment.host,
        gpu=environment.gpus[0].name if environment.gpus else None,
        provenance=record.provenance if isinstance(record, RunRecord) else None,
        samples=cached.samples if cached else None,
        median_s=cached.median_s if cached else None,
        items_per_s=cached.items_per_s if cached else None,
        warnings=(
            sum(each.severity != "note" for each in record.findings)
            if isinstance(record, RunRecord)
            else None
        ),
        tags=record.tags,
    )


class Index:
    """One database of entries; safe for several processes at once."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine = _engine(url)
        self._migrate()

    def put(self, entry: Entry) -> None:
        """Add an entry, or replace the one with its id."""
        row = {c.name: getattr(entry, c.name) for c in RUNS.columns}
        with self._writing() as connection:
            connection.execute(TAGS.delete().where(TAGS.c.run == entry.id))
            connection.execute(RUNS.delete().where(RUNS.c.id == entry.id))
            connection.execute(RUNS.insert().values(row))
            if entry.tags:
                rows = [{"run": entry.id, "tag": tag} for tag in sorted(set(entry.tags))]
                connection.execute(TAGS.insert(), rows)

    def remove(self, run_id: str) -> None:
        with self._writing() as connection:
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
    ) -> list[Entry]:
        """List entries, newest first."""
        query = sa.select(RUNS).order_by(RUNS.c.created.desc(), RUNS.c.id.desc())
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
            rows = connection.execute(query).mappings().all()
            tags = _tags_of(connection, [row["id"] for row in rows])
        return [Entry(**row, tags=tags.get(row["id"], ())) for row in rows]

    def _migrate(self) -> None:
        """Bring an older index up to date; one that is needs no lock, and can be read-only."""
        with self._reading() as connection:
            version = _version(connection)
        if version > len(MIGRATIONS):
            raise self._too_new(version)
        if version == len(MIGRATIONS):
            return
        with self._writing() as connection:
            for step in MIGRATIONS[_version(connection) :]:  # another may have done it meanwhile
                step(connection)
            connection.execute(_VERSION.delete())
            connection.execute(_VERSION.insert().values(version=len(MIGRATIONS)))

    def _too_new(self, version: int) -> StoreError:
        return StoreError(
            "the store was written by a newer trtbench",
            facts={"store": self.url, "its version": version, "known here": len(MIGRATIONS)},
            fix="pip install --upgrade trtbench",
        )

    def _writing(self) -> Any:
        return _Guard(self._engine, self.url, write=True)

    def _reading(self) -> Any:
        return _Guard(self._engine, self.url, write=False)


class _Guard:
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

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        try:
            if problem is None:
                self._connection.commit()
            else:
                self._connection.rollback()
        except (DatabaseError, sqlite3.Error) as trouble:
            raise self._error(trouble) from None
        finally:
            self._connection.close()
        if isinstance(problem, (DatabaseError, sqlite3.Error)):
            raise self._error(problem) from None

    def _error(self, problem: DatabaseError | sqlite3.Error) -> StoreError:
        reason = str(getattr(problem, "orig", None) or problem).strip()
        fix = "give another place with --store"
        if "not a database" in reason or "malformed" in reason:
            fix = "remove index.sqlite and type: trtbench runs reindex"
        return StoreError(
            "the index of the store cannot be used",
            facts={"store": self._url, "reason": reason},
            fix=fix,
        )


def _engine(url: str) -> Engine:
    if not url.startswith("sqlite"):
        return sa.create_engine(url)
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_S})

    @sa.event.listens_for(engine, "connect")
    def _prepare(connection: Any, _: object) -> None:
        # Transactions are begun by hand, IMMEDIATE for writers. The journal stays SQLite's own:
        # WAL would not work on network folders, and a copied store would lack half of its index.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    return engine


def _version(connection: Connection) -> int:
    if not sa.inspect(connection).has_table(_VERSION.name):
        return 0
    return int(connection.execute(sa.select(sa.func.max(_VERSION.c.version))).scalar() or 0)


def _tags_of(connection: Connection, ids: list[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for start in range(0, len(ids), 500):  # databases limit the parameters of one statement
        query = sa.select(TAGS).where(TAGS.c.run.in_(ids[start : start + 500])).order_by(TAGS.c.tag)
        for run, tag in connection.execute(query):
            found[run] = (*found.get(run, ()), tag)
    return found
