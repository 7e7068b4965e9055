"""Long runs stay near their own size on disk."""

from pathlib import Path

import numpy as np
import records

from trtbench.core.run import Run
from trtbench.core.samples import IterationTimes
from trtbench.formats.toolkit import SERIES_ROWS
from trtbench.measure.bench import write_run_files


def test_the_series_of_a_long_run_are_written_on_request(tmp_path: Path) -> None:
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
