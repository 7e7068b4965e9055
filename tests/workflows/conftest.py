"""A store and a configuration of the test's own."""

from __future__ import annotations

import pytest

from trtbench.store.store import Store
from trtbench.workflows.request.config import Config


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Apart from ``tmp_path``, so that what lies there is the test's alone."""
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def config(store: Store) -> Config:
    return Config(store=str(store.root))
