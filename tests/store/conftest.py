"""The same tests for every kind of store: a folder with SQLite, and PostgreSQL."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import postgres
import pytest

from trtbench.store.store import Store


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    with postgres.running_server() as url:
        yield url


@dataclass(frozen=True)
class World:
    """An empty store that can be opened again and again, and the URL of its index."""

    text: str
    url: str
    folder: Path

    @property
    def is_sqlite(self) -> bool:
        return self.url.startswith("sqlite")

    def open(self) -> Store:
        return Store(self.text, home=self.folder)


POSTGRESQL = pytest.param("postgresql", marks=[pytest.mark.process, pytest.mark.real("PostgreSQL")])


@pytest.fixture(params=["sqlite", POSTGRESQL])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    if request.param == "sqlite":
        return World(str(tmp_path), f"sqlite:///{tmp_path / 'index.sqlite'}", tmp_path)
    url = postgres.new_database(request.getfixturevalue("postgres_server"))
    return World(url, url.replace("postgresql:", "postgresql+psycopg:"), tmp_path)
