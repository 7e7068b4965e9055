"""Inspects files, and checks whether an engine would load on this machine."""

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import util
from pathlib import Path

from trtbench.analysis import inspection
from trtbench.analysis.onnx_graph import cost_from_model
from trtbench.core.errors import InputError, ParseError
from trtbench.core.results import Artefact
from trtbench.core.run import Gpu, Scalar
from trtbench.core.safety import read_bytes
from trtbench.core.samples import EngineGraph
from trtbench.core.spec import ShapeProfile, TensorSpec
from trtbench.core.units import text_from_bytes
from trtbench.host.machine import distribution_versions
from trtbench.host.nvml import gpu_in_use
from trtbench.host.tensorrt import OPSETS, TITLES
from trtbench.models import identity
from trtbench.models.onnx_model import parser_obstacle, read_onnx
from trtbench.models.onnx_outline import outline_of
from trtbench.models.torch_models import archive_kind, packages_named
from trtbench.trtexec.conditions import log_from_metadata, reported_from_log
from trtbench.trtexec.exports import calibration_from_text, graph_from_json
from trtbench.trtexec.log import read_log
from trtbench.trtexec.log_values import LogRun
from trtbench.trtexec.sniff import kind_of_stream
from trtbench.trtexec.version import PlanHeader, plan_from_file

_TENSOR = re.compile(r"(?P<name>.{1,500}?) (?P<dtype>[a-z]\w{0,30}) (?P<dims>[\dx?]*)(?:, |$)")
_LOG_FACTS = (
    "peak_cpu_bytes", "peak_gpu_bytes", "scratch_bytes", "timing_cache",
    "timing_cache_loaded_bytes", "timing_cache_saved_bytes",
)  # fmt: skip
_WEIGHTS = re.compile(r"- (\d{1,9}) weights are affected")

Shapes = Mapping[str, tuple[int, ...]]


def inspect(
    name: str | Path, *, shapes: Shapes | None = None, batch: int | None = None
) -> inspection.Inspection:
    """Return what a file contains, whatever its kind."""
    path = Path(name)
    if path.is_dir():
        message = f"{path} is a folder, not a file"
        raise InputError(message, fix="give an engine or a model; trtbench runs show shows a run")
    identity.model_ref(path, whole=False)  # raises an error if it is empty or cannot be read
    with open(path, "rb") as file:
        kind, _ = kind_of_stream(file, name=path.name)
    where = str(path)
    if kind == "onnx":
        return _onnx(path, shapes, batch)
    if kind == "plan":
        return inspect_engine(path)
    if kind == "log":
        with open(path, "rb") as stream:
            text = read_log(stream, where=where)
        return inspection_from_log(path, text.runs, lines=text.lines)
    if kind == "metadata":
        kept = identity.kept_value(path, dict)
        return inspection_from_log(path, [log_from_metadata(kept, where=where)] if kept else [])
    if kind == "layers":
        graph = graph_from_json(read_bytes(path), where=where)
        return inspection.inspection_from_graph(graph, path=where)
    if kind == "calibration":
        cache = calibration_from_text(read_bytes(path), where=where)
        bad = [each.name for each in cache.scales if not each.usable]
        rows = tuple((each.name, each.scale, each.dynamic_range) for each in cache.scales)
        return inspection.Inspection(
            kind="calibration cache",
            path=where,
            facts={
                "tensorrt": cache.version,
                "algorithm": cache.algorithm,
                "tensors": len(cache.scales),
            },
            layers=inspection.InspectionTable(
                columns=("tensor", "scale", "dynamic_range"), rows=rows
            ),
            notes=(f"{len(bad)} scales cannot be used: {', '.join(bad[:5])}",) if bad else (),
        )
    size = path.stat().st_size
    if identity.format_of(path) == "torch":  # without running code from the file
        archive = archive_kind(path)
        named = sorted(packages_named(path)) if archive == "pickle" else []
        return inspection.Inspection(
            kind=f"PyTorch {archive}",
            path=where,
            facts={"size_bytes": size, "names_code_of": ", ".join(named) or None},
            notes=("trtbench export converts it to ONNX, which can be inspected",),
        )
    if kind == "unknown":
        facts = {"known": "ONNX, engines, their layers, logs of trtexec, calibration caches"}
        fix = f"trtbench import --dry-run {shlex.quote(where)} recognizes more kinds"
        raise InputError(f"{path.name} is not a file that can be inspected", facts=facts, fix=fix)
    if kind == "timing-cache":
        return inspection.Inspection(kind="timing cache", path=where, facts={"size_bytes": size})
    note = f"trtbench import {shlex.quote(where)} imports it as a run, if it has measurements"
    if kind == "profile":
        note = f"trtbench profile {shlex.quote(where)} shows its layers"
    return inspection.Inspection(kind=kind, path=where, facts={"size_bytes": size}, notes=(note,))


