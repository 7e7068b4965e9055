"""A million samples stay near their own size on disk, and in a bounded part of memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MEMORY = """
import resource, sys
from pathlib import Path
import numpy as np
sys.path[:0] = sys.argv[2:]
import records
from trtbench.core.run import Run
from trtbench.core.samples import IterationTimes
from trtbench.store.directory import read_run, write_record, write_samples
from trtbench.store.store import Store
from trtbench.measure.bench import write_run_files
from trtbench.requests.settings import cached_from_run

def used():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

before = used()
count = 10**6
rng = np.random.default_rng(0)
host = 1e-3 * np.exp(rng.normal(0, 0.02, count))
times = IterationTimes(host=host, start=np.cumsum(host), launch=np.zeros(count, np.int64))
store = Store(Path(sys.argv[1]))
record = records.record("r1")
with store.new_run("r1") as folder:
    write_samples(folder, times)
    write_record(folder, record)
    write_run_files(Run(record=record, times=times), folder)
run = read_run(store.runs / "r1")
store.add(record, path=store.runs / "r1", cached=cached_from_run(run))
size = sum(each.stat().st_size for each in (store.runs / "r1").rglob("*"))
print(size, used() - before)
"""


def test_a_million_samples(tmp_path: Path) -> None:
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path), str(here), str(here.parent), *sys.path],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    size, memory = map(int, done.stdout.split())
    raw = 3 * 8 * 10**6
    assert raw <= size < 1.1 * raw
    assert memory < 300e6


def test_the_series_of_a_long_run_are_written_on_request(tmp_path: Path) -> None:
    import numpy as np
    import records

    from trtbench.core.run import Run
    from trtbench.core.samples import IterationTimes
    from trtbench.formats.toolkit import SERIES_ROWS
    from trtbench.measure.bench import write_run_files

    times = IterationTimes(host=np.full(SERIES_ROWS + 1, 1e-3))
    run = Run(record=records.record("r1"), times=times)
    for name, series in (("kept", None), ("asked", True)):
        (tmp_path / name).mkdir()
        write_run_files(run, tmp_path / name, series=series)
    assert not (tmp_path / "kept" / "latency_series.csv").exists()
    assert not (tmp_path / "kept" / "times.json").exists()
    assert (tmp_path / "kept" / "latency_percentiles.csv").is_file()
    lines = (tmp_path / "asked" / "latency_series.csv").read_text().splitlines()
    assert len(lines) == SERIES_ROWS + 2
    assert (tmp_path / "asked" / "times.json").is_file()
