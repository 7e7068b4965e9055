"""The fields of a request, and how people write their values.

A request is what a verb is asked for: a frozen dataclass whose fields carry an ``Option`` or an
``Argument``, those that must be given in ``Annotated``, the others as ``option(default, ...)`` or
``argument(default, ...)``. Flags, Python arguments, axes of sweeps, settings in ``trtbench.toml``
and the pages of the reference are derived from it, so that a new field is one line.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, ParamSpec, TypeVar, Union

from trtbench.core import units
from trtbench.core.errors import UsageError, meant
from trtbench.core.safety import check_tag
from trtbench.core.words import CudaGraph, Precision, Protocol, Scalar

P = ParamSpec("P")
T = TypeVar("T")

Travels = Literal[
    "model", "file", "files", "cache", "data", "calibration", "settings", "options", "code", "as-is"
]
"""What goes with a value to another machine: a model with its weights, a file or folder, several
with commas, a file that is added to and comes back, data and what their task reads beside them, the
files that settings of a task or options of a runtime name, the code of ``module:function``; or the
text alone, which means something there."""
WRITTEN_HERE = "written where it is asked for"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How people write a value that is more than a word or a number."""

    metavar: str
    python: str  # what a Python argument of this kind holds, for the reference
    check: Callable[[object], object] | None = None
    read: Callable[[tuple[str, ...]], object] | None = None
    """Makes the value of what was typed, where a flag can be typed several times."""


@dataclass(frozen=True)
class Option:
    """What a field means, and how it is written."""

    help: str
    flags: tuple[str, ...] = ()  # as typed; by default `--` and the field's name
    _: dataclasses.KW_ONLY
    kind: Kind | None = None  # by default, that of its type
    metavar: str | None = None
    least: float | None = None
    most: float | None = None
    bare: str | None = None  # the value of a flag that is typed without one
    bare_unless: str = r"[^./:]*"  # pattern of a word that is the value, where it may be left out
    per_side: bool = False  # may be given once for all sides, or once per side
    axis: bool = False
    setting: bool = False
    unless: tuple[str, ...] = ()  # fields beside which the setting is not taken
    python_help: str | None = None  # what it means as an argument, where the flag says the opposite
    travels: Travels | None = None  # what goes along to another machine, where it names a file
    stays: str = ""  # why it does not travel at all


@dataclass(frozen=True)
class Argument:
    """A field that is given by its place, not by a flag."""

    help: str
    metavar: str | None = None
    _: dataclasses.KW_ONLY
    kind: Kind | None = None
    needed: bool = True  # of several, at least one
    rest: bool = False  # what follows `--`, passed on as it is; a keyword in Python
    was: tuple[str, ...] = ()  # old names in Python, still read
    travels: Travels | None = None
    stays: str = ""


class Declared(Generic[P]):
    """Makes a field that may be left out, of its default and of what is known of it."""

    def __init__(self, about: Callable[P, Option | Argument]) -> None:
        self._about = about

    def __call__(self, default: T, *arguments: P.args, **named: P.kwargs) -> T:
        about = {"about": self._about(*arguments, **named)}
        if isinstance(default, dict):  # each request has one of its own
            return dataclasses.field(default_factory=lambda: copy(default), metadata=about)
        return dataclasses.field(default=default, metadata=about)


option = Declared(Option)
argument = Declared(Argument)


def output_path(default: T, help: str, metavar: str | None = None) -> T:
    """A file or folder to write, which stays on the machine where the command was typed."""
    flags = ("-o", "--output")
    return option(default, help, flags, kind=FILE, metavar=metavar, stays=WRITTEN_HERE)


