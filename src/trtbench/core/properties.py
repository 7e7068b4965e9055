"""The properties in which runs differ.

``PROPERTIES`` declares each property once: how it is read from a record, its name, and where it is
used. Labels, titles, keys, series and comparability are derived from it.
"""

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
    name_from_types,
    precision_of,
    types_of,
)
from trtbench.core.safety import mask_values
from trtbench.core.spec import RunSpec
from trtbench.core.units import counted, text_from_rate, text_from_seconds, text_from_shape
from trtbench.core.words import Protocol

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
"""Arguments of trtexec that change a setting which its log reports."""
_COVERED_ELSEWHERE = (
    "--verbose", "--avgRuns", "--percentile", "--dump", "--export", "--saveEngine", "--shapes",
    "--fp", "--int", "--bf16", "--best", "--noTF32", "--stronglyTyped",
)  # fmt: skip
"""Prefixes of arguments about output files, or that inputs and precision already show."""


def setting_of(record: AnyRecord, name: str) -> Scalar:
    """Return a setting as it ran; if that is unknown, as requested."""
    ran = known_value(record.conditions.get(name)) if isinstance(record, RunRecord) else None
    asked: Scalar = getattr(record.spec, name)
    return {"on": True, "off": False, "auto": None}.get(str(asked), asked) if ran is None else ran


def protocol_of(record: AnyRecord) -> Protocol:
    ran = setting_of(record, "protocol")
    return cast(Protocol, ran) if ran in get_args(Protocol) else record.spec.protocol


def streams_of(record: AnyRecord) -> int:
    ran = setting_of(record, "streams")
    return ran if isinstance(ran, int) else record.spec.streams


def options_of(record: AnyRecord) -> dict[str, str]:
    """Return options with the values that ran, and arguments that no setting covers, masked."""
    found = {**record.spec.options, **arguments_of(record)}
    reported = record.conditions if isinstance(record, RunRecord) else {}
    # Options of runtimes whose real value sessions report: a requested one may have no effect.
    for key in found.keys() & {"compile", "tf32", "channels_last"}:
        ran = known_value(reported.get(key))
        if ran is not None:
            found[key] = {True: "on", False: "off"}.get(ran, str(ran))  # type: ignore[call-overload]
    return mask_values(found)


def arguments_of(record: AnyRecord) -> dict[str, str]:
    """Return the arguments of a program that no setting covers."""
    covered = {flag for flags in SETTING_FLAGS.values() for flag in flags}
    words = (word.partition("=") for word in record.spec.extra_args)
    return {
        flag.removeprefix("--"): value or "on"
        for flag, _, value in words
        if flag.startswith("--") and flag not in covered and not flag.startswith(_COVERED_ELSEWHERE)
    }


def gap_of(record: AnyRecord) -> float:
    """Return the mean pause between queries in seconds."""
    ran = setting_of(record, "gap_s")
    return float(ran) if isinstance(ran, (int, float)) else record.spec.gap_s


def threads_of(record: AnyRecord) -> int | None:
    """Return the number of threads that ran, if a number was requested."""
    ran = setting_of(record, "threads") if record.spec.threads is not None else None
    return ran if isinstance(ran, int) else None


class Variable(NamedTuple):
    """An environment variable that changes what runs."""

    pattern: str
    place: Literal["gpu", "cpu", "any"]
    changes_results: bool  # changes what is computed or what a time means, not only the speed
    effect: str


