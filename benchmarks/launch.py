"""Where the time of a launch goes before it measures, step by step, and what is over at once.

    python benchmarks/launch.py MODEL [-r RUNTIME] [--repeat 10] [--source OLD/src --source src]

Every launch is a fresh process, as a worker is; steps are read from its own clock, so that what is
imported, made and loaded is told apart: the interpreter, numpy and msgspec, trtbench, the runtime's
library, the device, the model, its context, its inputs, the first query, the CUDA graph. ``ahead``
is the part that is over before a comparison's launch begins, because its workers are started while
the one before loads its engines. With several sources their launches take turns, so that a busy
machine meets them alike. Times are medians of the wall clock, with the least beside them, and the
processor time of the whole. Without a model, one is made for ONNX Runtime.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

STEPS = {
    "interpreter": "start of the process to the first line of Python",
    "libraries": "numpy and msgspec",
    "trtbench": "the worker and the runtime's module",
    "runtime library": "TensorRT, ONNX Runtime or PyTorch",
    "device": "CUDA's context",
    "model": "reading and deserializing the engine, or making the session",
    "context": "of the engine, with its stream",
    "inputs": "memory and random data",
    "first query": "",
    "graph": "outputs checked, the CUDA graph captured and checked",
}
AHEAD = ("interpreter", "libraries", "trtbench", "runtime library")

CHILD = r"""
import sys, time
marks = [("interpreter", time.clock_gettime(time.CLOCK_MONOTONIC))]
def mark(name):
    marks.append((name, time.clock_gettime(time.CLOCK_MONOTONIC)))
import json
import trtbench.one_thread
import numpy, msgspec
mark("libraries")
import trtbench.worker
import trtbench.runtimes._turns
import numpy.random
from trtbench.core.codec import job_from_json
from trtbench.runtimes import RUNTIMES, session_opener
from trtbench.runtimes._session import resolve_inputs
job = job_from_json(open(sys.argv[1], "rb").read(), where="job")
spec = job.spec
module = RUNTIMES.load(spec.runtime)
mark("trtbench")
if sys.argv[2] == "apart":
    __import__(spec.runtime.replace("-", "_"))
    mark("runtime library")
try:
    from trtbench.runtimes import _trt_session as _trt_bench
except ImportError:
    _trt_bench = None
if _trt_bench is not None and module.EXECUTES_ENGINES and sys.argv[2] == "apart":
    def timed(name, function):
        def call(*arguments, **keywords):
            made = function(*arguments, **keywords)
            mark(name)
            return made
        return call
    _trt_bench.open_cuda = timed("device", _trt_bench.open_cuda)
    _trt_bench.load_engine = timed("model", _trt_bench.load_engine)
session = session_opener(spec.runtime)(spec)
mark("context" if module.EXECUTES_ENGINES else "model")
_, arrays, _ = resolve_inputs(session.inputs, spec)
session.bind(arrays)
mark("inputs")
session.first()
mark("first query")
step = session.step()
mark("graph")
step()
print(json.dumps(marks), flush=True)
import os
os._exit(0)
"""


def main() -> int:
    options = arguments()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = options.model or made_model(folder)
        runtime = options.runtime or ("tensorrt" if model.suffix == ".engine" else "onnxruntime")
        job = folder / "job.json"
        spec = {
            "model": {"path": str(model.resolve()), "format": model.suffix[1:]},
            "runtime": runtime,
            **({"cuda_graph": "auto"} if model.suffix == ".engine" else {}),
            **({"batch": options.batch} if options.batch else {}),
        }
        job.write_text(json.dumps({"job": "bench", "spec": spec}))
        told = measured(job, options.source or [None], options.repeat)
    print(f"{runtime}, {model.name}, {options.repeat} launches each, ms: median (least)\n")
    print(table(told))
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("-r", "--runtime")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument(
        "--source", type=Path, action="append", help="a folder with trtbench; repeat to compare"
    )
    return parser.parse_args()


def made_model(folder: Path) -> Path:
    from _models import conv_chain

    return conv_chain(folder / "chain.onnx", layers=20, channels=16, size=32)


def measured(
    job: Path, sources: Sequence[Path | None], repeat: int
) -> dict[str, list[dict[str, float]]]:
    """Launch in turn; of each source two kinds: steps apart, and overlapped as a worker does it."""
    found: dict[str, list[dict[str, float]]] = {}
    for _ in range(repeat + 1):
        for source in sources:
            name = str(source or "installed")
            row = {**once(job, source, "apart"), **whole(once(job, source, "together"))}
            found.setdefault(name, []).append(row)
    return {name: rows[1:] for name, rows in found.items()}  # the first fills the disk's cache


def once(job: Path, source: Path | None, how: str) -> dict[str, float]:
    environment = dict(os.environ)
    if source is not None:
        kept = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(source.resolve()), kept]))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.clock_gettime(time.CLOCK_MONOTONIC)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(job), how],
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
        timeout=300,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    row: dict[str, float] = {}
    last = began
    for name, moment in json.loads(done.stdout.splitlines()[-1]):
        row[name] = row.get(name, 0.0) + moment - last
        last = moment
    row["processor"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return row


def whole(row: dict[str, float]) -> dict[str, float]:
    steps = {name: value for name, value in row.items() if name != "processor"}
    return {"all, as a worker": sum(steps.values()), "processor time": row["processor"]}


def table(told: dict[str, list[dict[str, float]]]) -> str:
    names = list(told)
    lines = [f"| step | {' | '.join(names)} |", f"|---|{'--:|' * len(names)}"]
    rows: list[tuple[str, tuple[str, ...]]] = [
        *((name, (name,)) for name in STEPS),
        ("before the model is touched", AHEAD),
        ("all, as a worker", ("all, as a worker",)),
        ("processor time", ("processor time",)),
    ]
    for title, parts in rows:
        cells = [cell([sum(each.get(part, 0.0) for part in parts) for each in told[name]])
                 for name in names]  # fmt: skip
        if any(each != "–" for each in cells):
            lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(values: Any) -> str:
    if not any(values):
        return "–"
    return f"{1e3 * float(np.median(values)):.0f} ({1e3 * min(values):.0f})"


if __name__ == "__main__":
    sys.exit(main())
