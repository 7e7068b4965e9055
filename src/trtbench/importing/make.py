"""Makes runs from parts of files; missing facts stay unknown, and flags override files."""

import contextlib
import datetime
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from trtbench.analysis.findings import findings_from_run
from trtbench.analysis.summary import PRINTED, summary_from_run
from trtbench.core import run as core
from trtbench.core.errors import UsageError
from trtbench.core.samples import Column, EngineGraph, IterationTimes, times_from_columns
from trtbench.core.spec import Length, ModelRef, Precision, Protocol, RunSpec, TensorSpec, Warmup
from trtbench.core.units import counted, text_from_seconds
from trtbench.formats import toolkit as toolkits
from trtbench.importing.files import SHARED, Draft, data_of, plain, series_of, warmup_ms_of
from trtbench.layers.join import computing_types
from trtbench.measure.model_facts import check_precision_against_layers
from trtbench.models.identity import SUFFIXES, model_ref
from trtbench.report.run_facts import cache_summary
from trtbench.requests.fields import seconds
from trtbench.requests.stored import ImportRequest
from trtbench.store.directory import now
from trtbench.trtexec import conditions as log_conditions
from trtbench.trtexec.exports import graph_from_json
from trtbench.trtexec.log import time_of_log
from trtbench.trtexec.log_values import DTYPES, LogRun, LogSection
from trtbench.trtexec.times import TimesArray, times_from_arrays, without_warmup
from trtbench.trtexec.version import number

_VERSION = re.compile(r"\d{1,2}(?:\.\d{1,4}){0,3}")
_QUANTITY = re.compile(r"([\d.]+)\s*(GHz|MHz|kHz|Hz|GiB|MiB|KiB|bits)?", re.IGNORECASE)
_SCALE = {"ghz": 1e9, "mhz": 1e6, "khz": 1e3, "hz": 1.0, "gib": 2.0**30, "mib": 2.0**20}

NOTHING = LogRun(where="", line=1, outcome="passed")

_SUMMARIES = ("summary", "report")
_MODEL_FLAGS = ("--loadEngine", "--onnx", "--deploy", "--model", "--uff", "--saveEngine")
_MODEL_OPTIONS = ("Load engine", "Model", "Prototxt", "Uff", "loadEngine", "onnx", "deploy", "uff")
_PRECISIONS: tuple[Precision, ...] = ("fp8", "int8", "bf16", "fp16", "fp32")
"""The lowest precision that was allowed names the run, as with flags."""
_DECIDING = (
    "--sleepTime", "--threads", "--useManagedMemory", "--useDLACore", "--loadInputs",
    "--useRuntime", "--weightStreamingBudget", "--allocationStrategy", "--persistentCacheRatio",
)  # fmt: skip
"""Arguments that change what is timed and are not recorded as a condition."""
_OF_TORCH: dict[str, core.Scalar] = {
    "transfers": True, "cuda_graph": False, "cuda_graph_fell_back": False, "spin_wait": True,
    "streams": 1, "protocol": "serve", "typing": "strong",
}  # fmt: skip
"""The fixed conditions of the evaluation toolkit's PyTorch benchmark."""


@dataclass(frozen=True, kw_only=True)
class Stated:
    """Facts from the command line, which override those of the files."""

    request: ImportRequest
    engine: ModelRef | None = None
    warmup_s: float | None = None
    date: datetime.datetime | None = None

    def notes(self) -> Iterator[str]:
        """Yield a note on the facts that were given."""
        given = self.request
        pairs = {"GPU": given.gpu, "TensorRT": given.tensorrt, "precision": given.precision}
        stated = [f"{name} {value}" for name, value in pairs.items() if value]
        if self.date is not None:
            stated.append(f"measured {self.date.isoformat(timespec='seconds')}")
        if stated:
            yield f"given on import: {', '.join(stated)}"

    def warnings(self, draft: Draft, log: LogRun) -> Iterator[str]:
        """Yield a warning for every fact that the files contradict."""
        device, version, batch = gpu_from_log(log), log.version, recorded_batch(draft)
        given = self.request
        if given.gpu and device is not None and device.name != given.gpu:
            yield f"the recorded GPU is {device.name}; --gpu {given.gpu} is used instead"
        # As far as both are given: 8.5 and 8.5.2 do not contradict.
        pairs = zip((version or "").split("."), (given.tensorrt or "").split("."), strict=False)
        if given.tensorrt and version and any(one != other for one, other in pairs):
            instead = f"--tensorrt {given.tensorrt} is used instead"
            yield f"the recorded version is TensorRT {version}; {instead}"
        if given.batch is not None and batch is not None and batch != given.batch:
            yield f"the recorded batch is {batch}; --batch {given.batch} is used instead"