@dataclass(frozen=True, kw_only=True)
class RequestField:
    """One field of a request, completely described."""

    name: str
    type: object  # without `None` and without what is known about it
    optional: bool
    default: object
    about: Option | Argument

    @property
    def is_required(self) -> bool:
        return self.default is dataclasses.MISSING

    @property
    def choices(self) -> tuple[str, ...]:
        """The words it may hold; empty when it may hold any."""
        return typing.get_args(self.type) if typing.get_origin(self.type) is Literal else ()

    @property
    def item(self) -> object:
        """The type of one element, where the field is a series; else ``None``."""
        is_series = typing.get_origin(self.type) in (tuple, Sequence, Collection)
        return typing.get_args(self.type)[0] if is_series else None

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags as typed; of a switch that can be turned off, both, joined by a slash."""
        assert isinstance(self.about, Option)
        if self.about.flags:
            return self.about.flags
        word = self.name.replace("_", "-")
        has_two = self.type is bool and (self.optional or self.default is True)
        return (f"--{word}/--no-{word}",) if has_two else (f"--{word}",)

    @property
    def flag(self) -> str:
        """The long flag, for messages."""
        if isinstance(self.about, Argument):
            return (self.about.metavar or self.name).upper()
        return self.flags[-1].partition("/")[0]


class VerbRequest:
    """Base of all requests; one that has no meaning cannot be made."""

    def __post_init__(self) -> None:
        for field in fields_of(type(self)):
            value = getattr(self, field.name)
            if isinstance(field.about, Argument) and field.item is not None:
                if isinstance(value, str | Path | Mapping):  # one of a series, given alone
                    object.__setattr__(self, field.name, (value,))
            elif value is not None:
                self._refuse(field, value)

    def _refuse(self, field: RequestField, value: object) -> None:
        about, flag = field.about, field.flag
        if field.choices and value not in field.choices:
            raise UsageError(
                f"{flag} {value} has no meaning",
                facts={"known": ", ".join(field.choices)},
                fix=meant(str(value), map(str, field.choices), write=lambda word: f"{flag} {word}"),
            )
        if field.type is int and (isinstance(value, bool) or not isinstance(value, int)):
            raise UsageError(f"{flag} is a whole number, not {value!r}", fix=f"{flag} 1")
        if about.kind is not None and about.kind.check is not None:
            about.kind.check(value)
        if isinstance(about, Option) and isinstance(value, int | float):
            least, most = about.least, about.most
            if least is not None and value < least:
                message = f"{flag} must be at least {least:g}, not {value:g}"
                raise UsageError(message, fix=f"{flag} {least:g}")
            if most is not None and value > most:
                message = f"{flag} must be at most {most:g}, not {value:g}"
                raise UsageError(message, fix=f"{flag} {most:g}")


R = TypeVar("R", bound=VerbRequest)
_KNOWN: dict[type[VerbRequest], tuple[RequestField, ...]] = {}


def fields_of(request: type[VerbRequest]) -> tuple[RequestField, ...]:
    """The fields of a request: what has a place, then its own, then group after group.

    Groups come in the order in which the request names them; the store is last.
    """
    if request in _KNOWN:
        return _KNOWN[request]
    hints: dict[str, Any] = {}
    for kind in request.__mro__:
        # Python 3.10 refuses the marker of keyword-only fields as a type.
        own = {k: v for k, v in inspect.get_annotations(kind).items() if k != "_"}
        plain = type(kind.__name__, (), {"__annotations__": own, "__module__": kind.__module__})
        hints |= typing.get_type_hints(plain, include_extras=True) | hints
    known = {each.name: each for each in dataclasses.fields(request)}  # type: ignore[arg-type]
    found = []
    for name, hint in hints.items():
        notes: list[object] = [known[name].metadata.get("about")]
        inner = _without_notes(hint, notes)
        is_union = typing.get_origin(inner) in (Union, types.UnionType)
        parts = typing.get_args(inner) if is_union else (inner,)
        kept = [_without_notes(part, notes) for part in parts if part is not type(None)]
        about = next((each for each in notes if isinstance(each, Option | Argument)), None)
        written = next((each for each in notes if isinstance(each, Kind)), None)
        if about is None:
            raise TypeError(f"the field {name} of a request has no Option")
        factory = known[name].default_factory
        found.append(
            RequestField(
                name=name,
                type=kept[0] if len(kept) == 1 else Union[tuple(kept)],  # noqa: UP007
                optional=len(kept) < len(parts),
                default=known[name].default if factory is dataclasses.MISSING else factory(),
                about=dataclasses.replace(about, kind=about.kind or written),
            )
        )

    def place(field: RequestField) -> int:
        if isinstance(field.about, Option):
            return 3 if field.name == "store" else 2
        return 1 if field.about.rest else 0

    return _KNOWN.setdefault(request, tuple(sorted(found, key=place)))


def _without_notes(hint: object, notes: list[object]) -> object:
    """Take what is annotated off a type: an option, or how values of the type are written."""
    if typing.get_origin(hint) is not Annotated:
        return hint
    inner, *more = typing.get_args(hint)
    notes += more
    return inner


def settled(request: R, given: Mapping[str, object]) -> R:
    """Fill what a request leaves open with settings of the same names."""
    found = {}
    for field in fields_of(type(request)):
        about = field.about
        if not isinstance(about, Option) or not about.setting or field.name not in given:
            continue
        if all(getattr(request, name) is None for name in (field.name, *about.unless)):
            found[field.name] = given[field.name]
    return dataclasses.replace(request, **found) if found else request  # type: ignore[type-var]


def converted(request: VerbRequest, target: type[R], /, **changes: object) -> R:
    """The request of another verb: fields that both have, with the same meaning, are kept."""
    known = {field.name: field.about for field in fields_of(type(request))}
    same = {
        field.name: getattr(request, field.name)
        for field in fields_of(target)
        if known.get(field.name) == field.about
    }
    return target(**{**same, **changes})


def seconds(value: Duration) -> float:
    """Seconds of a number, or of a text with its unit."""
    number = units.seconds_from_text(value) if isinstance(value, str) else float(value)
    if not 0 <= number < math.inf:
        raise UsageError(f"a length of {number} s has no meaning", fix="write it like 500ms or 3s")
    return number


def size_bytes(value: Size) -> int:
    """Bytes of a number, or of a text with its unit."""
    return units.bytes_from_text(value) if isinstance(value, str) else value


def hertz(value: Rate) -> float:
    """Times per second of a number, or of a text with its unit."""
    rate = units.hertz_from_text(value) if isinstance(value, str) else value
    if not 0 < rate < math.inf:
        raise UsageError("a rate of arrivals is above zero and finite", fix="--rate 100/s")
    return rate


def fraction(value: Fraction) -> float:
    """A part of one, of a number or of a text such as ``3%``."""
    return units.fraction_from_text(value) if isinstance(value, str) else units.demand_part(value)


def shapes_from_flags(flags: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Read ``name:1x3x224x224``; a comma joins several, as in trtexec."""
    shapes: dict[str, tuple[int, ...]] = {}
    for flag in flags:
        for part in re.split(r",(?=[^,]*:)", flag):
            name, _, dims = part.strip().rpartition(":")
            if not name or not re.fullmatch(r"\d+(x\d+)*", dims):
                fix = "write it like input:1x3x224x224"
                raise UsageError(f"the shape {part!r} cannot be read", fix=fix)
            if name in shapes:
                raise UsageError(f"the input {name} has two shapes", fix="give each input once")
            shapes[name] = tuple(map(int, dims.split("x")))
    return shapes


