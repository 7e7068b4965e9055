"""How many queries of an open loop are sent late: with timer slack, without it, without sleep.

    python benchmarks/sender.py [--rate 1000] [--queries 1000] [--turns 5]

One process, one ONNX Runtime session on the CPU, the same schedule for all; turns alternate, so
that a busy machine meets all alike. Late is what a run calls late: 5 % of the median service. Who
never sleeps but looks at the clock all the time is late when the machine itself takes the
processor away: no sender is late less often there.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from _models import conv_chain
from trtbench.core.spec import Length
from trtbench.runtimes import _loop as waiting
from trtbench.runtimes._loop import LEAD_NS, arrivals, load_evidence, open_loop

OLD_SPIN_NS = 200_000


def python_waiter(spin_ns: int = OLD_SPIN_NS) -> waiting.Until:
    """Wait as before: a relative sleep with the thread's slack, then the clock."""
    clock, sleep = time.perf_counter_ns, time.sleep

    def wait(target_ns: int) -> None:
        rest = target_ns - clock()
        if rest > spin_ns:
            sleep((rest - spin_ns) * 1e-9)
        while clock() < target_ns:
            pass

    return wait


def main() -> None:
    import onnxruntime

    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=1000.0)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = conv_chain(Path(folder) / "chain.onnx", layers=8)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(path), options)
    first = session.get_inputs()[0]
    shape = [each if isinstance(each, int) else 1 for each in first.shape]
    feed = {first.name: np.zeros(shape, np.float32)}

    def share(wait: waiting.Until, seed: int) -> float:
        due = arrivals(asked.rate, Length(iterations=asked.queries), seed=seed)
        due = due + time.perf_counter_ns() + LEAD_NS
        starts, ends = open_loop(lambda: session.run(None, feed), due, wait=wait)
        told, _ = load_evidence(scheduled=due, starts=starts, ends=ends, rate_hz=asked.rate)
        return float(told["late_share"] or 0.0)

    before, after, floor = [], [], []
    delays = {"usual": waiting.wake_delays_ns()}
    for turn in range(asked.turns):
        before.append(share(python_waiter(), turn))
        with waiting.exact_timers():
            delays["no"] = waiting.wake_delays_ns()
            after.append(share(waiting.waiter(), turn))
            floor.append(share(python_waiter(spin_ns=10**12), turn))
    for name, found in delays.items():
        spread = ", ".join(f"{np.percentile(found, q) / 1e3:.0f}" for q in (50, 90, 95))
        print(f"wakes late by, {name} slack: {spread} µs (median, p90, p95)")
    spin = waiting.spin_for_wakes(delays["no"]) / 1e3
    rows = {"usual slack": before, f"no slack, {spin:.0f} µs spin": after, "no sleep": floor}
    for name, shares in rows.items():
        turns = " ".join(f"{100 * each:.1f}" for each in shares)
        print(f"{name}: {100 * np.mean(shares):.1f} % sent late (turns: {turns})")


if __name__ == "__main__":
    main()
