"""How fast a times file becomes columns, beside ``json.load`` and a pandas DataFrame.

python benchmarks/import.py          5 MB, both ways in turn, and the ratio
python benchmarks/import.py --big    also 200 MB in a process of its own, with its peak memory
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

MEGABYTE = 10**6
RATIO_WANTED = 3.5
ROUNDS = 9


def write_times(path: Path, *, size_bytes: int, seed: int = 0) -> None:
    """Write a file as trtexec 8.6 does, of at least so many bytes."""
    draw = np.random.default_rng(seed)
    written, at_ms = 2, 500.0
    with path.open("w") as file:
        file.write("[\n")
        while written < size_bytes:
            h2d, d2h = draw.normal(0.0178, 0.0005), draw.normal(0.0029, 0.0001)
            gpu = draw.normal(0.2643, 0.002)
            row = _row(at_ms, h2d=h2d, gpu=gpu, d2h=d2h)
            written += file.write(("  " if written == 2 else ", ") + row + "\n")
            at_ms += gpu + 0.012
        file.write("]\n")


def _row(at_ms: float, *, h2d: float, gpu: float, d2h: float) -> str:
    compute, out = at_ms + h2d + 0.003, at_ms + h2d + 0.003 + gpu + 0.009
    values = {
        "startEnqMs": at_ms + 0.123,
        "endEnqMs": at_ms + 0.344,
        "startH2dMs": at_ms,
        "endH2dMs": at_ms + h2d,
        "startComputeMs": compute,
        "endComputeMs": compute + gpu,
        "startD2hMs": out,
        "endD2hMs": out + d2h,
        "h2dMs": h2d,
        "computeMs": gpu,
        "d2hMs": d2h,
        "latencyMs": h2d + gpu + d2h,
    }
    return "{ " + ", ".join(f'"{key}" : {value:.6g}' for key, value in values.items()) + " }"


def read_with_pandas(path: Path) -> int:
    import pandas

    with path.open() as file:
        return len(pandas.DataFrame(json.load(file)))


def read_with_trtbench(path: Path) -> int:
    from trtbench.trtexec.times import read_times

    with path.open("rb") as file:
        return len(read_times(file, where=path.name))


def seconds(function: Callable[[Path], int], path: Path) -> float:
    begin = time.perf_counter()
    function(path)
    return time.perf_counter() - begin


def compare(folder: Path) -> float:
    """Read 5 MB both ways in turn; print both times and give their ratio."""
    path = folder / "times.json"
    write_times(path, size_bytes=5 * MEGABYTE)
    if read_with_pandas(path) != read_with_trtbench(path):
        raise SystemExit("the two readers disagree on the number of rows")
    pairs = [
        (seconds(read_with_pandas, path), seconds(read_with_trtbench, path)) for _ in range(ROUNDS)
    ]
    pandas_s = statistics.median(pair[0] for pair in pairs)
    ours_s = statistics.median(pair[1] for pair in pairs)
    print(f"file                    {path.stat().st_size / MEGABYTE:8.1f} MB")
    print(f"json.load + DataFrame   {pandas_s * 1e3:8.1f} ms   (median of {ROUNDS})")
    print(f"trtbench                {ours_s * 1e3:8.1f} ms")
    print(f"ratio                   {pandas_s / ours_s:8.1f}      (at least {RATIO_WANTED} wanted)")
    return pandas_s / ours_s


def read_big(folder: Path) -> None:
    """Read 200 MB in a child and print its time and how far its memory rose."""
    small, big = folder / "piece.json", folder / "big.json"
    write_times(small, size_bytes=5 * MEGABYTE)
    rows = small.read_bytes()[2:-2]
    with big.open("wb") as file:
        file.write(b"[\n" + rows)
        for _ in range(39):
            file.write(rows.replace(b"  {", b", {", 1))
        file.write(b"]\n")
    command = [sys.executable, __file__, "--child", str(big)]
    subprocess.run(command, check=True)


def child(path: Path) -> None:
    """Read one file and report; imports come first so that they do not count."""
    import trtbench.trtexec.times  # noqa: F401

    before = _peak_bytes()
    begin = time.perf_counter()
    rows = read_with_trtbench(path)
    took_s = time.perf_counter() - begin
    size = path.stat().st_size
    print(f"file                    {size / MEGABYTE:8.1f} MB   {rows} rows")
    print(f"trtbench                {took_s * 1e3:8.1f} ms")
    print(f"columns themselves      {rows * 12 * 8 / MEGABYTE:8.1f} MB")
    print(f"peak memory rose by     {(_peak_bytes() - before) / MEGABYTE:8.1f} MB")


def _peak_bytes() -> int:
    """Highest resident memory of this process alone; getrusage would count the parent too."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--big", action="store_true", help="also read 200 MB in a child process")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child)
        return
    with tempfile.TemporaryDirectory() as folder:
        ratio = compare(Path(folder))
        if arguments.big:
            read_big(Path(folder))
    sys.exit(0 if ratio >= RATIO_WANTED else 1)


if __name__ == "__main__":
    main()
