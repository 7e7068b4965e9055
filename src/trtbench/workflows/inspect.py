"""What a file or a run holds, and whether an engine would load here."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from trtbench.analysis.inspection import (
    Inspection,
    InspectionTable,
    edges_of,
    inspection_from_graph,
    inspection_from_onnx,
    inspection_from_profile,
    parameters_of,
)
from trtbench.analysis.onnx_graph import cost_from_model
from trtbench.analysis.summary import summary_from_run
from trtbench.core.errors import InputError, ParseError, StoreError, UsageError
from trtbench.core.properties import protocol_of
from trtbench.core.results import Artefact
from trtbench.core.run import FailedRun, Gpu, Run, RunRecord, Scalar, precision_of
from trtbench.core.safety import read_bytes
from trtbench.core.samples import EngineGraph
from trtbench.core.spec import BuildSpec, ShapeProfile, TensorSpec
from trtbench.core.units import text_from_bytes
from trtbench.host.machine import distribution_versions
from trtbench.host.nvml import gpu_in_use
from trtbench.host.tensorrt import OPSETS
from trtbench.models.identity import (
    format_of,
    kept_value,
    model_ref,
    read_sidecar,
    sha256_of,
)
from trtbench.models.onnx_model import read_onnx
from trtbench.models.torch_models import archive_kind, modules_named
from trtbench.store.directory import RECORD, read_run
from trtbench.store.store import Store
from trtbench.trtexec.conditions import reported_from_log, tensors_from_log
from trtbench.trtexec.exports import calibration_from_text, graph_from_json, profile_from_json
from trtbench.trtexec.log import read_log
from trtbench.trtexec.log_values import LogRun
from trtbench.trtexec.sniff import kind_of_stream
from trtbench.trtexec.times import read_times, times_from_file
from trtbench.trtexec.version import HEADER_BYTES, PlanHeader, plan_from_bytes

_PACKAGES = {"tensorrt": "tensorrt", "tensorrt_rtx": "tensorrt-rtx"}
_WORDS = {"tensorrt": "TensorRT", "tensorrt_rtx": "TensorRT-RTX"}
_TENSOR = re.compile(r"(?P<name>.+?) (?P<dtype>[a-z]+\d*\w*) (?P<dims>[\dx?]*)(?:, |$)")
_SAME_PARTS = 3
"""Major, minor and patch must agree; an engine is bound to the version that built it."""
MOST_NOTES = 12
_LOG_FACTS = (
    "peak_cpu_bytes", "peak_gpu_bytes", "scratch_bytes", "timing_cache",
    "timing_cache_loaded_bytes", "timing_cache_saved_bytes",
)  # fmt: skip
_WEIGHTS = re.compile(r"- (\d{1,9}) weights are affected")

Shapes = Mapping[str, tuple[int, ...]]


def inspect(
    name: str | Path,
    *,
    store: Store | None = None,
    shapes: Shapes | None = None,
    batch: int | None = None,
) -> Inspection:
    """Describe a file, a run directory, or a run of the store by its id."""
    path = Path(name)
    if path.is_dir():
        if not (path / RECORD).is_file():
            raise InputError(
                f"{path} is a folder, but not of a run",
                facts={"missing": RECORD},
                fix="give an engine, a model, or the folder of a run (trtbench runs)",
            )
        return _run(read_run(path), path)
    if not path.exists():
        if store is None or "/" in str(name) or path.suffix:
            model_ref(path)  # raises, with the near miss
        assert store is not None
        try:
            folder = store.resolve(str(name))
        except (StoreError, InputError, UsageError):
            raise InputError(
                f"there is neither a file nor a run called {name}",
                fix="trtbench runs lists the runs",
            ) from None
        return _run(read_run(folder), folder)
    model_ref(path, whole=False)  # says so when it cannot be read or is empty
    with open(path, "rb") as file:
        kind, _ = kind_of_stream(file, name=path.name)
    if kind == "onnx":
        return _onnx(path, shapes, batch)
    if kind == "plan":
        return inspect_engine(path)
    if kind in _READERS:
        return _READERS[kind](path)
    if format_of(path) == "torch":  # described without running what is in it
        archive = archive_kind(path)
        named = sorted(modules_named(path)) if archive == "pickle" else []
        return Inspection(
            kind=f"PyTorch {archive}",
            path=str(path),
            facts={"size_bytes": path.stat().st_size, "names_code_of": ", ".join(named) or None},
            notes=("trtbench export turns it into ONNX, which can be looked into",),
        )
    if kind == "unknown":
        raise InputError(
            f"{path.name} is nothing that can be looked into",
            facts={"known": "ONNX, engines, trtexec's JSON files, calibration caches, runs"},
            fix=f"trtbench import --dry-run {shlex.quote(str(path))} knows a few kinds more",
        )
    note = f"trtbench import {shlex.quote(str(path))} makes a run of it, if something was measured"
    timing = kind == "timing-cache"
    return Inspection(
        kind="timing cache" if timing else kind,
        path=str(path),
        facts={"size_bytes": path.stat().st_size},
        notes=() if timing else (note,),
    )


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
    columns = ("column", "count", "median_s", "min_s", "max_s")
    findings = tuple(f"{f.severity} {f.code}: {f.message}" for f in run.findings)
    return Inspection(
        kind="run",
        path=str(path),
        facts={**facts, "launches": summary.launches, "items_per_s": summary.items_per_s},
        inputs=run.record.inputs,
        outputs=run.record.outputs,
        summary=InspectionTable(columns=columns, rows=rows),
        layers=inspection_from_graph(run.graph, path=str(path)).layers if run.graph else None,
        notes=(*run.record.notes, *findings),
    )


def _onnx(path: Path, shapes: Shapes | None, batch: int | None) -> Inspection:
    model = read_onnx(path, shapes=shapes, batch=batch)
    found = inspection_from_onnx(model, cost_from_model(model), path=str(path))
    facts = {**found.facts, "parsed_by": parsers_of(model.opset)}
    missing = [name for name in model.external_files if not (path.parent / name).is_file()]
    notes = [f"it does not load: its weights are in {n}, which is not there" for n in missing]
    notes += found.notes
    sidecar = read_sidecar(path)
    if sidecar is not None and sidecar.sha256 != model_ref(path, whole=False).sha256:
        notes.append("the file has changed since its sidecar was written")
    elif sidecar is not None:
        facts |= {"made_by": f"{sidecar.made_by}, {sidecar.step}", "source": sidecar.source}
        if sidecar.exporter:
            facts["exporter"] = sidecar.exporter
        if sidecar.difference:
            worst = max(sidecar.difference, key=lambda each: each.rel_l2 or 0.0)
            facts["difference"] = f"rel L2 {worst.rel_l2:.2e} on {sidecar.compared_on}"
        notes += [note for note in sidecar.notes if note not in notes]
    return found.having(facts=facts, notes=tuple(notes))


def parsers_of(opset: int | None) -> str | None:
    """From which TensorRT on the parser documents an opset."""
    if opset is None:
        return None
    for first, limit in OPSETS:
        if opset <= limit:
            return f"TensorRT {'.'.join(map(str, first))} and later, by its documentation"
    return f"no TensorRT documents opset {opset} (at most {OPSETS[-1][1]})"


def _layers(path: Path) -> Inspection:
    graph = graph_from_json(read_bytes(path), where=str(path))
    return inspection_from_graph(graph, path=str(path))


def _profile(path: Path) -> Inspection:
    profile = profile_from_json(read_bytes(path), where=str(path))
    return inspection_from_profile(profile, path=str(path))


def _times(path: Path) -> Inspection:
    with open(path, "rb") as file:
        times = read_times(file, where=str(path))
    rows = tuple(
        (name, len(c), float(c.min()), float(sorted(c)[len(c) // 2]), float(c.max()))
        for name, c in times_from_file(times).durations().items()
        if len(c)
    )
    columns = ("column", "count", "min_s", "median_s", "max_s")
    return Inspection(
        kind="times",
        path=str(path),
        facts={
            "written_by": f"trtexec {times.variant}",
            "arrays": len(times.arrays),
            "rows": len(times),
            "warmup_rows_removed": times.warmup_rows,
        },
        summary=InspectionTable(columns=columns, rows=rows),
    )


def _calibration(path: Path) -> Inspection:
    cache = calibration_from_text(read_bytes(path), where=str(path))
    unusable = [each.name for each in cache.scales if not each.usable]
    notes = [f"{len(unusable)} scales cannot be used: {', '.join(unusable[:5])}"] * bool(unusable)
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


def inspect_engine(path: Path) -> Inspection:
    """Describe an engine of any TensorRT by its header and by the files next to it."""
    with open(path, "rb") as file:
        header = plan_from_bytes(file.read(HEADER_BYTES), where=str(path))
    size, notes = path.stat().st_size, []
    if header.plan_bytes is not None and header.plan_bytes > size:
        notes.append(f"it is cut short: {size} of {header.plan_bytes} bytes are there")
    elif header.weight_bytes is not None and header.weight_bytes > size:
        stated = text_from_bytes(header.weight_bytes)
        notes.append(
            f"its header states {stated} of weights, which are not in it: stripped, or damaged"
        )
    artefact, graph = read_artefact(path), None
    if artefact is None or artefact.sha256 == sha256_of(path):
        graph = read_graph(path)
    else:
        artefact = None
        notes.append("what lies beside it is of another engine, and was left aside")
    seen = [gpu for gpu in (gpu_in_use(),) if gpu is not None]
    installed = distribution_versions(_PACKAGES[header.flavour])
    loads, reasons = would_load(header, artefact, installed=installed, gpus=seen)
    if (header.plan_bytes or 0) > size:
        loads = False
    inputs, outputs = _edges(artefact, graph)
    stated_bytes = header.weight_bytes if (header.weight_bytes or 0) <= size else None
    held = stated_bytes or _number(artefact, "weights_bytes")
    notes += reasons
    if graph is None:
        notes.append("no layer information lies beside it (ENGINE.graph.json)")
    elif artefact is not None and artefact.facts.get("layers_from") == "network":
        notes.append("the layers are those of the network: no GPU was there to ask the engine")
    found = inspection_from_graph(graph, path=str(path)) if graph else None
    return Inspection(
        kind="engine",
        path=str(path),
        facts={
            "flavour": _WORDS[header.flavour],
            "version": header.version,
            "size_bytes": size,
            "weight_bytes": held,
            "activation_bytes": _number(artefact, "activation_bytes"),
            "built_for": ", ".join(header.compute_capabilities) or None,
            **_artefact_facts(artefact),
            "layers": len(graph.layers) if graph else None,
            "parameters": parameters_of(graph) if graph else None,
            "loads_here": {True: "yes", False: "no", None: "not known"}[loads],
        },
        inputs=inputs,
        outputs=outputs,
        summary=found.summary if found else None,
        layers=found.layers if found else None,
        notes=tuple(notes),
    )


def would_load(
    header: PlanHeader,
    artefact: Artefact | None,
    *,
    installed: Mapping[str, str],
    gpus: Sequence[Gpu],
) -> tuple[bool | None, tuple[str, ...]]:
    """Judge by version and GPU; ``None`` when nothing speaks against it but too little is known."""
    name, reasons = _WORDS[header.flavour], []
    version = next(iter(installed.values()), None)
    here, there = (
        (text or "").split("+")[0].split(".")[:_SAME_PARTS] for text in (version, header.version)
    )
    compatible = artefact is not None and artefact.spec.version_compatible
    if version is None:
        reasons.append(f"{name} is not installed in this interpreter")
    elif header.version and not compatible and here != there:
        reasons.append(f"it was built by {name} {header.version}, and {version} is installed here")
    gpu = gpus[0] if gpus else None
    capability = gpu.compute_capability if gpu else None
    built = artefact.gpus[0] if artefact is not None and artefact.gpus else None
    if artefact is not None and artefact.spec.hardware_compatible:
        built = None
    if gpu is None:
        reasons.append("no GPU can be seen here")
    elif capability and capability not in (header.compute_capabilities or (capability,)):
        wanted = ", ".join(header.compute_capabilities)
        reasons.append(
            f"it was built for compute capability {wanted}, and {gpu.name} has {capability}"
        )
    elif capability and built and built.compute_capability not in (None, capability):
        where = f"{built.name} ({built.compute_capability})"
        reasons.append(f"it was built on {where}, and here is {gpu.name} ({capability})")
    if reasons:
        return False, tuple(reasons)
    known = artefact is not None or header.flavour == "tensorrt_rtx"
    return (True if known else None), ()


def read_artefact(engine: Path) -> Artefact | None:
    """The record that a build left beside its engine."""
    return kept_value(engine.with_name(f"{engine.name}.json"), Artefact)


def read_graph(engine: Path) -> EngineGraph | None:
    """The layers that a build left beside its engine."""
    for name in (f"{engine.name}.graph.json", f"{engine.stem}.graph.json"):
        path = engine.with_name(name)
        if path.is_file():
            return graph_from_json(read_bytes(path), where=str(path))
    return None


def _artefact_facts(artefact: Artefact | None) -> dict[str, Scalar]:
    if artefact is None:
        return {}
    spec, conditions = artefact.spec, artefact.conditions
    known = {name: str(fact.value) for name, fact in conditions.items() if fact.value is not None}
    return {
        "model": spec.model.path,
        "precision": known.get("precision") or spec.precision,
        "typing": known.get("typing"),
        "built_by": spec.runtime,
        "built_on": ", ".join(gpu.name for gpu in artefact.gpus) or artefact.host,
        "built": artefact.created,
        "build_s": artefact.build_s,
        "profiles": _profiles(spec),
        "command": artefact.command,
    }


def _profiles(spec: BuildSpec) -> str | None:
    """Every optimization profile: least, best and largest shape of each input."""

    def span(profile: ShapeProfile) -> str:
        ends = (profile.min, profile.opt, profile.max)
        low, best, high = ("x".join(map(str, end)) for end in ends)
        return low if low == high else f"{low} to {high} (best at {best})"

    wanted = [spec.shapes, *({**spec.shapes, **each} for each in spec.more_profiles)]
    texts = [
        ", ".join(f"{name} {span(each)}" for name, each in profile.items()) for profile in wanted
    ]
    numbered = texts if len(texts) == 1 else [f"{i}: {text}" for i, text in enumerate(texts)]
    return "; ".join(text for text in numbered if text) or None


def _edges(
    artefact: Artefact | None, graph: EngineGraph | None
) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Inputs and outputs as in the record (``x float32 ?x3, go bool``), or in the layers."""
    facts = artefact.facts if artefact is not None else {}
    if "inputs" not in facts:
        return edges_of(graph) if graph is not None else ((), ())

    def tensors(name: str) -> tuple[TensorSpec, ...]:
        return tuple(
            TensorSpec(
                name=match["name"],
                dtype=match["dtype"],
                shape=tuple(None if d == "?" else int(d) for d in match["dims"].split("x") if d),
            )
            for match in _TENSOR.finditer(str(facts.get(name) or ""))
        )

    return tensors("inputs"), tensors("outputs")


