"""The register of the properties in which runs differ.

Each property of a run is declared once, in ``PROPERTIES``: how it is read off the record, what it
is called, and whether it stands in labels, titles, series of charts, history, comparability and
ladders. Labels, titles, keys and differences are derived; a new property is one entry, and a
plug-in adds its own with ``declare``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Literal, NamedTuple, cast, get_args

import msgspec

from trtbench.core.run import (
    AnyRecord,
    Fact,
    FailedRun,
    RunRecord,
    Scalar,
    gpu_of,
    known_value,
    name_of,
    precision_of,
    types_of,
)
from trtbench.core.spec import RunSpec, Value
from trtbench.core.units import counted, text_from_rate, text_from_seconds, text_from_shape
from trtbench.core.words import CudaGraph, Protocol

REPORTED_OPTIONS = {"compile", "tf32", "channels_last"}
"""Options of runtimes that sessions report, under the same name: they may have no effect."""
_GRAPH = ("--useCudaGraph", "--noCudaGraph")
_TRANSFERS = ("--noDataTransfers", "--includeDataTransfers")
SETTING_FLAGS = {
    "streams": ("--infStreams", "--streams"),
    "cuda_graph": _GRAPH,
    "transfers": _TRANSFERS,
    "spin_wait": ("--useSpinWait", "--noSpinWait"),
    "protocol": ("--exposeDMA", *_GRAPH, *_TRANSFERS),
    "gap_s": ("--idleTime",),
    "profile_index": ("--useProfile",),
}
"""Arguments for trtexec that decide a setting, which its log reports."""
_COVERED_ELSEWHERE = (
    "--verbose", "--avgRuns", "--percentile", "--dump", "--export", "--saveEngine", "--shapes",
    "--fp", "--int", "--bf16", "--best", "--noTF32", "--stronglyTyped",
)  # fmt: skip
"""How arguments begin that say what is printed or kept, or that inputs and precision show."""


def setting_of(record: AnyRecord, name: str) -> Scalar:
    """A setting as it ran; where that is unknown, as it was asked for."""
    ran = known_value(record.conditions.get(name)) if isinstance(record, RunRecord) else None
    asked: Scalar = getattr(record.spec, name)
    return {"on": True, "off": False, "auto": None}.get(str(asked), asked) if ran is None else ran


def protocol_of(record: AnyRecord) -> Protocol:
    """How queries followed one another, as far as that is known."""
    ran = setting_of(record, "protocol")
    return cast(Protocol, ran) if ran in get_args(Protocol) else record.spec.protocol


def streams_of(record: AnyRecord) -> int:
    """The queries that ran at a time, as far as that is known."""
    ran = setting_of(record, "streams")
    return ran if isinstance(ran, int) else record.spec.streams


def graph_of(record: AnyRecord) -> CudaGraph:
    """Whether queries were launched as a CUDA graph; ``auto`` where unknown."""
    ran = setting_of(record, "cuda_graph")
    return "on" if ran is True else "off" if ran is False else "auto"


def options_of(record: AnyRecord) -> dict[str, str]:
    """The options of a run with the values that ran, where a session reports them.

    Arguments for a program are among them, unless a setting covers them.
    """
    found = {**record.spec.options, **arguments_of(record)}
    reported = record.conditions if isinstance(record, RunRecord) else {}
    for key in found.keys() & REPORTED_OPTIONS:
        ran = known_value(reported.get(key))
        if ran is not None:
            found[key] = {True: "on", False: "off"}.get(ran, str(ran))  # type: ignore[call-overload]
    return found


def arguments_of(record: AnyRecord) -> dict[str, str]:
    """Arguments for a program that no setting covers."""
    covered = {flag for flags in SETTING_FLAGS.values() for flag in flags}
    words = (word.partition("=") for word in record.spec.extra_args)
    return {
        flag.removeprefix("--"): value or "on"
        for flag, _, value in words
        if flag.startswith("--") and flag not in covered and not flag.startswith(_COVERED_ELSEWHERE)
    }


def is_passed_on(record: AnyRecord, name: str) -> bool:
    """Whether arguments for a program, and no flag of ours, ask for a setting."""
    given = {word.partition("=")[0] for word in record.spec.extra_args}
    return not given.isdisjoint(SETTING_FLAGS.get(name, ()))


def gap_of(record: AnyRecord) -> float:
    """The mean rest between queries, in seconds, as far as that is known."""
    ran = setting_of(record, "gap_s")
    return float(ran) if isinstance(ran, (int, float)) else record.spec.gap_s


def threads_of(record: AnyRecord) -> int | None:
    """The threads that ran where a number was asked for; else they are the library's."""
    ran = setting_of(record, "threads") if record.spec.threads is not None else None
    return ran if isinstance(ran, int) else None