def stated_from_request(request: ImportRequest) -> Stated:
    """Read the facts of a request; a date without a time zone is in local time."""
    version, date = request.tensorrt, None
    if version is not None and not _VERSION.fullmatch(version):
        fix = "write it like 8.5 or 10.3.0"
        raise UsageError(f"{version!r} is not a version of TensorRT", fix=fix)
    try:
        if request.date is not None:
            date = datetime.datetime.fromisoformat(request.date.replace("Z", "+00:00"))
            date = date if date.tzinfo else date.astimezone()
    except (ValueError, OverflowError):
        fix = "write it like 2024-05-17 or 2024-05-17T08:30"
        raise UsageError(f"{request.date!r} is not a date", fix=fix) from None
    return Stated(
        request=request,
        engine=model_ref(Path(request.engine)) if request.engine is not None else None,
        warmup_s=seconds(request.warmup) if request.warmup is not None else None,
        date=date,
    )


def log_of(draft: Draft) -> LogRun:
    """Return the combined facts of log, metadata and configuration; the log has priority."""
    slots = ("log", "failed_log", "profile_metadata", *(("build_log",) if draft.built else ()))
    found: list[LogRun] = [draft.parts[slot].value for slot in slots if slot in draft.parts]
    if part := draft.parts.get("build_metadata"):
        found.append(log_conditions.log_from_metadata(part.value, where=part.file.shown))
    if part := draft.parts.get("run_config"):
        config: toolkits.RunConfig = part.value
        options = {
            "CUDA Graph": {None: None, True: "Enabled", False: "Disabled"}[config.use_cuda_graph],
            "Duration": None if config.warmup is None else f"(+ {config.warmup:g}ms warm up)",
            "Iterations": None if config.iterations is None else f"{config.iterations:g}",
            "Averages": None if config.avg_runs is None else f"{config.avg_runs:g} inferences",
        }
        entries = tuple((label, value) for label, value in options.items() if value is not None)
        section = LogSection(name="Inference Options", entries=entries)
        stated = NOTHING.having(where=part.file.shown, command=config.command or None)
        found.append(stated.having(tool="run_config", sections=(section,)))
    base = found[0] if found else NOTHING
    for other in found[1:]:
        names = {section.name for section in base.sections}
        extra = tuple(each for each in other.sections if each.name not in names)
        base = base.having(
            version=base.version or other.version,
            command=base.command or other.command,
            tool=base.tool if base.command else other.tool,
            sections=(*base.sections, *extra),
            summary=base.summary or other.summary,
        )
    return base


