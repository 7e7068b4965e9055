"""The files of a run directory beside the record and the samples, for people and other tools."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from trtbench.domain.result import Run, without_secrets
from trtbench.errors import write_error
from trtbench.formats.evaluation_toolkit import data_files
from trtbench.formats.torch_benchmark import torch_files
from trtbench.formats.trtexec_exports import times_json


def write_run_files(run: Run, folder: Path) -> None:
    """Write what can be written from the samples alone; a file that is there already stays."""
    run = replace(run, record=without_secrets(run.record))
    contents = {"times.json": times_json(run.times), **data_files(run), **torch_files(run)}
    for name, content in contents.items():
        path = folder / name
        if path.exists():
            continue
        try:
            path.write_bytes(content)
        except OSError as problem:
            path.unlink(missing_ok=True)  # half a file would be taken for a whole one
            raise write_error(path, problem) from None
