"""A store and a configuration of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from trtbench.store.store import Store
from trtbench.workflows.config import Config


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def config(store: Store) -> Config:
    return Config(store=str(store.root))