def run_from_draft(
    draft: Draft, stated: Stated, *, run_id: str, log: LogRun | None = None
) -> core.Run:
    """Return the run of a draft; ``log`` is the result of :func:`log_of`, if known."""
    log = log or log_of(draft)
    times, array = _times(draft, log, warmup_s=stated.warmup_s)
    layers = draft.log.profile if draft.log is not None else None
    if part := draft.parts.get("profile"):
        layers = part.value
    elif layers is None and (part := draft.parts.get("layer_csv")):
        layers = toolkits.layers_from_csv(data_of(part.file).decode("utf-8", "replace"))
    part = draft.parts.get("graph")
    graph = graph_from_json(data_of(part.file), where=part.file.shown) if part else None
    if graph is not None and not (log.inputs or log.outputs):
        inputs, outputs = (_edge_tensors(graph, outputs=side) for side in (False, True))
        log = log.having(inputs=inputs, outputs=outputs)
    conditions = _conditions(draft, log, times, stated)
    if conditions["precision"].value is None:  # read off the layers
        types = {*log.layer_types} or computing_types(graph)
        names = [name for name in reversed(core.LOWEST_FIRST) if name in types]
        if names:
            conditions["precision"] = core.Fact(value="+".join(names), source="implied")
    reported = numbers_of(draft)
    notes = (*draft.notes, *_notes(draft, array, log), *stated.notes())
    created, known_by = _created(draft, log, stated)
    sources = (plain(part.file.place.absolute()) for part in draft.parts.values())
    facts, summary = log.facts, log.summary
    launch = core.LaunchFacts(
        load_s=facts.load_s if facts.load_s is not None else facts.deserialize_s,
        warmup_iterations=(array.warmup_rows or None) if array else None,
        # With the times at hand the wall time is of exactly these rows.
        wall_s=summary.wall_s if summary and array is not None else None,
    )
    known = _facts(draft, log, array, conditions, reported) | {"created_from": known_by}
    record = core.RunRecord(
        id=run_id,
        created=created,
        spec=_spec(draft, log, conditions, stated),
        environment=_environment(draft, log, stated),
        tags=tuple(stated.request.tags),
        provenance="imported",
        inputs=log.inputs,
        outputs=log.outputs,
        launches=(launch,) if len(times) else (),
        conditions=conditions,
        reported=reported,
        sources=tuple(dict.fromkeys(sources)),
        notes=tuple(dict.fromkeys(notes)),
        facts=known | log_conditions.warnings_from_log(log),
    )
    record = check_precision_against_layers(record, graph)
    run = core.Run(record=record, times=times, layers=layers, graph=graph)
    ours = summary_from_run(run)
    findings = findings_from_run(run, summary=None if ours.reported else ours)
    if draft.built:  # what is said of times does not apply
        findings = tuple(each for each in findings if each.code == "H47")
    compared = draft.value("output_diff")
    extra = {} if compared is None else {"output_comparison": compared}
    run = replace(run, record=record.having(findings=findings), extra=extra)
    cache_summary(run, ours)
    return run


def failure_from_draft(draft: Draft, stated: Stated, *, run_id: str, log: LogRun) -> core.FailedRun:
    """Make the record of a run that trtexec did not finish."""
    conditions = _conditions(draft, log, IterationTimes(), stated)
    stage = "start" if not log.sections else "load" if "--loadEngine" in log.flags else "build"
    error = log_conditions.cause_of_failure(log)
    if error is not None:
        reason = f"{error.text} ({error.meaning})" if error.meaning else error.text
    elif log.outcome in ("crashed", "cut"):
        reason = "the log has no end: it was cut off, or trtexec was stopped"
    else:
        reason = "trtexec ended with FAILED without an error message"
    return core.FailedRun(
        id=run_id,
        created=_created(draft, log, stated)[0],
        spec=_spec(draft, log, conditions, stated),
        environment=_environment(draft, log, stated),
        tags=tuple(stated.request.tags),
        stage="measure" if log.inputs or log.outputs or log.average_lines else stage,
        reason=reason,
        log_tail=log.last_lines,
    )


def _created(draft: Draft, log: LogRun, stated: Stated) -> tuple[str, str]:
    """Return when a run was made, and the source; printed times count as local time."""
    config: toolkits.RunConfig | None = draft.value("run_config")
    when, known_by = stated.date, "stated"
    if when is None:
        with contextlib.suppress(ValueError):
            text = ((config.timestamp_iso if config else None) or "").replace("Z", "+00:00")
            when, known_by = datetime.datetime.fromisoformat(text).astimezone(), "run_config"
    if when is None and (printed := time_of_log(log)) is not None:
        when, known_by = printed.astimezone(), "log"
    if when is None:
        with contextlib.suppress(OSError, ValueError, OverflowError):
            measured = [p.file.path for slot, p in draft.parts.items() if slot not in SHARED]
            modified = max(path.stat().st_mtime for path in measured)
            when, known_by = datetime.datetime.fromtimestamp(modified).astimezone(), "file"
    if when is None:
        return now(), "import"
    return when.isoformat(timespec="milliseconds"), known_by


