"""Runs that take little time."""

from pathlib import Path
from typing import Any

from trtbench.core.run import Run
from trtbench.core.spec import RunSpec
from trtbench.measure.bench import run_bench
from trtbench.requests.measure import BenchRequest
from trtbench.requests.run_spec import run_spec
from trtbench.requests.settings import Config
from trtbench.store.store import Store


def spec_of(model: Path, **flags: Any) -> RunSpec:
    quick = {"duration": 0.05, "warmup": 0.01, "until_steady": False}
    return run_spec(BenchRequest(model=model, **{**quick, **flags}), Config(store=""))


def bench(model: Path, store: Store, **flags: Any) -> Run:
    return run_bench(spec_of(model, **flags), store=store)
