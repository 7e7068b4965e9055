"""Conditions, warnings and metadata from a log; each is printed, implied or unknown."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from trtbench.core.errors import ProgramError
from trtbench.core.properties import SETTING_FLAGS
from trtbench.core.run import Fact, Scalar, batch_that_ran
from trtbench.trtexec import log_values
from trtbench.trtexec.log import read_log
from trtbench.trtexec.log_values import LogMessage, LogRun, LogSection
from trtbench.trtexec.version import number

UNKNOWN = Fact(value=None, source="unknown")

_SWITCHES = {
    "transfers": ("Data transfers", "--includeDataTransfers", "--noDataTransfers"),
    "cuda_graph": ("CUDA Graph", "--useCudaGraph", "--noCudaGraph"),
    "spin_wait": ("Spin-wait", "--useSpinWait", "--noSpinWait"),
}
"""The label in the printed options, and the flags that turn it on and off."""
_PRECISIONS = {
    "bf16": ("--bf16",),
    "fp16": ("--fp16", "--half2", "--best"),
    "int8": ("--int8", "--best"),
    "fp8": ("--fp8",),
}
_SHAPE = re.compile(r"([^=]+)[=:](\d+(?:x\d+)*)")


def conditions_from_log(run: LogRun) -> dict[str, Fact]:
    """Return the settings a run's numbers depend on; keys as in ``RunRecord.conditions``."""
    major = run.major
    transfers, graph, spin_wait = (_switch(run, name) for name in _SWITCHES)
    fell_back = run.message("graph-capture-failed") is not None
    captured = None if graph.value is None or run.pasted_command else False  # it would have said so
    gap = _number(run, ("Idle time", "Idle"), SETTING_FLAGS["gap_s"])
    streams = _number(run, ("Inference Streams", "Streams"), SETTING_FLAGS["streams"])
    profile = _number(run, ("Optimization Profile Index",), SETTING_FLAGS["profile_index"])
    # For a loaded engine, build options mean nothing.
    loads = bool(run.option("Load engine")) or _has_flag(run, "--loadEngine")
    printed = run.option("Precision")
    typing = tf32 = UNKNOWN
    if "strongly" in (printed or "").lower() or _has_flag(run, "--stronglyTyped"):
        typing = Fact(value="strong")
    elif major is not None and major >= 11:
        typing = _implied("strong")
    elif major is not None and not loads:
        typing = Fact(value="weak") if run.message("weak-typing") else _implied("weak")
    if _has_flag(run, "--noTF32"):
        tf32 = Fact(value=False)
    elif major is not None and major < 7:
        tf32 = _implied(False)
    elif major is not None and not loads:
        tf32 = Fact(value=True) if run.tf32_stated else _implied(True)
    precision = UNKNOWN
    older = run.summary is None or run.summary.generation is not None
    legacy = run.section("Options") if older else None  # of TensorRT 5 and 6
    if printed is not None and not loads:
        precision = Fact(value=printed.lower())
    elif legacy is not None and not (legacy.get("loadEngine") or legacy.get("engine")):
        echoed = {f"--{label}" for label, _ in legacy.entries}
        allowed = [name for name, flags in _PRECISIONS.items() if echoed.intersection(flags)]
        precision = Fact(value="+".join(["fp32", *allowed]))
    elif not loads and (allowed := [n for n, f in _PRECISIONS.items() if _has_flag(run, *f)]):
        precision = Fact(value="+".join(["fp32", *allowed]))
    return {
        "transfers": transfers,
        "cuda_graph": Fact(value=False) if fell_back else graph,
        "cuda_graph_fell_back": Fact(value=True) if fell_back else _implied(captured),
        "spin_wait": spin_wait,
        "streams": Fact(value=streams) if streams is not None else _implied(1 if major else None),
        "gap_s": Fact(value=gap / 1e3) if gap is not None else _implied(0.0 if major else None),
        **({} if profile is None else {"profile_index": Fact(value=profile)}),
        "protocol": protocol_from_log(run, transfers, graph) if major is not None else UNKNOWN,
        "typing": typing,
        "tf32": tf32,
        "batch": batch_from_log(run),
        "precision": precision,
    }


def _implied(value: Scalar) -> Fact:
    return UNKNOWN if value is None else Fact(value=value, source="implied")


def _has_flag(run: LogRun, *flags: str) -> bool:
    return not run.flags.keys().isdisjoint(flags)


