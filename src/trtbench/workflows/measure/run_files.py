"""The files of a run directory beside the record and the samples, for people and other tools."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from trtbench.domain.result import Run, without_secrets
from trtbench.errors import writing
from trtbench.formats.evaluation_toolkit import SERIES_ROWS, data_files
from trtbench.formats.trtexec_exports import times_json
from trtbench.host.files import write_whole


def write_run_files(run: Run, folder: Path, *, series: bool | None = None) -> None:
    """Write what can be written from the samples alone; a file that is there already stays.

    Files with a line for every sample are left out of long runs, unless they are asked for.
    """
    run = replace(run, record=without_secrets(run.record))
    if series is None:
        series = len(run.times) <= SERIES_ROWS
    times = {"times.json": times_json(run.times)} if series else {}
    contents = {**times, **data_files(run, series=series)}
    for name, content in contents.items():
        path = folder / name
        if path.exists():
            continue
        with writing(path):  # half a file would be taken for a whole one
            write_whole(path, content)