def pairs_from_flags(flags: Iterable[str]) -> dict[str, str]:
    """Read ``key=value``."""
    pairs = {}
    for flag in flags:
        key, equals, value = flag.partition("=")
        if not equals or not key:
            raise UsageError(f"--opt {flag} cannot be read", fix="write it like threads=2")
        pairs[key.strip()] = value
    return pairs


def profiles_from_flags(flags: Iterable[str]) -> list[dict[str, tuple[int, ...]]]:
    """Read the shapes of each profile: an input that comes again belongs to the next one."""
    profiles: list[dict[str, tuple[int, ...]]] = []
    for text in flags:
        for name, dims in shapes_from_flags((text,)).items():
            if all(name in each for each in profiles):
                profiles.append({})
            next(each for each in profiles if name not in each)[name] = dims
    return profiles


def words_from_text(value: str | Sequence[str]) -> tuple[str, ...]:
    """The words of a text with commas; a list stays one."""
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(part.strip() for part in parts if part.strip())


def _refuse_empty_shapes(value: object) -> None:
    assert isinstance(value, Mapping)
    for name, shape in value.items():
        if any(dim < 1 for dim in shape):
            message = f"the shape {'x'.join(map(str, shape))} of {name!r} holds nothing"
            raise UsageError(message, fix="give dimensions of at least 1")


TIME = Kind(metavar="TIME", python='seconds, or text such as "500ms"', check=seconds)  # type: ignore[arg-type]
SIZE = Kind(metavar="SIZE", python='bytes, or text such as "8GiB"', check=size_bytes)  # type: ignore[arg-type]
RATE = Kind(metavar="RATE", python='per second, or text such as "500/s"', check=hertz)  # type: ignore[arg-type]
PART = Kind(metavar="PERCENT", python='a part of one, or text such as "3%"', check=fraction)  # type: ignore[arg-type]
FILE = Kind(metavar="PATH", python="a path")
SHAPES = Kind(
    metavar="NAME:1x3x224x224",
    python="dimensions by the name of the input",
    check=_refuse_empty_shapes,
    read=shapes_from_flags,
)
PROFILES = Kind(
    metavar="NAME:1x3x224x224",
    python="dimensions by the name of the input; a list of such, one per profile",
    read=profiles_from_flags,
)
PAIRS = Kind(metavar="KEY=VALUE", python="values by key", read=pairs_from_flags)
LIST = Kind(metavar="LIST", python="a list, or text with commas")

