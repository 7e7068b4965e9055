"""An engine file in memory, or the reason in words why it cannot be."""

from __future__ import annotations

import ctypes
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from trtbench.domain.spec import RunSpec
from trtbench.errors import InputError, TrtbenchError, UnavailableError, UsageError, reading
from trtbench.host.cuda import Cuda, no_memory
from trtbench.host.tensorrt import TITLES, Flavour, load, version_numbers
from trtbench.host.tensorrt_inspect import activation_bytes
from trtbench.host.tensorrt_listen import Heard, make_logger
from trtbench.runtimes._trt_tensors import Port, ports_of
from trtbench.trtexec.plan import HEADER_BYTES, PlanHeader, plan_from_bytes

if TYPE_CHECKING:
    from tensorrt import ICudaEngine, IExecutionContext, ILogger, IRuntimeConfig, Runtime

_NO_MEMORY = re.compile(r"out of memory|OutOfMemory|Requested amount of GPU memory", re.I)
_OTHER_GPU = re.compile(r"incompatible device|compute capability|different (GPU|device)", re.I)
_OTHER_VERSION = re.compile(r"Version tag|not compatible with this version|library version", re.I)
_NO_PLUGIN = re.compile(r"find plugin|PluginCreator not found|plugin not found", re.I)
_STDERR, _NOWHERE = Path("/dev/stderr"), Path(os.devnull)
"""The log of the worker; a socket in its place cannot be opened."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A loaded engine with what has to live as long as it does."""

    trt: ModuleType
    flavour: Flavour
    version: str
    engine: ICudaEngine
    runtime: Runtime
    logger: ILogger
    heard: Heard
    ports: tuple[Port, ...]
    profile: int

    @property
    def inputs(self) -> tuple[Port, ...]:
        return tuple(port for port in self.ports if port.is_input)

    @property
    def outputs(self) -> tuple[Port, ...]:
        return tuple(port for port in self.ports if not port.is_input)


def load_engine(spec: RunSpec, cuda: Cuda, *, flavour: Flavour) -> Engine:
    """Load an engine; whether it can be is asked of its header first."""
    path = Path(spec.model.path)
    trt, abilities = load(flavour)
    data = _read(path)
    header = plan_from_bytes(data[:HEADER_BYTES], where=str(path))
    _check_header(header, path, len(data), flavour=flavour, here=abilities.version)
    heard = Heard()
    verbose = spec.options.get("verbose") == "on"
    log = _NOWHERE if _STDERR.is_socket() else _STDERR
    logger = make_logger(trt, path=log, heard=heard, verbose=verbose)
    _load_plugins(trt, logger, spec.options.get("plugins"))
    runtime = trt.Runtime(logger)
    engine = runtime.deserialize_cuda_engine(data)
    if engine is None:
        raise _refused(path, header, cuda, heard, flavour=flavour, here=abilities.version)
    _check_profile(engine, spec.profile_index)
    return Engine(
        trt=trt,
        flavour=flavour,
        version=abilities.version,
        engine=engine,
        runtime=runtime,
        logger=logger,
        heard=heard,
        ports=ports_of(engine, trt, profile=spec.profile_index),
        profile=spec.profile_index,
    )


def with_profile(engine: Engine, profile: int) -> Engine:
    """Look at an engine through another of its profiles, which allows other shapes."""
    if profile == engine.profile:
        return engine
    _check_profile(engine.engine, profile, flag="--switch-profile")
    ports = ports_of(engine.engine, engine.trt, profile=profile)
    return replace(engine, ports=ports, profile=profile)


def with_shapes_of(engine: Engine, context: IExecutionContext) -> Engine:
    """Take fixed shapes from a context, which knows them where the engine does not tell."""
    known = {
        port.name: tuple(int(dim) for dim in context.get_tensor_shape(port.name))
        for port in engine.inputs
        if not port.moves
    }
    ports = (
        port.having(shape=known[port.name])
        if min(known.get(port.name, ()), default=0) > 0
        else port
        for port in engine.ports
    )
    return replace(engine, ports=tuple(ports))


