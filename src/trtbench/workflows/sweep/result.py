"""What a sweep found: a row for every case, and the files people and programs read."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.findings import SEVERITIES
from trtbench.analysis.summary import summary_from_run
from trtbench.analysis.sweep import SweepRow, with_front
from trtbench.boundary import file_name_from_text
from trtbench.build.onnx_read import read_onnx
from trtbench.domain.result import Environment, FailedRun, Finding, Run, Scalar, Score
from trtbench.domain.samples import IterationTimes, join_launches, times_from_columns
from trtbench.domain.short_view import ShortView
from trtbench.domain.spec import ModelRef, RunSpec
from trtbench.errors import InputError, TrtbenchError, writing
from trtbench.host.files import write_output
from trtbench.models.identity import still_there
from trtbench.models.sidecar import kept_value
from trtbench.report.document import Text
from trtbench.report.documents.sweep import document_from_sweep
from trtbench.report.renderers.md import markdown
from trtbench.report.sections import gaps, streams
from trtbench.report.sweep_files import csv_from_rows, json_from_rows
from trtbench.store.directory import now
from trtbench.store.store import Store
from trtbench.workflows.check.check_files import BESIDE
from trtbench.workflows.check.evaluate_files import EVAL_JSON, EVAL_MD
from trtbench.workflows.check.naming import vanilla_name
from trtbench.workflows.stored.report import write_report
from trtbench.workflows.sweep.judge import Judged, precision_that_ran
from trtbench.workflows.sweep.matrix import Case
from trtbench.workflows.sweep.run import Sweep

FORMATS = ("html", "png")
SPOOLED_ROWS = 50_000


class Results(ShortView, msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a sweep and the runs they were made of, all rounds taken together."""

    rows: tuple[SweepRow, ...]
    runs: tuple[Run, ...]
    failed: tuple[FailedRun, ...]
    judged: tuple[Judged, ...] = ()
    """Evaluations of all sides of a model, or of all models: their tables and pictures."""

    @property
    def advice(self) -> tuple[str, ...]:
        """Tell what the report concludes of its curves: batch and streams to use, cost of rest."""
        made = (section.make(self.runs) for section in (streams, gaps))
        blocks = (block for each in made if each is not None for block in each.blocks)
        return tuple(block.text for block in blocks if isinstance(block, Text))


def results_from_sweep(sweep: Sweep, *, store: Store) -> Results:
    """Read the runs of a sweep and put the rounds of each case together."""
    rows, runs, failed = [], [], []
    for place, case in enumerate(sweep.plan.cases):
        name = sweep.plan.called(place)
        reason, stage = sweep.failures.get(place), sweep.stages.get(place)
        told = f"{stage}: {reason}" if stage else reason
        found = _runs(sweep, place, store)
        if found:
            run = _with_checks(pooled(found, drop=sweep.outline.tag))
            runs.append(replace(run, times=spooled(run.times, sweep.folder)))
            remark = f"later: {told}" if told else sweep.remarks.get(place)
            remark = _remark(case, run, remark)
            rows.append(_row(case, run, [each.id for each in found], remark, name=name))
            continue
        rows.append(_failed_row(case, told or "not measured", name=name))
        failed.append(_failed_run(sweep, place, stage or "plan", reason or "not measured"))
    if sweep.outline.matrix.names == "vanilla":
        rows = vanilla_names(rows)
    return Results(
        rows=tuple(with_front(rows)),
        runs=tuple(_with_pictures(runs, sweep.judged)),
        failed=tuple(failed),
        judged=sweep.judged,
    )


def vanilla_names(rows: Sequence[SweepRow]) -> list[SweepRow]:
    """Call rows as ArtTRT does: PyTorch is Vanilla, engines are TRT, with their kind if need be."""
    both = len({row.engine for row in rows if row.engine}) > 1
    return [
        row.having(name=vanilla_name(
            row.runtime, row.precision, engine=row.engine if both else None, options=row.options
        ))
        for row in rows
    ]  # fmt: skip


