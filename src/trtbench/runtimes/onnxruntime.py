"""Runs ONNX models on ONNX Runtime, in the worker's own process."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from trtbench.domain.job import BenchOutcome, Stage
from trtbench.domain.samples import IterationTimes
from trtbench.domain.spec import RunSpec
from trtbench.errors import (
    InputError,
    UnavailableError,
    UsageError,
    refuse_other_choice,
    refuse_unknown_options,
)
from trtbench.host.unfinished import temporary_name
from trtbench.models.onnx_outline import outline_of
from trtbench.runtimes._onnx_problems import explain_load_failure
from trtbench.runtimes._ort_providers import (
    computing,
    demand_started,
    on_gpu,
    preload,
    providers,
    refuse_if_no_device,
)
from trtbench.runtimes._ort_session import BoundSession, OrtSession
from trtbench.runtimes._protocols import PROFILE_AN_ENGINE, SERIAL, bench_session
from trtbench.runtimes._session import TurnSpec, refuse_if_out_of_memory

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, SessionOptions

T = TypeVar("T")

FORMATS = ("onnx",)
CHOSEN_FOR = {"onnx": 1}
TAKES_PRECISION = False

OPTIONS = {
    "providers": "execution providers in order of preference, comma separated (default: cpu, "
    "and cuda with --device cuda:0)",
    "inter_threads": "threads across operators",
    "spinning": "on or off: whether idle threads spin (default: ONNX Runtime's own, on); run: only "
    "while a query runs; shared: on, in one pool for all sessions of the process",
    "optimization": "disable, basic, extended or all (default: all)",
    "execution": "sequential or parallel (default: sequential)",
    "memory_pattern": "on or off (default: on)",
    "io_binding": "on or off: tensors live on the device (default: on with cuda and tensorrt)",
}
"""What ``--opt key=value`` may set."""

_LEVELS = {
    "disable": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
_MODES = {"sequential": "ORT_SEQUENTIAL", "parallel": "ORT_PARALLEL"}
_SWITCH = {"on": True, "off": False}
_SPINNING = {
    "on": ("session.intra_op.allow_spinning", "1"),
    "off": ("session.intra_op.allow_spinning", "0"),
    "run": ("session.force_spinning_stop", "1"),
}
_CHOICES: dict[str, Mapping[str, object]] = {
    "spinning": {**_SPINNING, "shared": None},
    "memory_pattern": _SWITCH,
    "io_binding": _SWITCH,
    "optimization": _LEVELS,
    "execution": _MODES,
}


def available() -> str | None:
    return None if util.find_spec("onnxruntime") else "the package onnxruntime is not installed"


def fix() -> str | None:
    return "pip install 'trtbench[onnx]'"


def device(spec: RunSpec) -> str:
    """Name the device: CPU providers occupy the whole processor, CUDA ones their GPU."""
    return spec.device or "cuda:0" if on_gpu(spec) else "cpu"


def bench(spec: RunSpec, *, folder: Path, stage: Stage) -> tuple[BenchOutcome, IterationTimes]:
    """Measure one launch; ONNX Runtime leaves no files of its own."""
    return bench_session(open_session, spec, stage=stage)


def turn_spec(spec: RunSpec, together: Sequence[RunSpec]) -> TurnSpec:
    """Keep idle threads off the processor while another side has its turn.

    ``together`` are the sides of this process, none where each has its own. A pool of threads goes
    on spinning for some 30 ms after a query. Sessions that share one are never in each other's
    way, and find it as they would alone; a pool that stops when its query ends must be woken.
    """
    if device(spec) != "cpu" or spec.threads == 1 or spec.options.get("spinning") == "off":
        return TurnSpec(spec=spec)
    pools = {(each.runtime, *_pool_sizes(each), each.options.get("spinning")) for each in together}
    way = "shared" if len(pools) == 1 and _shares_pool() else "run"
    spec = spec.having(options={**spec.options, "spinning": way})
    return TurnSpec(spec=spec, like_alone=way == "shared")


def _pool_sizes(spec: RunSpec) -> tuple[int, int]:
    """Count threads within and across operators; 0 is ONNX Runtime's choice."""
    across = spec.options.get("inter_threads", "0")
    return spec.threads or 0, _number("inter_threads", across)


def _shares_pool() -> bool:
    """Say whether this ONNX Runtime has a pool for all sessions (from 1.23 on)."""
    import onnxruntime

    return hasattr(onnxruntime, "set_global_thread_pool_sizes")


@cache
def _make_shared_pool(within: int, across: int) -> None:
    """Make the pool of all sessions of this process; it can be made once, before the first."""
    import onnxruntime

    onnxruntime.set_global_thread_pool_sizes(within, across)


