"""The fields of a request, and how their values are written.

A request holds the arguments of a verb: a class whose fields have an ``Option`` or an ``Argument``,
required ones in ``Annotated``, the others as ``option(default, ...)`` or
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
from dataclasses import dataclass
from operator import gt, lt
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NoReturn, ParamSpec, TypeVar, Union

from trtbench.core import units
from trtbench.core.errors import UsageError, suggest
from trtbench.core.plugins import Registry
from trtbench.core.safety import check_given, check_tag
from trtbench.core.words import CudaGraph, Precision, Protocol, Scalar

if typing.TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:  # Python 3.10 has none

    def dataclass_transform(**named: object) -> Callable[[type], type]:
        return lambda kind: kind


P = ParamSpec("P")
R = TypeVar("R", bound="VerbRequest")
T = TypeVar("T")

Travels = Literal[
    "model", "file", "files", "cache", "data", "calibration", "settings", "options", "code", "as-is"
]
"""What is sent to another machine with a value: a model with its weights, a file or folder, several
with commas, a cache that is updated and sent back, data with the other files of their task, the
files that settings of a task or options of a runtime name, the code of ``module:function``; or the
text alone, which is valid there."""
WRITTEN_HERE = "written on this machine"

MODEL, MEASURING, GPU = "Model and inputs", "Measuring", "GPU"
OUTPUT, ELSEWHERE = "Output", "Elsewhere"
MAIN, BUILDING = "Options", "Building"
GROUPS = (MAIN, MODEL, BUILDING, MEASURING, GPU, OUTPUT, ELSEWHERE)
"""Groups of options in the help of a command, in their order; a verb's own are in the first."""
SWITCHES = {**dict.fromkeys(("on", "yes", "true", "1"), True),
            **dict.fromkeys(("off", "no", "false", "0"), False)}  # fmt: skip
COMMON = ("runtime", "shapes", "batch", "device", "duration", "launches", "protocol",
          "cuda_graph", "explain", "as_json")  # fmt: skip
"""Fields of several verbs that are in the first group, because they matter most."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How a value is written that is more than a word or a number."""

    metavar: str
    python: str  # what a Python argument of this kind holds, for the reference
    check: Callable[[object], object] | None = None
    read: Callable[[tuple[str, ...]], object] | None = None
    """Returns the value of all that was typed, for a flag that can be repeated."""
    names: Registry[object] | None = None  # the plug-ins whose names are valid


@dataclass(frozen=True)
class Option:
    """What a field means, and how it is written."""

    help: str
    flags: tuple[str, ...] = ()  # as typed; by default `--` and the field's name
    _: dataclasses.KW_ONLY
    kind: Kind | None = None  # by default, the one of its type
    metavar: str | None = None
    least: float | None = None
    most: float | None = None
    bare: str | None = None  # the value of the flag when it is typed without one
    per_side: bool = False  # may be given once for all sides, or once per side
    axis: bool = False
    setting: bool = False
    unless: tuple[str, ...] = ()  # the setting is ignored if one of these fields is given
    former: tuple[str, ...] = ()  # former spellings, still read
    trtexec: str = ""  # flags of trtexec that it stands for: `--noCudaGraph=off` is the value off
    python_help: str | None = None  # help of the Python argument, if the flag means the opposite
    travels: Travels | None = None  # what is sent to another machine, if it names a file
    stays: str = ""  # why it is not sent
    group: str = ""  # in the help; by default, the one of its class


@dataclass(frozen=True)
class Argument:
    """A positional argument: what it means, and how it is written."""

    help: str
    metavar: str | None = None
    _: dataclasses.KW_ONLY
    kind: Kind | None = None
    needed: bool = True  # if it takes several values, at least one is required
    rest: bool = False  # what follows `--`, passed on unchanged; a keyword in Python
    trtexec: str = ""
    travels: Travels | None = None
    stays: str = ""


class OptionalField(Generic[P]):
    """Declares a field by its default and its description, a pair in the class of requests."""

    def __init__(self, about: Callable[P, Option | Argument]) -> None:
        self._about = about

    def __call__(self, default: T, *arguments: P.args, **named: P.kwargs) -> T:
        return default, self._about(*arguments, **named)  # type: ignore[return-value]


option = OptionalField(Option)
argument = OptionalField(Argument)


