"""How fast files become runs, times files beside ``json.load`` and a pandas DataFrame.

python benchmarks/import.py              5 MB as columns, 50 MB by the whole command, 632 files
python benchmarks/import.py --big        also 200 MB of times and 100 MB of a verbose log, with
                                         the peak memory of each in a process of its own
python benchmarks/import.py --also DIR   also a folder of your own
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from _corpus import verbose_log, write_corpus

MEGABYTE = 10**6
RATIO_WANTED = 3.0
WHOLE_RATIO_WANTED = 1.0
"""The whole command, from its start to files on disk, against reading alone."""
FILES = 632
FILES_WANTED_S = 8e-3 * 601
"""Processor time for that many files, to a store on disk: 8 ms for each of the runs in them."""
LOG_MEMORY_WANTED = 300 * MEGABYTE
ROUNDS = 9
WHOLE_ROUNDS = 3
SCRIPT = "import json, pandas, sys; pandas.DataFrame(json.load(open(sys.argv[1])))"


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
        return sum(map(len, read_times(file, where=path.name)))


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


def compare_whole(folder: Path) -> float:
    """Import 50 MB by the command and read it by a script, in processes of their own.

    Processor time counts, since the machine may have other things to do; the first round of each
    is left out, in which Python compiles what it imports.
    """
    path = folder / "times.json"
    pieces(path, folder, count=10)
    environment = compiling_into(folder)
    script = [sys.executable, "-c", SCRIPT, str(path)]
    pandas_s, ours_s = [], []
    for _ in range(WHOLE_ROUNDS + 1):
        pandas_s.append(processor_seconds(script, environment))
        ours_s.append(import_seconds(path, folder, environment))
    ratio = statistics.median(pandas_s[1:]) / statistics.median(ours_s[1:])
    print(f"file                    {path.stat().st_size / MEGABYTE:8.1f} MB")
    print(f"json.load + DataFrame   {statistics.median(pandas_s[1:]):8.2f} s of processor time")
    print(f"trtbench import         {statistics.median(ours_s[1:]):8.2f} s, to files on disk")
    print(f"ratio                   {ratio:8.2f}      (at least {WHOLE_RATIO_WANTED} wanted)")
    return ratio


def import_many(place: Path, folder: Path, *, wanted_s: float | None = None) -> float:
    """Import a folder by the command, and print the processor time that takes."""
    environment = compiling_into(folder)
    count = sum(each.is_file() for each in place.rglob("*"))
    took_s = min(import_seconds(place, folder, environment) for _ in range(WHOLE_ROUNDS))
    wanted = f"(at most {wanted_s:g} s wanted)" if wanted_s else ""
    print(f"{count:4d} files              {took_s:8.2f} s of processor time   {wanted}")
    return took_s


def import_log(folder: Path) -> int:
    """Import 100 MB of a verbose log by the command; print its time and peak memory, in bytes."""
    path = folder / "verbose.log"
    verbose_log(path, size_bytes=100 * MEGABYTE)
    took_s = import_seconds(path, folder, compiling_into(folder))
    # Of all children so far the one with the most memory; pandas is not among them.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(f"verbose log             {path.stat().st_size / MEGABYTE:8.1f} MB")
    print(f"trtbench import         {took_s:8.2f} s of processor time")
    print(f"peak memory             {peak / MEGABYTE:8.1f} MB   "
          f"(at most {LOG_MEMORY_WANTED / MEGABYTE:g} MB wanted)")  # fmt: skip
    return peak


def compiling_into(folder: Path) -> dict[str, str]:
    """Have Python keep what it compiles, whatever the environment says."""
    environment = dict(os.environ, PYTHONPYCACHEPREFIX=str(folder / "compiled"))
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def import_seconds(path: Path, folder: Path, environment: dict[str, str]) -> float:
    """Import into a new store; gives the processor time.

    The store stays until the end: for a minute after many files were deleted, ext4 looks long for
    room for new ones (a third of the time that 632 files take).
    """
    store = tempfile.mkdtemp(prefix="store-", dir=folder)
    command = [sys.executable, "-m", "trtbench", "import", str(path), "--store", store]
    return processor_seconds(command, environment)


def processor_seconds(command: list[str], environment: dict[str, str]) -> float:
    """Run a command and give the processor time it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=False, env=environment, capture_output=True)
    if done.returncode > 1:  # 1: files were named that are of no use
        raise SystemExit(done.stderr.decode())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def pieces(path: Path, folder: Path, *, count: int) -> None:
    """Write a file of so many times 5 MB."""
    small = folder / "piece.json"
    write_times(small, size_bytes=5 * MEGABYTE)
    rows = small.read_bytes()[2:-2]
    with path.open("wb") as file:
        file.write(b"[\n" + rows)
        for _ in range(count - 1):
            file.write(rows.replace(b"  {", b", {", 1))
        file.write(b"]\n")


def read_big(folder: Path) -> None:
    """Read 200 MB in a child and print its time and how far its memory rose."""
    big = folder / "big.json"
    pieces(big, folder, count=40)
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
    parser.add_argument("--big", action="store_true", help="also read 200 MB, and a long log")
    parser.add_argument("--also", type=Path, help="import this folder too")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        good = [import_log(folder) <= LOG_MEMORY_WANTED] if arguments.big else []
        good.append(compare(folder) >= RATIO_WANTED)
        good.append(compare_whole(folder) >= WHOLE_RATIO_WANTED)
        write_corpus(folder / "files", count=FILES)
        took_s = import_many(folder / "files", folder, wanted_s=FILES_WANTED_S)
        good.append(took_s <= FILES_WANTED_S)
        if arguments.also:
            import_many(arguments.also, folder)
        if arguments.big:
            read_big(folder)
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