def _times(
    draft: Draft, log: LogRun, *, warmup_s: float | None
) -> tuple[IterationTimes, TimesArray | None]:
    """Return the exported times without warm-up, else the series of the evaluation toolkit."""
    part = draft.parts.get("times")
    if part is not None:
        warmup_ms = warmup_s * 1e3 if warmup_s is not None else warmup_ms_of(log)
        array = without_warmup(part.times().columns, warmup_ms, stated=warmup_s is not None)
        return times_from_arrays([array]), array
    columns: dict[str, Column] = {}
    for theirs, ours in {"latency": "latency", **toolkits.BLOCKS}.items():
        if part := draft.parts.get(f"{theirs}_series"):
            columns[ours] = series_of(part.file)[1]
    length = len(next(iter(columns.values()), ()))  # a series of another length is another run's
    return times_from_columns({k: v for k, v in columns.items() if len(v) == length}), None


def _edge_tensors(graph: EngineGraph, *, outputs: bool) -> tuple[TensorSpec, ...]:
    made = {tensor.name for layer in graph.layers for tensor in layer.outputs}
    found: dict[str, TensorSpec] = {}
    for layer in graph.layers:
        for tensor in layer.outputs if outputs else layer.inputs:
            at_edge = tensor.name in graph.io_tensors and outputs == (tensor.name in made)
            if at_edge and tensor.dimensions and min(tensor.dimensions) > 0:
                dtype = DTYPES.get(tensor.dtype or "", tensor.dtype or core.UNKNOWN)
                spec = TensorSpec(name=tensor.name, dtype=dtype, shape=tensor.dimensions)
                found.setdefault(tensor.name, spec)
    return tuple(found.values())


def _conditions(
    draft: Draft, log: LogRun, times: IterationTimes, stated: Stated
) -> dict[str, core.Fact]:
    conditions = log_conditions.conditions_from_log(log)
    transfers = conditions["transfers"]
    if transfers.source != "stated" and len(times) and times.stamps:
        # Copies of exactly zero duration did not happen.
        moved = times.h2d is not None or times.d2h is not None
        transfers = core.Fact(value=moved, source="implied")
    metrics = log.summary.metrics if log.summary is not None else {}
    copies = [metrics.get(name, {}).get("max") for name in ("H2D Latency", "D2H Latency")]
    if transfers.source == "unknown" and None not in copies:
        transfers = core.Fact(value=any(copies), source="implied")
    conditions["transfers"] = transfers
    if conditions["protocol"].value is None and transfers.value is not None:
        graph = conditions["cuda_graph"]
        conditions["protocol"] = log_conditions.protocol_from_log(log, transfers, graph)
    if "build_log" in draft.parts:
        built = log_conditions.conditions_from_log(draft.parts["build_log"].value)
        of_build = ("typing", "tf32", "precision")  # the log of a loaded engine does not say them
        conditions |= {k: built[k] for k in of_build if conditions[k].source == "unknown"}
    if "torch" in draft.parts:
        torch: toolkits.TorchBenchmark = draft.value("torch")
        conditions |= {k: core.Fact(value=v, source="implied") for k, v in _OF_TORCH.items()}
        recorded: dict[str, core.Scalar] = {"tf32": torch.tf32, "precision": torch.dtype or None}
        for name, value in recorded.items():
            conditions[name] = log_conditions.UNKNOWN if value is None else core.Fact(value=value)
    # A log prints 1 for every explicit batch, so 1 is only used if nothing else is known.
    batch = stated.request.batch
    if batch is None and conditions["batch"] in (log_conditions.UNKNOWN, core.Fact(value=1)):
        batch = recorded_batch(draft)
    if batch is not None:
        conditions["batch"] = core.Fact(value=batch)
    if stated.request.precision is not None:
        conditions["precision"] = core.Fact(value=stated.request.precision.lower())
    return conditions


