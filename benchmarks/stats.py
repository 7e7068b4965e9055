"""How long the statistics of a million samples take, and what launches can detect.

python benchmarks/stats.py [--samples 1000000] [--columns 1] [--detectable]
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from trtbench.analysis.distributions import DETECTABLE_FACTOR, TRIM, t_quantile, trimmed_count
from trtbench.analysis.findings import findings_from_run
from trtbench.analysis.history import segment
from trtbench.analysis.summary import summarize
from trtbench.core.run import Environment, Run, RunRecord
from trtbench.core.samples import DURATIONS, IterationTimes, times_from_columns
from trtbench.core.spec import ModelRef, RunSpec


def series(samples: int, *, seed: int = 0) -> np.ndarray:
    """Times of about a millisecond with correlation and a tail."""
    random = np.random.default_rng(seed)
    slow = np.repeat(random.normal(size=samples // 20 + 1), 20)[:samples]
    return 1e-3 * np.exp(0.01 * slow + 0.02 * random.exponential(size=samples))


def run_of(times: IterationTimes) -> Run:
    """A run with these times and nothing else."""
    spec = RunSpec(model=ModelRef(path="model.onnx", format="onnx"), runtime="none")
    machine = Environment(host="here", os="any")
    return Run(record=RunRecord(id="run", created="", spec=spec, environment=machine), times=times)


def show_time(samples: int, columns: int) -> None:
    """Print the best of three for each step."""
    names = DURATIONS[:columns]
    times = times_from_columns({name: series(samples, seed=i) for i, name in enumerate(names)})
    steps = {
        "summary": lambda: summarize(times),
        "segmentation": lambda: segment(times.durations()[names[0]]),
        "all findings": lambda: findings_from_run(run_of(times)),
    }
    summarize(times_from_columns({"host": series(1000)}))
    for name, step in steps.items():
        best = min(_seconds(step) for _ in range(3))
        print(f"{name:<14} {samples} samples, {columns} columns: {best:.3f} s")


def show_detectable(repeats: int = 20_000) -> None:
    """Print the factors that ``robust.DETECTABLE_FACTOR`` holds, simulated anew."""
    random = np.random.default_rng(0)
    for launches, stored in DETECTABLE_FACTOR.items():
        values = np.sort(random.normal(size=(repeats, launches)), axis=1)
        cut = trimmed_count(launches)
        means = values[:, cut : launches - cut].mean(axis=1)
        clipped = np.clip(values, values[:, [cut]], values[:, [launches - cut - 1]])
        scale = (1 - 2 * TRIM if cut else 1.0) * np.sqrt(launches)
        errors = clipped.std(axis=1, ddof=1) / scale
        limit = t_quantile(0.995, df=launches - 2 * cut - 1)
        # An effect f is found where (mean + f) / error exceeds the limit.
        factor = float(np.quantile(limit * errors - means, 0.8))
        print(f"{launches:>3} launches: {factor:.2f} (stored {stored:.2f})")


def _seconds(step: object) -> float:
    assert callable(step)
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin


def main() -> None:
    """Read the flags and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=1, choices=range(1, len(DURATIONS) + 1))
    parser.add_argument("--detectable", action="store_true")
    options = parser.parse_args()
    if options.detectable:
        show_detectable()
    else:
        show_time(options.samples, options.columns)


if __name__ == "__main__":
    main()