def output_path(default: T, help: str, metavar: str = "PATH", trtexec: str = "") -> T:
    """Return a field for a file or folder to write on the machine where the command is typed."""
    return option(
        default, help, ("-o", "--output"), kind=FILE, metavar=metavar, stays=WRITTEN_HERE,
        group=OUTPUT, trtexec=trtexec,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RequestField:
    name: str
    type: object  # without `None` and without annotations
    written: str  # the type as the source has it
    optional: bool
    default: object
    about: Option | Argument
    group: str

    @property
    def help(self) -> str:
        """What the field means, with the names of plug-ins that are valid."""
        valid = self.about.kind.names if self.about.kind else None
        return self.about.help + (f" One of: {', '.join(valid.names())}." if valid else "")

    @property
    def is_required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed values; empty if any value is allowed."""
        return typing.get_args(self.type) if typing.get_origin(self.type) is Literal else ()

    @property
    def item(self) -> object:
        """The type of one element if the field takes several values; else ``None``."""
        is_series = typing.get_origin(self.type) in (tuple, Sequence, Collection)
        return typing.get_args(self.type)[0] if is_series else None

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags as typed; a switch with an off form has both, joined by a slash."""
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


@dataclass_transform(kw_only_default=True, frozen_default=True)
class VerbRequest:
    """Base of all requests, which cannot be changed; invalid values raise an error on construction.

    ``group`` is the group, in the help, of the options that a class declares itself. Type checkers
    take subclasses for dataclasses. They are none, because dataclasses take long to make.
    """

    _group = _usual_group = MAIN

    def __init_subclass__(cls, *, group: str = "", kw_only: bool = True) -> None:
        cls._group = group or cls._usual_group

    def __init__(self, *given: object, **named: object) -> None:
        bound = signature_of(type(self)).bind(*given, **named)
        bound.apply_defaults()
        for name, value in bound.arguments.items():  # requests must not share a dictionary
            vars(self)[name] = dict(value) if isinstance(value, dict) else _without_runs(value)
        for kind in reversed(type(self).__mro__):
            if check := vars(kind).get("validate"):
                check(self)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{name} of a request cannot be changed; use having({name}=...)")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"

    def having(self: R, **changes: object) -> R:
        """Return a copy with some fields changed."""
        return type(self)(**{**vars(self), **changes})

    def validate(self) -> None:
        """Raise an error where a value is not valid; each class checks the fields of its own."""
        for field in fields_of(type(self)):
            value, about = getattr(self, field.name), field.about
            if field.type in (str, File) if isinstance(about, Option) else not about.rest:
                for each in value if isinstance(value, list | tuple) else (value,):
                    if isinstance(each, str | Path):
                        check_given(str(each), what=field.flag)
            several = field.item is not None and isinstance(about, Argument)
            if several or field.item in (str, File):
                if isinstance(value, str | Path | Mapping):  # a single value
                    vars(self)[field.name] = (value,)
            elif value is not None:
                self._check_value(field, value)

    def _check_value(self, field: RequestField, value: object) -> None:
        about, flag = field.about, field.flag
        if field.choices and value not in field.choices:
            words, facts = map(str, field.choices), {"valid": ", ".join(field.choices)}
            fix = suggest(str(value), words, write=lambda word: f"{flag} {word}")
            raise UsageError(f"{flag} {value} is not valid", facts=facts, fix=fix)
        if field.type is int and (isinstance(value, bool) or not isinstance(value, int)):
            raise UsageError(f"{flag} must be an integer, not {value!r}", fix=f"{flag} 1")
        if about.kind is not None and about.kind.check is not None:
            about.kind.check(value)
        if isinstance(about, Option) and isinstance(value, int | float):
            for word, bound, is_beyond in (("least", about.least, lt), ("most", about.most, gt)):
                if bound is not None and is_beyond(value, bound):
                    message = f"{flag} must be at {word} {bound:g}, not {value:g}"
                    raise UsageError(message, fix=f"{flag} {bound:g}")


def _without_runs(value: object) -> object:
    """Return a value with the folders of runs instead of runs, which Python may give."""
    if isinstance(value, list | tuple):
        return type(value)(map(_without_runs, value))
    is_run = hasattr(value, "record")  # without the import of its type, which loads numpy
    return str(value.path) if is_run else value  # type: ignore[attr-defined]


_KNOWN: dict[type[VerbRequest], tuple[RequestField, ...]] = {}


def fields_of(request: type[VerbRequest]) -> tuple[RequestField, ...]:
    """Return a request's fields: positional ones, own options, those of its bases, the store."""
    if request in _KNOWN:
        return _KNOWN[request]
    hints: dict[str, Any] = {}
    groups: dict[str, str] = {}
    texts: dict[str, str] = {}
    declared: dict[str, tuple[object, Option | Argument | None]] = {}
    required = inspect.Parameter.empty, None
    for kind in request.__mro__:
        # Python 3.10 does not accept the marker of keyword-only fields as a type.
        own = {k: v for k, v in inspect.get_annotations(kind).items() if k != "_"}
        plain = type(kind.__name__, (), {"__annotations__": own, "__module__": kind.__module__})
        hints |= typing.get_type_hints(plain, include_extras=True) | hints
        groups = {name: kind._group for name in own if issubclass(kind, VerbRequest)} | groups
        texts = own | texts
        declared = {name: vars(kind).get(name, required) for name in own} | declared
    found = []
    for name, hint in hints.items():
        default, described = declared[name]
        notes: list[object] = [described]
        inner = _without_notes(hint, notes)
        is_union = typing.get_origin(inner) in (Union, types.UnionType)
        parts = typing.get_args(inner) if is_union else (inner,)
        kept = [_without_notes(part, notes) for part in parts if part is not type(None)]
        about = next((each for each in notes if isinstance(each, Option | Argument)), None)
        written = next((each for each in notes if isinstance(each, Kind)), None)
        if about is None:
            raise TypeError(f"the field {name} of a request has no Option")
        found.append(
            RequestField(
                name=name,
                type=kept[0] if len(kept) == 1 else Union[tuple(kept)],  # noqa: UP007
                written=texts[name],
                optional=len(kept) < len(parts),
                default=default,
                about=dataclasses.replace(about, kind=about.kind or written),
                group=MAIN if name in COMMON else getattr(about, "group", "") or groups[name],
            )
        )

    def place(field: RequestField) -> int:
        if isinstance(field.about, Option):
            return 3 if field.name == "store" else 2
        return 1 if field.about.rest else 0

    return _KNOWN.setdefault(request, tuple(sorted(found, key=place)))


def former_names(kind: type[VerbRequest]) -> dict[str, RequestField]:
    """Return the fields of a request by their former names, such as ``inputs``."""
    return {
        word[2:]: each for each in fields_of(kind) for word in getattr(each.about, "former", ())
    }


def signature_of(request: type[VerbRequest]) -> inspect.Signature:
    """Return the arguments of a request; only arguments of the command line are positional."""
    made, shown = inspect.Parameter, []
    for field in fields_of(request):
        by_name = isinstance(field.about, Option) or field.about.rest
        kind = made.KEYWORD_ONLY if by_name else made.POSITIONAL_OR_KEYWORD
        shown.append(made(field.name, kind, default=field.default))
    return inspect.Signature(shown)


def _without_notes(hint: object, notes: list[object]) -> object:
    """Return a type without its annotations, which are appended to ``notes``."""
    if typing.get_origin(hint) is not Annotated:
        return hint
    inner, *more = typing.get_args(hint)
    notes += more
    return inner


def with_settings(request: R, settings: Mapping[str, object]) -> R:
    """Return the request with fields that are not given filled from settings of the same name."""
    found = {}
    for field in fields_of(type(request)):
        about = field.about
        if not isinstance(about, Option) or not about.setting or field.name not in settings:
            continue
        if all(getattr(request, name) is None for name in (field.name, *about.unless)):
            found[field.name] = settings[field.name]
    return request.having(**found) if found else request


def converted(request: VerbRequest, target: type[R], /, **changes: object) -> R:
    """Return the request of another verb; fields that are declared alike in both are copied."""
    known = {field.name: field.about for field in fields_of(type(request))}
    same = {
        field.name: getattr(request, field.name)
        for field in fields_of(target)
        if known.get(field.name) == field.about
    }
    return target(**{**same, **changes})


def seconds(value: Duration) -> float:
    """Return seconds from a number of seconds or a text with a unit."""
    number = units.seconds_from_text(value) if isinstance(value, str) else float(value)
    if not 0 <= number < math.inf:
        raise UsageError(f"{number} s is not a valid duration", fix="write it like 500ms or 3s")
    return number


def size_bytes(value: Size) -> int:
    """Return bytes from a number of bytes or a text with a unit."""
    return units.bytes_from_text(value) if isinstance(value, str) else value


def hertz(value: Rate) -> float:
    """Return a rate per second from a number or a text with a unit."""
    rate = units.hertz_from_text(value) if isinstance(value, str) else value
    if not 0 < rate < math.inf:
        raise UsageError("an arrival rate must be above zero and finite", fix="--rate 100/s")
    return rate


def fraction(value: Fraction) -> float:
    """Return a fraction from a number between 0 and 1 or a text such as ``3%``."""
    return units.fraction_from_text(value) if isinstance(value, str) else units.check_part(value)


def shapes_from_flags(flags: Iterable[str], dim: str = r"\d+") -> dict[str, tuple[Any, ...]]:
    """Read ``name:1x3x224x224``, several with commas; ``dim`` may allow text as a dimension."""
    shapes: dict[str, tuple[Any, ...]] = {}
    for flag in flags:
        for part in re.split(r",(?=[^,]*:)", flag):
            name, _, dims = part.strip().rpartition(":")
            words = dims.split("x")
            if not name or not all(re.fullmatch(dim, word) for word in words):
                fix = "write it like input:1x3x224x224"
                raise UsageError(f"the shape {part!r} is not valid", fix=fix)
            if name in shapes:
                raise UsageError(f"the input {name} has two shapes", fix="give each input once")
            shapes[name] = tuple(int(word) if word.isdecimal() else word for word in words)
    return shapes


def pairs_from_flags(
    flags: Iterable[str], name: str = "--opt", example: str = "threads=2", sign: str = "="
) -> dict[str, str]:
    """Read ``key=value`` pairs; ``sign`` is the pattern of what is between them."""
    pairs = {}
    for flag in flags:
        key, *rest = re.split(sign, flag, maxsplit=1)
        if not rest or not key:
            raise UsageError(f"{name} {flag} is not valid", fix=f"write it like {example}")
        pairs[key.strip()] = rest[0]
    return pairs


def profiles_from_flags(flags: Iterable[str]) -> list[dict[str, tuple[int, ...]]]:
    """Read the shapes of each optimization profile; a repeated input starts the next one."""
    profiles: list[dict[str, tuple[int, ...]]] = []
    for text in flags:
        for name, dims in shapes_from_flags((text,)).items():
            if all(name in each for each in profiles):
                profiles.append({})
            next(each for each in profiles if name not in each)[name] = dims
    return profiles


def read_scalar(field: RequestField, value: Scalar) -> Any:
    """Return a value as the type of its field: ``off`` is false, or no telemetry, or a choice."""
    word = str(value).lower()
    if isinstance(value, bool) and field.type is not bool:  # as YAML reads on and off
        word = value = "on" if value else "off"
    if field.type is bool and word in SWITCHES:
        return SWITCHES[word]
    if field.type is int and re.fullmatch(r"-?\d+", word, re.ASCII):
        return int(word)
    if field.type in (bool, int):
        what, fix = ("not an integer", 1) if field.type is int else ("neither on nor off", "on")
        raise UsageError(f"{field.name}={value} is {what}", fix=f"{field.name}={fix}")
    bare = field.about.bare if isinstance(field.about, Option) else None
    if word in field.choices or bare is None or word not in ("on", "off"):
        # A number lacks the unit of a time or a rate, as for the flag.
        return str(value) if field.type is str or field.about.kind in (TIME, RATE) else value
    return bare if word == "on" else None  # such as --telemetry without a time


def words_from_text(value: str | Sequence[str]) -> tuple[str, ...]:
    """Split a comma-separated text into words; a list of words is kept."""
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(part.strip() for part in parts if part.strip())


def words_from_flags(values: Mapping[str, object]) -> list[str]:
    """Return what to type for values by flag; a series repeats its flag, unset values have none."""
    words: list[str] = []
    for flag, value in values.items():
        for each in value if isinstance(value, list | tuple) else (value,):
            if each is not None and each is not False:
                words += [flag] if each is True else [flag, str(each)]
    return words


def _refuse_empty_shapes(value: object) -> None:
    assert isinstance(value, Mapping)
    for name, shape in value.items():
        if any(dim < 1 for dim in shape):
            message = f"the shape {'x'.join(map(str, shape))} of {name!r} has no elements"
            raise UsageError(message, fix="give dimensions of at least 1")


TIME = Kind(metavar="TIME", python='seconds, or text such as "500ms"', check=seconds)  # type: ignore[arg-type]
SIZE = Kind(metavar="SIZE", python='bytes, or text such as "8GiB"', check=size_bytes)  # type: ignore[arg-type]
RATE = Kind(metavar="RATE", python='per second, or text such as "500/s"', check=hertz)  # type: ignore[arg-type]
PART = Kind(metavar="PERCENT", python='a fraction, or text such as "3%"', check=fraction)  # type: ignore[arg-type]
FILE = Kind(metavar="PATH", python="a path")
SHAPES = Kind(
    metavar="NAME:1x3x224x224",
    python="dimensions by input name",
    check=_refuse_empty_shapes,
    read=shapes_from_flags,
)
PROFILES = Kind(
    metavar="NAME:1x3x224x224",
    python="dimensions by input name, or a list of these, one per profile",
    read=profiles_from_flags,
)
PAIRS = Kind(metavar="KEY=VALUE", python="values by key", read=pairs_from_flags)
VALUES = Kind(
    metavar="NAME=VALUE",
    python='a number, a list, text such as "0..255", or a path, by input name',
    read=lambda flags: pairs_from_flags(flags, "--input", "x=0..255", sign="=@|=|@"),
)
LIST = Kind(metavar="LIST", python="a list, or text with commas")
RUNTIME, TASK, EXECUTOR, BUILDER = (
    Kind(
        metavar="NAME",
        python="a name",
        names=Registry(f"trtbench.{each}", noun=each, contract=object),
    )
    for each in ("runtimes", "tasks", "executors", "convert.builders")
)
DEFAULTS = "default: onnxruntime for ONNX, tensorrt or trtexec for engines, torch for PyTorch"

Duration = Annotated[str | float, TIME]  # seconds, or text with a unit: `"500ms"`
Size = Annotated[str | int, SIZE]  # bytes, or text with a unit: `"8GiB"`
Rate = Annotated[str | float, RATE]  # per second, or text with a unit: `"500/s"`
Fraction = Annotated[str | float, PART]  # a number between 0 and 1, or text: `"3%"`
File = str | Path
PerSide = str | Sequence[str | None]
Shapes = Annotated[Mapping[str, Sequence[int]], SHAPES]  # `{"x": (1, 3, 224, 224)}`
Pairs = Annotated[Mapping[str, str], PAIRS]
Values = Annotated[Mapping[str, object], VALUES]  # `{"sr": 16000, "x": "0..255"}`
Words = Annotated[str | Sequence[str], LIST]


# Groups of fields that several verbs share; without methods of their own, which take time to make


class StoreFields(VerbRequest, group=OUTPUT):
    """Where runs are kept."""

    store: File | None = option(
        None, "Store: folder or URL (default: configured).", metavar="DIR|URL", stays=WRITTEN_HERE
    )


class ShapeFields(VerbRequest, group=MODEL):
    """Shapes of the inputs."""

    shapes: Shapes = option(
        {}, "Shape of one input; repeat for several.", ("--shape",), trtexec="--shapes"
    )
    batch: int | None = option(
        None, "Items per query; sets every dynamic leading dimension.", metavar="N", least=1,
        trtexec="--batch --maxBatch",
    )  # fmt: skip


class DataFields(VerbRequest, group=MODEL):
    """What the model is run on, and the task that prepares images."""

    data: File | None = option(
        None, "Image, folder of images, .npz, .npy, data.yaml, or random.", metavar="DATA",
        travels="data", former=("--inputs", "--images", "--calibration"), trtexec="--loadInputs",
    )  # fmt: skip
    task: str | None = option(
        None, "Task that prepares images (default: as the model states); adds its flags.", kind=TASK
    )
    settings: Mapping[str, Scalar] = option(
        {}, "The task's flags, with underscores: --task NAME --help lists them.", travels="settings"
    )


class ValueFields(DataFields, group=MODEL):
    """What the model is run on, with values of single inputs."""

    values: Values = option(
        {}, "Value of one input: sr=16000, x=0..255 (random), x=@FILE (.npy); repeat for several.",
        ("--input",), travels="settings",
    )  # fmt: skip


class LengthFields(ValueFields, group=MEASURING):
    """How long the warm-up and the measurement take, and with which inputs."""

    warmup: Duration | None = option(
        None, "Minimum warm-up, e.g. 500ms (default 200ms).", axis=True, setting=True,
        trtexec="--warmUp=200ms",
    )  # fmt: skip
    warmup_iterations: int | None = option(
        None, "Minimum warm-up as a number of queries.", metavar="N", least=0, axis=True
    )
    until_steady: bool = option(
        True, "Extend the warm-up (10 s at most) until two windows agree.", axis=True
    )
    duration: Duration | None = option(
        None, "Minimum measured time (default 3s).", axis=True, setting=True, unless=("iterations",)
    )
    iterations: int | None = option(
        None,
        "Minimum number of measured queries (default 10). Without --duration there is no minimum "
        "time.",
        metavar="N",
        least=1,
        axis=True,
        setting=True,
        unless=("duration",),
    )
    seed: int = option(0, "Seed of random inputs, orders and arrivals.", least=0, group=MODEL)


class ThreadFields(VerbRequest, group=MEASURING):
    """How many threads a model runs in."""

    threads: int | None = option(
        None, "Threads within an operator (CPU runtimes).", least=1, axis=True, setting=True
    )


class DeviceFields(ThreadFields, group=MEASURING):
    """The device and the threads a model runs on."""

    device: str | None = option(
        None, "Where it runs: cpu, cuda:0, cuda:1, ...", metavar="NAME", axis=True, setting=True
    )


class QueryFields(VerbRequest, group=GPU):
    """How queries follow one another, are launched on a GPU, and at which clock."""

    protocol: Protocol | None = option(
        None,
        "serve: one query after the other (default); pipeline: copies and work overlap (trtexec's "
        "default); gpu: without copies; coldl2: as gpu, L2 cache cleared; server: arrivals at "
        "--rate; first: from the first query on.",
        axis=True,
    )
    rate: Rate | None = option(
        None,
        "Arrival rate for the protocol server, e.g. 500/s or 2kHz.",
        axis=True,
        group=MEASURING,
    )
    arrivals: Literal["poisson", "constant"] = option(
        "poisson", "How arrivals are spread in time (server).", group=MEASURING
    )
    gap: Duration | None = option(
        None, "Mean random pause between queries, e.g. 5ms.", axis=True, trtexec="--idleTime=5ms",
        group=MEASURING,
    )  # fmt: skip
    cuda_graph: CudaGraph | None = option(
        None,
        "Launch queries as a CUDA graph; auto continues without one if it cannot be captured "
        "(default: off; protocols gpu and coldl2: on).",
        metavar="[on|auto|off]",
        bare="on",
        axis=True,
        trtexec="--useCudaGraph=on --noCudaGraph=off",
    )
    transfers: bool = option(
        True, "Copy inputs and outputs in every query.", axis=True,
        trtexec="--includeDataTransfers --noDataTransfers=off",
    )  # fmt: skip
    spin_wait: bool = option(
        False, "Wait for the GPU by polling.", axis=True, trtexec="--useSpinWait --noSpinWait=off"
    )
    streams: int = option(
        1,
        "Concurrent queries, each in its own context; their latencies overlap.",
        metavar="N",
        least=1,
        axis=True,
        trtexec="--streams --infStreams",
    )
    profile_index: int = option(
        0, "Optimization profile of the engine, from 0.", metavar="N", least=0,
        trtexec="--useProfile",
    )  # fmt: skip
    lock_clocks: str | None = option(
        None,
        "Lock the GPU's clock while measuring (needs root), and unlock it afterwards.",
        metavar="[base|max|MHZ]",
        axis=True,
        bare="base",
    )


class PrecisionFields(VerbRequest, group=MODEL):
    """The precision that a builder or PyTorch may use."""

    precision: Precision | None = option(
        None, "Precision that a weakly typed builder, or PyTorch, may use.",
        trtexec="--fp16=fp16 --bf16=bf16 --int8=int8 --fp8=fp8 --best=best --noTF32=fp32",
    )  # fmt: skip


class BuildFields(VerbRequest, group=MODEL):
    """How an engine is built from the ONNX file that is measured."""

    build: Pairs = option(
        {}, "A flag of trtbench build for an ONNX file on TensorRT: workspace=4GiB; repeatable."
    )


class SourceFields(VerbRequest, group=MODEL):
    """How a PyTorch model is loaded."""

    weights: File = option(
        "default", "Pretrained, random or state dict.", metavar="default|none|FILE", travels="file"
    )
    trust: bool = option(False, "Allow loading a pickle, which can run any code.")
    factory: str | None = option(
        None, "Makes the PyTorch module of a state dict.", metavar="MODULE:FUNCTION", travels="code"
    )


class OptionFields(SourceFields, group=MODEL):
    """Options of a single runtime, and how PyTorch loads a model."""

    options: Pairs = option(
        {},
        "An option of the runtime itself, e.g. providers=cuda or torch:compile=default; "
        "repeat for several.",
        ("--opt",),
        travels="options",
        trtexec="--avgRuns=avg_runs=10 --percentile=percentile=99 --sleepTime=sleep_time=5",
    )


class TimeoutFields(VerbRequest, group=MEASURING):
    """After how long a job is stopped."""

    timeout: Duration | None = option(
        None, "Stop a launch or a step after this time: 10min.", setting=True
    )

    def validate(self) -> None:
        if self.timeout is not None and seconds(self.timeout) <= 0:
            raise UsageError("a timeout must be longer than 0 s", fix="--timeout 10min")


class WaitFields(VerbRequest, group=MEASURING):
    """Whether a job waits for a device in use."""

    wait: bool = option(
        True,
        "Fail at once when the device is in use.",
        ("--no-wait",),
        python_help="Wait while the device is in use; False fails at once.",
    )


class MemoryFields(VerbRequest, group=MEASURING):
    """How much memory a job may use."""

    memory_limit: Size | None = option(None, "Limit of each child's address space: 8GiB.")


class PythonFields(VerbRequest, group=ELSEWHERE):
    """Which interpreter does the work."""

    python: File | None = option(
        None, "Use another Python interpreter.", metavar="PATH", travels="as-is"
    )


class SideFields(VerbRequest, group=MODEL):
    """What may differ from side to side."""

    runtime: PerSide | None = option(
        None,
        f"Runtime that executes the models: once for all sides, or once per side ({DEFAULTS}).",
        ("-r", "--runtime"),
        kind=RUNTIME,
        per_side=True,
        setting=True,
    )
    python: PerSide | None = option(
        None,
        "Interpreter: once, or once per side.",
        metavar="PATH",
        per_side=True,
        travels="as-is",
        group=ELSEWHERE,
    )


class TagFields(VerbRequest, group=OUTPUT):
    """Tags of new runs."""

    tags: Collection[str] = option((), "Tag to find the runs by.", ("--tag",), metavar="NAME")

    def validate(self) -> None:
        for tag in self.tags:
            check_tag(tag)


class ExecutorFields(VerbRequest, group=ELSEWHERE):
    """Which machines do the work."""

    executor: str | None = option(
        None, "Run on a Ray cluster, or on other hosts over ssh.", kind=EXECUTOR
    )
    address: str | None = option(
        None, "Ray cluster, also ray://HOST:10001 (default: as Ray finds it).", metavar="HOST:PORT"
    )
    hosts: File | None = option(
        None, "Hosts for ssh, as TOML.", kind=FILE, metavar="FILE", stays="lists the machines"
    )
    needs: Sequence[str] = option(
        (),
        "What a machine must have: gpu=H100, memory=16GiB, gpu-memory=40GiB, NAME=1.",
        ("--need",),
        metavar="KEY=VALUE",
    )
    wait_node: Duration | None = option(
        None, "How long to wait for a node to join the Ray cluster."
    )
    jobs: int = option(
        1, "Simultaneous CPU runs on one machine; they disturb each other.", metavar="N", least=1
    )

    def validate(self) -> None:
        users = {
            "--address": (self.address, "ray"),
            "--hosts": (self.hosts, "ssh"),
            "--need": (self.needs, "ray, or ssh"),
            "--wait-node": (self.wait_node, "ray"),
            "--jobs": (self.jobs > 1, "ray, or ssh"),
        }
        for flag, (given, executors) in users.items():
            if given and self.executor is None:
                raise UsageError(f"{flag} needs an executor", fix=f"--executor {executors}")


class FilterFields(VerbRequest):
    """Which runs of a store are selected."""

    runtime: str | None = option(None, "Only this runtime.", ("-r", "--runtime"), metavar="NAME")
    tag: str | None = option(None, "Only runs with this tag.", metavar="NAME")
    since: str | None = option(
        None, "Only from this day on: 2026-11-15, today, 7d.", metavar="DATE"
    )
    until: str | None = option(None, "Only up to and including this day.", metavar="DATE")