def recorded_batch(draft: Draft) -> int | None:
    """Return the batch that the trtexec evaluation toolkit recorded in any of its files."""
    slots = ("run_config", *_SUMMARIES, "torch")
    batches = (draft.parts[slot].value.batch for slot in slots if slot in draft.parts)
    return next((batch for batch in batches if batch is not None and batch >= 1), None)


def _environment(draft: Draft, log: LogRun, stated: Stated) -> core.Environment:
    """Return what the files say about the machine; trtexec prints neither host nor system."""
    gpu, plan = gpu_from_log(log), draft.value("plan")
    listed = draft.value("device") if gpu is None else None
    for device in listed or ():  # as CUDA lists them
        clock = number(device.get("CLOCK_RATE"))
        gpu = core.Gpu(
            name=str(device.get("Name")),
            compute_capability=_dotted(device.get("ComputeCapability")),
            memory_bytes=_integer(device.get("TotalMemory")),
            sm_clock_max_hz=clock * 1e3 if clock else None,
            sm_count=_integer(device.get("MULTIPROCESSOR_COUNT")),
            l2_bytes=_integer(device.get("L2_CACHE_SIZE")),
            cuda=_dotted(device.get("CUDA_VERSION")),
        )
    if stated.request.gpu is not None and (gpu is None or gpu.name != stated.request.gpu):
        gpu = core.Gpu(name=stated.request.gpu)
    version = log.version if log.version is not None or plan is None else plan.version
    return core.Environment(
        host=core.UNKNOWN,
        os=core.UNKNOWN,
        gpus=(gpu,) if gpu else (),
        versions={} if version is None else {"tensorrt": version},
        command=log.command,
    )


def _dotted(value: object) -> str | None:
    return ".".join(map(str, value)) if isinstance(value, list) else None


def gpu_from_log(run: LogRun) -> core.Gpu | None:
    """Read the selected device; its clocks are the maximum, not the actual ones."""
    section = run.section("Device Information")
    name = section.get("Selected Device") if section else None
    if section is None or not name:
        return core.Gpu(name=run.device) if run.device else None
    memory = _quantity(section.get("Device Global Memory"))
    bus = section.get("Memory Bus Width") or ""
    return core.Gpu(
        name=name,
        uuid=section.get("Selected Device UUID"),
        compute_capability=section.get("Compute Capability"),
        sm_count=_integer(section.get("SMs") or None),
        memory_bytes=int(memory) if memory is not None else None,
        sm_clock_max_hz=_quantity(section.get("Compute Clock Rate")),
        sm_clock_default_hz=_quantity(section.get("Application Compute Clock Rate")),
        ecc={"enabled": True, "disabled": False}.get(bus.partition("ECC ")[2].strip(") ")),
    )


def _quantity(text: str | None) -> float | None:
    """Read ``1.77 GHz`` or ``24217 MiB``; a clock without a unit is in GHz."""
    match = _QUANTITY.match(text or "")
    if match is None or (value := number(match[1])) is None:
        return None
    return value * _SCALE.get((match[2] or "GHz").lower(), 1.0)


def _integer(value: object) -> int | None:
    found = number(value)
    return int(found) if found is not None and abs(found) < 1e15 else None