Duration = Annotated[str | float, TIME]  # seconds, or text with a unit: `"500ms"`
Size = Annotated[str | int, SIZE]  # bytes, or text with a unit: `"8GiB"`
Rate = Annotated[str | float, RATE]  # per second, or text with a unit: `"500/s"`
Fraction = Annotated[str | float, PART]  # a part of one, or text: `"3%"`
File = str | Path
PerSide = str | Sequence[str | None]
Shapes = Annotated[Mapping[str, Sequence[int]], SHAPES]  # `{"x": (1, 3, 224, 224)}`
Pairs = Annotated[Mapping[str, str], PAIRS]
Words = Annotated[str | Sequence[str], LIST]


# Groups of fields that several verbs have in common


@dataclass(frozen=True, kw_only=True)
class StoreFields(VerbRequest):
    """Where runs are kept."""

    store: File | None = option(
        None, "Store: folder or URL (default: configured).", metavar="DIR|URL", stays=WRITTEN_HERE
    )


@dataclass(frozen=True, kw_only=True)
class ShapeFields(VerbRequest):
    """What goes in."""

    shapes: Shapes = option({}, "Shape of one input; repeat for several.", ("--shape",))
    batch: int | None = option(
        None, "Items per query: every dynamic leading dimension.", metavar="N", least=1
    )


@dataclass(frozen=True, kw_only=True)
class LengthFields(VerbRequest):
    """How long it is warmed up and measured."""

    warmup: Duration | None = option(
        None, "Least warm-up, e.g. 500ms (default 200ms).", axis=True, setting=True
    )
    warmup_iterations: int | None = option(
        None, "Least warm-up as a count of queries.", metavar="N", least=0, axis=True
    )
    until_steady: bool = option(
        True, "Go on warming up (10 s at most) until two windows agree.", axis=True
    )
    duration: Duration | None = option(
        None, "Least measured time (default 3s).", axis=True, setting=True, unless=("iterations",)
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
        None, "Inputs from .npz or .npy, with --task an image.", metavar="FILE", travels="file"
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
        None, "Arrivals of the protocol server, e.g. 500/s or 2kHz.", axis=True
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
    gap: Duration | None = option(None, "Mean random rest between queries, e.g. 5ms.", axis=True)
    profile_index: int = option(
        0, "Optimization profile of the engine, from 0.", metavar="N", least=0
    )
    lock_clocks: str | None = option(
        None,
        "Lock the GPU's clock while measuring (needs root), and free it afterwards.",
        metavar="[base|max|MHZ]",
        axis=True,
        bare="base",
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
        {}, "The task's flags, with underscores: --task NAME --help lists them.", travels="settings"
    )


@dataclass(frozen=True, kw_only=True)
class OptionFields(VerbRequest):
    """What only one runtime knows."""

    options: Pairs = option(
        {},
        "An option of the runtime itself, e.g. providers=cuda or torch:compile=default; "
        "repeat for several.",
        ("--opt",),
        travels="options",
    )


@dataclass(frozen=True, kw_only=True)
class TimeoutFields(VerbRequest):
    """When a job is given up."""

    timeout: Duration | None = option(
        None, "Give up on a launch or a step after this long: 10min.", setting=True
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
class MemoryFields(VerbRequest):
    """How much memory a job may take."""

    memory_limit: Size | None = option(None, "Address space of each child, e.g. 8GiB.")


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
        None, "Interpreter: once, or once per side.", metavar="PATH", per_side=True, travels="as-is"
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
        None, "Work on a Ray cluster, or on hosts by ssh.", metavar="ray|ssh"
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
        None, "Wait so long for a node that joins a Ray cluster later."
    )
    jobs: int = option(
        1,
        "CPU runs at the same time on one machine; they disturb each other.",
        metavar="N",
        least=1,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        able = {
            "--address": (self.address, "ray"),
            "--hosts": (self.hosts, "ssh"),
            "--need": (self.needs, "ray, or ssh"),
            "--wait-node": (self.wait_node, "ray"),
            "--jobs": (self.jobs > 1, "ray, or ssh"),
        }
        for flag, (given, executors) in able.items():
            if given and self.executor is None:
                fix = f"--executor {executors}"
                raise UsageError(f"{flag} needs an executor", fix=fix)


@dataclass(frozen=True, kw_only=True)
class SourceFields(VerbRequest):
    """How a PyTorch model is loaded."""

    weights: File = option(
        "default", "Pretrained, random or state dict.", metavar="default|none|FILE", travels="file"
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