VariablePlace = Literal["gpu", "cpu", "any"]


class Variable(NamedTuple):
    """What a variable does, where it is set."""

    pattern: str
    place: VariablePlace
    decides: bool
    """Whether it changes what is computed or what a time means, not only how fast it is."""
    effect: str


NO_TF32 = "NVIDIA_TF32_OVERRIDE"
KNOWN = (
    Variable(NO_TF32, "gpu", True, "0 forbids TF32 to all libraries"),
    Variable("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "gpu", True, "1 allows TF32 in PyTorch"),
    Variable("ORT_TENSORRT_*", "gpu", True, "sets up ONNX Runtime's TensorRT"),
    Variable("__LUNOWUD", "gpu", True, "internal switches of TensorRT"),
    Variable("CUDA_LAUNCH_BLOCKING", "gpu", True, "1 makes every launch wait for its end"),
    Variable("CUDA_FORCE_PTX_JIT", "gpu", True, "1 compiles kernels instead of taking theirs"),
    Variable("CUDA_INJECTION64_PATH", "gpu", True, "a profiler is loaded with CUDA"),
    Variable("PYTORCH_NO_CUDA_MEMORY_CACHING", "gpu", True, "memory is allocated in each query"),
    Variable("PYTORCH_CUDA_ALLOC_CONF", "gpu", False, "how PyTorch keeps memory"),
    Variable("PYTORCH_ALLOC_CONF", "gpu", False, "how PyTorch keeps memory"),
    Variable("CUDA_DEVICE_MAX_CONNECTIONS", "gpu", False, "queues between host and GPU"),
    Variable("CUBLAS*", "gpu", False, "settings of cuBLAS"),
    Variable("CUDNN_*", "gpu", False, "settings of cuDNN"),
    Variable("TORCH_CUDNN_*", "gpu", False, "settings of cuDNN"),
    Variable("TORCHDYNAMO_DISABLE", "any", True, "1 leaves torch.compile out"),
    Variable("TORCH_COMPILE_DISABLE", "any", True, "1 leaves torch.compile out"),
    Variable("TORCHINDUCTOR_*", "any", False, "settings of torch.compile"),
    Variable("PYTORCH_JIT*", "any", False, "settings of TorchScript"),
    Variable("ONEDNN_DEFAULT_FPMATH_MODE", "cpu", True, "FP32 may be computed in a lower type"),
    Variable("DNNL_DEFAULT_FPMATH_MODE", "cpu", True, "FP32 may be computed in a lower type"),
    Variable("ONEDNN_MAX_CPU_ISA", "cpu", True, "instructions that may be used"),
    Variable("DNNL_MAX_CPU_ISA", "cpu", True, "instructions that may be used"),
    Variable("ATEN_CPU_CAPABILITY", "cpu", True, "instructions that may be used"),
    Variable("MKL_ENABLE_INSTRUCTIONS", "cpu", True, "instructions that may be used"),
    Variable("ONEDNN_*", "cpu", False, "settings of oneDNN"),
    Variable("DNNL_*", "cpu", False, "settings of oneDNN"),
    Variable("MKL_*", "cpu", False, "threads and settings of MKL"),
    Variable("OMP_*", "cpu", False, "threads of OpenMP"),
    Variable("KMP_*", "cpu", False, "threads of OpenMP"),
    Variable("GOMP_*", "cpu", False, "threads of OpenMP"),
    Variable("OPENBLAS_*", "cpu", False, "threads of OpenBLAS"),
    Variable("MALLOC_*", "any", False, "how memory is allocated"),
    Variable("LD_PRELOAD", "any", False, "libraries loaded before all others"),
)
_PLACES = ("_DIR", "_HOME", "_PATH", "_ROOT", "_VERSION")
"""Endings of variables that say where a library is: images of containers set many."""


def variable_of(name: str) -> Variable | None:
    """What a variable does; ``None`` for one that changes nothing that runs."""
    for each in KNOWN:
        if name == each.pattern:
            return each
        if fnmatchcase(name, each.pattern) and not name.endswith(_PLACES):
            return each
    return None


def text_from_variables(environment: Mapping[str, str]) -> str | None:
    """Write the variables that change what runs, as a shell takes them; ``None`` without any."""
    found = sorted(name for name, value in environment.items() if value and variable_of(name))
    return shlex.join(f"{name}={environment[name]}" for name in found) or None


def variables_from_text(text: object) -> dict[str, str]:
    """The variables of a record by name."""
    words = shlex.split(text) if isinstance(text, str) else []
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def variables_of(record: RunRecord) -> dict[str, str]:
    """The variables that concern what a run executed, with their values."""
    recorded = variables_from_text(record.environment.extra.get("variables"))
    places = ("any", "gpu" if _on_gpu(record) else "cpu")
    return {
        name: value
        for name, value in recorded.items()
        if (known := variable_of(name)) is not None and known.place in places
    }


def deciding(names: Iterable[str]) -> list[str]:
    """Keep the variables that change what is computed, or what a time means."""
    return [name for name in names if (known := variable_of(name)) is not None and known.decides]


def _on_gpu(record: RunRecord) -> bool:
    """Tell whether a run used a GPU: it executed an engine, or what ran names one."""
    providers = str(known_value(record.conditions.get("providers")) or "").split(",")
    elsewhere = {*providers} - {"", "CPUExecutionProvider"}
    named = known_value(record.conditions.get("device")) is not None
    return bool(record.facts.get("executes_engine") or elsewhere or named)


def without_tf32(conditions: dict[str, Fact], variables: Mapping[str, str]) -> dict[str, Fact]:
    """Correct what was allowed by what the environment forbids."""
    if variables.get(NO_TF32) != "0" or known_value(conditions.get("tf32")) is not True:
        return conditions
    precision = known_value(conditions.get("precision"))
    types = types_of(precision) - {"tf32"}
    fixed = {"tf32": Fact(value=False, source="implied")}
    if precision is not None and types != types_of(precision):
        fixed["precision"] = Fact(value=name_of(types or frozenset({"fp32"})), source="implied")
    return {**conditions, **fixed}


_ENDING = re.compile(r"\.(onnx|engine|plan|trt|pt|pth|pt2|ts)$", re.IGNORECASE)
_SOURCE = re.compile(r"^(torchvision|timm|ultralytics|torch\.hub):(.*/)?", re.IGNORECASE)
_PRECISION = re.compile(r"([._-](fp32|tf32|fp16|bf16|int8|fp8|best|half|qdq))+$", re.IGNORECASE)


def model_name(record: AnyRecord) -> str:
    """The model's file name on one line, whatever it holds."""
    return " ".join(record.spec.model.name.split()) or record.spec.model.path or record.id


def network_name(record: RunRecord | FailedRun) -> str:
    """The name that a network's files share: ``resnet18`` of ``resnet18.fp16.engine``.

    A model of a library goes by its name there: ``torchvision:resnet18`` is ``resnet18``, too.
    """
    name = _SOURCE.sub("", model_name(record)) or model_name(record)
    stem = _ENDING.sub("", name) or name
    return _PRECISION.sub("", stem) or stem


def precision_words(record: RunRecord) -> str | None:
    """The precision that ran, and its source where nothing that ran reports it."""
    fact, name = record.conditions.get("precision"), precision_of(record)
    if name and (ran := record.facts.get("computes_in")):
        return f"{name}, computed in {ran}"
    return f"{name} by its record" if name and fact and fact.source == "recorded" else name


def device_name(record: RunRecord) -> str | None:
    """Where it ran, where that was asked for: a provider of ONNX Runtime, or a device."""
    fact = record.conditions.get("providers")
    first = str(fact.value).partition(",")[0].removesuffix("ExecutionProvider") if fact else ""
    return first if first not in ("", "CPU") else record.spec.device


def shape_of(record: RunRecord) -> str | None:
    """The shapes of one item: ``3x224x224``, by name where there are several inputs."""
    shapes: dict[str, tuple[int | str | None, ...]] = {t.name: t.shape for t in record.inputs}
    shapes = shapes or {**record.spec.shapes}
    batch = record.batch
    items = {
        name: text_from_shape(shape[1:] if batch and shape[:1] == (batch,) else shape)
        for name, shape in shapes.items()
        if len(shape) > 1
    }
    if len(items) < 2:
        return next(iter(items.values()), None)
    return ", ".join(f"{name} {shape}" for name, shape in items.items())


def inputs_of(record: RunRecord) -> str:
    """The shapes that ran, batch included; the batch alone where they are unknown."""
    if record.inputs:
        return ", ".join(text_from_shape(each.shape) for each in record.inputs)
    given = ", ".join("x".join(map(str, shape)) for shape in record.spec.shapes.values())
    return given or f"batch {record.items_per_query}"


def _options_text(record: RunRecord) -> str:
    # Where trtexec lies says nothing about what it measured.
    return " ".join(f"{k}={v}" for k, v in options_of(record).items() if k != "binary")


def _condition(name: str) -> Callable[[RunRecord], Scalar]:
    return lambda record: known_value(record.conditions.get(name))


def _gpu(name: str) -> Callable[[RunRecord], object]:
    return lambda record: getattr(gpu_of(record), name, None)


def _graph_words(record: RunRecord) -> str:
    ran = known_value(record.conditions.get("cuda_graph"))
    return "" if ran is None else "CUDA graph" if ran else "no CUDA graph"


def _gap(seconds: float) -> str:
    return f"gap {text_from_seconds(seconds, digits=3)}" if seconds else "no gap"


@dataclass(frozen=True, kw_only=True)
class Property:
    """One thing in which runs differ; what is left out here makes it count everywhere."""

    name: str
    words: str
    read: Callable[[RunRecord], Any]
    """Its value as it ran; ``None`` where unknown or not applicable."""
    write: Callable[[Any], str] = str
    usual: object = None
    """The value that is left out of names of series."""
    asked: tuple[str, ...] = ()
    """Fields of ``RunSpec`` that ask for it."""
    label: int = 1
    """1: in labels of runs that differ in it; 2 and up: only where labels would be equal without
    it, one level after the other; 0: never."""
    within: str | None = None
    """Stands in labels only where runs of the same value of this other property differ."""
    series: bool = True
    """Runs that differ in it are never points of one curve."""
    quiet: bool = False
    """Stands in the name of a series only where series differ in it."""
    history: bool = True
    title: Literal["part", "protocol"] | None = "part"
    """In the title of a run: by itself, or in the brackets behind the protocol."""
    title_text: Callable[[RunRecord], str | None] | None = None
    compare: Literal["block", "note"] | None = "block"
    """Whether a ratio of runs that differ in it means nothing, or only needs a remark."""
    said: str | None = None
    """What a difference in it means; ``{}`` stands for either value."""
    condition: bool = False
    questioned: bool = False
    """A condition worth a note when a side does not report it."""
    code: str = "H28"
    host_only: bool = False
    """A difference leaves GPU time untouched (measured: below 0.1 %)."""
    machine: bool = False
    """A difference is the machine's own: two runs that differ in it were on two devices."""
    computes: bool = False
    """Can change the outputs, not only how fast they come."""
    checked: bool = False
    """Reported by sessions and programs under the name it is asked for: they may disagree."""

    def text(self, record: RunRecord) -> str:
        """Its value in words; empty where there is none."""
        value = self.read(record)
        return "" if value is None else self.write(value)

    def series_text(self, record: RunRecord) -> str:
        value = self.read(record)
        return "" if value is None or value == self.usual else self.write(value)

    def text_in_title(self, record: RunRecord) -> str:
        text = (self.title_text or self.series_text)(record)
        return text or ""


def _only(name: str, words: str, read: Callable[[RunRecord], Any], **more: Any) -> Property:
    return Property(
        name=name, words=words, read=read,
        **{"label": 0, "series": False, "history": False, "title": None, **more},
    )  # fmt: skip


PROPERTIES: list[Property] = [
    Property(name="model", words="model", read=model_name, compare="note", code="H25"),
    Property(
        name="runtime", words="what runs the engine", read=lambda r: r.spec.runtime,
        asked=("runtime",), compare=None,
    ),
    Property(
        name="device", words="device", read=device_name, asked=("device",), quiet=True,
        history=False, compare=None, computes=True,
    ),
    Property(
        name="precision", words="precision", read=precision_of, asked=("precision",),
        title_text=precision_words, compare="note", code="H26",
        said="precision {} against {}",
    ),
    Property(
        name="shape", words="input shape", read=shape_of, asked=("shapes",), within="model",
        quiet=True, history=False, compare=None,
        title_text=lambda r: ", ".join(
            f"{t.name} {t.dtype} {text_from_shape(t.shape)}" for t in r.inputs
        ),
    ),
    _only("inputs", "input shapes", inputs_of, history=True, code="H25"),
    Property(
        name="batch", words="batch", read=lambda r: r.batch, write=lambda n: f"batch {n}",
        asked=("batch",), history=False, title=None, code="H25",
    ),
    Property(
        name="protocol", words="how queries follow one another", read=lambda r: protocol_of(r),
        usual="serve", asked=("protocol",), title=None, code="H25", host_only=True,
        checked=True,
    ),
    Property(
        name="rate_hz", words="rate of arrivals", read=lambda r: r.spec.rate_hz,
        write=text_from_rate, asked=("rate_hz",), title="protocol",
        title_text=lambda r: (
            f"{text_from_rate(r.spec.rate_hz)} {r.spec.arrivals}" if r.spec.rate_hz else ""
        ),
        said="different rates of arrival: {} against {}",
    ),
    Property(
        name="arrivals", words="how queries arrive", usual="poisson", asked=("arrivals",), label=3,
        read=lambda r: r.spec.arrivals if r.spec.rate_hz else None, title=None,
    ),
    Property(
        name="cuda_graph", words="CUDA graph", read=lambda r: bool(setting_of(r, "cuda_graph")),
        write=lambda on: "CUDA graph" if on else "no CUDA graph", usual=False,
        asked=("cuda_graph",), label=3, title="protocol",
        title_text=_graph_words,
        condition=True, questioned=True, said="a CUDA graph was used on one side only",
        code="H24", checked=True,
    ),
    Property(
        name="transfers", words="copies to and from the GPU",
        read=lambda r: bool(setting_of(r, "transfers")),
        write=lambda on: "with transfers" if on else "no transfers", usual=True,
        asked=("transfers",), label=3, title="protocol",
        title_text=lambda r: (
            "no transfers" if known_value(r.conditions.get("transfers")) is False else ""
        ),
        condition=True, questioned=True, host_only=True, code="H25", checked=True,
        said="host-to-device and device-to-host copies are timed on one side only",
    ),
    Property(
        name="spin_wait", words="how the host waits", read=_condition("spin_wait"),
        write=lambda on: "spin wait" if on else "no spin wait", usual=False, asked=("spin_wait",),
        label=3, title="protocol", condition=True, host_only=True, code="H25", checked=True,
        said="one side spins while it waits, the other sleeps",
    ),
    Property(
        name="streams", words="streams", read=lambda r: streams_of(r), usual=1,
        write=lambda n: f"{n} streams" if n > 1 else "", asked=("streams",), title="protocol",
        title_text=lambda r: (
            f"{streams_of(r)} streams, latencies overlap" if streams_of(r) > 1 else ""
        ),
        condition=True, said="the sides used different numbers of streams", code="H25",
        checked=True,
    ),
    Property(
        name="gap_s", words="rests between queries", read=lambda r: gap_of(r), write=_gap,
        usual=0.0, asked=("gap_s",), title="protocol", checked=True,
        said="different gaps between queries: {} against {}",
    ),
    Property(
        name="profile_index", words="optimization profile", usual=0, asked=("profile_index",),
        read=lambda r: setting_of(r, "profile_index"), write=lambda n: f"profile {n}", label=3,
        title="protocol", condition=True, compare="note",
    ),
    Property(
        name="clocks_locked", words="locked clocks", read=_condition("clocks_locked"),
        write=lambda on: "clocks locked" if on else "clocks not locked", usual=False, label=3,
        title="protocol", condition=True, machine=True, code="H06",
        said="clocks were locked on one side only",
    ),
    Property(
        name="tf32", words="TF32", read=_condition("tf32"), usual=False, label=3, title=None,
        write=lambda on: "TF32" if on else "no TF32", condition=True, questioned=True, code="H27",
        series=False, said="TF32 was allowed on one side only",
    ),
    Property(
        name="threads", words="threads", read=lambda r: threads_of(r), asked=("threads",),
        write=lambda n: f"{n} threads", compare="note", checked=True, computes=True,
        title_text=lambda r: counted(n, "thread") if (n := threads_of(r)) else "",
    ),
    Property(
        name="options", words="options", read=_options_text, within="runtime", compare=None,
        asked=("options", "extra_args"), usual="",
        title_text=lambda r: ", ".join(f"{k}={v}" for k, v in options_of(r).items()),
    ),
    _only("arguments", "arguments for the program", lambda r: arguments_of(r), compare="note"),
    _only(
        "variables", "variables of the environment", lambda r: variables_of(r), title="part",
        title_text=lambda r: ", ".join(
            f"{name}={variables_of(r)[name]}" for name in deciding(variables_of(r))
        ),
    ),
    _only(
        "interleaved", "turns with another side", _condition("interleaved"), history=True,
        write=lambda how: f"interleaved {how}", usual="off", condition=True, compare="note",
    ),
    _only("typing", "typing of the network", _condition("typing"), condition=True, compare="note",
          code="H26"),
    _only("profiler", "profiler", _condition("profiler"), condition=True,
          said="a profiler was attached on one side only"),
    _only("input_source", "input data", _condition("input_source"), condition=True,
          said="the sides were fed different data"),
    _only("warmup", "warm-up", lambda r: r.spec.warmup, compare=None),
    _only("lock_clocks", "locked clocks", lambda r: r.spec.lock_clocks, compare=None),
    _only("versions", "versions", lambda r: r.environment.versions, compare="note"),
    _only("asked_device", "device", lambda r: r.spec.device, compare=None, label=3),
    _only("tags", "tags", lambda r: " ".join(r.tags), compare=None, label=4),
    _only("gpu", "GPU", _gpu("name"), compare=None, label=2, series=True),
    _only("host", "the machine", lambda r: r.environment.host, machine=True,
          said="different machines: {} against {}"),
    _only("machine", "machine", lambda r: r.environment.label, label=1, series=True, quiet=True,
          compare=None),
    _only("cpu", "processor", lambda r: r.environment.cpu, machine=True,
          said="different processors: {} against {}"),
    _only("cpu_cores", "cores", lambda r: r.environment.cpu_cores, machine=True,
          said="different core counts: {} against {}"),
    _only("gpu_name", "the GPU", _gpu("name"), machine=True,
          said="different GPU name: {} against {}"),
    _only("gpu_uuid", "GPU", _gpu("uuid"), machine=True, said="different GPU uuid: {} against {}"),
    _only("gpu_power_limit_w", "power limit of the GPU", _gpu("power_limit_w"), machine=True,
          said="different GPU power limit w: {} against {}"),
    _only("gpu_ecc", "ECC of the GPU", _gpu("ecc"), machine=True,
          said="different GPU ecc: {} against {}"),
    _only("gpu_driver", "GPU driver", _gpu("driver"), machine=True, compare="note",
          said="different GPU driver: {} against {}"),
    _only("gpu_persistence", "persistence mode of the GPU", _gpu("persistence"), machine=True,
          compare="note", said="different GPU persistence: {} against {}"),
    _only("clock", "clocks", _gpu("sm_clock_hz"), machine=True, code="H06"),
]  # fmt: skip
"""In the order in which titles and labels have them."""
_NO_PROPERTY = {
    "model", "inputs", "warmup", "stop", "launches", "arrival_times_s", "telemetry_s",
    "lock_clocks", "profile", "separate_profile_run",
}  # fmt: skip
"""Fields of ``RunSpec`` that leave a run comparable, or that a property above covers."""


def properties_of_fields(spec: type[Value]) -> list[Property]:
    """A property for each field of a spec that none is declared for.

    A new setting is a property without a declaration: it stands in titles and labels, makes series
    of its own, and blocks comparisons.
    """
    known = {name for each in PROPERTIES for name in each.asked} | _NO_PROPERTY
    found = []
    for field in msgspec.structs.fields(spec):
        if field.name not in known:
            words = field.name.replace("_", " ")
            found.append(
                Property(
                    name=field.name, words=words, read=partial(setting_of, name=field.name),
                    write=partial("{} {}".format, words), usual=field.default,
                    asked=(field.name,), title="protocol",
                )
            )  # fmt: skip
    return found


PROPERTIES += properties_of_fields(RunSpec)


def declare(*properties: Property) -> None:
    """Add properties of a plug-in; one of the same name is replaced."""
    for each in properties:
        PROPERTIES[:] = [known for known in PROPERTIES if known.name != each.name]
        PROPERTIES.append(each)


def property_named(name: str) -> Property | None:
    return next((each for each in PROPERTIES if each.name == name), None)


def title_of_record(record: RunRecord) -> str:
    """What was measured and how, in one line."""
    parts = [each.text_in_title(record) for each in PROPERTIES if each.title == "part"]
    return " · ".join(filter(None, [*parts, f"protocol {protocol_name(record)}"]))


def protocol_name(record: RunRecord) -> str:
    """The protocol with every part of it that was set: without them a number means little."""
    inside = [each.text_in_title(record) for each in PROPERTIES if each.title == "protocol"]
    words = ", ".join(filter(None, inside))
    return f"{protocol_of(record)} ({words})" if words else protocol_of(record)


def series_key(
    record: RunRecord, *, leave_out: Iterable[str] = (), model: str | None = None
) -> tuple[str, ...]:
    """All that makes a run another, as texts: runs of equal keys may be points of one curve."""
    left = {*leave_out}
    return tuple(
        model if model is not None and each.name == "model" else each.series_text(record)
        for each in PROPERTIES
        if each.series and each.name not in left
    )


def history_settings(record: RunRecord, *, without: Iterable[str]) -> str:
    """Further properties that make another series over time, as far as they are not usual."""
    left = {*without}
    texts = (
        each.series_text(record) for each in PROPERTIES if each.history and each.name not in left
    )
    return ", ".join(filter(None, texts))


def run_alike(one: RunSpec, other: RunSpec, *, history: bool = False) -> bool:
    """Whether two specs ask for the same measurement, apart from the model and its length.

    ``history`` compares only what makes another series over time.
    """
    wanted = (each for each in PROPERTIES if each.history or not history)
    fields = {name for each in wanted for name in each.asked}
    return all(getattr(one, name) == getattr(other, name) for name in fields)
