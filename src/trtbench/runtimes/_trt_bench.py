"""What the runtimes ``tensorrt`` and ``tensorrt-rtx`` share: opening, measuring, their options."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import util
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from trtbench.domain.job import BenchOutcome, Stage
from trtbench.domain.samples import IterationTimes
from trtbench.domain.spec import RunSpec
from trtbench.errors import UnavailableError, UsageError, refuse_unknown_options
from trtbench.host.cuda import (
    MODULE_LOADING,
    cuda_problem,
    index_of,
    open_cuda,
    runtime_module,
    schedule_flags,
)
from trtbench.host.early_context import variables
from trtbench.host.tensorrt import INSTALL, TITLES, Flavour, load
from trtbench.runtimes._gpu_memory import MemoryMeter
from trtbench.runtimes._protocols import bench_session, check_protocol
from trtbench.runtimes._trt_engine import Engine, load_engine
from trtbench.runtimes._trt_session import TrtSession

if TYPE_CHECKING:
    from tensorrt import IRuntimeConfig

OPTIONS = {
    "plugins": "plugin libraries, comma separated",
    "modules": "lazy or eager: when CUDA loads kernels into memory (default: as CUDA does)",
    "verbose": "on or off: everything TensorRT has to say in the log (default: off)",
}
TRAVELS = {"plugins": "files"}
RTX_OPTIONS = {
    "specialization": "eager, lazy or none: when kernels for the shapes are made (default: eager)"
}
_STRATEGY = "dynamic_shapes_kernel_specialization_strategy"


def available(flavour: Flavour) -> str | None:
    if util.find_spec(flavour) is None:
        return f"{TITLES[flavour]} is not installed"
    return cuda_problem()


def fix(flavour: Flavour) -> str | None:
    if util.find_spec(flavour) is None:
        return INSTALL[flavour]
    return "install an NVIDIA driver, and pip install 'cuda-bindings==12.9.*'"


def device(spec: RunSpec) -> str:
    return spec.device or "cuda:0"


def bursts(spec: RunSpec) -> bool:
    """Tell that a session times bursts of queries, whatever is asked of it."""
    return True


def early_context(spec: RunSpec) -> dict[str, str]:
    """Have CUDA's context made while the worker imports, unless an option changes it first."""
    if "modules" in spec.options:
        return {}
    return variables(index_of(device(spec)), schedule_flags(spin=spec.spin_wait))


def load_library(flavour: Flavour) -> None:
    """Import TensorRT and the bindings of CUDA, and touch no device."""
    runtime_module()
    load(flavour)


def bench(
    spec: RunSpec, *, folder: Path, stage: Stage, flavour: Flavour
) -> tuple[BenchOutcome, IterationTimes]:
    """Measure one launch; with layers asked for, the inspector's words are left as graph.json."""
    opened: list[TrtSession] = []

    def opening(settled: RunSpec) -> TrtSession:
        opened.append(open_session(settled, flavour=flavour))
        return opened[0]

    class Describing(Stage):
        def __call__(self, name: str) -> None:
            if name == "profile":
                (folder / "graph.json").write_text(opened[0].describe(), encoding="utf-8")
            stage(name)

    return bench_session(opening, spec, stage=Describing())


def open_session(spec: RunSpec, *, flavour: Flavour) -> TrtSession:
    """Load an engine with the options of a run; CUDA is asked first, TensorRT may crash without."""
    check(spec, flavour=flavour)
    if loading := spec.options.get("modules"):
        os.environ[MODULE_LOADING] = loading.upper()  # read when CUDA's context is made
    # Loading the library takes as long as making CUDA's context, and the two do not meet.
    meanwhile = Thread(target=_imported, args=(flavour,), daemon=True)
    meanwhile.start()
    try:
        cuda = open_cuda(spec.device, spin=spec.spin_wait)
    except UnavailableError:
        if util.find_spec(flavour) is None:  # what to install first comes first
            raise UnavailableError(
                f"{TITLES[flavour]} is not installed here", fix=INSTALL[flavour]
            ) from None
        raise
    meanwhile.join()
    try:
        memory = MemoryMeter(cuda)
        engine = load_engine(spec, cuda, flavour=flavour)
        memory.mark("memory_engine_bytes")
        return TrtSession(engine, cuda, spec, memory=memory, config=_config(engine, spec))
    except BaseException:
        cuda.close()
        raise


def _imported(flavour: Flavour) -> None:
    with suppress(Exception):  # whoever needs it will meet it again, and put it in words
        load(flavour)


def check(spec: RunSpec, *, flavour: Flavour) -> None:
    """Refuse what TensorRT cannot do."""
    known = {**OPTIONS, **(RTX_OPTIONS if flavour == "tensorrt_rtx" else {})}
    refuse_unknown_options(f"runtime {spec.runtime}", spec.options, known)
    if spec.options.get("modules", "lazy") not in ("lazy", "eager"):
        raise UsageError(
            f"--opt modules is lazy or eager, not {spec.options['modules']!r}",
            fix="--opt modules=lazy",
        )
    if spec.threads is not None:
        raise UsageError(
            f"{TITLES[flavour]} has no threads to set", fix="leave --threads out; --streams N"
        )
    check_protocol(spec)


def _config(engine: Engine, spec: RunSpec) -> IRuntimeConfig | None:
    """Tell TensorRT-RTX to make kernels for the shapes at hand before it runs."""
    if engine.flavour != "tensorrt_rtx":
        return None
    strategies = getattr(engine.trt, "DynamicShapesKernelSpecializationStrategy", None)
    config = engine.engine.create_runtime_config()
    wanted = spec.options.get("specialization", "eager").upper()
    if strategies is None or not hasattr(config, _STRATEGY):
        return config
    if not hasattr(strategies, wanted):
        raise UsageError(
            f"--opt specialization is eager, lazy or none, not {wanted.lower()!r}",
            fix="--opt specialization=eager",
        )
    setattr(config, _STRATEGY, getattr(strategies, wanted))
    return config