def new_context(
    engine: Engine, cuda: Cuda, *, config: IRuntimeConfig | None = None
) -> IExecutionContext:
    """Make one execution context, when its memory is there."""
    needed = activation_bytes(engine.engine)
    free, total = cuda.memory()
    if needed is not None and needed > free:
        raise no_memory(needed, free=free, total=total)
    make = engine.engine.create_execution_context
    context = make() if config is None else make(config)
    if context is None:
        cause = engine.heard.cause() or "TensorRT does not say"
        if _NO_MEMORY.search(cause):
            raise no_memory(needed or 0, free=free, total=total)
        raise UnavailableError(
            "no execution context can be made for the engine", facts={"reason": cause}
        )
    return context


def _read(path: Path) -> bytes:
    with reading(path):
        return path.read_bytes()


def _load_plugins(trt: ModuleType, logger: ILogger, libraries: str | None) -> None:
    """Make the plugins known that engines may name: TensorRT's own, and the user's."""
    initialise = getattr(trt, "init_libnvinfer_plugins", None)
    if initialise is not None:
        initialise(logger, "")
    for library in (libraries or "").split(","):
        if not library.strip():
            continue
        try:
            ctypes.CDLL(library.strip(), mode=ctypes.RTLD_GLOBAL)
        except OSError as problem:
            raise InputError(
                f"the plugin library {library.strip()} cannot be loaded", facts={"reason": problem}
            ) from None


def _check_profile(engine: ICudaEngine, index: int, *, flag: str = "--profile-index") -> None:
    count = int(engine.num_optimization_profiles)
    if index >= max(1, count):
        raise UsageError(
            f"the engine has no optimization profile {index}",
            facts={"profiles": f"0 to {count - 1}" if count > 1 else "0"},
            fix=f"{flag} {max(0, count - 1)}",
        )


def _check_header(
    header: PlanHeader, path: Path, size: int, *, flavour: Flavour, here: str
) -> None:
    """Refuse what the header alone shows to be impossible."""
    if header.flavour != flavour:
        raise InputError(
            f"{path.name} is an engine of {TITLES[header.flavour]}, not of {TITLES[flavour]}",
            fix=f"-r {header.flavour.replace('_', '-')}",
        )
    if header.plan_bytes is not None and header.plan_bytes > size:
        raise InputError(
            f"{path.name} is cut short",
            facts={"bytes": size, "stated in its header": header.plan_bytes},
            fix="copy or build it again",
        )
    if header.version and version_numbers(header.version)[0] != version_numbers(here)[0]:
        raise _other_version(path, header, flavour=flavour, here=here)


def _other_version(
    path: Path, header: PlanHeader, *, flavour: Flavour, here: str, reason: str | None = None
) -> InputError:
    built = ".".join((header.version or "unknown").split(".")[:3])
    facts = {"engine": path.name, "built by": header.version or "unknown", "here": here}
    if reason:
        facts["reason"] = reason
    return InputError(
        f"the engine was built by {TITLES[flavour]} {built}, and {here} is installed here",
        facts=facts,
        fix="build it here: trtbench build MODEL.onnx, or --python PATH of an interpreter with "
        f"{TITLES[flavour]} {built}",
    )


def _refused(
    path: Path, header: PlanHeader, cuda: Cuda, heard: Heard, *, flavour: Flavour, here: str
) -> TrtbenchError:
    """Say why an engine was not loaded: the first error TensorRT told decides."""
    cause = heard.cause() or "TensorRT does not say"
    if _NO_MEMORY.search(cause):
        free, total = cuda.memory()
        return no_memory(path.stat().st_size, free=free, total=total)
    if _OTHER_GPU.search(cause):
        device = cuda.facts()
        return InputError(
            "the engine was built for another GPU",
            facts={
                "engine": path.name,
                "here": f"{device.name}, compute capability {device.compute_capability}",
                "reason": cause,
            },
            fix="build it on this GPU: trtbench build MODEL.onnx",
        )
    if _NO_PLUGIN.search(cause):
        return InputError(
            f"{path.name} needs a plugin that is not loaded",
            facts={"reason": cause},
            fix="--opt plugins=LIBRARY.so that has it",
        )
    numbers = version_numbers(header.version)[:3] if header.version else None
    if _OTHER_VERSION.search(cause) or (numbers and numbers != version_numbers(here)[:3]):
        return _other_version(path, header, flavour=flavour, here=here, reason=cause)
    return InputError(
        f"{path.name} is damaged or cut short",
        facts={"bytes": path.stat().st_size, "reason": cause},
        fix="copy or build it again",
    )
