"""Look into a file or a run: what it is, what it holds, and whether it would load here."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from trtbench.analysis.flops import cost_from_model
from trtbench.analysis.inspection import (
    Inspection,
    InspectionTable,
    inspection_from_graph,
    inspection_from_onnx,
    inspection_from_profile,
    parameter_difference,
)
from trtbench.analysis.summary import summary_from_run
from trtbench.boundary import read_bytes
from trtbench.build.onnx_read import read_onnx
from trtbench.domain.artefact import Artefact
from trtbench.domain.conversion import Sidecar
from trtbench.domain.ran import protocol_of
from trtbench.domain.result import FailedRun, Run, RunRecord, Scalar, precision_of
from trtbench.errors import InputError, StoreError, UsageError
from trtbench.host.tensorrt import OPSETS
from trtbench.models.identity import format_of, model_ref
from trtbench.models.sidecar import kept_value, read_sidecar
from trtbench.models.torch_pickle import archive_kind, modules_named
from trtbench.store.directory import RECORD, read_run
from trtbench.store.store import Store
from trtbench.trtexec.calibration import calibration_from_text
from trtbench.trtexec.layers import graph_from_json
from trtbench.trtexec.profile import profile_from_json
from trtbench.trtexec.sniff import kind_of_stream
from trtbench.trtexec.times import read_times, times_from_file
from trtbench.workflows.look.engine import inspect_engine
from trtbench.workflows.look.loaded import inspect_loaded
from trtbench.workflows.look.logs import inspect_log
from trtbench.workflows.request.config import Config

Shapes = Mapping[str, tuple[int, ...]]


def inspect(
    name: str | Path,
    *,
    store: Store | None = None,
    shapes: Shapes | None = None,
    batch: int | None = None,
    onnx: Path | None = None,
    load: Config | None = None,
) -> Inspection:
    """Describe a file, a run directory, or a run of the store by its id.

    ``load`` are the settings with which an engine is loaded here, and asked itself.
    """
    path = Path(name)
    if load is not None:
        return inspect_loaded(path, shapes=shapes or {}, batch=batch, onnx=onnx, config=load)
    if path.is_dir():
        if not (path / RECORD).is_file():
            raise InputError(
                f"{path} is a folder, but not of a run",
                facts={"missing": RECORD},
                fix="give an engine, a model, or the folder of a run (trtbench runs)",
            )
        return _run(read_run(path), path)
    if not path.exists():
        return _from_store(str(name), path, store)
    model_ref(path, whole=False)  # says so when it cannot be read or is empty
    with open(path, "rb") as file:
        kind, _ = kind_of_stream(file, name=path.name)
    if kind == "onnx":
        return _with_sidecar(inspect_onnx(path, shapes=shapes, batch=batch), path)
    if kind == "plan":
        return inspect_engine(path, onnx=onnx, shapes=shapes, batch=batch)
    if kind in _READERS:
        return _READERS[kind](path, onnx)
    if format_of(path) == "torch":
        return _torch(path)
    if path.suffix == ".json":
        about = described_file(path)
        found = inspect(about, shapes=shapes, batch=batch, onnx=onnx) if about else None
        found = found or inspect_record(path)
        if found is not None:
            return found
    return _unknown(path, kind)


def inspect_onnx(
    path: Path, *, shapes: Shapes | None = None, batch: int | None = None
) -> Inspection:
    """Describe an ONNX file."""
    model = read_onnx(path, shapes=shapes, batch=batch)
    found = inspection_from_onnx(model, cost_from_model(model), path=str(path))
    facts = {**found.facts, "parsed_by": parsers_of(model.opset)}
    missing = [name for name in model.external_files if not (path.parent / name).is_file()]
    notes = [f"it does not load: its weights are in {n}, which is not there" for n in missing]
    return found.having(facts=facts, notes=(*notes, *found.notes))


def parsers_of(opset: int | None) -> str | None:
    """Say from which TensorRT on the parser documents an opset."""
    if opset is None:
        return None
    for first, limit in OPSETS:
        if opset <= limit:
            return f"TensorRT {'.'.join(map(str, first))} and later, by its documentation"
    return f"no TensorRT documents opset {opset} (at most {OPSETS[-1][1]})"


def _with_sidecar(found: Inspection, path: Path) -> Inspection:
    """Add what is kept beside a file that trtbench made."""
    sidecar = read_sidecar(path)
    if sidecar is None:
        return found
    facts: dict[str, Scalar] = {
        "made_by": f"{sidecar.made_by}, {sidecar.step}",
        "source": sidecar.source,
        "exporter": sidecar.exporter,
    }
    if sidecar.difference:
        worst = max(sidecar.difference, key=lambda each: each.rel_l2 or 0.0)
        facts["difference"] = f"rel L2 {worst.rel_l2:.2e} on {sidecar.compared_on}"
    notes = [note for note in sidecar.notes if note not in found.notes]
    if sidecar.sha256 != model_ref(path, whole=False).sha256:
        facts, notes = {}, ["the file has changed since its sidecar was written"]
    return found.having(
        facts={**found.facts, **{k: v for k, v in facts.items() if v is not None}},
        notes=(*found.notes, *notes),
    )


def _layers(path: Path, onnx: Path | None) -> Inspection:
    graph = graph_from_json(read_bytes(path), where=str(path))
    found = inspection_from_graph(graph, path=str(path))
    if onnx is None:
        return found
    notes = (*found.notes, *parameter_difference(graph, read_onnx(onnx)))
    return found.having(notes=notes)


def _profile(path: Path, onnx: Path | None) -> Inspection:
    return inspection_from_profile(
        profile_from_json(read_bytes(path), where=str(path)), path=str(path)
    )


def _times(path: Path, onnx: Path | None) -> Inspection:
    with open(path, "rb") as file:
        times = read_times(file, where=str(path))
    columns = times_from_file(times).durations()
    rows = tuple(
        (name, len(c), float(c.min()), float(sorted(c)[len(c) // 2]), float(c.max()))
        for name, c in columns.items()
        if len(c)
    )
    return Inspection(
        kind="times",
        path=str(path),
        facts={
            "written_by": f"trtexec {times.variant}",
            "arrays": len(times.arrays),
            "rows": len(times),
            "warmup_rows_removed": sum(array.warmup_rows for array in times.arrays),
        },
        summary=InspectionTable(
            columns=("column", "count", "min_s", "median_s", "max_s"), rows=rows
        ),
    )


def _calibration(path: Path, onnx: Path | None) -> Inspection:
    cache = calibration_from_text(read_bytes(path), where=str(path))
    unusable = [each.name for each in cache.scales if not each.usable]
    notes = [f"{len(unusable)} scales cannot be used: {', '.join(unusable[:5])}"] * bool(unusable)
    if cache.duplicates:
        notes.append(f"names that occur more than once: {', '.join(cache.duplicates[:5])}")
    return Inspection(
        kind="calibration cache",
        path=str(path),
        facts={
            "tensorrt": cache.version,
            "algorithm": cache.algorithm,
            "tensors": len(cache.scales),
        },
        layers=InspectionTable(
            columns=("tensor", "scale", "dynamic_range"),
            rows=tuple((each.name, each.scale, each.dynamic_range) for each in cache.scales),
        ),
        notes=tuple(notes),
    )


_READERS: dict[str, Callable[[Path, Path | None], Inspection]] = {
    "layers": _layers,
    "profile": _profile,
    "times": _times,
    "calibration": _calibration,
    "log": inspect_log,
}


def _torch(path: Path) -> Inspection:
    """Tell what can be told of a PyTorch file without running what is in it."""
    kind = archive_kind(path)
    named = sorted(modules_named(path)) if kind == "pickle" else []
    return Inspection(
        kind=f"PyTorch {kind}",
        path=str(path),
        facts={"size_bytes": path.stat().st_size, "names_code_of": ", ".join(named) or None},
        notes=("trtbench export turns it into ONNX, which can be looked into",),
    )


def _unknown(path: Path, kind: str) -> Inspection:
    if kind == "timing-cache":
        facts: dict[str, Scalar] = {"size_bytes": path.stat().st_size}
        return Inspection(kind="timing cache", path=str(path), facts=facts)
    if kind == "unknown":
        raise InputError(
            f"{path.name} is nothing that can be looked into",
            facts={"known": "ONNX, engines, trtexec's JSON files, calibration caches, runs"},
            fix=f"trtbench import --dry-run {shlex.quote(str(path))} knows a few kinds more",
        )
    return Inspection(
        kind=kind,
        path=str(path),
        facts={"size_bytes": path.stat().st_size},
        notes=(
            f"trtbench import {shlex.quote(str(path))} makes a run of it, "
            "if something was measured",
        ),
    )


def _from_store(name: str, path: Path, store: Store | None) -> Inspection:
    if store is None or "/" in name or path.suffix:
        model_ref(path)  # names the near miss
    assert store is not None
    try:
        folder = store.resolve(name)
    except (StoreError, InputError, UsageError):
        raise InputError(
            f"there is neither a file nor a run called {name}", fix="trtbench runs lists the runs"
        ) from None
    return _run(read_run(folder), folder)


def _run(run: Run | FailedRun, path: Path) -> Inspection:
    record = run if isinstance(run, FailedRun) else run.record
    facts: dict[str, Scalar] = {
        "id": record.id,
        "created": record.created,
        "model": record.spec.model.path,
        "runtime": record.spec.runtime,
        "protocol": protocol_of(record),
        "precision": precision_of(record),
        "batch": record.batch if isinstance(record, RunRecord) else record.spec.batch,
    }
    if isinstance(run, FailedRun):
        failed = {"stage": run.stage, "reason": run.reason, "exit_status": run.exit_status}
        return Inspection(kind="failed run", path=str(path), facts={**facts, **failed})
    summary = summary_from_run(run)
    rows = tuple(
        (each.column, each.count, each.median, each.min, each.max) for each in summary.columns
    )
    findings = tuple(f"{f.severity} {f.code}: {f.message}" for f in run.findings)
    graph = inspection_from_graph(run.graph, path=str(path)).layers if run.graph else None
    return Inspection(
        kind="run",
        path=str(path),
        facts={**facts, "launches": summary.launches, "items_per_s": summary.items_per_s},
        inputs=run.record.inputs,
        outputs=run.record.outputs,
        summary=InspectionTable(
            columns=("column", "count", "median_s", "min_s", "max_s"), rows=rows
        ),
        layers=graph,
        notes=(*run.record.notes, *findings),
    )


def described_file(path: Path) -> Path | None:
    """Find the engine or model that a record is about, if it lies where the record does."""
    record = kept_value(path, Artefact) or kept_value(path, Sidecar)
    if record is None:
        return None
    name = record.filename if isinstance(record, Artefact) else record.file
    return path.with_name(name) if path.with_name(name).is_file() else None


def inspect_record(path: Path) -> Inspection | None:
    """Describe a record whose file is gone; ``None`` when it is no record of trtbench."""
    made = kept_value(path, Artefact)
    if made is not None:
        return Inspection(
            kind="record of an engine",
            path=str(path),
            facts={
                "engine": made.path,
                "size_bytes": made.size_bytes,
                "sha256": made.sha256,
                "built": made.created,
                "tensorrt": made.tensorrt,
                "precision": made.spec.precision,
                **made.facts,
                "command": made.command,
            },
            notes=(f"{made.filename} is not beside it", *made.notes),
        )
    sidecar = kept_value(path, Sidecar)
    if sidecar is None:
        return None
    return Inspection(
        kind="record of a conversion",
        path=str(path),
        facts={
            "file": sidecar.file,
            "step": sidecar.step,
            "precision": sidecar.precision,
            "method": sidecar.method,
            "source": sidecar.source,
            "created": sidecar.created,
            **sidecar.facts,
            "command": sidecar.command,
        },
        notes=(f"{sidecar.file} is not beside it", *sidecar.notes),
    )