def _with_pictures(runs: list[Run], judged: Sequence[Judged]) -> list[Run]:
    """Let the first run carry the pictures of all: a report shows each of them once."""
    shown = [
        {"path": str(path), "title": each.title, "caption": found.made.title}
        for found in judged
        for each in found.made.pictures
        if (path := found.folder / Path(each.path).name).is_file()
    ]
    if not runs or not shown:
        return runs
    return [replace(runs[0], extra={**runs[0].extra, "pictures": shown}), *runs[1:]]


def _with_checks(run: Run) -> Run:
    """Let a run carry what its outputs differ by, if they were compared."""
    rows = kept_value(run.path / BESIDE, list[dict[str, Scalar]]) if run.path else None
    return replace(run, extra={**run.extra, "checks": rows}) if rows else run


def write_results(
    results: Results, folder: Path, *, title: str, formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Write results.json, results.csv, results.md and a report with pictures."""
    page = document_from_sweep(results.rows, title=title, advice=results.advice)
    contents = {
        "results.md": markdown(page),
        "results.csv": csv_from_rows(results.rows),
        "results.json": json_from_rows(results.rows, title=title),
    }
    paths = [write_output(folder / name, content) for name, content in contents.items()]
    paths += [path for each in results.judged for path in _accuracy_files(each, folder, results)]
    paths += write_pipeline_files(results.rows, {run.id: run for run in results.runs}, folder)
    if results.runs and formats:
        paths += write_report(
            results.runs, folder / "report", failed=results.failed, title=title, formats=formats
        )
    return paths


def _accuracy_files(judged: Judged, folder: Path, results: Results) -> list[Path]:
    """Copy the tables of an evaluation: into ``accuracy``, or a folder for each model."""
    name = "accuracy" if len(results.judged) == 1 else f"accuracy-{judged.network}"
    target = folder / file_name_from_text(name)
    paths = [judged.folder / each for each in (EVAL_MD, EVAL_JSON)]
    with writing(target):
        target.mkdir(exist_ok=True)
        return [Path(shutil.copy(path, target)) for path in paths if path.is_file()]


def pooled(runs: Sequence[Run], *, drop: str) -> Run:
    """Put the rounds of a case together as launches of one run."""
    first = runs[0].record
    times = join_launches([part for run in runs for part in _launches(run.times)])
    record = first.having(
        launches=tuple(facts for run in runs for facts in run.record.launches),
        findings=_gravest(runs),
        tags=tuple(tag for tag in first.tags if tag != drop),
    )
    return replace(runs[0], record=record, times=times)


def _runs(sweep: Sweep, place: int, store: Store) -> list[Run]:
    key = sweep.plan.keys[place]
    ends = sorted(
        (line for (case, _), line in sweep.journal.ends().items() if case == key and line.run),
        key=lambda line: line.round,
    )
    found = []
    for line in ends:
        if line.what == "done" and line.run is not None:
            run = store.load(line.run)
            if isinstance(run, Run):
                found.append(run)
    return found


def _launches(times: IterationTimes) -> list[IterationTimes]:
    if times.launch is None:
        return [times]
    numbers = np.unique(times.launch)
    if len(numbers) == 1:
        return [times]
    columns = dict(times.columns())
    return [
        times_from_columns({name: column[times.launch == k] for name, column in columns.items()})
        for k in numbers
    ]


def spooled(times: IterationTimes, folder: Path) -> IterationTimes:
    """Move the samples of a long run to the disk, from where the system reads what is looked at.

    A sweep of a hundred cases would otherwise hold all that was ever measured in memory.
    """
    if len(times) < SPOOLED_ROWS:
        return times
    columns: dict[str, NDArray[np.generic]] = {}
    for name, column in times.columns():
        with tempfile.TemporaryFile(dir=folder) as file:
            column.tofile(file)
            file.flush()
            columns[name] = np.memmap(file, dtype=column.dtype, mode="r", shape=column.shape)
    return times_from_columns(columns)


def _gravest(runs: Sequence[Run]) -> tuple[Finding, ...]:
    """Keep one finding of each code and concern, the gravest of all rounds."""
    kept: dict[tuple[str, str | None], Finding] = {}
    for finding in (each for run in runs for each in run.findings):
        key = (finding.code, finding.concerns)
        old = kept.get(key)
        if old is None or SEVERITIES.index(finding.severity) < SEVERITIES.index(old.severity):
            kept[key] = finding
    return tuple(kept.values())


def _row(case: Case, run: Run, ids: list[str], remark: str | None, *, name: str) -> SweepRow:
    layers, parameters = _structure(run)
    scores = run.extra.get("scores")
    found = scores if isinstance(scores, dict) else {}
    checks = run.extra.get("checks")
    rows = checks if isinstance(checks, list) else []
    return SweepRow(
        model=name,
        runtime=case.runtime,
        precision=precision_that_ran(case, run),
        batch=run.record.known_items,
        engine=case.engine,
        options=case.options,
        runs=tuple(ids),
        remark=remark,
        summary=summary_from_run(run),
        size_bytes=run.record.spec.model.size_bytes or _whole(run, "parameter_bytes"),
        layers=layers,
        parameters=parameters,
        scores={name: score for name, score in found.items() if isinstance(score, Score)},
        max_abs=max((each["max_abs"] for each in rows if "max_abs" in each), default=None),
        sqnr_db=min((each["sqnr_db"] for each in rows if "sqnr_db" in each), default=None),
        findings=run.findings,
    )


def _remark(case: Case, run: Run, remark: str | None) -> str | None:
    """Say that a case ran in another precision or batch than it was made for."""
    ran = {"precision": precision_that_ran(case, run), "batch": run.record.batch}
    asked = {"precision": case.precision, "batch": case.batch}
    other = [
        f"{key} {asked[key]} was asked for, {ran[key]} ran"
        for key in asked
        if asked[key] is not None and ran[key] not in (None, asked[key])
    ]
    return "; ".join([*other, *([remark] if remark else [])]) or None


def _failed_row(case: Case, reason: str, *, name: str) -> SweepRow:
    return SweepRow(
        model=name,
        runtime=case.runtime,
        precision=case.precision,
        batch=case.batch,
        engine=case.engine,
        options=case.options,
        reason=reason,
    )


def _structure(run: Run) -> tuple[int | None, int | None]:
    """Count layers and parameters, by an engine's inspector, an ONNX file or PyTorch's modules."""
    if run.graph is not None:
        weights = sum(layer.weights_count or 0 for layer in run.graph.layers)
        return len(run.graph.layers), weights or None
    model = run.record.spec.model
    if model.format != "onnx":
        return _whole(run, "modules"), _whole(run, "parameters")
    if not still_there(model):
        return None, None
    try:
        read = read_onnx(Path(model.path))
    except (InputError, TrtbenchError):
        return None, None
    return len(read.nodes), read.parameters


def _whole(run: Run, fact: str) -> int | None:
    value = run.record.facts.get(fact)
    return value if isinstance(value, int) else None


def _failed_run(sweep: Sweep, place: int, stage: str, reason: str) -> FailedRun:
    """Describe a case that has no run, so that a report can show it."""
    case = sweep.plan.cases[place]
    return FailedRun(
        id=f"{sweep.outline.name}-{place}",
        created=now(),
        spec=RunSpec(
            model=ModelRef(path=case.model, format="unknown"),
            runtime=case.runtime,
            batch=case.batch,
            precision=case.precision,
        ),
        environment=Environment(host="", os=""),
        stage=stage,
        reason=reason,
    )


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
