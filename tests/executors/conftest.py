"""A runtime that only notes when it measured, so that overlaps can be seen, for all processes.

``meet=2`` lets it go on when two have begun, so that two that may be beside each other are.
"""

from __future__ import annotations

from pathlib import Path

import pytest

RUNTIME = """
import json, os, time
import numpy as np
from trtbench.domain.job import BenchOutcome
from trtbench.domain.result import LaunchFacts
from trtbench.domain.samples import IterationTimes
from trtbench.errors import InputError

FORMATS = ("onnx",)


def available():
    return None


def fix():
    return None


def device(spec):
    return spec.device or "cpu"


def bench(spec, *, folder, stage):
    stage("measure")
    if spec.options.get("do") == "refuse":
        raise InputError("this model is refused", fix="give another")
    if spec.options.get("do") == "crash":
        os.abort()
    begin = time.monotonic()
    begun = os.environ["CLOCKED_LOG"].removesuffix(".log") + ".begun"
    begun = os.environ.get("CLOCKED_BEGUN", begun)
    with open(begun, "a") as others:
        others.write("x")
    while os.path.getsize(begun) < int(spec.options.get("meet", "0")):
        time.sleep(0.01)
    time.sleep(float(spec.options.get("sleep", "0.2")))
    note = {"device": os.environ.get("CUDA_VISIBLE_DEVICES") or "cpu", "begin": begin,
            "end": time.monotonic(), "pid": os.getpid(), "case": spec.options.get("case"),
            "model": spec.model.path}
    with open(os.environ["CLOCKED_LOG"], "a") as log:
        log.write(json.dumps(note) + "\\n")
    return BenchOutcome(facts=LaunchFacts(wall_s=0.1)), IterationTimes(host=np.full(20, 1e-3))
"""


@pytest.fixture
def clocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the runtime ``clocked`` for this process and its children."""
    folder = tmp_path / "site"
    facts = folder / "clocked-1.0.dist-info"
    facts.mkdir(parents=True)
    (folder / "clocked.py").write_text(RUNTIME)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: clocked\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[trtbench.runtimes]\nclocked = clocked\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv("CLOCKED_LOG", str(tmp_path / "clocked.log"))
    return folder