def _switch(run: LogRun, name: str) -> Fact:
    """Return a switch as printed in the options, else as on the command line, else the default.

    TensorRT 11 inverted the defaults: no transfers, CUDA graph and spin-wait on. TensorRT 6
    times enqueue and wait only, not copies.
    """
    label, on, off = _SWITCHES[name]
    printed = (run.option(label) or "").split(" ")[0].lower()
    if printed in ("enabled", "disabled"):
        return Fact(value=printed == "enabled")
    from_11 = run.major is not None and run.major >= 11
    for flag, value in ((on, True), (off, False)):
        # TensorRT 11 accepts the flags of older versions and ignores them.
        ignored = from_11 and flag.startswith(("--use", "--noData"))
        if _has_flag(run, flag) and not ignored:
            return Fact(value=value)
    if run.major is None:
        return UNKNOWN
    return _implied(not from_11 and run.major > 6 if name == "transfers" else from_11)


def _number(run: LogRun, labels: Sequence[str], flags: Sequence[str]) -> int | None:
    """Return an integer from the printed options, else from the command line."""
    printed = [(run.option(label) or "").removesuffix("ms") for label in labels]
    given = (run.flags.get(flag, "") for flag in flags)
    for text in (*printed, *given):
        if text.isascii() and text.isdecimal() and len(text) < 10:
            return int(text)
    return None


def protocol_from_log(run: LogRun, transfers: Fact, graph: Fact) -> Fact:
    """Return the protocol, which trtexec never prints.

    TensorRT 5 and 6 wait for every query; later versions enqueue the next query before they
    wait for the last one, unless ``--exposeDMA`` is set. Without transfers and with a CUDA
    graph the protocol is ``gpu``.
    """
    if transfers.value is None:
        return UNKNOWN
    early = run.major is not None and run.major <= 6
    exposed = (run.option("ExposeDMA") or "").startswith("Enabled")
    if early or exposed or _has_flag(run, "--exposeDMA"):
        return _implied("serve")
    return _implied("pipeline" if transfers.value or graph.value is False else "gpu")


def batch_from_log(run: LogRun) -> Fact:
    """Return the items per query: the printed implicit batch, else from the input shapes."""
    stated = _number(run, ("Batch", "batch"), ())
    if stated is not None and stated > 1:
        return Fact(value=stated)
    inputs, outputs = ([each.shape for each in side] for side in (run.inputs, run.outputs))
    size = batch_that_ran(inputs, asked=None, outputs=outputs)
    if size is not None:
        return _implied(size)
    if stated is not None and run.option("Max batch") != "explicit batch":
        return Fact(value=stated)
    # The command alone: an implicit batch, else the shapes, of which ONNX has the batch first.
    given = _number(run, (), ("--batch",))
    shapes = shapes_from_command(run)
    first = {shape[0] for shape in shapes.values()} if given is None else {given}
    return _implied(first.pop() if len(first) == 1 else None)


def shapes_from_command(run: LogRun) -> dict[str, tuple[int, ...]]:
    """Return the shapes that a command asks for; without ``--shapes``, the optimum ones."""
    given = run.flags.get("--shapes") or run.flags.get("--optShapes") or ""
    parts = given.rstrip(",").split(",")  # one without a name: `x:16,3,8,8` is no shape of x
    found = map(_SHAPE.fullmatch, parts if all(re.search("[=:]", x) for x in parts) else ())
    return {match[1]: tuple(map(int, match[2].split("x"))) for match in found if match}


WARNED = "trtexec_warned."

AFFECTING_NUMBERS = frozenset((
    "aux-streams", "clocks-not-locked", "d2h-bound", "device-mismatch", "enqueue-bound",
    "graph-capture-failed", "h2d-bound", "library-mismatch", "no-calibrator", "shape-assumed",
    "streams-overlap", "throttled", "unstable", "weak-typing", "weights-converted",
))  # fmt: skip
"""Warnings that change what a number means."""


def reported_from_log(run: LogRun) -> dict[str, Scalar]:
    """Return the performance summary as printed: rates, totals, and statistics in ms."""
    summary = run.summary
    if summary is None:
        return {}
    found: dict[str, Scalar] = {
        "throughput_qps": summary.throughput_qps,
        "total_host_walltime_s": summary.wall_s,
        "total_gpu_compute_time_s": summary.gpu_total_s,
    }
    for label, metric in summary.metrics.items():
        name = label.lower().replace(" ", "_").replace("-", "_")
        for statistic, value in metric.items():
            short = f"p{statistic.rstrip('%')}" if statistic.endswith("%") else statistic
            found[f"{name}_{short}_ms"] = value
    return {name: value for name, value in found.items() if value is not None}


