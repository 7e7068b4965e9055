"""The matrix of a sweep, from a file, a preset or a request; its cases and input shapes."""

import itertools
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import msgspec

from trtbench.analysis.sweep import quantities
from trtbench.convert.calibration import RANDOM
from trtbench.core import errors, safety
from trtbench.core.conditions import condition_from_text
from trtbench.core.metrics import kinds
from trtbench.core.run import Scalar
from trtbench.core.samples import Arrays
from trtbench.core.spec import Precision, Value
from trtbench.core.units import text_from_shape
from trtbench.host.files import yaml_from_text
from trtbench.models.identity import SUFFIXES, model_ref, source_of
from trtbench.models.inputs import batch_place, given_values, is_open
from trtbench.models.onnx_model import input_specs, load_onnx
from trtbench.models.onnx_outline import outline_of
from trtbench.models.torch_models import is_library_model
from trtbench.requests import measure
from trtbench.requests.fields import File, Option, fields_of, read_scalar
from trtbench.requests.measure import BenchRequest, SweepRequest, scalars
from trtbench.requests.models import IMAGES_TASK, RecipeFields, build_settings
from trtbench.tasks import TASKS
from trtbench.tasks._feed import settled_task
from trtbench.tasks.contract import settings_with_defaults

EngineShapes = Literal["static", "dynamic"]
Dims = Mapping[str, Scalar]
Shapes = dict[str, tuple[int, ...]]

FLAGS = {
    field.name: field
    for field in fields_of(BenchRequest)
    if isinstance(field.about, Option) and field.about.axis
}
"""Flags of ``trtbench bench`` that can be an axis of a sweep."""
PREFIXES = ("opt.", "build.", "shape.", "input.")
"""Options of the runtime, fields of a build (``build.optimization_level``), dimensions, values."""
MACHINE = "machine"  # an axis of machines, given by part of the name or the GPU
SOURCE = ("weights", "factory", "trust")
"""How a PyTorch model is loaded: options of its runtime and settings of its export."""
SET_BY_SWEEP = (
    "runtime", "precision", "calibration", "task",
    "shapes_min", "shapes_opt", "shapes_max", "input_shapes",
)  # fmt: skip
"""Fields of a build that only the sweep sets."""
MATRIX_FILES = (".toml", ".yaml", ".yml")
MOST_CASES = 100_000
AXES = ("precision", "batch", "runtime", "engine")
DATA = ("data", "inputs", "calibration")
MATRIX_FIELDS = (*fields_of(measure.AxisFields), *fields_of(measure.AccuracyFields))
"""Fields of a request that are in its matrix."""
_NAMES = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")