def _number(artefact: Artefact | None, name: str) -> int | None:
    value = artefact.facts.get(name) if artefact is not None else None
    return value if isinstance(value, int) else None


def inspect_log(path: Path) -> Inspection:
    """Describe a log of trtexec: its last run in full, and the others in one line each."""
    with open(path, "rb") as stream:
        text = read_log(stream, where=str(path))
    if not text.runs:
        raise ParseError(f"{path} has words of trtexec's, but no run of it")
    run = text.runs[-1]
    facts, trace = run.facts, run.trace
    built = run.summary is None and facts.build_s is not None
    summaries = sum(each.summary is not None for each in text.runs)
    summary = _numbers(text.runs) if summaries else None
    if summary is None and trace is not None and trace.phases_s:
        rows = tuple(trace.phases_s.items())
        summary = InspectionTable(columns=("phase", "seconds_s"), rows=rows)
    return Inspection(
        kind="log of a build" if built else "log of trtexec",
        path=str(path),
        facts={
            "runs": len(text.runs),
            "summaries": summaries,
            "lines": text.lines,
            "outcome": run.outcome,
            "tensorrt": run.version,
            "device": run.option("Selected Device"),
            "command": run.command,
            "precision": run.option("Precision"),
            "began": run.first_stamp,
            "ended": run.last_stamp,
            "build_s": facts.build_s,
            "parse_s": facts.parse_s,
            "engine_bytes": facts.engine_bytes or facts.loaded_engine_bytes,
            **{name: getattr(facts, name) for name in _LOG_FACTS},
            "tactics_tried": trace.tactics_tried if trace else None,
            "tactics_in_subgraphs": (trace.tactics_within or None) if trace else None,
            "tactics_skipped": (trace.tactics_skipped or None) if trace else None,
            "fusions": len(trace.fusions) if trace else None,
        },
        inputs=tensors_from_log(run, outputs=False),
        outputs=tensors_from_log(run, outputs=True),
        summary=summary,
        layers=_log_layers(run),
        notes=tuple(_log_notes(run)),
    )


