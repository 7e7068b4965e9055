"""How long a report over many runs takes, and how much memory: 100 runs of 10 000 samples.

    python benchmarks/report.py [--runs 100] [--samples 10000] [--format html,md,json]

The machine may be busy with other things, so CPU time stands beside wall time.
"""

from __future__ import annotations

import argparse
import gc
import resource
import tempfile
import time
from pathlib import Path
from typing import Literal

import numpy as np

from trtbench.core.run import Environment, Finding, LaunchFacts, Run, RunRecord
from trtbench.core.samples import times_from_columns
from trtbench.core.spec import ModelRef, RunSpec
from trtbench.workflows.report import write_report

FINDING = Finding(
    code="H14",
    severity="warning",
    message="all samples come from one launch",
    remedy="--launches 5",
)
PRECISIONS: tuple[Literal["fp32", "fp16", "int8"], ...] = ("fp32", "fp16", "int8")


def made_run(number: int, samples: int) -> Run:
    """Make a run of three columns with a drift, a tail and a warm-up."""
    random = np.random.default_rng(number)
    gpu = 1e-3 * (1 + number % 7) * (1 + 0.02 * random.standard_normal(samples))
    gpu[: samples // 50] *= 1.3
    gpu[:: max(2, samples // 40)] *= 3
    host = gpu * 1.1 + 2e-5 * random.gamma(1, 1, samples)
    columns = {"host": host, "gpu": gpu, "start": np.cumsum(host) - host}
    precision = PRECISIONS[number % 3]
    record = RunRecord(
        id=f"run-{number:03d}",
        created=f"2026-03-{1 + number % 28:02d}T10:00:00+00:00",
        spec=RunSpec(
            model=ModelRef(path=f"/models/net{number % 5}.onnx", format="onnx", size_bytes=10**7),
            runtime="onnxruntime",
            batch=2 ** (number % 4),
            precision=precision,
        ),
        environment=Environment(host="box", os="Linux", command=f"trtbench bench net{number % 5}"),
        findings=(FINDING,),
        launches=(LaunchFacts(),),
    )
    return Run(record=record, times=times_from_columns(columns))


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--format", default="html,md,json")
    given = parser.parse_args()
    runs = [made_run(number, given.samples) for number in range(given.runs)]
    gc.collect()
    before = peak_mib()
    with tempfile.TemporaryDirectory() as folder:
        wall, cpu = time.perf_counter(), time.process_time()
        paths = write_report(runs, Path(folder), formats=given.format.split(","))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        sizes = {path.name: path.stat().st_size for path in paths if path.stem == "report"}
        print(f"{given.runs} runs of {given.samples} samples, formats {given.format}")
        print(f"wall      {wall:6.2f} s")
        print(f"cpu       {cpu:6.2f} s")
        print(f"peak RSS  {peak_mib():6.0f} MiB ({before:.0f} MiB before, runs included)")
        print(
            f"files     {len(paths)}: "
            + ", ".join(f"{n} {s / 1e6:.2f} MB" for n, s in sizes.items())
        )


if __name__ == "__main__":
    main()