class Matrix(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The full description of a sweep: the values of all axes, and how cases are measured."""

    models: tuple[str, ...] = ()  # files, or sources such as `torchvision:resnet18`
    precision: tuple[Precision | Literal["as-is"], ...] = ("as-is",)  # `as-is`: of the file
    batch: tuple[int, ...] = ()  # items per query
    runtime: tuple[str, ...] = ()  # names of runtimes, as for `-r`
    engine: tuple[EngineShapes, ...] = ()
    """``static``: an engine per batch size; ``dynamic``: one engine for all batch sizes."""
    options: dict[str, tuple[Scalar, ...]] = {}
    """Further axes: a flag of ``bench``, ``opt.KEY``, ``build.KEY`` or a dimension, ``shape.M``."""
    exclude: tuple[dict[str, Scalar], ...] = ()  # cases to leave out, by the values they have
    rounds: int = 1  # how often every case is measured
    seed: int = 0  # seed of the random order within rounds
    data: str | None = None  # data to evaluate accuracy on, as for `trtbench eval --data`
    task: str = ""  # as for `trtbench eval --task`; by default the one the first model states
    task_settings: dict[str, Scalar] = {}
    """Flags of the task, with underscores: ``gt``, ``normalize``, ``annotations``, ..."""
    inputs: str | None = None
    """Inputs to measure with: arrays, or an image that the task prepares; default: random."""
    calibration: str | None = None  # data for INT8, or `random`; by default `data`
    profile: tuple[int, int, int] | None = None
    """Minimum, optimum and maximum batch of dynamic engines; default: those of the sweep."""
    shapes: dict[str, tuple[int | str, ...]] = {}
    """Shapes of inputs with dynamic dimensions other than the batch; a letter is an axis."""
    input_shape: tuple[str, ...] = ()  # shapes to export with: `-1x3x224x224`; a letter is an axis
    names: Literal["case", "vanilla"] = "case"
    """Names of rows: runtime and precision, or Vanilla and TRT fp16 as in ArtTRT."""
    gives_way: tuple[str, ...] = ()  # axes and options of a preset, to what files and runtimes say
    title: str | None = None  # title of the report
    note: str | None = None  # hint that is shown if there are no models


class Case(Value, frozen=True, kw_only=True):
    """One combination of the values of all axes."""

    model: str
    runtime: str
    precision: Precision | None = None
    batch: int | None = None
    engine: EngineShapes | None = None
    options: dict[str, Scalar] = {}  # what differs between cases
    fixed: dict[str, Scalar] = {}  # options that all cases have in common

    @property
    def settings(self) -> dict[str, Scalar]:
        return {**self.fixed, **self.options}

    def prefixed(self, prefix: str) -> dict[str, Scalar]:
        """Return the settings with a prefix such as ``build.``, without the prefix."""
        return {k.removeprefix(prefix): v for k, v in self.settings.items() if k.startswith(prefix)}

    @property
    def label(self) -> str:
        """The name that tells apart cases of the same model and batch."""
        parts = [part for part in (self.runtime, self.precision, self.engine) if part]
        return " ".join([*parts, *(f"{key}={value}" for key, value in self.options.items())])

    @property
    def network(self) -> str:
        return network_of(self.model)

    @property
    def name(self) -> str:
        batch = f"batch {self.batch}" if self.batch else ""
        parts = (self.network, self.runtime, self.precision, self.engine, batch)
        options = (f"{key}={value}" for key, value in self.options.items())
        return " · ".join(part for part in (*parts, *options) if part)


def network_of(model: str) -> str:
    """Return a model's name without folder and file extension."""
    _, source, name = model.rpartition(":")
    path = Path(name)
    is_file = not source or path.suffix.lower() in (*SUFFIXES, ".yaml")
    return path.stem if is_file else path.name


def unique_model_names(models: Sequence[str]) -> dict[str, str]:
    """Return unique names of models, with extension or folder only if needed."""
    alike: dict[str, list[str]] = {}
    for model in dict.fromkeys(models):
        alike.setdefault(network_of(model), []).append(model)
    found: dict[str, str] = {}
    for network, same in alike.items():
        paths = [Path(model) for model in same]
        candidates = (
            [network] * len(same),
            [path.name for path in paths],
            [f"{p.parent.name}/{network}" if p.parent.name else network for p in paths],
            same,
        )
        best = next(names for names in candidates if len({*names}) == len(same))
        found |= dict(zip(same, best, strict=True))
    return found


def matrix_from_file(path: Path) -> Matrix:
    """Read a matrix from TOML or YAML; paths are relative to the file."""
    matrix, folder = matrix_from_table(_read_table(path), where=str(path)), path.parent
    options = dict(matrix.options)
    if weights := options.get("opt.weights"):
        options["opt.weights"] = tuple(_absolute_if_exists(each, folder) for each in weights)
    return matrix.having(
        options=options,
        models=tuple(_absolute(each, folder) for each in matrix.models),
        task_settings={k: _absolute_if_exists(v, folder) for k, v in matrix.task_settings.items()},
        **{key: _absolute(getattr(matrix, key), folder) for key in DATA},
    )


def _absolute(name: File | None, folder: Path = Path()) -> str | None:
    """Return the absolute path of a model or of data; names that are not paths are kept."""
    if name is None:
        return None
    is_path = name != RANDOM and not is_library_model(str(name))
    return str((folder / name).absolute() if is_path else name)


def _absolute_if_exists(value: Scalar, folder: Path = Path()) -> Scalar:
    is_here = isinstance(value, str) and (folder / value).exists()
    return str((folder / str(value)).absolute()) if is_here else value


def matrix_from_table(table: Mapping[str, object], *, where: str) -> Matrix:
    """Read a matrix from decoded TOML or YAML; an axis can be a single value."""

    def as_list(value: object) -> object:
        return value if isinstance(value, list | tuple) else [value]

    def flatten(options: Mapping[str, object], prefix: str = "") -> dict[str, object]:
        """Convert ``[options.build]`` to ``build.NAME``."""
        found: dict[str, object] = {}
        for key, value in options.items():
            name = f"{prefix}{key}"
            found |= flatten(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
        return found

    axes = ("models", *AXES, "input_shape")
    plain = {key: as_list(value) if key in axes else value for key, value in table.items()}
    if isinstance(options := plain.get("options", {}), Mapping):
        loading = {f"opt.{key}": plain.pop(key) for key in SOURCE if key in plain}
        every = {**loading, **flatten(options)}
        plain["options"] = {key: as_list(value) for key, value in every.items()}
    try:
        matrix = msgspec.convert(plain, type=Matrix)
    except msgspec.ValidationError as problem:
        reason, keys = str(problem), Matrix.__struct_fields__
        guess = errors.suggest(reason.split("`")[1], keys) if "unknown field" in reason else None
        facts, fix = {"reason": reason, "keys": " ".join(keys)}, "docs/sweep.md describes each key"
        message = f"{where} is not a valid sweep"
        raise errors.UsageError(message, facts=facts, fix=guess or fix) from None
    for each in (*matrix.models, matrix.data, matrix.inputs, *matrix.task_settings.values()):
        if isinstance(each, str) and each.strip():
            safety.check_given(each, what=f"{where}:")
    read = partial(_read_value, where=where)
    matrix = matrix.having(
        options={k: tuple(dict.fromkeys(read(k, v) for v in x)) for k, x in matrix.options.items()},
        exclude=tuple({k: read(k, v) for k, v in each.items()} for each in matrix.exclude),
    )
    check_matrix(matrix, where=where)
    return matrix


def _read_value(name: str, value: Any, where: str) -> Scalar:
    """Return a value of an axis as its field reads it, a switch as on or off."""
    prefix, _, key = name.partition(".")
    try:
        if name in FLAGS:
            value = read_scalar(FLAGS[name], value)
            BenchRequest(model=name, **{name: value})
        elif prefix == "build" and key not in SET_BY_SWEEP:
            RecipeFields(**build_settings({key: str(value)}))
    except errors.UsageError as problem:
        message = f"{where}: {name} = {value}: {problem.message}"
        fix = (problem.fix or "").replace(f"--{name.replace('_', '-')} ", f"--axis {name}=")
        raise errors.UsageError(message, facts=problem.facts, fix=fix or None) from None
    is_switch = value is None or isinstance(value, bool)
    return ("on" if value else "off") if is_switch else value


def _read_table(path: Path) -> Mapping[str, object]:
    try:
        if path.suffix in (".yaml", ".yml"):
            table = yaml_from_text(safety.read_text(path), where=str(path))
        else:
            table = safety.read_settings(path)
    except (OSError, UnicodeDecodeError) as problem:
        raise errors.UsageError(f"{path} cannot be read", facts={"reason": problem}) from None
    if not isinstance(table, Mapping):
        raise errors.UsageError(f"{path} is not a table", fix="write it like models = [...]")
    return table


def check_matrix(matrix: Matrix, *, where: str) -> None:
    """Raise an error for unknown axes and values out of range."""
    for name in matrix.options:
        if name not in (*FLAGS, MACHINE) and not name.startswith(PREFIXES):
            known = (*FLAGS, MACHINE, "opt.KEY", "build.KEY", "shape.NAME", "input.NAME")
            message = f"{where}: {name!r} is not an option that can be swept"
            fix = errors.suggest(name, FLAGS)
            raise errors.UsageError(message, facts={"options": " ".join(known)}, fix=fix)
        if name.startswith("build.") and name.removeprefix("build.") in SET_BY_SWEEP:
            message = f"{where}: {name} is set by the sweep itself"
            raise errors.UsageError(message, fix="--precision, --batch, ...")
    axes = [len(getattr(matrix, name)) for name in ("models", *AXES)]
    count = math.prod(max(1, each) for each in (*axes, *map(len, matrix.options.values())))
    if count > MOST_CASES:
        message = f"{where}: the axes have too many combinations"
        fix = "sweep fewer values at a time"
        raise errors.UsageError(message, facts={"cases": count, "maximum": MOST_CASES}, fix=fix)
    named = {name.rpartition(".")[2]: str(values) for name, values in matrix.options.items()}
    for name, value in safety.mask_values(named).items():
        if value != named[name]:
            message = f"{where}: {name} looks like a secret, which a sweep would store"
            raise errors.UsageError(message, fix="set it as an environment variable")
    if matrix.title is not None:
        safety.check_title(matrix.title, where=where)
    low, best, high = matrix.profile or (1, 1, 1)
    for holds, rule, fix in (
        (all(batch >= 1 for batch in matrix.batch), "a batch must be at least 1", "--batch 1,8,32"),
        (1 <= matrix.rounds <= 1000, "rounds must be between 1 and 1000", "--rounds 3"),
        (1 <= low <= best <= high, "batches of a profile must rise", "profile = [1, 128, 256]"),
    ):
        if not holds:
            raise errors.UsageError(f"{where}: {rule}", fix=fix)


def matrix_from_request(request: SweepRequest) -> Matrix:
    """Return the matrix of a request: its file, mapping or preset, overridden by its flags."""
    whole = [x for x in request.models if isinstance(x, Mapping) or Path(x).suffix in MATRIX_FILES]
    if len(whole) > 1 or (whole and request.preset):
        raise errors.UsageError("give only one matrix file or preset", fix="trtbench sweep --help")
    matrix = Matrix()
    if name := request.preset:
        folder = Path(str(resources.files("trtbench.sweep") / "presets"))
        presets = sorted(path.stem for path in folder.glob("*.toml"))
        message = f"there is no preset {name!r}"
        errors.refuse_unknown(name, presets, message, listed="presets", flag="--preset")
        matrix = matrix_from_table(_read_table(folder / f"{name}.toml"), where=f"preset {name}")
    for each in whole:
        if isinstance(each, Mapping):
            matrix = matrix_from_table(each, where="the matrix")
        else:
            matrix = matrix_from_file(Path(each))
    named = [str(each) for each in request.models if each not in whole]
    weights = None if request.weights == "default" else str(request.weights)
    for batch in scalars(request.batch):
        if not isinstance(batch, int) or isinstance(batch, bool) or batch < 0:
            raise errors.UsageError(f"--batch {batch} is not a number", fix="--batch 1,8,32")
    options = {
        "opt.weights": weights and [weights if weights == "none" else _absolute(weights)],
        "opt.factory": request.factory and [request.factory],
        "opt.trust": ["on"] if request.trust else None,
        **{f"input.{name}": [value] for name, value in given_values(request.values).items()},
        **request.axis,
        "launches": scalars(request.launches),
        "duration": scalars(request.duration),
    }
    files = [Path(each) for each in (*named, *matrix.models) if Path(each).is_file()]
    task, _ = settled_task(request.task or matrix.task or None, {}, map(model_ref, files))
    words = {flag.key for flag in TASKS.load(task or IMAGES_TASK).FLAGS if flag.choices}
    settings = {
        key: value if key in words else _absolute_if_exists(value)
        for key, value in request.settings.items()
        if value is not None
    }
    own = {each.name for each in MATRIX_FIELDS}
    same = [name for name in Matrix.__struct_fields__ if name in own and name not in AXES]
    flags = {
        **{name: getattr(request, name) for name in same},
        **{name: scalars(getattr(request, name)) for name in AXES},
        "models": list(map(_absolute, named)),
        "task": task or IMAGES_TASK,
        "exclude": [*matrix.exclude, *request.exclude],
        "task_settings": {**matrix.task_settings, **settings} if settings else None,
        **{name: _absolute(getattr(request, name)) for name in DATA},
        "shapes": {name: tuple(dims) for name, dims in request.shapes.items()},
        "input_shape": list(request.input_shape),
        "names": request.names,
    }
    table = {
        **msgspec.to_builtins(matrix),
        **{key: value for key, value in flags.items() if value not in (None, (), [], {})},
        "options": {**matrix.options, **{name: own for name, own in options.items() if own}},
    }
    if not request.calibration and matrix.calibration in (None, RANDOM):
        table["calibration"] = table.get("data") or matrix.calibration
    if request.preset:
        given = {key for key, value in (flags | options).items() if value}
        table["gives_way"] = [key for key in (*AXES, *matrix.options) if key not in given]
    return matrix_from_table(table, where="the command line")


def refuse_flags_with_resume(request: SweepRequest) -> None:
    given = [getattr(request, each.name) for each in MATRIX_FIELDS]
    settings = [value for value in request.settings.values() if value is not None]
    if any((request.models, request.output, settings, *given)):
        message = "--resume cannot be combined with flags that change the sweep"
        raise errors.UsageError(message, fix="omit them, or start a new sweep")


def sweep_folder(request: SweepRequest, matrix: Matrix, root: Path) -> Path:
    """Return the folder of a sweep: the requested one, or title and time in that of the store."""
    if request.output is not None:
        return Path(request.output)
    first = Path(matrix.models[0].rpartition(":")[2]).stem
    name = safety.file_name_from_text((matrix.title or first).lower(), otherwise="sweep")
    return root / "sweeps" / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"


def check_where_and_best(where: str | None, best: str, matrix: Matrix) -> None:
    """Raise an error if --where or --best is invalid, before anything is measured."""
    names = [*quantities(()), *matrix.options]
    asked = _NAMES.findall(f"{where or ''} {best}")
    if matrix.data is None and {"top1", "top5"}.intersection(asked):
        raise errors.UsageError("without data there are no accuracies", fix="add --data FOLDER")
    if matrix.data is not None:  # names of scores are known only after the evaluation
        names += [each for each in asked if errors.near_miss(each, names) in (None, each)]
    message = f"--best {best} is not a quantity"
    errors.refuse_unknown(best, names, message, listed="quantities", flag="--best")
    if where is not None:
        condition_from_text(where, names=names, kinds=kinds(names))


def kept_axes(matrix: Matrix, model: str) -> dict[str, tuple[object, ...]]:
    """Return the axes of a preset that give way to what a file says, with its own value."""
    file = None if is_library_model(model) else model_ref(Path(model))
    source = source_of(file) if file else None  # of an engine: its ONNX file
    inputs = outline_of(Path(source.path)).inputs if source else ()
    batches = {each.shape[batch_place(each)] for each in inputs if each.shape}
    found: dict[str, tuple[object, ...]] = {}
    if file and file.format == "engine":
        found["precision"] = ("as-is",)
    if len(batches) == 1 and not any(map(is_open, batches)):
        found["batch"] = (*batches,)
    return {k: v for k, v in found.items() if k in matrix.gives_way and v != getattr(matrix, k)}


def cases_from_matrix(
    matrix: Matrix, *, runtimes_of: Callable[[str], Sequence[str]], builds: Iterable[str] = ()
) -> tuple[Case, ...]:
    """Return all cases in the order of the axes; ``runtimes_of`` gives those of a model."""
    builders = frozenset(builds)
    found: dict[bytes, Case] = {}
    varied = {name: values for name, values in matrix.options.items() if len(values) > 1}
    fixed = {name: values[0] for name, values in matrix.options.items() if len(values) == 1}
    for model in matrix.models:
        is_built = SUFFIXES.get(Path(model).suffix.lower()) == "engine"
        kept = matrix.having(**kept_axes(matrix, model)) if matrix.gives_way else matrix
        axes: list[Sequence[Any]] = [kept.batch or (None,), runtimes_of(model)]
        axes += [kept.precision, matrix.engine or (None,), *varied.values()]
        for batch, runtime, precision, engine, *values in itertools.product(*axes):
            is_made = runtime in builders and not is_built
            given = dict(zip(varied, values, strict=True))
            case = Case(
                model=model, runtime=runtime, batch=batch, fixed=fixed,
                precision=None if precision == "as-is" else precision,
                engine=(engine or "static") if is_made else None,
                options={k: v for k, v in given.items() if is_made or not k.startswith("build.")},
            )  # fmt: skip
            own = {**msgspec.structs.asdict(case), **fixed, **given, "network": case.network}
            names = [key for key in own if key != "options"]
            for key in (key for each in matrix.exclude for key in each if key != "options"):
                message = f"exclude: cases have no {key!r}"
                errors.refuse_unknown(key, names, message, listed="names")
            out = (all(own[k] == v for k, v in each.items()) for each in matrix.exclude)
            if not any(out):
                found.setdefault(msgspec.json.encode(case), case)
    return tuple(found.values())


def fill_shapes(matrix: Matrix, dims: Dims, *, batch: int | None, onnx: Path | None) -> Shapes:
    """Return input shapes of the sweep and of an ONNX file, with ``dims`` filled in."""
    found: Shapes = {}
    for name, shape in matrix.shapes.items():
        filled = _fill_dims(name, shape, dims)
        found[name] = (batch or filled[0], *filled[1:])
    for name, text in dims.items():
        if not isinstance(text, str):
            continue
        if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", text, re.ASCII):
            message = f"shape.{name} = {text} is not a shape"
            raise errors.UsageError(message, fix=f"shape.{name} = 1x3x224x224")
        found[name] = tuple(map(int, text.split("x")))
    for tensor in input_specs(load_onnx(onnx, weights=False)) if onnx and dims else ():
        if tensor.name not in found and any(dim in dims for dim in tensor.shape):
            first = dims.get(str(tensor.shape[0]), tensor.shape[0])
            front = first if isinstance(first, int) else batch or 1
            rest = ("?" if dim is None else dim for dim in tensor.shape[1:])
            found[tensor.name] = _fill_dims(tensor.name, (front, *rest), dims)
    return found


def _fill_dims(name: str, shape: tuple[int | str, ...], dims: Dims) -> tuple[int, ...]:
    found = [dims.get(dim, dim) if isinstance(dim, str) else dim for dim in shape]
    for dim in found:
        if not isinstance(dim, int):
            known = "x".join(str(each) if isinstance(each, int) else "1" for each in found)
            message = f"the dimension {dim!r} of the input {name!r} has no value"
            fix = f"--axis shape.{dim}=1,2,5, or --shape {name}:{known}"
            raise errors.UsageError(message, facts={"shape": text_from_shape(shape)}, fix=fix)
    return tuple(dim for dim in found if isinstance(dim, int))


def prepared_item_shapes(matrix: Matrix, onnx: Path | None) -> Shapes:
    """Return shapes of dynamic inputs as the task prepares them, to measure what is evaluated.

    The first dimension is the batch, 0 if it is dynamic. Empty if the data cannot be opened.
    """
    if matrix.data is None or matrix.inputs is not None or onnx is None:
        return {}
    inputs = input_specs(load_onnx(onnx, weights=False))
    opened = [each for each in inputs if any(map(is_open, each.shape[1:]))]
    if not opened:
        return {}
    task = TASKS.load(matrix.task)
    given = {**matrix.task_settings, "data": matrix.data, "unlabelled": True}
    item: Arrays = {}
    try:
        _, given = settled_task(matrix.task, given, [model_ref(onnx)])
        source = task.open_source(settings_with_defaults(task.FLAGS, given), inputs)
        for place in range(len(source.names)) if source.preparation else ():
            with suppress(errors.InputError):
                item = source.prepare(source.load(place))
                break
    except errors.TrtbenchError:
        return {}
    return {
        each.name: (front if isinstance(front := each.shape[0], int) else 0, *item[each.name].shape)
        for each in opened
        if each.name in item
    }


def export_shapes(matrix: Matrix, case: Case) -> tuple[str, ...]:
    """Return the shapes to export with: ``x:-1x3x64x25xM`` with the case's value of M."""
    dims, found = case.prefixed("shape."), []
    for text in matrix.input_shape:
        parts = text.replace(" ", "x").replace(",", "x").split(":")
        place = next((k for k, part in enumerate(parts) if part[:1] in "-0123456789"), 0)
        parts[place] = "x".join(str(dims.get(word, word)) for word in parts[place].split("x"))
        found.append(":".join(parts))
    return tuple(found)