def _numbers(runs: tuple[LogRun, ...]) -> InspectionTable:
    """What every run printed: its rate and the middle of its latency."""
    rows = []
    for number, run in enumerate((each for each in runs if each.summary), start=1):
        printed = reported_from_log(run)
        keys = (
            f"{column}_{statistic}_ms"
            for statistic in ("median", "mean")
            for column in ("latency", "gpu_compute_time", "host")
        )
        middle = next((printed[key] for key in keys if key in printed), None)
        seconds = middle / 1e3 if isinstance(middle, (int, float)) else None
        rows.append((number, run.line, seconds, printed.get("throughput_qps"), run.title))
    columns = ("run", "line", "latency_s", "queries_per_s", "above it")
    return InspectionTable(columns=columns, rows=tuple(rows))


def _log_layers(run: LogRun) -> InspectionTable | None:
    """The layers of a verbose build with the tactics that were tried and chosen."""
    if run.trace is None or not run.trace.layers:
        return None
    rows: list[tuple[Scalar, ...]] = []
    for each in run.trace.layers:
        times = (each.chosen, each.fastest[0] if each.fastest else None)
        chosen_s, fastest_s = (
            None if tactic is None or tactic.time_ms is None else tactic.time_ms / 1e3
            for tactic in times
        )
        chosen = (each.chosen.name or each.chosen.id) if each.chosen else None
        tried = each.tried + each.tried_within
        rows.append((each.name, each.runner, tried, each.spent_s, chosen, chosen_s, fastest_s))
    columns = ("layer", "runner", "tried", "spent_s", "chosen", "chosen_s", "fastest_s")
    return InspectionTable(columns=columns, rows=tuple(rows))


def _log_notes(run: LogRun) -> Iterator[str]:
    known: Counter[str] = Counter()
    for each in run.messages:
        weights = _WEIGHTS.match(each.text)
        if each.meaning and weights:
            yield f"{weights[1]} weights: {each.meaning}"
        elif each.meaning:
            known[each.meaning] += each.count
    for meaning, count in list(known.items())[:MOST_NOTES]:
        yield meaning + (f" ({count} times)" if count > 1 else "")
    if run.trace is not None:
        yield "every layer with its tactics: --layers; as a table: --csv"


_READERS: dict[str, Callable[[Path], Inspection]] = {
    "layers": _layers,
    "profile": _profile,
    "times": _times,
    "calibration": _calibration,
    "log": inspect_log,
}
