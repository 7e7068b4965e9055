"""The results of a sweep: a row for every case, and the files that are written."""

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from trtbench.accuracy.evaluate import EVAL_JSON, EVAL_MD, size_of_model
from trtbench.analysis.summary import summary_from_run
from trtbench.analysis.sweep import SweepRow, mark_best
from trtbench.convert.steps import RESULT_FILE
from trtbench.core.errors import writing
from trtbench.core.results import ShortView
from trtbench.core.run import Environment, FailedRun, Run, Score
from trtbench.core.safety import file_name_from_text, read_bytes
from trtbench.core.samples import times_from_columns
from trtbench.core.spec import ModelRef, RunSpec
from trtbench.host.files import make_subfolder, write_output
from trtbench.models.identity import external_files, source_of
from trtbench.report.compose import RENDERERS
from trtbench.report.renderers.md import markdown
from trtbench.report.sections.sweep import csv_from_rows, document_from_sweep, json_from_rows
from trtbench.store.directory import now
from trtbench.sweep.matrix import Case
from trtbench.sweep.run import Sweep, SweepEvaluation, measured_precision, merge_rounds
from trtbench.workflows.report import write_report

FORMATS = ("html", "png")
SPOOLED_ROWS = 50_000
_ONLY_TRTEXEC = "profile.metadata.json"
PIPELINE_FILES: Mapping[str, str] = {
    **{name: name for name in ("build.metadata.json", "graph.json", "profile.json", _ONLY_TRTEXEC)},
    "times.json": "timing.json",
    "build.log": "engine.build.log",
    "trtexec_stdout.log": "engine.profile.log",
}
"""Files of a run that trtexec measured, and their names in trt-engine-explorer's pipeline."""