def open_session(spec: RunSpec) -> OrtSession:
    """Load a model with the options of a run."""
    check(spec)
    try:
        import onnxruntime
    except ImportError as problem:
        raise UnavailableError(
            "ONNX Runtime cannot be imported",
            facts={"reason": problem},
            fix=f"{sys.executable} -m pip install onnxruntime",
        ) from None
    onnxruntime.set_default_logger_severity(3)
    options = _session_options(onnxruntime, spec)
    preload(onnxruntime, spec)
    asked = providers(onnxruntime, spec)
    try:
        session = onnxruntime.InferenceSession(
            spec.model.path, options, providers=asked, enable_fallback=0
        )
    except Exception as problem:  # ONNX Runtime's exceptions share no base class of their own
        refuse_if_out_of_memory(problem)
        refuse_if_no_device(onnxruntime, spec, str(problem))
        raise explain_load_failure(spec.model.path, str(problem)) from None
    demand_started(onnxruntime, session, asked)
    if not binds(spec):
        return OrtSession(session, spec, profiling=partial(_profiling_session, onnxruntime, spec))
    bound = BoundSession(onnxruntime, session, spec, device=device(spec))
    with suppress(InputError):  # of a file that tells no types, nobody knows
        held = outline_of(Path(spec.model.path)).held or frozenset({"fp32"})
        bound.conditions |= computing(session, asked, held, os.environ)
    return bound


def _profiling_session(onnxruntime: ModuleType, spec: RunSpec) -> InferenceSession:
    """Open the model again as it was measured, with the profiler on: it slows every node down."""
    options = _session_options(onnxruntime, spec)
    _trace(options)
    asked = providers(onnxruntime, spec)
    return onnxruntime.InferenceSession(spec.model.path, options, providers=asked)


def _trace(options: SessionOptions) -> None:
    options.enable_profiling = True
    options.profile_file_prefix = str(temporary_name())


def binds(spec: RunSpec) -> bool:
    """Say whether tensors are bound to the device instead of handed over with each call."""
    wish = spec.options.get("io_binding", "off" if device(spec) == "cpu" else "on")
    return _choice("io_binding", wish, _SWITCH)


def check(spec: RunSpec) -> None:
    """Refuse what ONNX Runtime cannot do, and values that its options cannot have."""
    refuse_unknown_options("runtime onnxruntime", spec.options, OPTIONS)
    for key, choices in _CHOICES.items():
        if key in spec.options:
            _choice(key, spec.options[key], choices)
    _pool_sizes(spec)
    if spec.protocol not in SERIAL or spec.cuda_graph == "on" or spec.streams != 1:
        raise UsageError(
            "ONNX Runtime is measured one query at a time "
            f"(protocol {', '.join(SERIAL)}; one stream, no graph)",
            facts={"protocol": spec.protocol, "streams": spec.streams, "graph": spec.cuda_graph},
            fix="leave --cuda-graph and --streams out"
            if spec.protocol in SERIAL
            else f"--protocol {SERIAL[0]}",
        )
    if spec.profile and device(spec) != "cpu":
        raise UsageError(
            "ONNX Runtime's profiler times nodes on the CPU; of a GPU it would time the launching",
            fix=PROFILE_AN_ENGINE,
        )
    if spec.precision is not None:
        name = shlex.quote(spec.model.name)
        raise UsageError(
            "ONNX Runtime runs a file in the types it has",
            facts={"asked for": f"--precision {spec.precision}"},
            fix=f"trtbench quantize {name} --precision {spec.precision} makes a file of it; "
            "or leave --precision out",
        )
    refused = {
        "--no-transfers": not spec.transfers and not binds(spec),
        "--spin-wait": spec.spin_wait,
    }
    for flag, given in refused.items():
        if given:
            raise UsageError(f"the runtime onnxruntime cannot do {flag}", fix=f"leave {flag} out")


def _session_options(onnxruntime: ModuleType, spec: RunSpec) -> SessionOptions:
    options = onnxruntime.SessionOptions()
    given = spec.options
    if device(spec) != "cpu":  # a node could run elsewhere
        _trace(options)
    if spec.threads:
        options.intra_op_num_threads = spec.threads
    if "inter_threads" in given:
        options.inter_op_num_threads = _number("inter_threads", given["inter_threads"])
    if given.get("spinning") == "shared" and _shares_pool():
        _make_shared_pool(*_pool_sizes(spec))
        options.use_per_session_threads = False
    elif "spinning" in given:
        key, value = _choice("spinning", given["spinning"], _SPINNING)
        options.add_session_config_entry(key, value)
    if "memory_pattern" in given:
        pattern = _choice("memory_pattern", given["memory_pattern"], _SWITCH)
        options.enable_mem_pattern = pattern
    level = _choice("optimization", given.get("optimization", "all"), _LEVELS)
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    mode = _choice("execution", given.get("execution", "sequential"), _MODES)
    options.execution_mode = getattr(onnxruntime.ExecutionMode, mode)
    return options


def _choice(key: str, value: str, choices: Mapping[str, T]) -> T:
    refuse_other_choice(key, value, choices)
    return choices[value]


def _number(key: str, value: str) -> int:
    if not value.isdecimal():
        raise UsageError(f"--opt {key} is a whole number, not {value!r}", fix=f"--opt {key}=1")
    return int(value)
