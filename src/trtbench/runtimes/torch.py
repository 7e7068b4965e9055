"""Runs PyTorch models in the worker's own process, on a GPU or the CPU."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import util
from pathlib import Path
from types import ModuleType

from trtbench.domain.job import BenchOutcome, Stage
from trtbench.domain.samples import IterationTimes
from trtbench.domain.spec import ON_DEVICE, RunSpec, TensorSpec
from trtbench.errors import (
    InputError,
    UnavailableError,
    UsageError,
    first_line,
    refuse_other_choice,
    refuse_unknown_options,
)
from trtbench.host.cuda import index_of
from trtbench.models.torch_models import (
    INSTALL,
    LoadedModel,
    code_of_hub,
    files_of_factory,
    import_torch,
    is_named,
    load_model,
)
from trtbench.runtimes._protocols import SERIAL, bench_session, check_protocol
from trtbench.runtimes._session import TurnSpec, refuse_if_out_of_memory
from trtbench.runtimes._torch_cuda import CudaSession
from trtbench.runtimes._torch_session import CpuSession, TorchSettings
from trtbench.units import text_from_shape

FORMATS = ("torch",)
CHOSEN_FOR = {"torch": 1}

OPTIONS = {
    "compile": "default, reduce-overhead or max-autotune: torch.compile (default: eager)",
    "half": "on or off: weights and inputs in FP16, without autocast (default: off)",
    "tf32": "on or off (default: on with --precision tf32, else off)",
    "cudnn_benchmark": "on or off: let cuDNN try its algorithms (default: on)",
    "channels_last": "on or off: NHWC memory layout (default: off)",
    "imgsz": "side of a square image (default: as the model was trained)",
    "channels": "channels of that image (default: the model's own, else 3)",
    "waiting": "passive: idle threads of the pool sleep at once (default: the library's own way)",
    "dtypes": "types of the inputs, comma separated (default: float32)",
    "weights": "default, none (random values), or a state dict for a model of a library",
    "seed": "of random weights (default: 0, as with export, so that both are the same model)",
    "factory": "package.module:function that makes the model of a state dict",
    "trust": "on: load a pickle, which may run any code (default: off)",
}
"""What ``--opt key=value`` may set."""
TRAVELS = {"weights": "file", "factory": "code"}

_SWITCH = {"on": True, "off": False}
_COMPILE = ("default", "reduce-overhead", "max-autotune")
_AUTOCAST = {"fp16": "float16", "bf16": "bfloat16"}


def available() -> str | None:
    return None if util.find_spec("torch") else "the package torch is not installed"


def fix() -> str | None:
    return INSTALL


def device(spec: RunSpec) -> str:
    """Name a GPU unless the CPU is asked for; that there is none is told when it is opened."""
    return spec.device or "cuda:0"


def bench(spec: RunSpec, *, folder: Path, stage: Stage) -> tuple[BenchOutcome, IterationTimes]:
    """Measure one launch."""
    return bench_session(open_session, spec, stage=stage)


def load_library() -> None:
    """Import PyTorch."""
    import_torch()


def model_parts(model: str, options: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name the files of weights and of code that make a module, and which function or seed does."""
    weights, factory = options.get("weights", "default"), options.get("factory")
    files = files_of_factory(factory or "")
    made_with: tuple[str, ...] = (f"factory={factory}",) if factory else ()
    made_with += (f"code={code}",) if (code := code_of_hub(model)) else ()
    if weights == "none" and is_named(model):
        made_with += ("weights=none", f"seed={_number(options, 'seed', 0)}")
    return files if weights in ("default", "none") else (weights, *files), made_with


def bursts(spec: RunSpec) -> bool:
    """Tell whether a burst is the GPU's: without a graph it is Python that enqueues."""
    return device(spec) != "cpu" and spec.cuda_graph != "off"


def turn_spec(spec: RunSpec, together: Sequence[RunSpec]) -> TurnSpec:
    """Keep idle threads off the processor while another side has its turn.

    In one process all models share PyTorch's pool, so none is in another's way. A pool of another
    process would go on spinning; OpenMP can only be told to rest before PyTorch is loaded.
    """
    if together or device(spec) != "cpu" or spec.threads == 1 or "waiting" in spec.options:
        return TurnSpec(spec=spec)
    return TurnSpec(spec=spec.having(options={**spec.options, "waiting": "passive"}))


