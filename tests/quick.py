"""Runs that take little time, and records of engines without a build."""

from pathlib import Path
from typing import Any

from trtbench.core.codec import json_from_value
from trtbench.core.results import Artefact
from trtbench.core.run import Fact, Run
from trtbench.core.spec import BuildSpec, ModelRef, RunSpec
from trtbench.measure.bench import run_bench
from trtbench.models.identity import sha256_of
from trtbench.requests.measure import BenchRequest
from trtbench.requests.run_spec import run_spec
from trtbench.requests.settings import Config
from trtbench.store.store import Store


def spec_of(model: Path, **flags: Any) -> RunSpec:
    quick = {"duration": 0.05, "warmup": 0.01, "until_steady": False}
    return run_spec(BenchRequest(model=model, **{**quick, **flags}), Config(store=""))


def record_beside(engine: Path, *, precision: str | None = None, **built: Any) -> None:
    """Write down how an engine was built, as ``trtbench build`` does."""
    model = built.pop("model", ModelRef(path="net.onnx", format="onnx"))
    made = Artefact(
        path=str(engine), filename=engine.name, size_bytes=1, sha256=sha256_of(engine),
        created="2026-01-01T00:00:00+00:00",
        spec=BuildSpec(model=model, output=str(engine), **built),
        conditions={"precision": Fact(value=precision)} if precision else {},
    )  # fmt: skip
    Path(f"{engine}.json").write_bytes(json_from_value(made))


def bench(model: Path, store: Store, **flags: Any) -> Run:
    return run_bench(spec_of(model, **flags), store=store)