def _onnx(path: Path, shapes: Shapes | None, batch: int | None) -> inspection.Inspection:
    missing = [n for n in identity.external_files(path) if not (path.parent / n).is_file()]
    notes = [f"it cannot be loaded: the weights in {n} are missing" for n in missing]
    if util.find_spec("onnx") is None:
        outline = outline_of(path)
        counted = Counter(node.operator for node in outline.nodes).most_common()
        return inspection.Inspection(
            kind="onnx",
            path=str(path),
            facts={"opset": outline.opset, "nodes": len(outline.nodes)},
            inputs=outline.inputs,
            summary=inspection.InspectionTable(columns=("operator", "count"), rows=tuple(counted)),
            notes=(*notes, "parameters and operations need onnx: pip install 'trtbench[onnx]'"),
        )
    model = read_onnx(path, shapes=shapes, batch=batch)
    found = inspection.inspection_from_onnx(model, cost_from_model(model), path=str(path))
    facts = dict(found.facts)
    if (opset := model.opset) is not None:  # the first TensorRT whose documentation lists the opset
        facts["parsed_by"] = f"no TensorRT documents opset {opset} (maximum {OPSETS[-1][1]})"
        if first := next((first for first, limit in OPSETS if opset <= limit), None):
            version = ".".join(map(str, first))
            facts["parsed_by"] = f"TensorRT {version} and later, by its documentation"
    if not missing and (reason := parser_obstacle(path, model)) is not None:
        facts["parsed_by"] = f"not by TensorRT as it is: {reason}"
    notes += found.notes
    sidecar = identity.read_sidecar(path)
    if sidecar is not None and sidecar.sha256 != identity.model_ref(path, whole=False).sha256:
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