def numbers_of(draft: Draft) -> dict[str, core.Scalar]:
    """Return the printed numbers: ``latency_median_ms``, ``throughput_qps`` and so on."""
    log = draft.log
    if log is not None and log.summary is not None:
        queries = {} if log.queries is None else {"queries": log.queries}
        return log_conditions.reported_from_log(log) | queries
    numbers: dict[str, core.Scalar] = {}
    torch: toolkits.TorchBenchmark | None = draft.value("torch")
    toolkit: toolkits.ToolkitSummary | None = draft.value("summary") or draft.value("report")
    if torch is not None:
        numbers["throughput_qps"] = torch.throughput_qps
        numbers["total_host_walltime_s"] = torch.total_host_walltime_s
        for theirs, statistics in torch.metrics.items():
            for name, value in statistics.items():
                numbers[f"{PRINTED.get(theirs, theirs)}_{name.removesuffix('_ms')}_ms"] = value
    elif toolkit is not None:
        for theirs, column in {"latency": "latency", **toolkits.BLOCKS}.items():
            block: toolkits.StatisticsBlock | None = getattr(toolkit, theirs)
            ours = PRINTED.get(column, column)
            if block is not None:
                for name in ("min", "max", "mean", "median"):
                    numbers[f"{ours}_{name}_ms"] = getattr(block, f"{name}_ms")
                for name, value in block.percentiles_ms.items():
                    numbers[f"{ours}_{name.replace('_', '.')}_ms"] = value
    return {name: value for name, value in numbers.items() if value is not None}


def _spec(
    draft: Draft, log: LogRun, conditions: Mapping[str, core.Fact], stated: Stated
) -> RunSpec:
    """Return the spec of a run; unknown fields have no value or the simplest one."""
    warmup_ms = warmup_ms_of(log)
    floor = warmup_ms / 1e3 if stated.warmup_s is None and warmup_ms else stated.warmup_s
    duration = re.match(r"\s*([\d.]+)\s*s\b", log.option("Duration") or "")
    protocol = conditions["protocol"].value
    separate = log.option("Separate profiling")
    asked = log.command is None or "--separateProfileRun" in log.flags
    allowed = conditions["precision"].value
    words = re.split(r"[+,\s]+", str(allowed).lower()) if allowed else []
    options = {}
    if (averages := (log.option("Averages") or "").split(" ")[0]).isdecimal():
        options["avg_runs"] = averages
    config: toolkits.RunConfig | None = draft.value("run_config")
    binary = config.trtexec_binary if config else None
    if binary := binary or (log.arguments[0] if log.arguments else None):
        options["binary"] = str(binary)
    return RunSpec(
        model=stated.engine or _model(draft, log),
        runtime="torch" if "torch" in draft.parts else "trtexec",
        shapes=log_conditions.shapes_from_command(log),
        batch=_integer(conditions["batch"].value),
        warmup=Warmup(floor=Length(seconds=floor), until_steady=False),
        stop=Length(
            seconds=number(duration[1]) if duration else None,
            iterations=_integer(log.option("Iterations")),
        ),
        # trtexec keeps two queries in flight unless something says otherwise.
        protocol=cast(Protocol, protocol) if protocol in ("serve", "gpu") else "pipeline",
        streams=_integer(conditions["streams"].value) or 1,
        cuda_graph="on" if conditions["cuda_graph"].value is True else "off",
        transfers=conditions["transfers"].value is not False,
        spin_wait=conditions["spin_wait"].value is True,
        profile="profile" in draft.parts or (log.option("Profile") or "").startswith("Enabled"),
        separate_profile_run=asked if separate is None else separate.startswith("Enabled"),
        precision=next((name for name in _PRECISIONS if name in words), None),
        options=options,
        extra_args=tuple(word for word in log.arguments if word.startswith(_DECIDING)),
    )


def _model(draft: Draft, log: LogRun) -> ModelRef:
    """Return the engine that was run, else its source model; the file may be missing."""
    for slot in ("plan", "onnx"):
        if part := draft.parts.get(slot):
            return model_ref(part.file.path)
    engine: toolkits.EngineMetadata | None = draft.value("engine_metadata")
    if engine is not None:
        path = engine.path or engine.filename or "unknown"
    elif "torch" in draft.parts:
        path = str(draft.value("torch").model_path or "unknown")
    else:
        words = [log.flags.get(flag) for flag in _MODEL_FLAGS]
        words = [None if word and "$" in word else word for word in words]  # a shell's variable
        words += [log.option(label) for label in _MODEL_OPTIONS]
        for slot in _SUMMARIES:
            of = draft.parts[slot].value.engine if slot in draft.parts else None
            words.append(of.path or of.filename if of else None)
        name = draft.key or plain(draft.folder.absolute().name) or "unknown"
        part = draft.parts.get("log") or draft.parts.get("failed_log")
        if log.title is not None and part is not None and part.of > 1:
            name = f"{name}: {log.title.replace('/', '-')}"  # texts are seldom of one network
        path = next((word for word in words if word), name)
    ending = "." + path.rsplit(".", 1)[-1].lower() if "." in path else ""
    model = ModelRef(path=path, format=SUFFIXES.get(ending, "unknown"))
    if engine is None:
        return model.having(format="torch") if "torch" in draft.parts else model
    known = {"size_bytes": engine.size_bytes, "modified": engine.modified_iso}
    return model.having(sha256=engine.sha256, **known)


