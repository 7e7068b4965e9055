"""Groups of fields that several verbs have in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from trtbench.core.errors import UsageError
from trtbench.core.safety import check_tag
from trtbench.core.words import CudaGraph, Precision, Protocol, Scalar
from trtbench.requests.fields import (
    FILE,
    PAIRS,
    RATE,
    SHAPES,
    SIZE,
    TIME,
    Duration,
    File,
    Pairs,
    PerSide,
    Rate,
    Shapes,
    Size,
    VerbRequest,
    option,
    seconds,
)


@dataclass(frozen=True, kw_only=True)
class StoreFields(VerbRequest):
    """Where runs are kept."""

    store: File | None = option(
        None,
        "Folder or URL of the store (default: from configuration).",
        metavar="DIR|URL",
        stays="runs are kept where they are asked for",
    )


@dataclass(frozen=True, kw_only=True)
class ShapeFields(VerbRequest):
    """What goes in."""

    shapes: Shapes = option(
        {}, "Shape of one input; repeat for several.", ("--shape",), kind=SHAPES
    )
    batch: int | None = option(
        None, "Items per query: every dynamic leading dimension.", metavar="N", least=1
    )


@dataclass(frozen=True, kw_only=True)
class LengthFields(VerbRequest):
    """How long it is warmed up and measured."""

    warmup: Duration | None = option(
        None, "Least warm-up, e.g. 500ms (default 200ms).", kind=TIME, axis=True, setting=True
    )
    warmup_iterations: int | None = option(
        None, "Least warm-up as a count of queries.", metavar="N", least=0, axis=True
    )
    until_steady: bool = option(
        True, "Go on warming up (10 s at most) until two windows agree.", axis=True
    )
    duration: Duration | None = option(
        None,
        "Least measured time, e.g. 10s (default 3s).",
        kind=TIME,
        axis=True,
        setting=True,
        unless=("iterations",),
    )
    iterations: int | None = option(
        None,
        "Least measured queries (default 10). Without --duration there is no least time; "
        "trtexec keeps its minimum of 3 s.",
        metavar="N",
        least=1,
        axis=True,
        setting=True,
        unless=("duration",),
    )


@dataclass(frozen=True, kw_only=True)
class InputFields(VerbRequest):
    """Where the values of inputs come from."""

    inputs: File | None = option(
        None,
        "Inputs from .npz or .npy; with --task, from an image.",
        kind=FILE,
        metavar="FILE",
        travels="file",
    )
    seed: int = option(0, "Of random inputs, orders and arrivals.", least=0)


@dataclass(frozen=True, kw_only=True)
class ThreadFields(VerbRequest):
    """How many threads it runs in."""

    threads: int | None = option(
        None, "Threads within an operator (CPU runtimes).", least=1, axis=True, setting=True
    )


@dataclass(frozen=True, kw_only=True)
class DeviceFields(ThreadFields):
    """What it runs on."""

    device: str | None = option(
        None, "cpu, cuda:0, cuda:1, ...", metavar="NAME", axis=True, setting=True
    )


@dataclass(frozen=True, kw_only=True)
class QueryFields(VerbRequest):
    """How queries follow one another, and at which clock."""

    protocol: Protocol | None = option(
        None, "How queries follow one another (default: serve; trtexec: pipeline).", axis=True
    )
    rate: Rate | None = option(
        None, "Arrivals of the protocol server, e.g. 500/s or 2kHz.", kind=RATE, axis=True
    )
    arrivals: Literal["poisson", "constant"] = option(
        "poisson", "How they are spread in time: poisson or constant."
    )
    cuda_graph: CudaGraph | None = option(
        None,
        "Launch queries as a CUDA graph; auto goes on without one that cannot be captured "
        "(default: off; protocols gpu and coldl2: on).",
        metavar="[on|auto|off]",
        bare="on",
        bare_unless=r"[^./:]*",
        axis=True,
    )
    transfers: bool = option(True, "Copy inputs and outputs each time.", axis=True)
    spin_wait: bool = option(False, "Wait for the GPU by spinning.", axis=True)
    streams: int = option(
        1,
        "Queries at a time, each in a context of its own; their latencies overlap.",
        metavar="N",
        least=1,
        axis=True,
    )
    gap: Duration | None = option(
        None, "Mean random rest between queries, e.g. 5ms.", kind=TIME, axis=True
    )
    profile_index: int = option(
        0, "Optimization profile of the engine, from 0.", metavar="N", least=0
    )
    lock_clocks: str | None = option(
        None,
        "Lock the GPU's clock while measuring (needs root), and free it afterwards.",
        metavar="[base|max|MHZ]",
        axis=True,
        bare="base",
        bare_unless=r"[^./:]*",
    )


@dataclass(frozen=True, kw_only=True)
class PrecisionFields(VerbRequest):
    """What a builder, or PyTorch, may compute in."""

    precision: Precision | None = option(
        None, "Precision that a weakly typed builder, or PyTorch, may use."
    )


@dataclass(frozen=True, kw_only=True)
class TaskFields(VerbRequest):
    """Flags of a task."""

    settings: Mapping[str, Scalar] = option(
        {},
        "Flags of the task, with underscores: --task NAME --help lists them.",
        travels="settings",
    )


@dataclass(frozen=True, kw_only=True)
class OptionFields(VerbRequest):
    """What only one runtime knows."""

    options: Pairs = option(
        {},
        "An option of the runtime itself, e.g. providers=cuda or torch:compile=default; "
        "repeat for several.",
        ("--opt",),
        kind=PAIRS,
        travels="options",
    )


@dataclass(frozen=True, kw_only=True)
class TimeoutFields(VerbRequest):
    """When a job is given up."""

    timeout: Duration | None = option(
        None, "Give up on a launch or a step after this long: 10min.", kind=TIME, setting=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.timeout is not None and seconds(self.timeout) <= 0:
            raise UsageError("a timeout of 0 s lets nothing be measured", fix="--timeout 10min")


@dataclass(frozen=True, kw_only=True)
class WaitFields(VerbRequest):
    """Whether a job waits for a device in use."""

    wait: bool = option(
        True,
        "Fail at once when the device is in use.",
        ("--no-wait",),
        python_help="Wait while the device is in use, or else fail at once.",
    )


@dataclass(frozen=True, kw_only=True)
class PatienceFields(TimeoutFields, WaitFields):
    """When a job is given up, and whether it waits for a device in use."""


@dataclass(frozen=True, kw_only=True)
class MemoryFields(VerbRequest):
    """How much memory a job may take."""

    memory_limit: Size | None = option(None, "Address space of each child, e.g. 8GiB.", kind=SIZE)


@dataclass(frozen=True, kw_only=True)
class PythonFields(VerbRequest):
    """Which interpreter does the work."""

    python: File | None = option(
        None, "Work in another Python interpreter.", metavar="PATH", travels="as-is"
    )


@dataclass(frozen=True, kw_only=True)
class SideFields(VerbRequest):
    """What may differ from side to side."""

    runtime: PerSide | None = option(
        None,
        "What executes the models: once for all sides, or once per side.",
        ("-r", "--runtime"),
        metavar="NAME",
        per_side=True,
        setting=True,
    )
    python: PerSide | None = option(
        None,
        "Interpreter: once for all sides, or once per side.",
        metavar="PATH",
        per_side=True,
        travels="as-is",
    )


@dataclass(frozen=True, kw_only=True)
class TagFields(VerbRequest):
    """What runs are found by."""

    tags: Collection[str] = option((), "Name to find the runs by.", ("--tag",), metavar="NAME")

    def __post_init__(self) -> None:
        super().__post_init__()
        for tag in self.tags:
            check_tag(tag)


@dataclass(frozen=True, kw_only=True)
class ExecutorFields(VerbRequest):
    """Where the work is done."""

    executor: str | None = option(
        None,
        "Work on every GPU of this machine, on a Ray cluster, or on hosts by ssh.",
        metavar="local|ray|ssh",
    )
    address: str | None = option(
        None, "Of the Ray cluster, also ray://HOST:10001 (default: its own).", metavar="HOST:PORT"
    )
    hosts: File | None = option(
        None, "Hosts for ssh, as TOML.", kind=FILE, metavar="FILE", stays="says where to go"
    )
    needs: Sequence[str] = option(
        (),
        "What a machine must have: gpu=H100, memory=16GiB, gpu-memory=40GiB, NAME=1.",
        ("--need",),
        metavar="KEY=VALUE",
    )
    wait_node: Duration | None = option(
        None,
        "Wait so long for a node that joins a Ray cluster later.",
        kind=TIME,
    )
    jobs: int = option(
        1,
        "CPU runs at the same time on one machine; they disturb each other.",
        metavar="N",
        least=1,
        was=("--beside",),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        able = {
            "--address": (self.address, "ray"),
            "--hosts": (self.hosts, "ssh"),
            "--need": (self.needs, "ray, or ssh"),
            "--wait-node": (self.wait_node, "ray"),
            "--jobs": (self.jobs > 1, "local, ray or ssh"),
        }
        for name, (given, executors) in able.items():
            if self.executor is None and given:
                fix = f"--executor {executors}"
                raise UsageError(f"{name} says nothing without an executor", fix=fix)


@dataclass(frozen=True, kw_only=True)
class SourceFields(VerbRequest):
    """How a PyTorch model is loaded."""

    weights: File = option(
        "default",
        "Pretrained, random, or a state dict of your own.",
        metavar="default|none|FILE",
        travels="file",
    )
    trust: bool = option(False, "Load a pickle, which can run any code in it.")
    factory: str | None = option(
        None, "What makes the module of a state dict.", metavar="MODULE:FUNCTION", travels="code"
    )


@dataclass(frozen=True, kw_only=True)
class FilterFields(VerbRequest):
    """Which runs of a store."""

    runtime: str | None = option(None, "Only this runtime.", ("-r", "--runtime"), metavar="NAME")
    tag: str | None = option(None, "Only runs with this tag.", metavar="NAME")
    since: str | None = option(
        None, "Only from this day on: 2026-11-15, today, 7d.", metavar="DATE"
    )
    until: str | None = option(None, "Only up to and including this day.", metavar="DATE")


OnUnclear = Literal["fail", "pass", "retry"]
