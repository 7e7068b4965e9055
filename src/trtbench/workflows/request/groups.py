"""Groups of fields that several verbs have in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from trtbench import boundary
from trtbench.domain.words import CudaGraph, Precision, Protocol, Scalar
from trtbench.errors import UsageError
from trtbench.workflows.request.fields import Option, VerbRequest
from trtbench.workflows.request.kinds import (
    FILE,
    PAIRS,
    RATE,
    SHAPES,
    SIZE,
    TIME,
    Duration,
    File,
    Pairs,
    Rate,
    Shapes,
    Sides,
    Size,
    seconds,
)


@dataclass(frozen=True, kw_only=True)
class StoreFields(VerbRequest):
    """Where runs are kept."""

    store: Annotated[
        File | None,
        Option("Folder or URL of the store (default: from configuration).", metavar="DIR|URL"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ShapeFields(VerbRequest):
    """What goes in."""

    shapes: Annotated[
        Shapes, Option("Shape of one input; repeat for several.", ("--shape",), kind=SHAPES)
    ] = field(default_factory=dict)
    batch: Annotated[
        int | None,
        Option("Items per query: every dynamic leading dimension.", metavar="N", least=1),
    ] = None


@dataclass(frozen=True, kw_only=True)
class LengthFields(VerbRequest):
    """How long it is warmed up and measured."""

    warmup: Annotated[
        Duration | None,
        Option("Least warm-up, e.g. 500ms (default 200ms).", kind=TIME, axis=True, setting=True),
    ] = None
    warmup_iterations: Annotated[
        int | None,
        Option("Least warm-up as a count of queries.", metavar="N", least=0, axis=True),
    ] = None
    until_steady: Annotated[
        bool, Option("Go on warming up (10 s at most) until two windows agree.", axis=True)
    ] = True
    duration: Annotated[
        Duration | None,
        Option(
            "Least measured time, e.g. 10s (default 3s).",
            kind=TIME, axis=True, setting=True, unless=("iterations",),
        ),
    ] = None  # fmt: skip
    iterations: Annotated[
        int | None,
        Option(
            "Least measured queries (default 10). Without --duration there is no least time; "
            "trtexec has its own of 3 s, as ever.",
            metavar="N", least=1, axis=True, setting=True, unless=("duration",),
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class InputFields(VerbRequest):
    """Where the values of inputs come from."""

    inputs: Annotated[
        File | None,
        Option(
            "Inputs from .npz, .npy, a folder of raw binaries; with --task, from an image.",
            kind=FILE, metavar="FILE",
        ),
    ] = None  # fmt: skip
    seed: Annotated[int, Option("Of random inputs, orders and arrivals.", least=0)] = 0


@dataclass(frozen=True, kw_only=True)
class ThreadFields(VerbRequest):
    """How many threads it runs in."""

    threads: Annotated[
        int | None,
        Option("Threads within an operator (CPU runtimes).", least=1, axis=True, setting=True),
    ] = None


@dataclass(frozen=True, kw_only=True)
class DeviceFields(ThreadFields):
    """What it runs on."""

    device: Annotated[
        str | None,
        Option("cpu, cuda:0, cuda:1, ...", metavar="NAME", axis=True, setting=True),
    ] = None


@dataclass(frozen=True, kw_only=True)
class QueryFields(VerbRequest):
    """How queries follow one another."""

    protocol: Annotated[
        Protocol | None,
        Option(
            "How queries follow one another (default: serve; trtexec: pipeline).", axis=True
        ),
    ] = None  # fmt: skip
    rate: Annotated[
        Rate | None,
        Option("Arrivals of the protocol server, e.g. 500/s or 2kHz.", kind=RATE, axis=True),
    ] = None
    arrivals: Annotated[
        File,
        Option(
            "How they are spread in time: poisson, constant, or a CSV with a column such as "
            "time_s or gap_ms.",
            metavar="poisson|constant|FILE",
        ),
    ] = "poisson"
    cuda_graph: Annotated[
        CudaGraph | None,
        Option(
            "Launch queries as a CUDA graph; auto goes on without one that cannot be captured "
            "(default: off; protocols gpu and coldl2: on).",
            metavar="[on|auto|off]", bare="on", bare_unless=r"[^./:]*", axis=True,
        ),
    ] = None  # fmt: skip
    transfers: Annotated[bool, Option("Copy inputs and outputs each time.", axis=True)] = True
    spin_wait: Annotated[bool, Option("Wait for the GPU by spinning.", axis=True)] = False
    streams: Annotated[
        int,
        Option(
            "Queries at a time, each in a context of its own; their latencies overlap.",
            metavar="N", least=1, axis=True,
        ),
    ] = 1  # fmt: skip
    gap: Annotated[
        Duration | None,
        Option("Mean random rest between queries, e.g. 5ms.", kind=TIME, axis=True),
    ] = None
    profile_index: Annotated[
        int, Option("Optimization profile of the engine, from 0.", metavar="N", least=0)
    ] = 0


@dataclass(frozen=True, kw_only=True)
class PrecisionFields(VerbRequest):
    """What a builder, or PyTorch, may compute in."""

    precision: Annotated[
        Precision | None, Option("Precision that a weakly typed builder, or PyTorch, may use.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class TaskFields(VerbRequest):
    """What a task is told."""

    settings: Annotated[
        Mapping[str, Scalar],
        Option("Flags of the task, with underscores: --task NAME --help lists them."),
    ] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class OptionFields(VerbRequest):
    """What only one runtime knows."""

    options: Annotated[
        Pairs,
        Option(
            "An option of the runtime itself, e.g. providers=cuda or torch:compile=default; "
            "repeat for several.",
            ("--opt",), kind=PAIRS,
        ),
    ] = field(default_factory=dict)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TimeoutFields(VerbRequest):
    """How long a job is waited for."""

    timeout: Annotated[
        Duration | None,
        Option("Give up on a launch or a step after this long: 10min.", kind=TIME, setting=True),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.timeout is not None and seconds(self.timeout) <= 0:
            raise UsageError("a timeout of 0 s lets nothing be measured", fix="--timeout 10min")


@dataclass(frozen=True, kw_only=True)
class WaitFields(VerbRequest):
    """Whether a job waits for others."""

    wait: Annotated[
        bool,
        Option(
            "Fail at once when the device is in use.", ("--no-wait",),
            python_help="Wait while the device is in use, or else fail at once.",
        ),
    ] = True  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PatienceFields(TimeoutFields, WaitFields):
    """How long a job is waited for, and whether it waits for others."""


@dataclass(frozen=True, kw_only=True)
class MemoryFields(VerbRequest):
    """How much memory a job may take."""

    memory_limit: Annotated[
        Size | None, Option("Address space of each child, e.g. 8GiB.", kind=SIZE)
    ] = None


@dataclass(frozen=True, kw_only=True)
class PythonFields(VerbRequest):
    """Which interpreter does the work."""

    python: Annotated[
        File | None, Option("Work in another Python interpreter.", metavar="PATH")
    ] = None


@dataclass(frozen=True, kw_only=True)
class SideFields(VerbRequest):
    """What may differ from side to side."""

    runtime: Annotated[
        Sides | None,
        Option(
            "What executes the models: once for all sides, or once per side.",
            ("-r", "--runtime"), metavar="NAME", per_side=True, setting=True,
        ),
    ] = None  # fmt: skip
    python: Annotated[
        Sides | None,
        Option("Interpreter: once for all sides, or once per side.", metavar="PATH", per_side=True),
    ] = None


@dataclass(frozen=True, kw_only=True)
class TagFields(VerbRequest):
    """What runs are found by."""

    tags: Annotated[
        Collection[str], Option("Name to find the runs by.", ("--tag",), metavar="NAME")
    ] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for tag in self.tags:
            boundary.check_tag(tag)


@dataclass(frozen=True, kw_only=True)
class ExecutorFields(VerbRequest):
    """Where the work is done."""

    executor: Annotated[
        str | None,
        Option(
            "Work on every GPU of this machine, on a Ray cluster, or on hosts by ssh.",
            metavar="local|ray|ssh",
        ),
    ] = None
    address: Annotated[
        str | None,
        Option(
            "Of the Ray cluster, also ray://HOST:10001 (default: its own).", metavar="HOST:PORT"
        ),
    ] = None
    hosts: Annotated[File | None, Option("Hosts for ssh, as TOML.", kind=FILE, metavar="FILE")] = (
        None
    )
    needs: Annotated[
        Sequence[str],
        Option(
            "What a machine must have: gpu=H100, memory=16GiB, gpu-memory=40GiB, NAME=1.",
            ("--need",), metavar="KEY=VALUE",
        ),
    ] = ()  # fmt: skip
    wait_node: Annotated[
        Duration | None,
        Option(
            "Wait so long for a node that a Ray cluster, or its autoscaler, has to add first.",
            kind=TIME,
        ),
    ] = None
    beside: Annotated[
        int, Option("CPU runs at the same time on one machine; they disturb each other.", least=1)
    ] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        given = {
            "--address": ("--executor ray", self.address is not None),
            "--hosts": ("--executor ssh", self.hosts is not None),
            "--need": ("--executor ray, or ssh", bool(self.needs)),
            "--wait-node": ("--executor ray", self.wait_node is not None),
        }
        for name, (fix, said) in given.items():
            if self.executor is None and said:
                raise UsageError(f"{name} says nothing without an executor", fix=fix)


@dataclass(frozen=True, kw_only=True)
class SourceFields(VerbRequest):
    """How a PyTorch model is loaded."""

    weights: Annotated[
        File,
        Option(
            "Pretrained, random, or a state dict of your own.", metavar="default|none|FILE"
        ),
    ] = "default"  # fmt: skip
    trust: Annotated[bool, Option("Load a pickle, which can run any code in it.")] = False
    factory: Annotated[
        str | None,
        Option("What makes the module of a state dict.", metavar="MODULE:FUNCTION"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class FilterFields(VerbRequest):
    """Which runs of a store."""

    runtime: Annotated[
        str | None, Option("Only this runtime.", ("-r", "--runtime"), metavar="NAME")
    ] = None
    tag: Annotated[str | None, Option("Only runs with this tag.", metavar="NAME")] = None
    since: Annotated[
        str | None,
        Option("Only from this day on: 2026-11-15, today, 7d.", metavar="DATE"),
    ] = None
    until: Annotated[str | None, Option("Only up to and including this day.", metavar="DATE")] = (
        None
    )


OnUnclear = Literal["fail", "pass", "retry"]