def _facts(
    draft: Draft,
    log: LogRun,
    array: TimesArray | None,
    conditions: dict[str, core.Fact],
    reported: dict[str, core.Scalar],
) -> dict[str, core.Scalar]:
    config: toolkits.RunConfig | None = draft.value("run_config")
    engines = [log.flags.get(flag) for flag in ("--loadEngine", "--saveEngine")]
    engines += [log.option(label) for label in ("Load engine", "Save engine")]
    built = draft.parts["build_log"].value.facts if "build_log" in draft.parts else log.facts
    facts: dict[str, core.Scalar | None] = {
        "executes_engine": "torch" not in draft.parts,
        "measured_at": (config.timestamp_iso if config else None) or None,
        "outcome": None if log.outcome in ("passed", "waived", "cut") else log.outcome,
        "built_only": draft.built or None,
        "engine_path": next((word for word in engines if word and "$" not in word), None),
        "build_s": built.build_s,
        "enqueue_resolution_s": array.enqueue_resolution_s if array is not None else None,
    }
    rate, batch = reported.get("throughput_qps"), conditions["batch"].value
    if isinstance(rate, (int, float)) and batch is not None:
        implicit = log.option("Batch") or log.flags.get("--batch")  # trtexec has multiplied by it
        counts = implicit == str(log_conditions.batch_from_log(log).value)
        facts["items_per_s"] = float(rate) * (1.0 if counts else float(batch))
    return {name: value for name, value in facts.items() if value is not None}


def _notes(draft: Draft, array: TimesArray | None, log: LogRun) -> Iterator[str]:
    if array is not None:
        if array.warmup_rows:
            rows = counted(array.warmup_rows, "row")
            yield f"left out as warm-up: {rows} of the first {array.warmup_ms:g} ms"
        if array.without_unit:
            yield "the times have no unit; they are taken for milliseconds"
        if array.enqueue_resolution_s is not None:
            step = text_from_seconds(array.enqueue_resolution_s, digits=2)
            yield f"enqueue times are differences of stamps in steps of {step}"
    if "times" not in draft.parts and any(slot.endswith("_series") for slot in draft.parts):
        yield "samples as the evaluation toolkit kept them; it takes means below 0.1 ms for seconds"
    if "layer_csv" in draft.parts and "profile" not in draft.parts:
        yield "layer times as the evaluation toolkit kept them; without a count they may be totals"
    if draft.built:
        yield "an engine was built; nothing was measured"
    if log.title:
        yield f"heading above the log: {log.title}"
    if log.device and gpu_from_log(log) == core.Gpu(name=log.device):
        yield f"the text above the numbers names the device: {log.device}"
    if log.pasted_command:
        yield "the command is from the text above or below the numbers, not printed by trtexec"
    if log.outcome == "cut":
        yield "an excerpt: the log has no end marker"
    elif log.outcome not in ("passed", "waived"):
        yield f"trtexec ended: {log.outcome}"
    summary = log.summary
    if summary is not None and summary.derived:
        groups = len(log.average_lines)
        lines = counted(groups, "line")
        yield f"trtexec printed {lines} of averages and no summary: means are over those"
        if groups > 1 and len(summary.metrics["GPU Compute Time"]) > 1:
            yield "the percentile is the largest of those lines"