def _set_waiting(spec: RunSpec) -> None:
    """Tell OpenMP how its idle threads wait; it reads this once, when PyTorch loads it."""
    way = spec.options.get("waiting")
    if way is None:
        return
    if way != "passive":
        raise UsageError(
            f"--opt waiting is passive, or left out, not {way!r}", fix="--opt waiting=passive"
        )
    os.environ |= {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}


def open_session(spec: RunSpec) -> CpuSession | CudaSession:
    """Load a model with the options of a run."""
    settings = _settings(spec)
    _set_waiting(spec)
    torch = import_torch()
    _check_device(torch, spec)
    torch.manual_seed(_number(spec.options, "seed", 0))
    loaded = load_model(
        spec.model.path,
        weights=spec.options.get("weights", "default"),
        trust=_switch(spec, "trust", default=False),
        factory=spec.options.get("factory"),
        folder=str(Path.cwd()),
    )
    inputs = inputs_of(loaded, spec)
    session = CpuSession if device(spec) == "cpu" else CudaSession
    try:
        return session(torch, loaded, spec, settings=settings, inputs=inputs, device=device(spec))
    except (RuntimeError, TypeError, ValueError) as problem:  # its own .half() may refuse in any
        refuse_if_out_of_memory(problem)
        raise InputError(
            "PyTorch cannot prepare the model", facts={"reason": first_line(problem)}
        ) from None


def inputs_of(loaded: LoadedModel, spec: RunSpec) -> tuple[TensorSpec, ...]:
    """Settle names, types and shapes: what the user gave, else what the model tells."""
    dtypes = [word for word in spec.options.get("dtypes", "").split(",") if word]
    if spec.shapes and _is_about_images(spec):
        raise UsageError(
            "--opt imgsz and channels make a shape, and --shape gives one: one of the two",
            fix="leave --opt imgsz and --opt channels out",
        )
    if spec.shapes:
        known = {tensor.name: tensor for tensor in loaded.inputs}
        given = [
            TensorSpec(
                name=name,
                dtype=known[name].dtype if name in known else "float32",
                shape=tuple(known[name].shape) if _is_fixed(known.get(name), loaded) else shape,
            )
            for name, shape in spec.shapes.items()
        ]
        return _typed(given, dtypes, spec)
    tensors = [_image(tensor, spec, loaded) for tensor in loaded.inputs]
    if any(not tensor.shape for tensor in tensors):
        names = " ".join(f"--shape {tensor.name}:1x3x224x224" for tensor in loaded.inputs)
        raise UsageError("nothing tells the shapes of the model's inputs", fix=names)
    return _typed(tensors, dtypes, spec)


def _is_about_images(spec: RunSpec) -> bool:
    return "imgsz" in spec.options or "channels" in spec.options


def _is_fixed(tensor: TensorSpec | None, loaded: LoadedModel) -> bool:
    """Say whether a model takes the shape it tells and no other."""
    return tensor is not None and bool(tensor.shape) and not loaded.suggested


def _ranked(tensor: TensorSpec) -> bool:
    return bool(tensor.shape) and all(dim is not None for dim in tensor.shape[1:])


def _image(tensor: TensorSpec, spec: RunSpec, loaded: LoadedModel) -> TensorSpec:
    """Settle the shape of an image: as asked, else as the model was trained with."""
    if not _is_about_images(spec):
        shape = tensor.shape if _ranked(tensor) else ()
        return TensorSpec(name=tensor.name, dtype=tensor.dtype, shape=shape)
    own = tensor.shape if len(tensor.shape) == 4 else ()
    if tensor.shape and not own:
        raise UsageError(
            f"the input {tensor.name!r} is no image: imgsz and channels say nothing about it",
            facts={"shape": text_from_shape(tensor.shape)},
            fix=f"--shape {tensor.name}:...",
        )
    if "imgsz" not in spec.options and not own:
        raise UsageError("channels alone make no image", fix="--opt imgsz=224")
    channels = (
        _number(spec.options, "channels", 3, least=1)
        if "channels" in spec.options or not own
        else own[1]
    )
    sides = (
        (_number(spec.options, "imgsz", 0, least=1),) * 2 if "imgsz" in spec.options else own[2:]
    )
    shape = (own[0] if own else "batch", channels, *sides)
    if _is_fixed(tensor, loaded) and any(
        isinstance(have, int) and have != want for have, want in zip(own, shape, strict=True)
    ):
        raise UsageError(
            f"the model takes images of {'x'.join(map(str, own[1:]))} and no others",
            facts={"asked for": text_from_shape(shape[1:])},
            fix="leave --opt imgsz and --opt channels out",
        )
    return TensorSpec(name=tensor.name, dtype=tensor.dtype, shape=shape)


