"""What trtbench's timed loop costs over a bare ONNX Runtime loop.

    python benchmarks/overhead.py [--blocks 200]

Both loops run in one process on one session, in blocks that alternate in random order, on a model
of about 1 ms and on one of about 50 µs. Goal: the median iteration differs by less than 2 % on
the first and by less than 5 µs on the second.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from _models import conv_chain
from trtbench.core.spec import Length, RunSpec
from trtbench.models.identity import model_ref
from trtbench.runtimes._loop import timed_loop
from trtbench.runtimes._session import resolve_inputs
from trtbench.runtimes.onnxruntime import open_session

BLOCK = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=200)
    blocks = parser.parse_args().blocks
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as folder:
        long_model = conv_chain(Path(folder) / "long.onnx", layers=100)
        short_model = conv_chain(Path(folder) / "short.onnx", layers=5)
        slow = compare(long_model, blocks=blocks)
        quick = compare(short_model, blocks=blocks)
    relative = slow[1] / slow[0] - 1
    extra_us = (quick[1] - quick[0]) * 1e6
    print(f"long model   bare {slow[0] * 1e3:.4f} ms, ours {slow[1] * 1e3:.4f} ms: {relative:+.2%}")
    print(
        f"short model  bare {quick[0] * 1e6:.2f} µs, ours {quick[1] * 1e6:.2f} µs: "
        f"{extra_us:+.2f} µs"
    )
    good = abs(relative) < 0.02 and abs(extra_us) < 5
    print("within the goal" if good else "NOT within the goal (2 % and 5 µs)")
    return 0 if good else 1


def compare(model: Path, *, blocks: int) -> tuple[float, float]:
    """Median seconds of the bare loop, and the same times the median ratio of paired blocks."""
    spec = RunSpec(model=model_ref(model), runtime="onnxruntime", threads=1)
    session = open_session(spec)
    _, arrays, _ = resolve_inputs(session.inputs, spec)
    session.bind(arrays)
    step = session.step()
    names = [tensor.name for tensor in session.outputs]
    raw, feed = session._session, {**arrays}
    for _ in range(200):
        step()
    order = np.random.default_rng(0).integers(0, 2, blocks)
    bare, ours = np.empty(blocks), np.empty(blocks)
    for index, first in enumerate(order):
        for which in (first, 1 - first):
            if which:
                starts, ends = timed_loop(step, Length(iterations=BLOCK))
                ours[index] = np.median(ends - starts) * 1e-9
            else:
                bare[index] = bare_block(raw, names, feed)
    typical = float(np.median(bare))
    return typical, typical * float(np.median(ours / bare))


def bare_block(session: object, names: list[str], feed: Mapping[str, object]) -> float:
    """What everybody writes: clock, run, clock."""
    times = []
    for _ in range(BLOCK):
        before = time.perf_counter()
        session.run(names, feed)  # type: ignore[attr-defined]
        times.append(time.perf_counter() - before)
    return float(np.median(times))


if __name__ == "__main__":
    sys.exit(main())
