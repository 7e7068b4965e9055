"""A store and a configuration of the test's own, and short runs in them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from trtbench.core.run import Run
from trtbench.measure.bench import run_bench
from trtbench.requests.measure import BenchRequest
from trtbench.requests.run_spec import run_spec
from trtbench.requests.settings import Config
from trtbench.store.store import Store


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Apart from ``tmp_path``, so that what lies there is the test's alone."""
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which commands are typed, with a store and settings of its own."""
    monkeypatch.setenv("TRTBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def config(store: Store) -> Config:
    return Config(store=str(store.root))


@pytest.fixture
def measured(store: Store, config: Config) -> Callable[[Path], Run]:
    def call(path: Path) -> Run:
        request = BenchRequest(model=path, batch=1, threads=1, duration=0.05, warmup=0.01)
        return run_bench(run_spec(request, config), store=store)

    return call
