"""The Python API: the verbs of the command line, with the same words as typed arguments.

Made by tools/make_api.py from the verbs and their requests; not to be changed by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trtbench import verbs, verbs_of_runs
from trtbench.workflows.request.comparing import CompareRequest, GateRequest
from trtbench.workflows.request.explaining import (
    DiffRequest,
    ExplainRequest,
    LayersRequest,
    WhyRequest,
)
from trtbench.workflows.request.fields import request_from_arguments
from trtbench.workflows.request.judging import CheckRequest, EvalRequest, LocalizeRequest
from trtbench.workflows.request.keeping import (
    DoctorRequest,
    ExportRunsRequest,
    HistoryRequest,
    ImportRequest,
    InspectRequest,
    ReportRequest,
    RunsRequest,
    SiteRequest,
)
from trtbench.workflows.request.making import BuildRequest, ExportRequest, QuantizeRequest
from trtbench.workflows.request.measuring import BenchRequest, ProfileRequest
from trtbench.workflows.request.rebuilding import LotteryRequest, UpgradeRequest
from trtbench.workflows.request.sweeping import SweepRequest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path
    from typing import Literal

    from pandas import DataFrame

    from trtbench.analysis.builds import Lottery
    from trtbench.analysis.inspection import Inspection
    from trtbench.analysis.layers.why import Why
    from trtbench.analysis.summary import Summary
    from trtbench.domain.artefact import Artefact
    from trtbench.domain.comparison import Comparison
    from trtbench.domain.conversion import Sidecar
    from trtbench.domain.localize import Localization
    from trtbench.domain.result import FailedRun, Run
    from trtbench.domain.words import CudaGraph, Mode, Precision, Protocol, Scalar
    from trtbench.workflows.builds.upgrade import Upgrade
    from trtbench.workflows.check.evaluate import Evaluation
    from trtbench.workflows.check.values import Checked
    from trtbench.workflows.compare.gate import Gate
    from trtbench.workflows.explain.ladder import Explanation
    from trtbench.workflows.importing.run import ImportResult
    from trtbench.workflows.look.doctor import Diagnosis
    from trtbench.workflows.request.groups import OnUnclear
    from trtbench.workflows.request.judging import Range
    from trtbench.workflows.request.kinds import (
        Duration,
        File,
        Fraction,
        Pairs,
        PerSide,
        Rate,
        Shapes,
        Size,
        Words,
    )
    from trtbench.workflows.request.sweeping import Axes, Excluded, OpenShapes, Values
    from trtbench.workflows.stored.export import Exported
    from trtbench.workflows.stored.history import History
    from trtbench.workflows.stored.listing import Entries
    from trtbench.workflows.stored.site import SiteMade
    from trtbench.workflows.sweep.result import Results


def bench(
    model: File,
    *,
    extra_args: tuple[str, ...] = (),
    slo: str | None = None,
    keep_model: bool = False,
    runtime: str | None = None,
    shapes: Shapes | None = None,
    batch: int | None = None,
    warmup: Duration | None = None,
    warmup_iterations: int | None = None,
    until_steady: bool = True,
    duration: Duration | None = None,
    iterations: int | None = None,
    launches: int | None = None,
    inputs: File | None = None,
    seed: int = 0,
    task: str | None = None,
    settings: Mapping[str, Scalar] | None = None,
    device: str | None = None,
    threads: int | None = None,
    protocol: Protocol | None = None,
    rate: Rate | None = None,
    arrivals: File = "poisson",
    cuda_graph: CudaGraph | None = None,
    transfers: bool = True,
    spin_wait: bool = False,
    streams: int = 1,
    gap: Duration | None = None,
    profile_index: int = 0,
    telemetry: Duration | None = None,
    lock_clocks: str | None = None,
    precision: Precision | None = None,
    profile: bool | None = None,
    separate_profile_run: bool = True,
    switch_shapes: Shapes | None = None,
    switch_profile: int | None = None,
    options: Pairs | None = None,
    python: File | None = None,
    memory_limit: Size | None = None,
    timeout: Duration | None = None,
    wait: bool = True,
    output: File | None = None,
    tags: Collection[str] = (),
    executor: str | None = None,
    address: str | None = None,
    hosts: File | None = None,
    needs: Sequence[str] = (),
    wait_node: Duration | None = None,
    beside: int = 1,
    store: File | None = None,
) -> Run:
    """Measure a model in fresh processes and keep the run.

    Durations are seconds or text with a unit (``"500ms"``). Raises ``TrtbenchError``; a launch
    that breaks leaves a ``FailedRun`` in the store. With ``slo`` it is the run at the highest
    rate that keeps the bound, and ``run.load`` the search.

    model: A file, or a model of a library by name.
    extra_args: Passed on to runtimes that are programs (trtexec).
    slo: Search the highest rate that keeps this bound (--protocol server), e.g. 'p99<10ms';
        --rate is then the highest to try.
    keep_model: Keep the model's bytes in the store: gate --baseline measures both in turn.
    runtime: What executes the model.
    shapes: Shape of one input; repeat for several.
    batch: Items per query: every dynamic leading dimension.
    warmup: Least warm-up, e.g. 500ms (default 200ms).
    warmup_iterations: Least warm-up as a count of queries.
    until_steady: Go on warming up (10 s at most) until two windows agree.
    duration: Least measured time, e.g. 10s (default 3s).
    iterations: Least measured queries (default 10). Without --duration there is no least time;
        trtexec has its own of 3 s, as ever.
    launches: Fresh processes to measure in (default 1).
    inputs: Inputs from .npz, .npy, a folder of raw binaries; with --task, from an image.
    seed: Of random inputs, orders and arrivals.
    task: Prepares the image that --inputs names (classification, depth, ...); adds its flags
        (see --task NAME --help).
    settings: Flags of the task, with underscores: --task NAME --help lists them.
    device: cpu, cuda:0, cuda:1, ...
    threads: Threads within an operator (CPU runtimes).
    protocol: How queries follow one another (default: serve; trtexec: pipeline).
    rate: Arrivals of the protocol server, e.g. 500/s or 2kHz.
    arrivals: How they are spread in time: poisson, constant, or a CSV with a column such as
        time_s or gap_ms.
    cuda_graph: Launch queries as a CUDA graph; auto goes on without one that cannot be captured
        (default: off; protocols gpu and coldl2: on).
    transfers: Copy inputs and outputs each time.
    spin_wait: Wait for the GPU by spinning.
    streams: Queries at a time, each in a context of its own; their latencies overlap.
    gap: Mean random rest between queries, e.g. 5ms.
    profile_index: Optimization profile of the engine, from 0.
    telemetry: Look at the GPU this often (100ms), in a pass of its own after the measurement.
    lock_clocks: Lock the GPU's clock while measuring (needs root), and free it afterwards.
    precision: Precision that a weakly typed builder, or PyTorch, may use.
    profile: Time single layers too (default: as the runtime does; trtexec: yes).
    separate_profile_run: Time layers in a pass of their own.
    switch_shapes: Time changes to this shape and back too, in a pass of its own after the
        measurement; repeat for several inputs.
    switch_profile: The same with this optimization profile of the engine.
    options: An option of the runtime itself, e.g. providers=cuda or torch:compile=default;
        repeat for several.
    python: Work in another Python interpreter.
    memory_limit: Address space of each child, e.g. 8GiB.
    timeout: Give up on a launch or a step after this long: 10min.
    wait: Wait while the device is in use, or else fail at once.
    output: Folder for this run.
    tags: Name to find the runs by.
    executor: Work on every GPU of this machine, on a Ray cluster, or on hosts by ssh.
    address: Of the Ray cluster, also ray://HOST:10001 (default: its own).
    hosts: Hosts for ssh, as TOML.
    needs: What a machine must have: gpu=H100, memory=16GiB, gpu-memory=40GiB, NAME=1.
    wait_node: Wait so long for a node that a Ray cluster, or its autoscaler, has to add first.
    beside: CPU runs at the same time on one machine; they disturb each other.
    store: Folder or URL of the store (default: from configuration).

    >>> run = trtbench.bench("model.onnx", batch=8, launches=5)
    >>> run.times.host                  # seconds, one row per iteration
    >>> print(run)
    """
    return verbs.bench(request_from_arguments(BenchRequest, locals()))


def profile(
    model: File,
    *,
    extra_args: tuple[str, ...] = (),
    runtime: str | None = None,
    shapes: Shapes | None = None,
    batch: int | None = None,
    warmup: Duration | None = None,
    warmup_iterations: int | None = None,
    until_steady: bool = True,
    duration: Duration | None = None,
    iterations: int | None = None,
    launches: int | None = None,
    inputs: File | None = None,
    seed: int = 0,
    task: str | None = None,
    settings: Mapping[str, Scalar] | None = None,
    device: str | None = None,
    threads: int | None = None,
    protocol: Protocol | None = None,
    rate: Rate | None = None,
    arrivals: File = "poisson",
    cuda_graph: CudaGraph | None = None,
    transfers: bool = True,
    spin_wait: bool = False,
    streams: int = 1,
    gap: Duration | None = None,
    profile_index: int = 0,
    telemetry: Duration | None = None,
    lock_clocks: str | None = None,
    precision: Precision | None = None,
    profile: bool | None = None,
    separate_profile_run: bool = True,
    switch_shapes: Shapes | None = None,
    switch_profile: int | None = None,
    options: Pairs | None = None,
    python: File | None = None,
    memory_limit: Size | None = None,
    timeout: Duration | None = None,
    wait: bool = True,
    output: File | None = None,
    tags: Collection[str] = (),
    executor: str | None = None,
    address: str | None = None,
    hosts: File | None = None,
    needs: Sequence[str] = (),
    wait_node: Duration | None = None,
    beside: int = 1,
    store: File | None = None,
) -> Run:
    """Time the layers of a model, or read the run of that name; ``.layers`` has them.

    model: A file, or the name of a stored run.
    extra_args: Passed on to runtimes that are programs (trtexec).
    runtime: What executes the model.
    shapes: Shape of one input; repeat for several.
    batch: Items per query: every dynamic leading dimension.
    warmup: Least warm-up, e.g. 500ms (default 200ms).
    warmup_iterations: Least warm-up as a count of queries.
    until_steady: Go on warming up (10 s at most) until two windows agree.
    duration: Least measured time, e.g. 10s (default 3s).
    iterations: Least measured queries (default 10). Without --duration there is no least time;
        trtexec has its own of 3 s, as ever.
    launches: Fresh processes to measure in (default 1).
    inputs: Inputs from .npz, .npy, a folder of raw binaries; with --task, from an image.
    seed: Of random inputs, orders and arrivals.
    task: Prepares the image that --inputs names (classification, depth, ...); adds its flags
        (see --task NAME --help).
    settings: Flags of the task, with underscores: --task NAME --help lists them.
    device: cpu, cuda:0, cuda:1, ...
    threads: Threads within an operator (CPU runtimes).
    protocol: How queries follow one another (default: serve; trtexec: pipeline).
    rate: Arrivals of the protocol server, e.g. 500/s or 2kHz.
    arrivals: How they are spread in time: poisson, constant, or a CSV with a column such as
        time_s or gap_ms.
    cuda_graph: Launch queries as a CUDA graph; auto goes on without one that cannot be captured
        (default: off; protocols gpu and coldl2: on).
    transfers: Copy inputs and outputs each time.
    spin_wait: Wait for the GPU by spinning.
    streams: Queries at a time, each in a context of its own; their latencies overlap.
    gap: Mean random rest between queries, e.g. 5ms.
    profile_index: Optimization profile of the engine, from 0.
    telemetry: Look at the GPU this often (100ms), in a pass of its own after the measurement.
    lock_clocks: Lock the GPU's clock while measuring (needs root), and free it afterwards.
    precision: Precision that a weakly typed builder, or PyTorch, may use.
    profile: Time single layers too (default: as the runtime does; trtexec: yes).
    separate_profile_run: Time layers in a pass of their own.
    switch_shapes: Time changes to this shape and back too, in a pass of its own after the
        measurement; repeat for several inputs.
    switch_profile: The same with this optimization profile of the engine.
    options: An option of the runtime itself, e.g. providers=cuda or torch:compile=default;
        repeat for several.
    python: Work in another Python interpreter.
    memory_limit: Address space of each child, e.g. 8GiB.
    timeout: Give up on a launch or a step after this long: 10min.
    wait: Wait while the device is in use, or else fail at once.
    output: Folder for this run.
    tags: Name to find the runs by.
    executor: Work on every GPU of this machine, on a Ray cluster, or on hosts by ssh.
    address: Of the Ray cluster, also ray://HOST:10001 (default: its own).
    hosts: Hosts for ssh, as TOML.
    needs: What a machine must have: gpu=H100, memory=16GiB, gpu-memory=40GiB, NAME=1.
    wait_node: Wait so long for a node that a Ray cluster, or its autoscaler, has to add first.
    beside: CPU runs at the same time on one machine; they disturb each other.
    store: Folder or URL of the store (default: from configuration).

    >>> trtbench.profile("model.engine").layers.layers[0].average_s
    """
    return verbs.profile(request_from_arguments(ProfileRequest, locals()))


def compare(
    baseline: File,
    candidate: File | None = None,
    *,
    selftest: bool = False,
    builds: int | None = None,
    build: Pairs | None = None,
    device: PerSide | None = None,
    args: PerSide | None = None,
    runtime: PerSide | None = None,
    python: PerSide | None = None,
    shapes: Shapes | None = None,
    batch: int | None = None,
    launches: int | None = None,
    max_launches: int | None = None,
    pairs: int | None = None,
    mode: Mode = "auto",
    margin: Fraction = "2%",
    accept: Collection[str] = (),
    warmup: Duration | None = None,
    warmup_iterations: int | None = None,
    until_steady: bool = True,
    duration: Duration | None = None,
    iterations: int | None = None,
    inputs: File | None = None,
    seed: int = 0,
    threads: int | None = None,
    options: Pairs | None = None,
    protocol: Protocol | None = None,
    rate: Rate | None = None,
    arrivals: File = "poisson",
    cuda_graph: CudaGraph | None = None,
    transfers: bool = True,
    spin_wait: bool = False,
    streams: int = 1,
    gap: Duration | None = None,
    profile_index: int = 0,
    lock_clocks: str | None = None,
    precision: Precision | None = None,
    timeout: Duration | None = None,
    wait: bool = True,
    tags: Collection[str] = (),
    executor: str | None = None,
    address: str | None = None,
    hosts: File | None = None,
    needs: Sequence[str] = (),
    wait_node: Duration | None = None,
    beside: int = 1,
    store: File | None = None,
) -> Comparison:
    """Compare two models, engines or stored runs; files are measured in turn with each other.

    baseline: A model or a stored run.
    candidate: Others of the same.
    selftest: Compare BASELINE with itself.
    builds: Compare networks, not one lucky build of each: build both ONNX files so many times.
    build: With --builds, a flag of trtbench build: workspace=4GiB; repeat for several.
    device: cpu, cuda:0, cuda:1, ...: once for all sides, or once per side.
    args: Arguments for a runtime that is a program (trtexec), in quotes: once for all sides, or
        once per side ('' is none).
    runtime: What executes the models: once for all sides, or once per side.
    python: Interpreter: once for all sides, or once per side.
    shapes: Shape of one input; repeat for several.
    batch: Items per query: every dynamic leading dimension.
    launches: Fresh launches of both sides (default 10, of slow models 5; of a model alone, in a
        gate: 5).
    max_launches: Go on to so many while the answer is unclear (default 80, for 90 s; on a GPU
        25 s).
    pairs: Iterations of each side per launch, in turn (default: what fits in 0.4 s, 12 to 200).
    mode: How the sides take turns; --duration and --iterations are for launches.
    margin: Within this, interval and all, two sides are the same.
    accept: Compare in spite of this difference (tf32, batch, protocol, ...).
    warmup: Least warm-up, e.g. 500ms (default 200ms).
    warmup_iterations: Least warm-up as a count of queries.
    until_steady: Go on warming up (10 s at most) until two windows agree.
    duration: Least measured time, e.g. 10s (default 3s).
    iterations: Least measured queries (default 10). Without --duration there is no least time;
        trtexec has its own of 3 s, as ever.
    inputs: Inputs from .npz, .npy, a folder of raw binaries; with --task, from an image.
    seed: Of random inputs, orders and arrivals.
    threads: Threads within an operator (CPU runtimes).
    options: An option of the runtime itself, e.g. providers=cuda or torch:compile=default;
        repeat for several.
    protocol: How queries follow one another (default: serve; trtexec: pipeline).
    rate: Arrivals of the protocol server, e.g. 500/s or 2kHz.
    arrivals: How they are spread in time: poisson, constant, or a CSV with a column such as
        time_s or gap_ms.
    cuda_graph: Launch queries as a CUDA graph; auto goes on without one that cannot be captured
        (default: off; protocols gpu and coldl2: on).
    transfers: Copy inputs and outputs each time.
    spin_wait: Wait for the GPU by spinning.
    streams: Queries at a time, each in a context of its own; their latencies overlap.
    gap: Mean random rest between queries, e.g. 5ms.
    profile_index: Optimization profile of the engine, from 0.
    lock_clocks: Lock the GPU's clock while measuring (needs root), and free it afterwards.
    precision: Precision that a weakly typed builder, or PyTorch, may use.
    timeout: Give up on a launch or a step after this long: 10min.
    wait: Wait while the device is in use, or else fail at once.
    tags: Name to find the runs by.
    executor: Work on every GPU of this machine, on a Ray cluster, or on hosts by ssh.
    address: Of the Ray cluster, also ray://HOST:10001 (default: its own).
    hosts: Hosts for ssh, as TOML.
    needs: What a machine must have: gpu=H100, memory=16GiB, gpu-memory=40GiB, NAME=1.
    wait_node: Wait so long for a node that a Ray cluster, or its autoscaler, has to add first.
    beside: CPU runs at the same time on one machine; they disturb each other.
    store: Folder or URL of the store (default: from configuration).

    >>> trtbench.compare("model.onnx", "model.int8.onnx", batch=8).verdicts[0].kind
    """
    candidates = () if candidate is None else (candidate,)
    return verbs.compare(request_from_arguments(CompareRequest, locals()))


def gate(
    candidate: File,
    *,
    against: File | None = None,
    baseline: str | None = None,
    max_slowdown: Fraction | None = None,
    metrics: Sequence[str] = (),
    rules: Sequence[File] = (),
    on_unclear: OnUnclear = "fail",
    time_limit: Duration = "60s",
    measure_same: bool = False,
    keep_model: bool | None = None,
    device: PerSide | None = None,
    args: PerSide | None = None,
    runtime: PerSide | None = None,
    python: PerSide | None = None,
    shapes: Shapes | None = None,
    batch: int | None = None,
    launches: int | None = None,
    max_launches: int | None = None,
    pairs: int | None = None,
    mode: Mode = "auto",
    margin: Fraction = "2%",
    accept: Collection[str] = (),
    warmup: Duration | None = None,
    warmup_iterations: int | None = None,
    until_steady: bool = True,
    duration: Duration | None = None,
    iterations: int | None = None,
    inputs: File | None = None,
    seed: int = 0,
    threads: int | None = None,
    options: Pairs | None = None,
    protocol: Protocol | None = None,
    rate: Rate | None = None,
    arrivals: File = "poisson",
    cuda_graph: CudaGraph | None = None,
    transfers: bool = True,
    spin_wait: bool = False,
    streams: int = 1,
    gap: Duration | None = None,
    profile_index: int = 0,
    lock_clocks: str | None = None,
    precision: Precision | None = None,
    timeout: Duration | None = None,
    wait: bool = True,
    tags: Collection[str] = (),
    executor: str | None = None,
    address: str | None = None,
    hosts: File | None = None,
    needs: Sequence[str] = (),
    wait_node: Duration | None = None,
    beside: int = 1,
    store: File | None = None,
) -> Gate:
    """Hold a candidate to rules such as ``p99<5ms``; ``.open`` tells whether all are met.

    candidate: A model, a stored run, or a .toml file of several models.
    against: A model, a run, or tag:NAME.
    baseline: last, best or tag:NAME among the stored runs comparable with CANDIDATE.
    max_slowdown: Slower than BASELINE by this at most.
    metrics: 'p99<5ms' and the like; quoted, or the shell takes the sign.
    rules: TOML file of rules; MODEL.gate.toml beside the model is read by itself.
    on_unclear: When a rule stays unclear; retry measures once more.
    time_limit: Measure no longer than this while unclear.
    measure_same: Measure in turn even when both sides are the same bytes.
    keep_model: Keep CANDIDATE's bytes in the store, to be measured in turn with the next one
        (default: with --baseline, up to 512 MiB).
    device: cpu, cuda:0, cuda:1, ...: once for all sides, or once per side.
    args: Arguments for a runtime that is a program (trtexec), in quotes: once for all sides, or
        once per side ('' is none).
    runtime: What executes the models: once for all sides, or once per side.
    python: Interpreter: once for all sides, or once per side.
    shapes: Shape of one input; repeat for several.
    batch: Items per query: every dynamic leading dimension.
    launches: Fresh launches of both sides (default 10, of slow models 5; of a model alone, in a
        gate: 5).
    max_launches: Go on to so many while the answer is unclear (default 80, for 90 s; on a GPU
        25 s).
    pairs: Iterations of each side per launch, in turn (default: what fits in 0.4 s, 12 to 200).
    mode: How the sides take turns; --duration and --iterations are for launches.
    margin: Within this, interval and all, two sides are the same.
    accept: Compare in spite of this difference (tf32, batch, protocol, ...).
    warmup: Least warm-up, e.g. 500ms (default 200ms).
    warmup_iterations: Least warm-up as a count of queries.
    until_steady: Go on warming up (10 s at most) until two windows agree.
    duration: Least measured time, e.g. 10s (default 3s).
    iterations: Least measured queries (default 10). Without --duration there is no least time;
        trtexec has its own of 3 s, as ever.
    inputs: Inputs from .npz, .npy, a folder of raw binaries; with --task, from an image.
    seed: Of random inputs, orders and arrivals.
    threads: Threads within an operator (CPU runtimes).
    options: An option of the runtime itself, e.g. providers=cuda or torch:compile=default;
        repeat for several.
    protocol: How queries follow one another (default: serve; trtexec: pipeline).
    rate: Arrivals of the protocol server, e.g. 500/s or 2kHz.
    arrivals: How they are spread in time: poisson, constant, or a CSV with a column such as
        time_s or gap_ms.
    cuda_graph: Launch queries as a CUDA graph; auto goes on without one that cannot be captured
        (default: off; protocols gpu and coldl2: on).
    transfers: Copy inputs and outputs each time.
    spin_wait: Wait for the GPU by spinning.
    streams: Queries at a time, each in a context of its own; their latencies overlap.
    gap: Mean random rest between queries, e.g. 5ms.
    profile_index: Optimization profile of the engine, from 0.
    lock_clocks: Lock the GPU's clock while measuring (needs root), and free it afterwards.
    precision: Precision that a weakly typed builder, or PyTorch, may use.
    timeout: Give up on a launch or a step after this long: 10min.
    wait: Wait while the device is in use, or else fail at once.
    tags: Name to find the runs by.
    executor: Work on every GPU of this machine, on a Ray cluster, or on hosts by ssh.
    address: Of the Ray cluster, also ray://HOST:10001 (default: its own).
    hosts: Hosts for ssh, as TOML.
    needs: What a machine must have: gpu=H100, memory=16GiB, gpu-memory=40GiB, NAME=1.
    wait_node: Wait so long for a node that a Ray cluster, or its autoscaler, has to add first.
    beside: CPU runs at the same time on one machine; they disturb each other.
    store: Folder or URL of the store (default: from configuration).

    >>> trtbench.gate("new.onnx", against="old.onnx", max_slowdown="3%").open
    """
    return verbs.gate(request_from_arguments(GateRequest, locals()))


def check(
    reference: File,
    *candidates: File,
    output: File = "artifacts/check",
    random: int = 1000,
    distribution: Literal["uniform", "normal", "recorded"] = "uniform",
    range: Range | None = None,
    seed: int = 0,
    inputs: File | None = None,
    images: File | None = None,
    task: str | None = None,
    limit: int | None = None,
    rtol: float = 0.001,
    atol: float = 1e-08,
    classes: bool | None = None,
    floor: Literal["auto", "on", "off"] = "auto",
    expect: Sequence[str] = (),
    runtime: PerSide | None = None,
    python: PerSide | None = None,
    shapes: Shapes | None = None,
    batch: int | None = None,
    device: str | None = None,
    threads: int | None = None,
    options: Pairs | None = None,
    timeout: Duration | None = None,
    wait: bool = True,
    settings: Mapping[str, Scalar] | None = None,
    executor: str | None = None,
    address: str | None = None,
    hosts: File | None = None,
    needs: Sequence[str] = (),
    wait_node: Duration | None = None,
    beside: int = 1,
    store: File | None = None,
) -> Checked:
    """Run every side on the same inputs and compare each candidate with the reference.

    Inputs are random, rows of a file, or ``images`` with the preprocessing of a task and its
    ``settings``. Tables and the worst inputs are written to ``output``.

    reference: The model that counts as right.
    candidates: Models that are held against it.
    output: Folder of tables, pictures and worst inputs.
    random: So many seeded random inputs.
    distribution: Of random inputs; recorded: the range a side was quantized for.
    range: Where random inputs lie (0:1; whole numbers: 0:999).
    seed: Of random inputs.
    inputs: Inputs from .npz, .npy or raw binaries.
    images: Images, with the preprocessing of --task.
    task: Whose preprocessing images get (default: classification).
    limit: Only the first so many inputs.
    rtol: Relative tolerance; |reference| scales it.
    atol: Absolute tolerance.
    classes: Whether outputs are scores of classes (default: by their shape).
    floor: Run the reference twice, against itself.
    expect: Exit with status 3 unless this holds, e.g. 'max_abs<=0.1'.
    runtime: What executes the models: once for all sides, or once per side.
    python: Interpreter: once for all sides, or once per side.
    shapes: Shape of one input; repeat for several.
    batch: Items per query: every dynamic leading dimension.
    device: cpu, cuda:0, cuda:1, ...
    threads: Threads within an operator (CPU runtimes).
    options: An option of the runtime itself, e.g. providers=cuda or torch:compile=default;
        repeat for several.
    timeout: Give up on a launch or a step after this long: 10min.
    wait: Wait while the device is in use, or else fail at once.
    settings: Flags of the task, with underscores: --task NAME --help lists them.
    executor: Work on every GPU of this machine, on a Ray cluster, or on hosts by ssh.
    address: Of the Ray cluster, also ray://HOST:10001 (default: its own).
    hosts: Hosts for ssh, as TOML.
    needs: What a machine must have: gpu=H100, memory=16GiB, gpu-memory=40GiB, NAME=1.
    wait_node: Wait so long for a node that a Ray cluster, or its autoscaler, has to add first.
    beside: CPU runs at the same time on one machine; they disturb each other.
    store: Folder or URL of the store (default: from configuration).

    >>> checked = trtbench.check("model.onnx", "model.int8.onnx", random=500)
    >>> checked.candidates[0].checks[0].sqnr_db
    """
    return verbs.check(request_from_arguments(CheckRequest, locals()))


def localize(
    reference: File,
    candidate: File,
    *,
    data: File | None = None,
    random: int = 64,
    limit: int | None = 256,
    repair: bool = False,
    where: str | None = None,
    max_time: Duration = "5min",
    speed: bool = True,
    output: File = "artifacts/localize",
    distribution: Literal["uniform", "normal", "recorded"] = "uniform",
    range: Range | None = None,
    seed: int = 0,
    inputs: File | None = None,
    images: File | None = None,
    task: str | None = None,
    runtime: PerSide | None = None,
    python: PerSide | None = None,
    shapes: Shapes | None = None,
    batch: int | None = None,
    device: str | None = None,
    threads: int | None = None,
    options: Pairs | None = None,
    timeout: Duration | None = None,
    wait: bool = True,
    settings: Mapping[str, Scalar] | None = None,
    store: File | None = None,
) -> Localization:
    """Find the layers that cost a low-precision model its accuracy, and the fewest to keep.

    reference: The model in full precision, as ONNX.
    candidate: The same in low precision, or an engine of it.
    data: Data with answers: judge by the metric of --task.
    random: So many seeded random inputs, without data.
    limit: Only the first so many inputs.
    repair: Keep the fewest layers in full precision that meet --where.
    where: What a repair has to meet: 'top1>=baseline-0.5', 'sqnr>=30dB' (default: 0.5 % of the
        metric, or the usual SQNR of the type).
    max_time: Search no longer than this; long networks by bisection.
    speed: Measure the repaired model against both others.
    output: Folder of the tables and the repaired model.
    distribution: Of random inputs; recorded: the range a side was quantized for.
    range: Where random inputs lie (0:1; whole numbers: 0:999).
    seed: Of random inputs.
    inputs: Inputs from .npz, .npy or raw binaries.
    images: Images, with the preprocessing of --task.
    task: Whose preprocessing images get (default: classification).
    runtime: What executes the models: once for all sides, or once per side.
    python: Interpreter: once for all sides, or once per side.
    shapes: Shape of one input; repeat for several.
    batch: Items per query: every dynamic leading dimension.
    device: cpu, cuda:0, cuda:1, ...
    threads: Threads within an operator (CPU runtimes).
    options: An option of the runtime itself, e.g. providers=cuda or torch:compile=default;
        repeat for several.
    timeout: Give up on a launch or a step after this long: 10min.
    wait: Wait while the device is in use, or else fail at once.
    settings: Flags of the task, with underscores: --task NAME --help lists them.
    store: Folder or URL of the store (default: from configuration).

    >>> found = trtbench.localize("model.onnx", "model.int8.onnx", repair=True, where="sqnr>=30dB")
    >>> found.found.groups[0].node, found.repaired
    """
    return verbs.localize(request_from_arguments(LocalizeRequest, locals()))


def evaluate(
    *models: File,
    task: str,
    data: File,
    names: Literal["file", "vanilla"] = "file",
    join: Sequence[str] = (),
    output: File = "artifacts/eval",
    limit: int | None = None,
    warmup: Fraction = "10%",
    runtime: PerSide | None = None,
    python: PerSide | None = None,
    shapes: Shapes | None = None,
    batch: int | None = None,
    device: str | None = None,
    threads: int | None = None,
    options: Pairs | None = None,
    timeout: Duration | None = None,
    wait: bool = True,
    precision: Precision | None = None,
    settings: Mapping[str, Scalar] | None = None,
    executor: str | None = None,
    address: str | None = None,
    hosts: File | None = None,
    needs: Sequence[str] = (),
    wait_node: Duration | None = None,
    beside: int = 1,
    store: File | None = None,
) -> Evaluation:
    """Evaluate models on data with known answers; runs of the same bytes carry the scores.

    ``settings`` are the flags of the task, with underscores: ``{"gt": "truth", "align": "none"}``.

    models: Files to evaluate.
    names: Call models by their files, or Vanilla and TRT fp16, as ArtTRT does.
    join: Insist on this run; those of the same bytes are joined anyway.
    output: Folder of tables and pictures.
    task: classification, detection, depth, pose; with --help shows its flags.
    data: Images, an .npz with labels, or a data.yaml.
    limit: Only the first so many items.
    warmup: Batches at the start whose times do not count.
    runtime: What executes the models: once for all sides, or once per side.
    python: Interpreter: once for all sides, or once per side.
    shapes: Shape of one input; repeat for several.
    batch: Items per query: every dynamic leading dimension.
    device: cpu, cuda:0, cuda:1, ...
    threads: Threads within an operator (CPU runtimes).
    options: An option of the runtime itself, e.g. providers=cuda or torch:compile=default;
        repeat for several.
    timeout: Give up on a launch or a step after this long: 10min.
    wait: Wait while the device is in use, or else fail at once.
    precision: Precision that a weakly typed builder, or PyTorch, may use.
    settings: Flags of the task, with underscores: --task NAME --help lists them.
    executor: Work on every GPU of this machine, on a Ray cluster, or on hosts by ssh.
    address: Of the Ray cluster, also ray://HOST:10001 (default: its own).
    hosts: Hosts for ssh, as TOML.
    needs: What a machine must have: gpu=H100, memory=16GiB, gpu-memory=40GiB, NAME=1.
    wait_node: Wait so long for a node that a Ray cluster, or its autoscaler, has to add first.
    beside: CPU runs at the same time on one machine; they disturb each other.
    store: Folder or URL of the store (default: from configuration).

    >>> found = trtbench.evaluate("model.onnx", task="classification", data="val", batch=8)
    >>> found.models[0].score("top1").value
    """
    return verbs.evaluate(request_from_arguments(EvalRequest, locals()))


def build(
    model: File,
    *,
    extra_args: tuple[str, ...] = (),
    output: File | None = None,
    runtime: str | None = None,
    precision: Precision | None = None,
    shapes: Shapes | None = None,
    batch: int | None = None,
    shapes_min: Shapes | Sequence[Shapes] = (),
    shapes_opt: Shapes | Sequence[Shapes] = (),
    shapes_max: Shapes | Sequence[Shapes] = (),
    input_shapes: Sequence[str] = (),
    workspace: Size | None = None,
    optimization_level: int | None = None,
    timing_cache: File | None = None,
    no_timing_cache: bool = False,
    target: Words = (),
    version_compatible: bool = False,
    hardware_compatible: bool = False,
    strip_weights: bool = False,
    refit: bool = False,
    plugins: Sequence[File] = (),
    dla_core: int | None = None,
    verbose: bool = False,
    calibration: File | None = None,
    calibration_method: Literal["entropy2", "minmax"] | None = None,
    calibration_cache: File | None = None,
    task: str | None = None,
    settings: Mapping[str, Scalar] | None = None,
    options: Pairs | None = None,
    python: File | None = None,
    timeout: Duration | None = None,
    wait: bool = True,
    executor: str | None = None,
    address: str | None = None,
    hosts: File | None = None,
    needs: Sequence[str] = (),
    wait_node: Duration | None = None,
    beside: int = 1,
) -> Artefact:
    """Build an engine from an ONNX file in a fresh process.

    model: An ONNX file.
    extra_args: Passed on to builders that are programs (trtexec).
    output: The engine to write.
    runtime: What builds (default: trtexec, or TensorRT's or TensorRT-RTX's Python API where
        only that is).
    precision: Precision that a weakly typed builder, or PyTorch, may use.
    shapes: Shape of one input; repeat for several.
    batch: Items per query: every dynamic leading dimension.
    shapes_min: Least shape of one input; repeat for several inputs, or the same one for more
        profiles.
    shapes_opt: Shape to optimise for, likewise.
    shapes_max: Largest shape, likewise.
    input_shapes: Shape of the input, -1 for a batch of 1 to 256 (best at 128); or
        NAME:-1x3x224x224.
    workspace: Limit of scratch memory, e.g. 4GiB.
    optimization_level: 0 (quick) to 5.
    timing_cache: Timings of kernels to reuse and add to (default: beside the engine).
    no_timing_cache: Time every kernel anew and keep nothing.
    target: GPUs to build for (TensorRT-RTX; default: all).
    version_compatible: Let later TensorRT versions load it.
    hardware_compatible: Let other GPUs (Ampere+) run it.
    strip_weights: Leave weights out of the engine.
    refit: Let weights be replaced later.
    plugins: Plugin library.
    dla_core: Build for this deep learning accelerator.
    verbose: Everything the builder has to say in the log.
    calibration: Data for INT8: an .npz of arrays by input, a folder of images, or random.
    calibration_method: How scales are found (default entropy2).
    calibration_cache: Scales for INT8 (TensorRT 5 to 10).
    task: Prepares images for calibration as it does for judging (classification, detection,
        depth, pose); adds its flags (see --task NAME --help).
    settings: Flags of the task, with underscores: --task NAME --help lists them.
    options: An option of the builder itself; repeat for several.
    python: Work in another Python interpreter.
    timeout: Give up after this long, e.g. 30min.
    wait: Wait while the device is in use, or else fail at once.
    executor: Work on every GPU of this machine, on a Ray cluster, or on hosts by ssh.
    address: Of the Ray cluster, also ray://HOST:10001 (default: its own).
    hosts: Hosts for ssh, as TOML.
    needs: What a machine must have: gpu=H100, memory=16GiB, gpu-memory=40GiB, NAME=1.
    wait_node: Wait so long for a node that a Ray cluster, or its autoscaler, has to add first.
    beside: CPU runs at the same time on one machine; they disturb each other.

    >>> trtbench.build("model.onnx", precision="fp16", workspace="4GiB").path
    """
    return verbs.build(request_from_arguments(BuildRequest, locals()))


def lottery(
    model: File,
    *,
    extra_args: tuple[str, ...] = (),
    output: File | None = None,
    builds: int = 5,
    launches: int = 3,
    duration: Duration = "1s",
    random: int = 16,
    resume: bool = False,
    runtime: str | None = None,
    precision: Precision | None = None,
    shapes: Shapes | None = None,
    batch: int | None = None,
    shapes_min: Shapes | Sequence[Shapes] = (),
    shapes_opt: Shapes | Sequence[Shapes] = (),
    shapes_max: Shapes | Sequence[Shapes] = (),
    input_shapes: Sequence[str] = (),
    workspace: Size | None = None,
    optimization_level: int | None = None,
    timing_cache: File | None = None,
    no_timing_cache: bool = False,
    target: Words = (),
    version_compatible: bool = False,
    hardware_compatible: bool = False,
    strip_weights: bool = False,
    refit: bool = False,
    plugins: Sequence[File] = (),
    dla_core: int | None = None,
    verbose: bool = False,
    calibration: File | None = None,
    calibration_method: Literal["entropy2", "minmax"] | None = None,
    calibration_cache: File | None = None,
    task: str | None = None,
    settings: Mapping[str, Scalar] | None = None,
    options: Pairs | None = None,
    protocol: Protocol | None = None,
    rate: Rate | None = None,
    arrivals: File = "poisson",
    cuda_graph: CudaGraph | None = None,
    transfers: bool = True,
    spin_wait: bool = False,
    streams: int = 1,
    gap: Duration | None = None,
    profile_index: int = 0,
    python: File | None = None,
    timeout: Duration | None = None,
    wait: bool = True,
    tags: Collection[str] = (),
    store: File | None = None,
) -> Lottery:
    """Build the same engine several times; ``.aspects`` tell in what the builds differ.

    model: An ONNX file.
    extra_args: Passed on to builders that are programs (trtexec).
    output: Folder of the engines (default: MODEL.builds).
    builds: How many engines to build.
    launches: Fresh processes to measure each engine in.
    duration: Least measured time of a launch.
    random: Random inputs to compare outputs on.
    resume: Keep engines of the same command that an earlier try left in the folder.
    runtime: What builds (default: trtexec, or TensorRT's or TensorRT-RTX's Python API where
        only that is).
    precision: Precision that a weakly typed builder, or PyTorch, may use.
    shapes: Shape of one input; repeat for several.
    batch: Items per query: every dynamic leading dimension.
    shapes_min: Least shape of one input; repeat for several inputs, or the same one for more
        profiles.
    shapes_opt: Shape to optimise for, likewise.
    shapes_max: Largest shape, likewise.
    input_shapes: Shape of the input, -1 for a batch of 1 to 256 (best at 128); or
        NAME:-1x3x224x224.
    workspace: Limit of scratch memory, e.g. 4GiB.
    optimization_level: 0 (quick) to 5.
    timing_cache: Timings of kernels to reuse and add to (default: beside the engine).
    no_timing_cache: Time every kernel anew and keep nothing.
    target: GPUs to build for (TensorRT-RTX; default: all).
    version_compatible: Let later TensorRT versions load it.
    hardware_compatible: Let other GPUs (Ampere+) run it.
    strip_weights: Leave weights out of the engine.
    refit: Let weights be replaced later.
    plugins: Plugin library.
    dla_core: Build for this deep learning accelerator.
    verbose: Everything the builder has to say in the log.
    calibration: Data for INT8: an .npz of arrays by input, a folder of images, or random.
    calibration_method: How scales are found (default entropy2).
    calibration_cache: Scales for INT8 (TensorRT 5 to 10).
    task: Prepares images for calibration as it does for judging (classification, detection,
        depth, pose); adds its flags (see --task NAME --help).
    settings: Flags of the task, with underscores: --task NAME --help lists them.
    options: An option of the builder itself; repeat for several.
    protocol: How queries follow one another (default: serve; trtexec: pipeline).
    rate: Arrivals of the protocol server, e.g. 500/s or 2kHz.
    arrivals: How they are spread in time: poisson, constant, or a CSV with a column such as
        time_s or gap_ms.
    cuda_graph: Launch queries as a CUDA graph; auto goes on without one that cannot be captured
        (default: off; protocols gpu and coldl2: on).
    transfers: Copy inputs and outputs each time.
    spin_wait: Wait for the GPU by spinning.
    streams: Queries at a time, each in a context of its own; their latencies overlap.
    gap: Mean random rest between queries, e.g. 5ms.
    profile_index: Optimization profile of the engine, from 0.
    python: Work in another Python interpreter.
    timeout: Give up after this long, e.g. 30min.
    wait: Wait while the device is in use, or else fail at once.
    tags: Name to find the runs by.
    store: Folder or URL of the store (default: from configuration).

    >>> trtbench.lottery("model.onnx", precision="fp16", builds=5).spread.between
    """
    return verbs.lottery(request_from_arguments(LotteryRequest, locals()))


def upgrade(
    old: File,
    new: File,
    model: File,
    *,
    extra_args: tuple[str, ...] = (),
    data: File | None = None,
    output: File | None = None,
    builds: int = 5,
    launches: int = 3,
    duration: Duration = "1s",
    random: int = 16,
    resume: bool = False,
    runtime: str | None = None,
    precision: Precision | None = None,
    shapes: Shapes | None = None,
    batch: int | None = None,
    shapes_min: Shapes | Sequence[Shapes] = (),
    shapes_opt: Shapes | Sequence[Shapes] = (),
    shapes_max: Shapes | Sequence[Shapes] = (),
    input_shapes: Sequence[str] = (),
    workspace: Size | None = None,
    optimization_level: int | None = None,
    timing_cache: File | None = None,
    no_timing_cache: bool = False,
    target: Words = (),
    version_compatible: bool = False,
    hardware_compatible: bool = False,
    strip_weights: bool = False,
    refit: bool = False,
    plugins: Sequence[File] = (),
    dla_core: int | None = None,
    verbose: bool = False,
    calibration: File | None = None,
    calibration_method: Literal["entropy2", "minmax"] | None = None,
    calibration_cache: File | None = None,
    task: str | None = None,
    settings: Mapping[str, Scalar] | None = None,
    options: Pairs | None = None,
    protocol: Protocol | None = None,
    rate: Rate | None = None,
    arrivals: File = "poisson",
    cuda_graph: CudaGraph | None = None,
    transfers: bool = True,
    spin_wait: bool = False,
    streams: int = 1,
    gap: Duration | None = None,
    profile_index: int = 0,
    timeout: Duration | None = None,
    wait: bool = True,
    tags: Collection[str] = (),
    store: File | None = None,
) -> Upgrade:
    """Build one network with two versions of TensorRT and hold the engines against each other.

    old: The version in use: NAME=INTERPRETER.
    new: The version to change to.
    model: An ONNX file.
    extra_args: Passed on to builders that are programs (trtexec).
    data: Take the accuracy of both on these, as --task has it.
    output: Folder of the engines (default: MODEL.upgrade).
    builds: How many engines to build.
    launches: Fresh processes to measure each engine in.
    duration: Least measured time of a launch.
    random: Random inputs to compare outputs on.
    resume: Keep engines of the same command that an earlier try left in the folder.
    runtime: What builds (default: trtexec, or TensorRT's or TensorRT-RTX's Python API where
        only that is).
    precision: Precision that a weakly typed builder, or PyTorch, may use.
    shapes: Shape of one input; repeat for several.
    batch: Items per query: every dynamic leading dimension.
    shapes_min: Least shape of one input; repeat for several inputs, or the same one for more
        profiles.
    shapes_opt: Shape to optimise for, likewise.
    shapes_max: Largest shape, likewise.
    input_shapes: Shape of the input, -1 for a batch of 1 to 256 (best at 128); or
        NAME:-1x3x224x224.
    workspace: Limit of scratch memory, e.g. 4GiB.
    optimization_level: 0 (quick) to 5.
    timing_cache: Timings of kernels to reuse and add to (default: beside the engine).
    no_timing_cache: Time every kernel anew and keep nothing.
    target: GPUs to build for (TensorRT-RTX; default: all).
    version_compatible: Let later TensorRT versions load it.
    hardware_compatible: Let other GPUs (Ampere+) run it.
    strip_weights: Leave weights out of the engine.
    refit: Let weights be replaced later.
    plugins: Plugin library.
    dla_core: Build for this deep learning accelerator.
    verbose: Everything the builder has to say in the log.
    calibration: Data for INT8: an .npz of arrays by input, a folder of images, or random.
    calibration_method: How scales are found (default entropy2).
    calibration_cache: Scales for INT8 (TensorRT 5 to 10).
    task: Prepares images for calibration as it does for judging (classification, detection,
        depth, pose); adds its flags (see --task NAME --help).
    settings: Flags of the task, with underscores: --task NAME --help lists them.
    options: An option of the builder itself; repeat for several.
    protocol: How queries follow one another (default: serve; trtexec: pipeline).
    rate: Arrivals of the protocol server, e.g. 500/s or 2kHz.
    arrivals: How they are spread in time: poisson, constant, or a CSV with a column such as
        time_s or gap_ms.
    cuda_graph: Launch queries as a CUDA graph; auto goes on without one that cannot be captured
        (default: off; protocols gpu and coldl2: on).
    transfers: Copy inputs and outputs each time.
    spin_wait: Wait for the GPU by spinning.
    streams: Queries at a time, each in a context of its own; their latencies overlap.
    gap: Mean random rest between queries, e.g. 5ms.
    profile_index: Optimization profile of the engine, from 0.
    timeout: Give up after this long, e.g. 30min.
    wait: Wait while the device is in use, or else fail at once.
    tags: Name to find the runs by.
    store: Folder or URL of the store (default: from configuration).

    >>> trtbench.upgrade("8.6=/opt/trt86/bin/python", "10=/opt/trt10/bin/python", "model.onnx")
    """
    return verbs.upgrade(request_from_arguments(UpgradeRequest, locals()))


def export(
    source: File,
    *,
    output: File | None = None,
    input_shapes: Sequence[str] = (),
    opset: int | None = None,
    target: str | None = None,
    exporter: Literal["dynamo", "legacy"] | None = None,
    half: bool = False,
    seed: int = 0,
    weights: File = "default",
    trust: bool = False,
    factory: str | None = None,
    python: File | None = None,
    timeout: Duration | None = None,
) -> Sidecar:
    """Export a PyTorch model to ONNX, check it, and compare it with PyTorch.

    source: torchvision:NAME, timm:NAME, ultralytics:NAME, torch.hub:REPO/NAME, or a file.
    output: The ONNX file (default: NAME.onnx).
    input_shapes: -1 3 224 224, images:-1x3x224x224 or ids:-1x128:int64; -1 may change.
        Repeatable.
    opset: ONNX opset (default: the exporter's).
    target: tensorrt-8.6, tensorrt-10, tensorrt-11 or tensorrt-rtx.
    exporter: By default, what the opset needs.
    half: Export in FP16.
    seed: Of weights and inputs.
    weights: Pretrained, random, or a state dict of your own.
    trust: Load a pickle, which can run any code in it.
    factory: What makes the module of a state dict.
    python: Work in another Python interpreter.
    timeout: Give up after this long, e.g. 30min.

    >>> trtbench.export("torchvision:resnet18", output="resnet18.onnx").difference
    """
    return verbs.export(request_from_arguments(ExportRequest, locals()))


def quantize(
    model: File,
    *,
    precision: Literal["fp16", "bf16", "int8", "fp8"],
    output: File | None = None,
    keep_io: bool = False,
    inputs: File | None = None,
    shapes: Shapes | None = None,
    calibration: File | None = None,
    method: Literal["minmax", "entropy", "percentile"] = "entropy",
    percentile: float = 99.99,
    items: int = 256,
    batch: int | None = None,
    seed: int = 0,
    per_channel: bool = True,
    exclude: Sequence[str] = (),
    keep: Sequence[str] = (),
    operators: Sequence[str] = (),
    via: Literal["onnxruntime", "modelopt"] | None = None,
    rest: Literal["fp32", "fp16"] = "fp32",
    task: str | None = None,
    settings: Mapping[str, Scalar] | None = None,
    python: File | None = None,
    timeout: Duration | None = None,
    executor: str | None = None,
    address: str | None = None,
    hosts: File | None = None,
    needs: Sequence[str] = (),
    wait_node: Duration | None = None,
    beside: int = 1,
) -> Sidecar:
    """Cast or quantize an ONNX file, and compare the result with it on other inputs.

    model: An ONNX file.
    precision: fp16 and bf16 are casts; int8 and fp8 are quantized with Q/DQ nodes.
    output: Default: MODEL.PRECISION.onnx.
    keep_io: Leave inputs and outputs in FP32 (casts).
    inputs: Take the difference on these (.npz, .npy).
    shapes: Shape of random data where the model leaves it open.
    calibration: A folder of images, an .npz or .npy, or random.
    method: How scales are found.
    percentile: Of the method of that name.
    items: Items at most.
    batch: Items per batch (default 8).
    seed: Of order and random data.
    per_channel: Scales of weights.
    exclude: Leave a node alone; a pattern with * and ? names several. Repeat for more.
    keep: The same, for casts: stays FP32.
    operators: Quantize only these.
    via: What quantizes (default: onnxruntime for int8, modelopt for fp8).
    rest: Type of what is not quantized (modelopt).
    task: Prepares images for calibration as it does for judging (classification, detection,
        depth, pose); adds its flags (see --task NAME --help).
    settings: Flags of the task, with underscores: --task NAME --help lists them.
    python: Work in another Python interpreter.
    timeout: Give up after this long, e.g. 30min.
    executor: Work on every GPU of this machine, on a Ray cluster, or on hosts by ssh.
    address: Of the Ray cluster, also ray://HOST:10001 (default: its own).
    hosts: Hosts for ssh, as TOML.
    needs: What a machine must have: gpu=H100, memory=16GiB, gpu-memory=40GiB, NAME=1.
    wait_node: Wait so long for a node that a Ray cluster, or its autoscaler, has to add first.
    beside: CPU runs at the same time on one machine; they disturb each other.

    >>> trtbench.quantize("model.onnx", precision="int8", calibration="data.npz").difference
    """
    return verbs.quantize(request_from_arguments(QuantizeRequest, locals()))


def sweep(
    *models: File | Mapping[str, object],
    preset: str | None = None,
    precision: Values = (),
    batch: Values = (),
    runtime: Values = (),
    engine: Values = (),
    axis: Axes | None = None,
    exclude: Excluded = (),
    rounds: int | None = None,
    seed: int | None = None,
    launches: Values = (),
    duration: Values = (),
    data: File | None = None,
    task: str | None = None,
    task_opt: Mapping[str, str] | None = None,
    check: int | None = None,
    inputs: File | None = None,
    calibration: File | None = None,
    shapes: OpenShapes | None = None,
    input_shape: Sequence[str] = (),
    settings: Mapping[str, Scalar] | None = None,
    weights: File = "default",
    trust: bool = False,
    factory: str | None = None,
    resume: File | None = None,
    retry_failed: bool = False,
    output: File | None = None,
    fetch_engines: bool = False,
    names: Literal["case", "vanilla"] | None = None,
    timeout: Duration | None = None,
    memory_limit: Size | None = None,
    tags: Collection[str] = (),
    executor: str | None = None,
    address: str | None = None,
    hosts: File | None = None,
    needs: Sequence[str] = (),
    wait_node: Duration | None = None,
    beside: int = 1,
    store: File | None = None,
) -> Results:
    """Measure every case of a matrix: models and axes, a file, or a mapping of the same keys.

    With a folder as ``output`` that a sweep has begun in, it goes on where that ended.

    models: Models, or a file that describes a matrix.
    preset: classification, depth, pose or stgcn.
    precision: fp32,fp16,int8; as-is takes the file's own.
    batch: Batch sizes: 1,32,64.
    runtime: What executes: onnxruntime,tensorrt.
    engine: static: one per batch; dynamic: one for all.
    axis: Another axis: a flag of bench, opt.KEY, build.KEY or a dimension, shape.NAME; repeat
        for several.
    exclude: Leave out the cases that have all these values.
    rounds: Measure every case so often, in turn (default 1).
    seed: Of the order within rounds (default 0).
    launches: Fresh processes of each measurement.
    duration: Least measured time.
    data: Take accuracies on this, as eval --data.
    task: Of eval, for --data (default: classification); adds its flags (see --task NAME
        --help).
    task_opt: A flag of the task that a file or preset names, e.g. gt=truth.
    check: Compare outputs with those of the model as given, on so many inputs.
    inputs: Measure on these arrays, or on an image as the task prepares it.
    calibration: For INT8: images, .npz or random.
    shapes: Shape of an input that is open in more than its batch; a letter is an axis:
        x:1x3x64x25xM.
    input_shape: PyTorch's: -1x3x224x224; a letter is an axis: x:-1x3x64x25xM.
    settings: Flags of the task, with underscores: --task NAME --help lists them.
    weights: Pretrained, random, or a state dict of your own.
    trust: Load a pickle, which can run any code in it.
    factory: What makes the module of a state dict.
    resume: Go on with the sweep in this folder.
    retry_failed: With --resume: try again what failed.
    output: Folder of the sweep.
    fetch_engines: With --executor: bring back what was built there, not results alone.
    names: Call rows by runtime and precision, or Vanilla and TRT fp16, as ArtTRT does.
    timeout: Give up on a launch or a step after this long.
    memory_limit: Address space of each child, e.g. 8GiB.
    tags: Name to find the runs by.
    executor: Work on every GPU of this machine, on a Ray cluster, or on hosts by ssh.
    address: Of the Ray cluster, also ray://HOST:10001 (default: its own).
    hosts: Hosts for ssh, as TOML.
    needs: What a machine must have: gpu=H100, memory=16GiB, gpu-memory=40GiB, NAME=1.
    wait_node: Wait so long for a node that a Ray cluster, or its autoscaler, has to add first.
    beside: CPU runs at the same time on one machine; they disturb each other.
    store: Folder or URL of the store (default: from configuration).

    >>> trtbench.sweep("model.onnx", batch=[1, 8], output="sweep").rows
    """
    return verbs.sweep(request_from_arguments(SweepRequest, locals()))


def import_runs(
    *paths: File,
    output: File | None = None,
    again: bool = False,
    pictures: bool | None = None,
    dry_run: bool = False,
    batch: int | None = None,
    engine: File | None = None,
    warmup: Duration | None = None,
    gpu: str | None = None,
    tensorrt: str | None = None,
    date: str | None = None,
    precision: str | None = None,
    tags: Collection[str] = (),
    store: File | None = None,
) -> ImportResult:
    """Make ordinary runs of what trtexec or the toolkits around it have left behind.

    paths: Files, folders or patterns.
    output: Also write the trtexec evaluation toolkit's files of the one run here.
    again: Import files that were imported before.
    pictures: Draw the layers, 0.4 s a run (default: where 8 runs or fewer come).
    dry_run: Print what would be done, and do nothing.
    batch: Items in one query, whatever is on record.
    engine: The engine that was run; it is hashed.
    warmup: Length of the warm-up to leave out, whatever the log says.
    gpu: The GPU it ran on, where no log tells.
    tensorrt: The version of TensorRT, such as 8.5.
    date: When it was measured, such as 2024-05-17.
    precision: The precision of the engine, such as fp16.
    tags: Name to find the runs by.
    store: Folder or URL of the store (default: from configuration).

    >>> trtbench.import_runs("results/", gpu="Tesla T4").runs
    """
    return verbs_of_runs.import_runs(request_from_arguments(ImportRequest, locals()))


def runs(
    *,
    model: str | None = None,
    failed: bool = False,
    limit: int | None = None,
    runtime: str | None = None,
    tag: str | None = None,
    since: str | None = None,
    until: str | None = None,
    store: File | None = None,
) -> Entries:
    """List stored runs, newest first; the list shows itself, and has ``to_pandas()``.

    model: Only models whose name contains this.
    failed: Only runs that did not finish.
    limit: At most so many; 0 is all (default on screens: 50).
    runtime: Only this runtime.
    tag: Only runs with this tag.
    since: Only from this day on: 2026-11-15, today, 7d.
    until: Only up to and including this day.
    store: Folder or URL of the store (default: from configuration).

    >>> trtbench.runs(model="resnet", since="7d")
    """
    return verbs_of_runs.runs(request_from_arguments(RunsRequest, locals()))


def export_runs(
    *names: str,
    to: Literal["parquet", "mlflow"],
    output: File,
    experiment: str = "trtbench",
    model: str | None = None,
    runtime: str | None = None,
    tag: str | None = None,
    since: str | None = None,
    until: str | None = None,
    store: File | None = None,
) -> Exported:
    """Export runs, all or those named, to Parquet files or to MLflow.

    names: Stored runs.
    to: Parquet files, or an MLflow tracking server.
    output: A folder for Parquet files; a tracking URI for MLflow.
    experiment: Of MLflow.
    model: Only models whose name contains this.
    runtime: Only this runtime.
    tag: Only runs with this tag.
    since: Only from this day on: 2026-11-15, today, 7d.
    until: Only up to and including this day.
    store: Folder or URL of the store (default: from configuration).

    >>> trtbench.export_runs(to="parquet", output="runs-parquet", since="30d")
    """
    return verbs_of_runs.export_runs(request_from_arguments(ExportRunsRequest, locals()))


def report(
    *names: File,
    output: File = "report",
    format: Words | None = None,
    brief: bool = False,
    title: str | None = None,
    prices: File | None = None,
    under: Duration | None = None,
    store: File | None = None,
) -> list[Path]:
    """Write one document about any number of stored runs, or folders of runs.

    names: Stored runs, or folders of runs or sweeps.
    output: Folder of the report.
    format: Comma separated, of html, md, json, csv, png and tex.  [default: html,md,json; with
        --brief: md]
    brief: A Markdown text short enough for a comment.
    title: Title of the document.
    prices: What devices cost, as TOML: the cost of a million items.
    under: Compare devices under this latency (default: round ones).
    store: Folder or URL of the store (default: from configuration).

    >>> trtbench.report("last", output="report", format="html,md")
    """
    return verbs_of_runs.report(request_from_arguments(ReportRequest, locals()))


def history(
    model: str | None = None,
    *,
    reference: str | None = None,
    least: int = 2,
    changes: bool = False,
    output: File | None = None,
    format: Words = "html,md,json",
    runtime: str | None = None,
    tag: str | None = None,
    since: str | None = None,
    until: str | None = None,
    store: File | None = None,
) -> History:
    """Group stored runs into series over time and find where they changed.

    model: Part of the name of a model.
    reference: Show ratios to this model, measured on the same machine within half an hour.
    least: Only series of so many runs.
    changes: Only series that changed.
    output: Write a report here.
    format: Of the report.
    runtime: Only this runtime.
    tag: Only runs with this tag.
    since: Only from this day on: 2026-11-15, today, 7d.
    until: Only up to and including this day.
    store: Folder or URL of the store (default: from configuration).

    >>> trtbench.history("resnet18", since="30d").series
    """
    return verbs_of_runs.history(request_from_arguments(HistoryRequest, locals()))


def site(
    *,
    output: File = "artifacts/site",
    title: str = "Benchmarks",
    store: File | None = None,
) -> SiteMade:
    """Write a static web site over all runs of a store.

    output: Folder of the site.
    title: What the site is called.
    store: Folder or URL of the store (default: from configuration).

    >>> trtbench.site(output="public").index
    """
    return verbs_of_runs.site(request_from_arguments(SiteRequest, locals()))


def inspect(
    file: File,
    *,
    batch: int | None = None,
    shapes: Shapes | None = None,
    onnx: File | None = None,
    load: bool = False,
    store: File | None = None,
) -> Inspection:
    """Look into a model, an engine, a file of trtexec, or a run.

    file: A file, a run directory, or a run by its id.
    batch: Open leading dimensions, for estimates.
    shapes: Shape of one input, for estimates; repeat for several.
    onnx: The ONNX file an engine was built from, to compare parameters with.
    load: Load an engine here and run it once: what it takes of the GPU's memory.
    store: Folder or URL of the store (default: from configuration).

    >>> trtbench.inspect("model.onnx", batch=8).facts["flops"]
    """
    return verbs_of_runs.inspect(request_from_arguments(InspectRequest, locals()))


def layers(
    *source: File,
    by: str | None = None,
    filter: str | None = None,
    sort: Literal["time", "order", "roofline"] | None = None,
    onnx: File | None = None,
    gpu: str | None = None,
    store: File | None = None,
) -> DataFrame:
    """Find the layers of a run or of trtexec's files, or groups of them, as a pandas DataFrame.

    source: A run, or files of trtexec (or their folder): profile, layers, ONNX.
    by: Group by kind, precision, role, node, block or '/a/*'.
    filter: Only layers or nodes that fit.
    sort: Slowest first, as they run, or farthest from the roofline first (default: time; in
        Python: order).
    onnx: The model it was built of, for FLOPs and asked types.
    gpu: Take the roofline of this GPU: 'NVIDIA H200'.
    store: Folder or URL of the store (default: from configuration).

    >>> trtbench.layers("last", by="precision")
    """
    return verbs_of_runs.layers(request_from_arguments(LayersRequest, locals()))


def diff(
    a: File,
    b: File,
    *,
    onnx: File | None = None,
    gpu: str | None = None,
    store: File | None = None,
) -> DataFrame:
    """Align the layers of two engines and give what differs as a pandas DataFrame.

    a: A run, a folder, or files of trtexec, joined by commas.
    b: The other one.
    onnx: The model it was built of, for FLOPs and asked types.
    gpu: Take the roofline of this GPU: 'NVIDIA H200'.
    store: Folder or URL of the store (default: from configuration).

    >>> trtbench.diff("tag:fp16", "tag:int8")
    """
    return verbs_of_runs.diff(request_from_arguments(DiffRequest, locals()))


def why(
    baseline: File,
    candidate: File,
    *,
    onnx: File | None = None,
    gpu: str | None = None,
    store: File | None = None,
) -> Why:
    """Find why a candidate is not faster: causes by what they explain.

    baseline: A run, or files of trtexec.
    candidate: The one that is not faster.
    onnx: The model it was built of, for FLOPs and asked types.
    gpu: Take the roofline of this GPU: 'NVIDIA H200'.
    store: Folder or URL of the store (default: from configuration).

    >>> trtbench.why("tag:fp16", "tag:int8").causes
    """
    return verbs_of_runs.why(request_from_arguments(WhyRequest, locals()))


def explain(
    run: File,
    *,
    against: File,
    measure: bool = False,
    launches: int = 3,
    store: File | None = None,
) -> Explanation:
    """Make a ladder of two numbers that differ: from what both runs state, or measured.

    run: A run, or files of trtexec.
    against: The run with the other number.
    measure: Measure every step here, one change at a time.
    launches: Fresh processes for each step that is measured.
    store: Folder or URL of the store (default: from configuration).

    >>> trtbench.explain("last", against="tag:trtexec").ladder
    """
    return verbs_of_runs.explain(request_from_arguments(ExplainRequest, locals()))


def doctor() -> Diagnosis:
    """Look at what works here, and what to type to get the rest.

    >>> trtbench.doctor().working_runtimes
    """
    return verbs_of_runs.doctor(DoctorRequest())


def load(name: File, *, store: File | None = None) -> Run | FailedRun:
    """Read a stored run by id, the beginning of it, ``last``, ``tag:NAME`` or folder."""
    from trtbench.workflows.request.config import load_config, open_store

    return open_store(load_config(store=store)).load(str(name))


def summary(run: Run) -> Summary:
    """Compute every statistic of a run."""
    from trtbench.analysis.summary import summary_from_run

    return summary_from_run(run)