class Results(ShortView, msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a sweep and their runs, with all rounds merged."""

    rows: tuple[SweepRow, ...]
    runs: tuple[Run, ...]
    failed: tuple[FailedRun, ...]
    judged: tuple[SweepEvaluation, ...] = ()  # evaluations with their tables and pictures


def results_from_sweep(sweep: Sweep) -> Results:
    rows, runs, failed = [], [], []
    for place, planned in enumerate(sweep.plan.cases):
        case, name, failure = planned.case, sweep.plan.model_name(place), sweep.failures.get(place)
        text = failure.text if failure else None
        found = sweep.runs_of(place)
        same = {key: getattr(case, key) for key in ("runtime", "precision", "batch")}
        row = SweepRow(model=name, engine=case.engine, options=case.options, **same)
        if found:
            run = merge_rounds(found, drop=sweep.outline.tag)
            if len(run.times) >= SPOOLED_ROWS:
                # Memory-mapped from disk: a sweep of a hundred cases would otherwise hold all
                # samples in memory.
                columns: dict[str, NDArray[np.generic]] = {}
                for key, column in run.times.columns():
                    with tempfile.TemporaryFile(dir=sweep.folder) as file:
                        columns[key] = np.memmap(file, column.dtype, "w+", shape=column.shape)
                        columns[key][:] = column
                run = replace(run, times=times_from_columns(columns))
            runs.append(run)
            remarks = (*planned.notes, f"later: {text}" if text else sweep.remarks.get(place))
            remark = "; ".join(filter(None, remarks)) or None
            row = row.having(runs=tuple(each.id for each in found), remark=remark)
            rows.append(_measured_row(row, case, run))
            continue
        rows.append(row.having(reason=text or "not measured"))
        failed.append(
            FailedRun(
                id=f"{sweep.outline.name}-{place}",
                created=now(),
                spec=RunSpec(model=ModelRef(path=case.model, format="unknown"), **same),
                environment=Environment(host="", os=""),
                stage=(failure.stage if failure else None) or "plan",
                reason=failure.reason if failure else "not measured",
            )
        )
    if sweep.outline.matrix.names == "vanilla":  # PyTorch is Vanilla, engines are TRT
        rows = [
            row.having(name=sweep.plan.vanilla_name(each.case, row.precision))
            for row, each in zip(rows, sweep.plan.cases, strict=True)
        ]
        named = (row.name for row in rows if row.runs)
        runs = [replace(x, extra={**x.extra, "name": n}) for x, n in zip(runs, named, strict=True)]
    pictures = [
        str(path)
        for judged in sweep.judged
        for each in judged.made.pictures
        if (path := judged.folder / Path(each.path).name).is_file()
    ]
    if runs and pictures:  # all are attached to the first run, so that a report shows each once
        runs[0] = replace(runs[0], extra={**runs[0].extra, "pictures": pictures})
    best, judged = tuple(mark_best(rows)), tuple(sweep.judged)
    return Results(rows=best, runs=tuple(runs), failed=tuple(failed), judged=judged)


def _measured_row(row: SweepRow, case: Case, run: Run) -> SweepRow:
    record, precision = run.record, measured_precision(case, run)
    others = [
        f"{what} {asked} was requested, but {ran} ran"
        for what, asked, ran in (
            ("precision", case.precision, precision),
            ("batch", case.batch, record.batch),
        )
        if asked is not None and ran not in (None, asked)
    ]
    size, layers, parameters = size_of_model(record.spec.model, record.facts)
    if run.graph is not None:
        layers = len(run.graph.layers)
        parameters = sum(layer.weights_count or 0 for layer in run.graph.layers) or None
    scores = run.extra.get("scores")
    found = scores if isinstance(scores, dict) else {}
    return row.having(
        precision=precision,
        batch=record.known_items,
        remark="; ".join(filter(None, [*others, row.remark])) or None,
        summary=summary_from_run(run),
        size_bytes=size,
        layers=layers,
        parameters=parameters,
        scores={metric: score for metric, score in found.items() if isinstance(score, Score)},
        findings=run.findings,
    )


def write_results(
    results: Results, folder: Path, *, title: str, formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Write results.json, results.csv, results.md and a report with pictures."""
    page = document_from_sweep(results.rows, title=title)
    contents = {
        "results.md": markdown(page),
        "results.csv": csv_from_rows(results.rows),
        "results.json": json_from_rows(results.rows, title=title),
    }
    paths = [write_output(folder / name, content) for name, content in contents.items()]
    for judged in results.judged:
        name = "accuracy" if len(results.judged) == 1 else f"accuracy-{judged.network}"
        target = folder / file_name_from_text(name)
        tables = filter(Path.is_file, [judged.folder / each for each in (EVAL_MD, EVAL_JSON)])
        with writing(target):
            make_subfolder(target)
            paths += [write_output(target / each.name, read_bytes(each)) for each in tables]
    paths += write_pipeline_files(results.rows, {run.id: run for run in results.runs}, folder)
    # A format in which an earlier report lies there is written again: it would have old numbers.
    report = folder / "report"
    there = {path.suffix[1:] for path in (*report.glob("*"), *report.glob("tables/*"))}
    formats = (*formats, *sorted(there & {*RENDERERS.names()} - {*formats}))
    if results.runs and formats:
        make_subfolder(report)
        paths += write_report(
            results.runs, report, failed=results.failed, title=title, formats=formats
        )
    return paths


def write_pipeline_files(
    rows: Sequence[SweepRow], runs: Mapping[str, Run], folder: Path
) -> list[Path]:
    """Copy files of rows with a model made here or by trtexec, of the first round; link models."""
    measured: list[tuple[SweepRow, ModelRef, Path]] = []
    for row in rows:
        run = runs.get(next(iter(row.runs), ""))
        made = run and (Path(run.record.spec.model.path).parent / RESULT_FILE).is_file()
        if run and run.path and (made or (run.path / _ONLY_TRTEXEC).is_file()):
            measured.append((row, run.record.spec.model, run.path))
    found: list[Path] = []
    seen: Counter[str] = Counter()
    for row, model, path in measured:
        alike = [x for x, *_ in measured if (x.model, x.runtime) == (row.model, row.runtime)]
        precision = "bfp16" if row.precision == "bf16" else row.precision or "fp32"
        parts = [row.model, precision]
        if not (path / _ONLY_TRTEXEC).is_file():
            parts.append(row.runtime)
        if len({each.engine for each in alike}) > 1:
            parts.append(str(row.engine))
        if len({each.batch for each in alike}) > 1:
            parts.append(f"batch{row.batch}")
        parts += [f"{key}{value}" for key, value in row.options.items()]
        stem = file_name_from_text("_".join(parts))
        seen[stem] += 1
        if seen[stem] > 1:  # two requested precisions ran as the same one
            stem = f"{stem}_{seen[stem]}"
        target = folder / "results" / file_name_from_text(row.model)
        links = {f"{stem}.{model.format}{x}": Path(f"{model.path}{x}") for x in ("", ".json")}
        if source := source_of(model):
            onnx = Path(source.path)
            alone = not external_files(onnx)  # weights are found by their names
            links[f"{stem}.onnx" if alone else f"{stem}_onnx"] = onnx if alone else onnx.parent
        with writing(target):
            make_subfolder(make_subfolder(target.parent) / target.name)
            found += [
                write_output(target / f"{stem}.{theirs}", read_bytes(path / own))
                for own, theirs in PIPELINE_FILES.items()
                if (path / own).is_file()
            ]
            for link, to in ((target / name, to) for name, to in links.items() if to.exists()):
                link.unlink(missing_ok=True)
                link.symlink_to(to.absolute())
                found.append(link)
    return found