def warnings_from_log(run: LogRun) -> dict[str, Scalar]:
    """Return the warnings that affect the numbers, with their meaning, as facts of a record."""
    found: dict[str, Scalar] = {}
    for message in run.messages:
        if message.code in AFFECTING_NUMBERS and message.meaning is not None:
            text = f"{message.meaning}; trtexec: {message.text.lstrip('* ').rstrip('.')}"
            found.setdefault(f"{WARNED}{message.code}", text)
    return found


LAST_LINES = 20
_LOOK_BYTES = 1 << 16
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
CONSEQUENCES = ("set-up-failed", "deserialize-failed")
"""Errors that trtexec prints after the one that caused them."""


def last_run(data: bytes, *, where: str) -> LogRun | None:
    """Return the last run in a log; ``None`` if it has no output of trtexec."""
    return next(reversed(read_log(data, where=where).runs), None)


def error_from_log(
    message: str, *, data: bytes, status: int | None, facts: dict[str, object] | None = None,
    fix: str | None = None,
) -> ProgramError:  # fmt: skip
    """Return the error for a failed trtexec, with its cause and the end of its log."""
    run = last_run(data, where="the log")
    cause = cause_of_failure(run) if run is not None else None
    known: dict[str, object] = {"status": status, **(facts or {})}
    if cause is not None:
        known["trtexec says"] = cause.text
        known |= {"meaning": cause.meaning} if cause.meaning else {}
        message = f"{message}: {cause.meaning or cause.text}"
    lines = data[-_LOOK_BYTES:].decode("utf-8", "replace").rstrip("\n").split("\n")[-LAST_LINES:]
    tail = tuple(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", line.rstrip()) for line in lines)
    return ProgramError(message, facts=known, program_status=status, log_tail=tail, fix=fix)


def cause_of_failure(run: LogRun) -> LogMessage | None:
    """Return the error that caused a failure: the first known one, else the first one."""
    errors = [each for each in run.messages if each.level in ("E", "F")]
    causes = [each for each in errors if each.code is not None and each.code not in CONSEQUENCES]
    return next(iter(causes or errors), None)


T = TypeVar("T")
MetadataTables = dict[str, dict[str, object]]

BUILD_SECTIONS = ("Model Options", "Build Options", "System Options", "Device Information")
PROFILE_SECTIONS = ("Inference Options", "Reporting Options", "Device Information")
TACTICS = ("layer", "runner", "tactic", "name", "time_ms", "chosen")
_NUMBERS = (
    "Compute Capability", "SMs", "Compute Clock Rate", "Memory Clock Rate",
    "Application Compute Clock Rate", "Application Memory Clock Rate", "Memory Bus Width",
)  # fmt: skip
"""Labels of the device whose value is written as a number without its unit."""
_STATISTICS = ("min", "max", "mean", "median")
_POSITIONS = {
    5: (*_STATISTICS, "percentile(99%)"),
    7: (*_STATISTICS, "percentile(90%)", "percentile(95%)", "percentile(99%)"),
}
"""Statistics in the lists of TREx by their length, for files without labels."""


def build_metadata_from_log(run: LogRun) -> MetadataTables:
    """Return the metadata of a build in the layout of TREx: options, device and build facts.

    Sections in snake case hold what the log printed. Unlike in TREx, values are not cut at a
    colon, repeated labels become lists, and ``performance_labels`` names the statistics in
    ``performance_summary`` (see ``profile_metadata_from_log``).
    """
    document = _sections(run, BUILD_SECTIONS)
    facts = msgspec.to_builtins(run.facts)
    # Zero bytes is a fact; None and {} mean that nothing was printed.
    document["build_facts"] = {k: v for k, v in facts.items() if v is not None and v != {}}
    if run.trace is not None:
        layers = tuple(each.having(tactics=each.tactics[:3]) for each in run.trace.layers)
        document["build_trace"] = trace = msgspec.to_builtins(run.trace.having(layers=layers))
        for layer in trace["layers"]:  # tactics.csv has all
            layer["fastest"] = layer.pop("tactics")
    warned = [
        {"kind": each.code, "meaning": each.meaning, "count": each.count, "text": each.text}
        for each in run.messages
        if each.level == "W" and each.code
    ]
    if warned:
        document["build_warnings"] = {"known": warned}
    document["trtexec"] = _identity(run)
    return document


def tactics_from_trace(
    trace: log_values.BuildTrace,
) -> Iterator[tuple[str | float | bool | None, ...]]:
    """Yield a row with the columns :data:`TACTICS` for every tactic that was tried."""
    for layer in trace.layers:
        for each in layer.tactics:
            yield (layer.name, each.runner, each.id, each.name, each.time_ms, each == layer.chosen)


def profile_metadata_from_log(run: LogRun) -> MetadataTables:
    """Return the metadata of a run in the layout of TREx: summary, options and device."""
    document: MetadataTables = {}
    summary = run.summary
    if summary is not None:
        printed: dict[str, object] = {
            "Throughput": summary.throughput_qps,
            **{label: list(row.values()) for label, row in summary.metrics.items()},
            "Total Host Walltime": summary.wall_s,
            "Total GPU Compute Time": summary.gpu_total_s,
        }
        document["performance_summary"] = {k: v for k, v in printed.items() if v is not None}
        document["performance_labels"] = {
            label: [f"percentile({name})" if name.endswith("%") else name for name in row]
            for label, row in summary.metrics.items()
        }
    document.update(_sections(run, PROFILE_SECTIONS))
    device = document.get("device_information")
    if device is not None:
        document["device_information_printed"] = dict(device)
        for label, value in device.items():
            if label in _NUMBERS and isinstance(value, str):
                first = number(value.split(" ", 1)[0])
                device[label] = value if first is None else first
    document["trtexec"] = _identity(run)
    return document


def _sections(run: LogRun, names: tuple[str, ...]) -> MetadataTables:
    document: MetadataTables = {}
    for section in filter(None, map(run.section, names)):
        entries: dict[str, list[str]] = {}
        for label, value in section.entries:
            entries.setdefault(label, []).append(value)
        document[section.name.lower().replace(" ", "_")] = {
            label: each[0] if len(each) == 1 else each for label, each in entries.items()
        }
    return document


def _identity(run: LogRun) -> dict[str, object]:
    return {name: getattr(run, name) for name in ("version", "build", "command", "outcome")}


def log_from_metadata(document: Mapping[str, object], *, where: str) -> LogRun:
    """Return the run described by a metadata file of TREx or of trtbench."""
    identity = _mapping(document.get("trtexec"))
    version, command = identity.get("version"), identity.get("command")
    sections = []
    for name in dict.fromkeys((*BUILD_SECTIONS, *PROFILE_SECTIONS)):
        key = name.lower().replace(" ", "_")
        printed = document.get(f"{key}_printed", document.get(key))
        if isinstance(printed, Mapping):
            entries = [
                (str(label), str(each))
                for label, value in printed.items()
                for each in (value if isinstance(value, list) else [value])
            ]
            sections.append(LogSection(name=name, entries=tuple(entries)))
    totals = _mapping(document.get("performance_summary"))
    labels = _mapping(document.get("performance_labels"))
    metrics: dict[str, dict[str, float]] = {}
    for title, values in totals.items():
        if isinstance(values, list):
            names = labels.get(title)
            names = names if isinstance(names, list) else _POSITIONS.get(len(values), _STATISTICS)
            short = (str(name).removeprefix("percentile(").rstrip(")") for name in names)
            pairs = zip(short, map(number, values), strict=False)
            metrics[str(title)] = {name: each for name, each in pairs if each is not None}
    summary = log_values.PerformanceSummary(
        throughput_qps=number(totals.get("Throughput")),
        wall_s=number(totals.get("Total Host Walltime")),
        gpu_total_s=number(totals.get("Total GPU Compute Time")),
        metrics=metrics,
    )
    return LogRun(
        where=where,
        line=1,
        outcome="passed",
        version=str(version) if version else None,
        build=_converted(identity.get("build"), int),
        command=str(command) if command else None,
        sections=tuple(sections),
        facts=_converted(document.get("build_facts"), log_values.BuildFacts)
        or log_values.BuildFacts(),
        trace=_converted(document.get("build_trace"), log_values.BuildTrace),
        summary=summary if totals else None,
    )


def _converted(value: object, kind: type[T]) -> T | None:
    """Return a value as the given type; ``None`` if another version wrote another layout."""
    try:
        return None if value is None else msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
