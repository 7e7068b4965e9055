"""The index over run directories: tables, migrations and queries, through SQLAlchemy Core."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Sequence

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from trtbench.domain.result import Record, RunRecord, gpu_of, precision_of
from trtbench.domain.spec import Value
from trtbench.errors import StoreError
from trtbench.store.database import Transaction, engine_from_url, lock_name
from trtbench.store.place import without_password

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


MIGRATIONS: Sequence[Callable[[Connection], None]] = (_create, _add_instants)
"""Step N brings an index from version N to N+1; a new step goes at the end."""


def instant_from_text(created: str) -> float | None:
    """Seconds since 1970 of a time as records carry it; ``None`` when it is none."""
    with contextlib.suppress(ValueError, OverflowError):
        return datetime.datetime.fromisoformat(created.replace("Z", "+00:00")).timestamp()
    return None


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
    """Of no samples what another tool printed, a mean where it printed no median."""
    items_per_s: float | None = None


def entry_from_record(record: Record, *, path: str, cached: Cached | None = None) -> Entry:
    """Describe a record for the index."""
    spec, environment, gpu = record.spec, record.environment, gpu_of(record)
    finished = isinstance(record, RunRecord)
    return Entry(
        id=record.id,
        kind="run" if finished else "failed",
        created=record.created,
        model=spec.model.name,
        runtime=spec.runtime,
        path=path,
        sha256=spec.model.sha256,
        precision=precision_of(record),
        batch=record.items_per_query if isinstance(record, RunRecord) else spec.batch,
        protocol=spec.protocol,
        host=environment.host,
        gpu=gpu.name if gpu else None,
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
    """One database of entries; safe for several processes and machines at once."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine = engine_from_url(url)
        self._migrate()

    def put(self, entry: Entry) -> None:
        """Add an entry, or replace the one with its id."""
        with self._writing() as connection:
            _put(connection, entry)

    def change(self, run_id: str, work: Callable[[Entry], Entry]) -> Entry | None:
        """Replace an entry by what ``work`` makes of it, while nobody else changes it."""
        with self._writing() as connection:
            lock_name(connection, run_id)
            found = _entries(connection, sa.select(RUNS).where(RUNS.c.id == run_id))
            if not found:
                return None
            entry = work(found[0])
            _put(connection, entry)
            return entry

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
        query = sa.select(RUNS).order_by(
            sa.func.coalesce(_INSTANT, 0.0).desc(), RUNS.c.created.desc(), RUNS.c.id.desc()
        )
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


def _put(connection: Connection, entry: Entry) -> None:
    """Write one entry; its row is locked before its tags are touched."""
    row = {c.name: getattr(entry, c.name) for c in RUNS.columns if c is not _INSTANT}
    row[_INSTANT.name] = instant_from_text(entry.created)
    new = (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(RUNS)
    connection.execute(new.values(row).on_conflict_do_update(index_elements=["id"], set_=row))
    connection.execute(TAGS.delete().where(TAGS.c.run == entry.id))
    if entry.tags:
        rows = [{"run": entry.id, "tag": tag} for tag in sorted(set(entry.tags))]
        connection.execute(TAGS.insert(), rows)


def _entries(connection: Connection, query: sa.Select[tuple[object, ...]]) -> list[Entry]:
    rows = [dict(row) for row in connection.execute(query).mappings()]
    tags = _tags_of(connection, [row["id"] for row in rows])
    for row in rows:
        del row[_INSTANT.name]
    return [Entry(**row, tags=tags.get(row["id"], ())) for row in rows]


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