def inspect_engine(path: Path) -> inspection.Inspection:
    """Return what the header of an engine and the files next to it say."""
    header = plan_from_file(path, where=str(path))
    size, notes = path.stat().st_size, []
    is_cut, weight_bytes = (header.plan_bytes or 0) > size, header.weight_bytes
    if is_cut:
        notes.append(f"it is truncated: it has {size} of {header.plan_bytes} bytes")
    elif weight_bytes is not None and weight_bytes > size:
        stated = text_from_bytes(weight_bytes)
        what = f"its header states {stated} of weights, which it does not contain"
        notes.append(f"{what}: stripped or damaged")
    artefact = identity.kept_value(Path(f"{path}.json"), Artefact)  # left by the build
    graph = None
    if artefact is None or artefact.sha256 == identity.sha256_of(path):
        graph = read_graph(path)
    else:
        artefact = None
        notes.append("the files next to it belong to another engine and were ignored")
    seen = [gpu for gpu in (gpu_in_use(),) if gpu is not None]
    installed = distribution_versions(header.flavour.replace("_", "-"))
    loads, reasons = would_load(header, artefact, installed=installed, gpus=seen)
    notes += reasons
    recorded = artefact.facts if artefact is not None else {}
    if graph is None:
        notes.append("there is no layer information next to it (ENGINE.graph.json)")
    elif recorded.get("layers_from") == "network":
        notes.append("the layers are those of the network: no GPU was available to read the engine")
    inputs, outputs = inspection.io_specs(graph) if graph is not None else ((), ())
    if "inputs" in recorded:
        inputs, outputs = (_tensors(str(recorded.get(n) or "")) for n in ("inputs", "outputs"))
    found = inspection.inspection_from_graph(graph, path=str(path)) if graph else None
    if (weight_bytes or 0) > size:
        weight_bytes = None
    return inspection.Inspection(
        kind="engine",
        path=str(path),
        facts={
            "flavour": TITLES[header.flavour],
            "version": header.version,
            "size_bytes": size,
            "weight_bytes": weight_bytes or recorded.get("weights_bytes"),
            "activation_bytes": recorded.get("activation_bytes"),
            "built_for": ", ".join(header.compute_capabilities) or None,
            **(_artefact_facts(artefact) if artefact is not None else {}),
            "layers": len(graph.layers) if graph else None,
            "parameters": inspection.parameter_count(graph) if graph else None,
            "loads_here": {True: "yes", False: "no", None: "unknown"}[False if is_cut else loads],
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
    """Return whether an engine would load here, and reasons why not; ``None`` if unknown."""
    name, reasons = TITLES[header.flavour], []
    version = next(iter(installed.values()), None)
    here, there = ((text or "").split("+")[0].split(".")[:3] for text in (version, header.version))
    compatible = artefact is not None and artefact.spec.version_compatible
    if version is None:
        reasons.append(f"{name} is not installed in this interpreter")
    elif header.version and not compatible and here != there:
        reasons.append(f"it was built by {name} {header.version}, but {version} is installed here")
    gpu = gpus[0] if gpus else None
    capability = gpu.compute_capability if gpu else None
    built = artefact.gpus[0] if artefact is not None and artefact.gpus else None
    if artefact is not None and artefact.spec.hardware_compatible:
        built = None
    if gpu is None:
        reasons.append("no GPU can be seen here")
    elif capability and capability not in (header.compute_capabilities or (capability,)):
        wanted = ", ".join(header.compute_capabilities)
        where = f"compute capability {wanted}"
        reasons.append(f"it was built for {where}, but {gpu.name} has {capability}")
    elif capability and built and built.compute_capability not in (None, capability):
        where = f"{built.name} ({built.compute_capability})"
        reasons.append(f"it was built on {where}, but this GPU is {gpu.name} ({capability})")
    if reasons:
        return False, tuple(reasons)
    known = artefact is not None or header.flavour == "tensorrt_rtx"
    return (True if known else None), ()


def read_graph(engine: Path) -> EngineGraph | None:
    """Read the layer information next to an engine, if any."""
    for name in (f"{engine.name}.graph.json", f"{engine.stem}.graph.json"):
        path = engine.with_name(name)
        if path.is_file():
            return graph_from_json(read_bytes(path), where=str(path))
    return None


def _artefact_facts(artefact: Artefact) -> dict[str, Scalar]:
    spec, conditions = artefact.spec, artefact.conditions
    known = {name: str(fact.value) for name, fact in conditions.items() if fact.value is not None}

    def span(profile: ShapeProfile) -> str:
        ends = (profile.min, profile.opt, profile.max)
        low, best, high = ("x".join(map(str, end)) for end in ends)
        return low if low == high else f"{low} to {high} (optimum {best})"

    wanted = [spec.shapes, *({**spec.shapes, **each} for each in spec.more_profiles)]
    profiles = [", ".join(f"{name} {span(x)}" for name, x in each.items()) for each in wanted]
    if len(profiles) > 1:
        profiles = [f"{number}: {text}" for number, text in enumerate(profiles)]
    return {
        "model": spec.model.path,
        "precision": known.get("precision") or spec.precision,
        "typing": known.get("typing"),
        "built_by": spec.runtime,
        "built_on": ", ".join(gpu.name for gpu in artefact.gpus) or artefact.host,
        "built": artefact.created,
        "build_s": artefact.build_s,
        "profiles": "; ".join(text for text in profiles if text) or None,
        "command": artefact.command,
    }


def _tensors(text: str) -> tuple[TensorSpec, ...]:
    """Parse tensors such as ``x float32 ?x3, go bool``."""
    return tuple(
        TensorSpec(
            name=match["name"],
            dtype=match["dtype"],
            shape=tuple(None if d == "?" else int(d) for d in match["dims"].split("x") if d),
        )
        for match in _TENSOR.finditer(text)
    )


def inspection_from_log(
    path: Path, runs: Sequence[LogRun], *, lines: int | None = None
) -> inspection.Inspection:
    """Describe a log of trtexec, or the metadata of one: its last run, and a line for others."""
    if not runs:
        raise ParseError(f"{path} looks like a log of trtexec, but contains no run")
    run = runs[-1]
    facts, trace = run.facts, run.trace
    built = run.summary is None and facts.build_s is not None
    printed = [each for each in runs if each.summary]
    summary, layers = None, None
    if printed:
        rows = tuple(_summary_row(number, each) for number, each in enumerate(printed, start=1))
        names = ("run", "line", "latency_s", "queries_per_s", "above it")
        summary = inspection.InspectionTable(columns=names, rows=rows)
    elif trace is not None and trace.phases_s:
        rows = tuple(trace.phases_s.items())
        summary = inspection.InspectionTable(columns=("phase", "seconds_s"), rows=rows)
    if trace is not None and trace.layers:  # with tactics tried and chosen
        columns = ("layer", "tactic", "time_s", "tried", "fastest_s", "runner", "spent_s")
        tried: list[tuple[Scalar, ...]] = []
        for each in trace.layers:
            times = (each.chosen, each.tactics[0] if each.tactics else None)
            name = (each.chosen.name or each.chosen.id) if each.chosen else None
            own, fastest = (t.time_ms and t.time_ms / 1e3 if t else None for t in times)
            tried.append((each.name, name, own, each.tried, fastest, each.runner, each.spent_s))
        tried.sort(key=lambda row: -float(row[2] or 0))
        layers = inspection.InspectionTable(columns=columns, rows=tuple(tried))
    section, known = run.section("Build Options"), Counter[str]()
    asked = section.entries if section and not run.option("Load engine") else ()
    weights = []
    for message in run.messages:
        affected = _WEIGHTS.match(message.text)
        if message.meaning and affected:
            weights.append(f"{affected[1]} weights: {message.meaning}")
        elif message.meaning:
            known[message.meaning] += message.count
    counts = list(known.items())[:12]
    meanings = [text + (f" ({n} times)" if n > 1 else "") for text, n in counts]
    return inspection.Inspection(
        kind=f"{'log' if lines else 'metadata'} of {'a build' if built else 'trtexec'}",
        path=str(path),
        facts={
            "runs": len(runs),
            "summaries": len(printed),
            "lines": lines,
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
            "tactics_skipped": (trace.tactics_skipped or None) if trace else None,
            "fusions": len(trace.fusions) if trace else None,
        },
        inputs=run.inputs,
        outputs=run.outputs,
        summary=summary,
        layers=layers,
        options=inspection.InspectionTable(columns=("build option", "value"), rows=asked),
        notes=(*weights, *meanings),
    )


def _summary_row(number: int, run: LogRun) -> tuple[Scalar, ...]:
    """Return the throughput and the median or mean latency that a run printed."""
    printed = reported_from_log(run)
    keys = (
        f"{column}_{statistic}_ms"
        for statistic in ("median", "mean")
        for column in ("latency", "gpu_compute_time", "host")
    )
    middle = next((printed[key] for key in keys if key in printed), None)
    seconds = middle / 1e3 if isinstance(middle, (int, float)) else None
    return number, run.line, seconds, printed.get("throughput_qps"), run.title
