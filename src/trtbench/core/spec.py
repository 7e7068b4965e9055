"""Specs: models, shapes, inputs, runs and builds, with all defaults resolved."""

from collections.abc import Collection, Iterable, Sequence
from typing import Annotated, Literal, TypeVar, get_type_hints

import msgspec

from trtbench.core.words import Arrivals as Arrivals
from trtbench.core.words import CudaGraph as CudaGraph
from trtbench.core.words import ModelFormat as ModelFormat
from trtbench.core.words import Precision as Precision
from trtbench.core.words import Protocol as Protocol
from trtbench.core.words import Scalar

V = TypeVar("V", bound="Value")
USER_ONLY = msgspec.Meta(extra={"user_only": True})
"""Marks fields that no stored run may bring: they name programs, code, files or arguments."""
ON_DEVICE: tuple[Protocol, ...] = ("gpu", "coldl2")  # no transfers, CUDA graph


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all values: immutable, keyword-only, equal by content."""

    def having(self: V, **changes: object) -> V:
        """Return a copy with some fields changed."""
        return msgspec.structs.replace(self, **changes)


SEQUENCE, MAP, SPARSE, OPTIONAL = NO_TENSORS = ("sequence", "map", "sparse tensor", "optional")
"""Kinds of ONNX inputs and outputs that are not tensors."""


class TensorSpec(Value, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    dtype: str
    """numpy's name (``float32``, ``bool``); ``bfloat16`` and ``float8_*`` as in ONNX. For values
    that are not tensors, one of ``NO_TENSORS``."""
    shape: tuple[int | str | None, ...]  # int: fixed; str: dynamic; `None`: unknown
    usual: tuple[int, ...] = ()  # sizes that an engine is optimized for, if it is dynamic

    def __post_init__(self) -> None:
        """Drop names of dimensions that nobody would read or type; every use searches them."""
        dims = (None if isinstance(dim, str) and len(dim) > 255 else dim for dim in self.shape)
        msgspec.structs.force_setattr(self, "shape", tuple(dims))

    @property
    def is_static(self) -> bool:
        return all(isinstance(dim, int) and dim >= 0 for dim in self.shape)


def batch_from_shapes(shapes: Iterable[Sequence[int | str | None]]) -> int | None:
    """Return the leading dimension that all inputs of two or more dimensions share, if any."""
    leading = {shape[0] for shape in shapes if len(shape) > 1}
    size = leading.pop() if len(leading) == 1 else None
    return size if isinstance(size, int) and size > 0 else None


class ModelFile(Value, frozen=True, kw_only=True):
    """A further file of a model, such as external weights or a shard."""

    name: str  # relative to the folder of the model
    sha256: str
    size_bytes: int


class ModelRef(Value, frozen=True, kw_only=True):
    """A model, with all files that belong to it, as it was when the run was requested."""

    path: str
    format: ModelFormat
    sha256: str | None = None  # of all its bytes; for one file, its plain SHA-256
    size_bytes: int | None = None
    modified: str | None = None  # local time of the last change, ISO 8601 with offset
    files: tuple[ModelFile, ...] = ()  # its files other than `path`
    made_with: tuple[str, ...] = ()  # options that change the model: `factory=nets:small`

    @property
    def identity(self) -> str:
        """Its hash, or its name if it comes from a library."""
        return self.sha256 or self.path

    @property
    def name(self) -> str:
        return self.path.replace("\\", "/").rsplit("/", 1)[-1][:255]  # no file has a longer one


class InputSpec(Value, frozen=True, kw_only=True):
    source: str | None = None  # an `.npz`, an `.npy` or an image; `None`: random values
    seed: int = 0
    task: str | None = None
    settings: dict[str, Scalar] = {}  # of the task; without one, values of single inputs

    @property
    def values(self) -> dict[str, str]:
        """Values of single inputs: ``16000``, ``1,2``, ``0..255`` or ``/path/to/file``."""
        return {} if self.task else {name: str(each) for name, each in self.settings.items()}


class Length(Value, frozen=True, kw_only=True):
    """How long a phase lasts: it ends when every limit that is set has been reached."""

    seconds: float | None = None
    iterations: int | None = None


class Warmup(Value, frozen=True, kw_only=True):
    """Warm up for at least ``floor``, then until times are steady, for at most ``cap_s``."""

    floor: Length = Length(seconds=0.2)
    until_steady: bool = True
    cap_s: float = 10.0


class ShapeProfile(Value, frozen=True, kw_only=True):
    min: tuple[int, ...]
    opt: tuple[int, ...]
    max: tuple[int, ...]


class RunSpec(Value, frozen=True, kw_only=True):
    """The complete description of one measurement.

    Fields are filled from ``BenchRequest`` by name and declared in ``core/properties.py``.
    """

    model: ModelRef
    runtime: str
    shapes: dict[str, tuple[int, ...]] = {}  # shapes the user gave, by input name
    batch: int | None = None  # for every dynamic leading dimension
    inputs: Annotated[InputSpec, USER_ONLY] = InputSpec()
    warmup: Warmup = Warmup()
    stop: Length = Length(seconds=3.0, iterations=10)
    protocol: Protocol = "serve"
    launches: int = 1  # fresh processes; their spread shows repeatability
    streams: int = 1
    cuda_graph: CudaGraph = "off"
    transfers: bool = True
    spin_wait: bool = False
    gap_s: float = 0.0
    rate_hz: float | None = None
    arrivals: Arrivals = "poisson"  # how queries of the protocol server arrive at this rate
    arrival_times_s: tuple[float, ...] = ()  # of a trace, in records of older versions
    profile_index: int = 0
    telemetry_s: float | None = None  # sampling interval of a separate pass
    lock_clocks: Annotated[str | None, USER_ONLY] = None  # `base`, `max` or megahertz
    profile: bool = False  # also time layers, in a separate pass
    separate_profile_run: bool = True
    precision: Precision | None = None
    threads: int | None = None
    device: str | None = None
    options: Annotated[dict[str, str], USER_ONLY] = {}  # of the runtime itself: `--opt key=value`
    extra_args: Annotated[tuple[str, ...], USER_ONLY] = ()  # verbatim, for programs (trtexec)


class BuildSpec(Value, frozen=True, kw_only=True):
    model: ModelRef
    output: str
    runtime: str = "tensorrt"
    precision: Precision | None = None  # `None`: as the model's types, else FP32 without TF32
    shapes: dict[str, ShapeProfile] = {}
    more_profiles: tuple[dict[str, ShapeProfile], ...] = ()  # missing inputs: as in `shapes`
    assumed: str | None = None  # the values assumed for dynamic dimensions
    workspace_bytes: int | None = None
    optimization_level: int | None = None
    timing_cache: str | None = None
    calibration: str | None = None
    calibration_arrays: str | None = None
    task: str | None = None
    task_settings: dict[str, float | int | str | bool | None] = {}
    prepared: dict[str, float | int | str | bool | None] = {}
    calibration_method: Literal["entropy2", "minmax"] = "entropy2"
    calibration_cache: str | None = None
    version_compatible: bool = False
    hardware_compatible: bool = False
    strip_weights: bool = False
    refit: bool = False
    plugins: tuple[str, ...] = ()
    dla_core: int | None = None
    device: str | None = None
    targets: tuple[str, ...] = ()
    detailed_layers: bool = True
    verbose: bool = False
    options: dict[str, str] = {}
    extra_args: tuple[str, ...] = ()


def conditions_of_stored(
    stored: RunSpec, user: RunSpec, *, options: Collection[str]
) -> tuple[RunSpec, tuple[str, ...]]:
    """Return a stored spec as it may be measured again, and the names of what is left out.

    Programs, code, files and arguments are the user's; ``options`` are those options of the
    runtime that are only conditions, which the stored spec keeps.
    """
    own = user.options if user.runtime == stored.runtime else {}
    kept = {key: value for key, value in stored.options.items() if key in options}
    safe = {**{key: own[key] for key in own.keys() - set(options)}, **kept}
    hints = get_type_hints(RunSpec, include_extras=True)
    marked = [
        name for name, hint in hints.items() if USER_ONLY in getattr(hint, "__metadata__", ())
    ]
    taken = {name: getattr(user, name) for name in marked} | {"options": safe}
    if user.runtime != stored.runtime:
        taken["extra_args"] = ()
    left = [f"option {key}" for key in stored.options if stored.options[key] != safe.get(key)]
    words = (name for name in marked if name not in ("options", "lock_clocks"))
    left += [name.replace("_", " ") for name in words if getattr(stored, name) != taken[name]]
    return stored.having(**taken), tuple(left)