NO_TF32 = "NVIDIA_TF32_OVERRIDE"
KNOWN = tuple(
    Variable(pattern, place, changes_results, effect)  # type: ignore[arg-type]
    for place, changes_results, effect, patterns in (
        ("gpu", True, "0 disables TF32 in all libraries", NO_TF32),
        ("gpu", True, "1 allows TF32 in PyTorch", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"),
        ("gpu", True, "settings of ONNX Runtime's TensorRT", "ORT_TENSORRT_*"),
        ("gpu", True, "internal switches of TensorRT", "__LUNOWUD"),
        ("gpu", True, "1 makes every kernel launch wait for its end", "CUDA_LAUNCH_BLOCKING"),
        ("gpu", True, "1 compiles kernels from PTX at run time", "CUDA_FORCE_PTX_JIT"),
        ("gpu", True, "a profiler is loaded with CUDA", "CUDA_INJECTION64_PATH"),
        ("gpu", True, "memory is allocated in each query", "PYTORCH_NO_CUDA_MEMORY_CACHING"),
        ("gpu", False, "PyTorch's allocator", "PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF"),
        ("gpu", False, "queues between host and GPU", "CUDA_DEVICE_MAX_CONNECTIONS"),
        ("gpu", False, "settings of cuBLAS", "CUBLAS*"),
        ("gpu", False, "settings of cuDNN", "CUDNN_* TORCH_CUDNN_*"),
        ("any", True, "1 disables torch.compile", "TORCHDYNAMO_DISABLE TORCH_COMPILE_DISABLE"),
        ("any", False, "settings of torch.compile", "TORCHINDUCTOR_*"),
        ("any", False, "settings of TorchScript", "PYTORCH_JIT*"),
        ("cpu", True, "FP32 may be computed in a lower precision",
         "ONEDNN_DEFAULT_FPMATH_MODE DNNL_DEFAULT_FPMATH_MODE"),
        ("cpu", True, "CPU instructions that may be used",
         "ONEDNN_MAX_CPU_ISA DNNL_MAX_CPU_ISA ATEN_CPU_CAPABILITY MKL_ENABLE_INSTRUCTIONS"),
        ("cpu", False, "settings of oneDNN", "ONEDNN_* DNNL_*"),
        ("cpu", False, "threads and settings of MKL", "MKL_*"),
        ("cpu", False, "threads of OpenMP", "OMP_* KMP_* GOMP_*"),
        ("cpu", False, "threads of OpenBLAS", "OPENBLAS_*"),
        ("any", False, "how memory is allocated", "MALLOC_*"),
        ("any", False, "libraries loaded before all others", "LD_PRELOAD"),
    )
    for pattern in patterns.split()
)  # fmt: skip
_PLACES = ("_DIR", "_HOME", "_PATH", "_ROOT", "_VERSION")
"""Endings of variables that hold paths or versions of libraries: container images set many."""


def variable_of(name: str) -> Variable | None:
    """Return what is known about an environment variable; ``None`` if it changes nothing."""
    fits = (each for each in KNOWN if fnmatchcase(name, each.pattern))
    return next((x for x in fits if name == x.pattern or not name.endswith(_PLACES)), None)


def text_from_variables(environment: Mapping[str, str]) -> str | None:
    """Write the variables that change what runs, quoted for a shell; ``None`` without any."""
    found = sorted(name for name, value in environment.items() if value and variable_of(name))
    return shlex.join(f"{name}={environment[name]}" for name in found) or None


def variables_from_text(text: object) -> dict[str, str]:
    words = shlex.split(text) if isinstance(text, str) else []
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def variables_of(record: RunRecord) -> dict[str, str]:
    """Return the environment variables that matter for the device of a run, with values."""
    recorded = variables_from_text(record.environment.extra.get("variables"))
    # On a GPU: it executed an engine, or its conditions name a GPU.
    providers = str(known_value(record.conditions.get("providers")) or "").split(",")
    elsewhere = {*providers} - {"", "CPUExecutionProvider"}
    named = known_value(record.conditions.get("device")) is not None
    on_gpu = record.facts.get("executes_engine") or elsewhere or named
    places = ("any", "gpu" if on_gpu else "cpu")
    known = {name: variable_of(name) for name in recorded}
    return {name: recorded[name] for name, each in known.items() if each and each.place in places}


def result_changing(names: Iterable[str]) -> list[str]:
    """Return the variables that change what is computed, or what a time means."""
    return [name for name in names if (each := variable_of(name)) and each.changes_results]


def without_tf32(conditions: dict[str, Fact], variables: Mapping[str, str]) -> dict[str, Fact]:
    """Return conditions without TF32 if the environment disables it."""
    if variables.get(NO_TF32) != "0" or known_value(conditions.get("tf32")) is not True:
        return conditions
    precision = known_value(conditions.get("precision"))
    types = types_of(precision) - {"tf32"}
    fixed = {"tf32": Fact(value=False, source="implied")}
    if precision is not None and types != types_of(precision):
        name = name_from_types(types or frozenset({"fp32"}))
        fixed["precision"] = Fact(value=name, source="implied")
    return {**conditions, **fixed}


_ENDING = re.compile(r"\.(onnx|engine|plan|trt|pt|pth|pt2|ts)$", re.IGNORECASE)
_SOURCE = re.compile(r"^(torchvision|timm|ultralytics|torch\.hub):(.*/)?", re.IGNORECASE)
_PRECISION = re.compile(r"([._-](fp32|tf32|fp16|bf16|int8|fp8|best|half|qdq))+$", re.IGNORECASE)


def model_name(record: AnyRecord) -> str:
    """Return the model's file name on one line."""
    return " ".join(record.spec.model.name.split()) or record.spec.model.path[:255] or record.id


def network_name(record: RunRecord | FailedRun) -> str:
    """Return ``resnet18`` for ``resnet18.fp16.engine`` and for ``torchvision:resnet18``."""
    name = _SOURCE.sub("", model_name(record)) or model_name(record)
    stem = _ENDING.sub("", name) or name
    return _PRECISION.sub("", stem) or stem


def _precision_words(record: RunRecord) -> str | None:
    """Return the precision that ran, and its source if the runtime does not report it."""
    fact, name = record.conditions.get("precision"), precision_of(record)
    if name and (ran := record.facts.get("computes_in")):
        return f"{name}, computed in {ran}"
    return f"{name} by its record" if name and fact and fact.source == "recorded" else name


def _device_name(record: RunRecord) -> str | None:
    """Return the provider of ONNX Runtime, or the device that was requested."""
    fact = record.conditions.get("providers")
    first = str(fact.value).partition(",")[0].removesuffix("ExecutionProvider") if fact else ""
    return first if first not in ("", "CPU") else record.spec.device


def _shape_of(record: RunRecord) -> str | None:
    """Return the shape of one item: ``3x224x224``, with names if there are several inputs."""
    shapes: dict[str, tuple[int | str | None, ...]] = {t.name: t.shape for t in record.inputs}
    batch = record.batch
    items = {
        name: text_from_shape(shape[1:] if batch and shape[:1] == (batch,) else shape)
        for name, shape in (shapes or record.spec.shapes).items()
        if len(shape) > 1
    }
    if len(items) < 2:
        return next(iter(items.values()), None)
    return ", ".join(f"{name} {shape}" for name, shape in items.items())


def inputs_of(record: RunRecord) -> str:
    """Return the shapes that ran, with the batch; only the batch if they are unknown."""
    if record.inputs:
        return ", ".join(text_from_shape(each.shape) for each in record.inputs)
    given = ", ".join("x".join(map(str, shape)) for shape in record.spec.shapes.values())
    return given or f"batch {record.known_items or 'unknown'}"


def _condition(name: str) -> Callable[[RunRecord], Scalar]:
    return lambda record: known_value(record.conditions.get(name))


def _gpu(name: str) -> Callable[[RunRecord], object]:
    return lambda record: getattr(gpu_of(record), name, None)


def _either(yes: str, no: str) -> Callable[[Any], str]:
    return lambda on: yes if on else no


@dataclass(frozen=True)
class Property:
    """A property in which runs differ; by default it is used everywhere."""

    name: str
    words: str
    read: Callable[[RunRecord], Any]  # its value as it ran; `None` if unknown or not applicable
    write: Callable[[Any], str] = str
    usual: object = None  # the value that names of series do not mention
    asked: tuple[str, ...] = ()  # fields of `RunSpec` that request it
    label: int = 1
    """1: in labels of runs that differ in it; 2 and up: only if labels would be equal without it,
    one level after the other; 0: never."""
    within: str | None = None  # in labels only if runs with the same value of this property differ
    series: bool = True  # runs that differ in it are never points of one curve
    history: bool = True
    title: Literal["part", "protocol"] | None = "part"  # by itself, or after the protocol
    title_text: Callable[[RunRecord], str | None] | None = None
    compare: Literal["block", "note"] | None = "block"  # a difference prevents a ratio, or is noted
    said: str | None = None  # text for a difference; each `{}` is the value of one side
    condition: bool = False
    questioned: bool = False  # a condition that gets a note when a side does not report it
    code: str = "H28"
    host_only: bool = False  # GPU times are compared even where it differs
    machine: bool = False  # runs that differ in it were on two devices
    computes: bool = False  # can change the outputs, not only the speed
    checked: bool = False  # also reported as it ran, which may differ from the requested value

    def text(self, record: RunRecord) -> str:
        """Return its value in words; empty if there is none."""
        value = self.read(record)
        return "" if value is None else self.write(value)

    def series_text(self, record: RunRecord) -> str:
        value = self.read(record)
        return "" if value is None or value == self.usual else self.write(value)

    def text_in_title(self, record: RunRecord) -> str:
        return (self.title_text or self.series_text)(record) or ""


def _hidden(name: str, words: str, read: Callable[[RunRecord], Any], **more: Any) -> Property:
    """A property that labels, series, history and titles do not show unless ``more`` says so."""
    defaults: dict[str, Any] = {"label": 0, "series": False, "history": False, "title": None}
    return Property(name, words, read, **{**defaults, **more})


PROPERTIES: list[Property] = [
    Property("model", "model", model_name, compare="note", code="H25"),
    Property("runtime", "runtime", lambda r: r.spec.runtime, asked=("runtime",),
             compare=None),
    Property("device", "device", _device_name, asked=("device",), history=False,
             compare=None, computes=True),
    Property("precision", "precision", precision_of, asked=("precision",), compare="note",
             code="H26", title_text=_precision_words, said="precision {} against {}"),
    Property("shape", "input shape", _shape_of, asked=("shapes",), within="model",
             history=False, compare=None,
             title_text=lambda r: ", ".join(
                 f"{t.name} {t.dtype} {text_from_shape(t.shape)}" for t in r.inputs)),
    _hidden("inputs", "input shapes", inputs_of, history=True, code="H25"),
    Property("batch", "batch", lambda r: r.batch, write="batch {}".format, asked=("batch",),
             series=False, history=False, title=None, code="H25"),
    Property("protocol", "how queries follow one another", lambda r: protocol_of(r), usual="serve",
             asked=("protocol",), title=None, code="H25", host_only=True, checked=True),
    Property("rate_hz", "arrival rate", lambda r: r.spec.rate_hz, write=text_from_rate,
             asked=("rate_hz",), title="protocol",
             title_text=lambda r: (
                 f"{text_from_rate(r.spec.rate_hz)} {r.spec.arrivals}" if r.spec.rate_hz else ""),
             said="different arrival rates: {} against {}", code="H25"),
    Property("arrivals", "how queries arrive",
             lambda r: r.spec.arrivals if r.spec.rate_hz else None, usual="poisson",
             asked=("arrivals",), label=3, title=None),
    Property("cuda_graph", "CUDA graph", lambda r: bool(setting_of(r, "cuda_graph")),
             write=_either("CUDA graph", "no CUDA graph"), usual=False, asked=("cuda_graph",),
             label=3, title="protocol", condition=True, questioned=True, code="H24", checked=True,
             title_text=lambda r: "" if (ran := _condition("cuda_graph")(r)) is None else (
                 "CUDA graph" if ran else "no CUDA graph"),
             said="a CUDA graph was used on one side only"),
    _hidden("cuda_graph_fell_back", "failed capture", _condition("cuda_graph_fell_back"),
          compare="note", code="H24"),
    Property("transfers", "copies to and from the GPU", lambda r: bool(setting_of(r, "transfers")),
             write=_either("with transfers", "no transfers"), usual=True, asked=("transfers",),
             label=3, title="protocol", condition=True, questioned=True, host_only=True, code="H25",
             title_text=lambda r: "no transfers" if _condition("transfers")(r) is False else "",
             checked=True,
             said="host-to-device and device-to-host copies are timed on one side only"),
    Property("spin_wait", "how the host waits", _condition("spin_wait"), usual=False,
             write=_either("spin wait", "no spin wait"), asked=("spin_wait",), label=3,
             title="protocol", condition=True, host_only=True, code="H25", checked=True,
             said="one side spins while it waits, the other sleeps"),
    Property("streams", "streams", lambda r: streams_of(r), usual=1, asked=("streams",),
             write=lambda n: f"{n} streams" if n > 1 else "", title="protocol", condition=True,
             title_text=lambda r: (
                 f"{streams_of(r)} streams, latencies overlap" if streams_of(r) > 1 else ""),
             said="the sides used different numbers of streams", code="H25", checked=True),
    Property("gap_s", "pauses between queries", lambda r: gap_of(r), usual=0.0, asked=("gap_s",),
             write=lambda s: f"gap {text_from_seconds(s, digits=3)}" if s else "no gap",
             title="protocol", checked=True, said="different gaps between queries: {} against {}"),
    Property("profile_index", "optimization profile", lambda r: setting_of(r, "profile_index"),
             write="profile {}".format, usual=0, asked=("profile_index",), label=3,
             title="protocol", condition=True, compare="note"),
    Property("clocks_locked", "locked clocks", _condition("clocks_locked"), usual=False, label=3,
             write=_either("clocks locked", "clocks not locked"), title="protocol", condition=True,
             machine=True, code="H06", said="clocks were locked on one side only"),
    Property("tf32", "TF32", _condition("tf32"), write=_either("TF32", "no TF32"), usual=False,
             label=3, title=None, condition=True, questioned=True, code="H27", series=False,
             said="TF32 was allowed on one side only"),
    Property("threads", "threads", lambda r: threads_of(r), write="{} threads".format,
             asked=("threads",), compare="note", code="H31", checked=True, computes=True,
             title_text=lambda r: counted(n, "thread") if (n := threads_of(r)) else ""),
    Property("options", "options",  # the path of trtexec says nothing about what it measured
             lambda r: " ".join(f"{k}={v}" for k, v in options_of(r).items() if k != "binary"),
             usual="", asked=("options", "extra_args"), within="runtime", compare=None,
             title_text=lambda r: ", ".join(f"{k}={v}" for k, v in options_of(r).items())),
    _hidden("arguments", "arguments for the program", lambda r: arguments_of(r), compare="note"),
    _hidden("variables", "environment variables", lambda r: variables_of(r), title="part",
          title_text=lambda r: ", ".join(
              f"{name}={variables_of(r)[name]}" for name in result_changing(variables_of(r)))),
    _hidden("interleaved", "turns with another side", _condition("interleaved"), history=True,
          write="interleaved {}".format, usual="off", condition=True, compare="note"),
    _hidden("typing", "typing of the network", _condition("typing"), condition=True, compare="note",
          code="H26"),
    _hidden("profiler", "profiler", _condition("profiler"), condition=True,
          said="a profiler was attached on one side only"),
    _hidden("input_source", "input data", _condition("input_source"), condition=True,
          said="the sides had different input data"),
    _hidden("warmup", "warm-up", lambda r: r.spec.warmup, compare=None),
    _hidden("lock_clocks", "locked clocks", lambda r: r.spec.lock_clocks, compare=None),
    _hidden("versions", "versions", lambda r: r.environment.versions, compare="note"),
    _hidden("asked_device", "device", lambda r: r.spec.device, compare=None, label=3),
    _hidden("tags", "tags", lambda r: " ".join(r.tags), compare=None, label=4),
    _hidden("gpu", "GPU", _gpu("name"), compare=None, label=2, series=True),
    _hidden("host", "the machine", lambda r: r.environment.host, machine=True,
          said="different machines: {} against {}"),
    _hidden("machine", "machine", lambda r: r.environment.label, label=1, series=True,
          compare=None),
    _hidden("cpu", "processor", lambda r: r.environment.cpu, machine=True,
          said="different processors: {} against {}"),
    _hidden("cpu_cores", "cores", lambda r: r.environment.cpu_cores, machine=True,
          said="different core counts: {} against {}"),
    *(
        _hidden(f"gpu_{name}", words, _gpu(name), machine=True)
        for name, words in (("name", "GPU"), ("uuid", "GPU UUID"), ("ecc", "GPU ECC mode"),
                            ("power_limit_w", "GPU power limit in W"))
    ),
    _hidden("gpu_driver", "GPU driver", _gpu("driver"), machine=True, compare="note"),
    _hidden("gpu_persistence", "GPU persistence mode", _gpu("persistence"), machine=True,
          compare="note"),
    _hidden("clock", "clocks", _gpu("sm_clock_hz"), machine=True, code="H06"),
]  # fmt: skip
"""In the order of titles and labels, followed by the fields of ``RunSpec`` not declared here."""

_NO_PROPERTY = {
    "model", "inputs", "warmup", "stop", "launches", "arrival_times_s", "telemetry_s",
    "lock_clocks", "profile", "separate_profile_run",
}  # fmt: skip
"""Fields of ``RunSpec`` that do not affect comparability, or that a property above covers."""

_declared = {name for each in PROPERTIES for name in each.asked} | _NO_PROPERTY
for _field in msgspec.structs.fields(RunSpec):
    if _field.name not in _declared:  # a new setting needs no declaration
        _words = _field.name.replace("_", " ")
        PROPERTIES.append(
            Property(_field.name, _words, partial(setting_of, name=_field.name),
                     write=partial("{} {}".format, _words), usual=_field.default,
                     asked=(_field.name,), title="protocol")
        )  # fmt: skip


def property_named(name: str) -> Property | None:
    return next((each for each in PROPERTIES if each.name == name), None)


def title_of_record(record: RunRecord) -> str:
    parts = [each.text_in_title(record) for each in PROPERTIES if each.title == "part"]
    return " · ".join(filter(None, [*parts, f"protocol {protocol_name(record)}"]))


def protocol_name(record: RunRecord) -> str:
    """Return the protocol with every setting that changes what its numbers mean."""
    inside = [each.text_in_title(record) for each in PROPERTIES if each.title == "protocol"]
    words = ", ".join(filter(None, inside))
    return f"{protocol_of(record)} ({words})" if words else protocol_of(record)


def series_key(record: RunRecord, *, model: str | None = None) -> tuple[str, ...]:
    """Return the values that separate curves over the batch: equal keys may be on one curve."""
    return tuple(
        model if model is not None and each.name == "model" else each.series_text(record)
        for each in PROPERTIES
        if each.series
    )


def history_settings(record: RunRecord, *, without: Iterable[str]) -> str:
    """Return further properties that separate series over time, where they are not usual."""
    left = {*without}
    texts = (x.series_text(record) for x in PROPERTIES if x.history and x.name not in left)
    return ", ".join(filter(None, texts))
