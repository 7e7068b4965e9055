"""One folder of results for each model, under the names of the torch, ONNX, trtexec pipeline.

``results/<model>/<model>_fp16.{build.metadata,graph,profile,profile.metadata,timing}.json``, and
the two logs, of every row that trtexec measured.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from trtbench.analysis.sweep import SweepRow
from trtbench.boundary import file_name_from_text
from trtbench.domain.result import Run
from trtbench.errors import writing

FOLDER = "results"
NAMES: Mapping[str, str] = {
    "build.metadata.json": "build.metadata.json",
    "graph.json": "graph.json",
    "profile.json": "profile.json",
    "profile.metadata.json": "profile.metadata.json",
    "times.json": "timing.json",
    "build.log": "engine.build.log",
    "trtexec_stdout.log": "engine.profile.log",
}
"""Files of a run, and what the pipeline calls them."""
TELLING = "profile.metadata.json"
"""Only trtexec leaves it."""
PRECISIONS = {"bf16": "bfp16"}
"""Precisions that the pipeline calls otherwise."""


def write_pipeline_files(
    rows: Sequence[SweepRow], runs: Mapping[str, Run], folder: Path
) -> list[Path]:
    """Copy the files of rows that trtexec measured; the first round stands for all."""
    found: list[Path] = []
    told = [(row, run.path) for row in rows if (run := runs.get(next(iter(row.runs), "")))]
    measured = [(row, path) for row, path in told if path and (path / TELLING).is_file()]
    seen: Counter[str] = Counter()
    for row, path in measured:
        assert path is not None
        target = folder / FOLDER / file_name_from_text(row.model)
        stem = file_name_from_text(_stem(row, [each for each, _ in measured]))
        seen[stem] += 1
        if seen[stem] > 1:  # two precisions were asked for, and the same one ran
            stem = f"{stem}_{seen[stem]}"
        with writing(target):
            target.mkdir(parents=True, exist_ok=True)
            found += [
                Path(shutil.copy(path / own, target / f"{stem}.{theirs}"))
                for own, theirs in NAMES.items()
                if (path / own).is_file()
            ]
    return found


def _stem(row: SweepRow, rows: Sequence[SweepRow]) -> str:
    """Name a row by model and precision, and by whatever else tells it from others."""
    precision = PRECISIONS.get(row.precision or "", row.precision or "fp32")
    mine = [each for each in rows if each.model == row.model]
    parts = [row.model, precision]
    if len({each.engine for each in mine}) > 1:
        parts.append(str(row.engine))
    if len({each.batch for each in mine}) > 1:
        parts.append(f"batch{row.batch}")
    return "_".join([*parts, *(f"{key}{value}" for key, value in row.options.items())])