def _typed(tensors: list[TensorSpec], dtypes: list[str], spec: RunSpec) -> tuple[TensorSpec, ...]:
    """Cast inputs to their types; floating ones follow the weights to FP16."""
    half = _switch(spec, "half", default=False)
    found = []
    for index, tensor in enumerate(tensors):
        dtype = dtypes[min(index, len(dtypes) - 1)] if dtypes else tensor.dtype
        dtype = "float16" if half and dtype == "float32" else dtype
        found.append(TensorSpec(name=tensor.name, dtype=dtype, shape=tensor.shape))
    return tuple(found)


def _settings(spec: RunSpec) -> TorchSettings:
    check(spec)
    mode = spec.options.get("compile")
    if mode is not None:
        refuse_other_choice("compile", mode, _COMPILE)
    half = _switch(spec, "half", default=False)
    if half and spec.precision is not None:
        raise UsageError(
            "half turns the weights to FP16, --precision leaves them and casts on the way: "
            "one of the two",
            fix="leave --precision out",
        )
    return TorchSettings(
        compile=mode,
        half=half,
        autocast=_AUTOCAST.get(spec.precision or ""),
        tf32=_switch(spec, "tf32", default=spec.precision == "tf32"),
        cudnn_benchmark=_switch(spec, "cudnn_benchmark", default=True),
        channels_last=_switch(spec, "channels_last", default=False),
    )


def check(spec: RunSpec) -> None:
    """Refuse what PyTorch cannot do."""
    refuse_unknown_options("runtime torch", spec.options, OPTIONS)
    if spec.precision not in (None, "fp32", "tf32", *_AUTOCAST):
        raise UsageError(
            f"PyTorch runs in fp32, tf32, fp16 or bf16, not {spec.precision}",
            fix="--precision fp16",
        )
    if spec.protocol not in (*SERIAL, *ON_DEVICE) or spec.streams != 1:
        raise UsageError(
            "PyTorch is measured one query at a time",
            facts={"protocol": spec.protocol, "streams": spec.streams},
            fix=f"--protocol {', '.join((*SERIAL, *ON_DEVICE))}",
        )
    on_cpu = device(spec) == "cpu"
    if on_cpu and (spec.protocol in ON_DEVICE or spec.cuda_graph == "on" or not spec.transfers):
        raise UsageError(
            "the CPU has no transfers and no CUDA graph",
            fix="--protocol serve"
            if spec.protocol in ON_DEVICE
            else "leave --cuda-graph and --no-transfers out",
        )
    if on_cpu and spec.spin_wait:
        raise UsageError("--spin-wait waits for a GPU, and the CPU has none", fix="leave it out")
    if on_cpu and (spec.precision == "tf32" or spec.options.get("tf32") == "on"):
        raise UsageError("TF32 is a type of the GPU", fix="leave it out, or --precision bf16")
    check_protocol(spec)


def _check_device(torch: ModuleType, spec: RunSpec) -> None:
    wanted = device(spec)
    if wanted == "cpu":
        return
    number = index_of(wanted)
    if not torch.cuda.is_available():
        raise UnavailableError(
            "PyTorch sees no CUDA device here",
            facts={"torch": torch.__version__, "built for CUDA": torch.version.cuda or "no"},
            fix="--device cpu",
        )
    count = torch.cuda.device_count()
    if number >= count:
        raise UnavailableError(
            f"there is no device {wanted}",
            facts={"devices": ", ".join(f"cuda:{index}" for index in range(count))},
            fix="--device cuda:0",
        )


def _switch(spec: RunSpec, key: str, *, default: bool) -> bool:
    value = spec.options.get(key)
    if value is None:
        return default
    if value not in _SWITCH:
        raise UsageError(f"--opt {key} is on or off, not {value!r}", fix=f"--opt {key}=on")
    return _SWITCH[value]


def _number(options: Mapping[str, str], key: str, default: int, *, least: int = 0) -> int:
    value = options.get(key, str(default))
    if not value.isdecimal() or int(value) < least:
        from_here = f" from {least} on" if least else ""
        raise UsageError(
            f"--opt {key} is a whole number{from_here}, not {value!r}",
            fix=f"--opt {key}={max(least, default)}",
        )
    return int(value)
