"""What a sweep is asked for: a matrix from a file, a preset or the command line, and its cases."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import msgspec

from trtbench.boundary import check_title, mask_values, read_text, read_toml
from trtbench.domain.result import Scalar
from trtbench.domain.spec import Precision, Value
from trtbench.errors import UsageError, meant, refuse_unknown
from trtbench.host.yaml_files import yaml_from_text
from trtbench.models.identity import SUFFIXES
from trtbench.workflows.request.fields import Option, fields_of
from trtbench.workflows.request.making import RecipeFields, build_settings
from trtbench.workflows.request.measuring import BenchRequest

EngineShapes = Literal["static", "dynamic"]

FLAGS = tuple(
    field.name
    for field in fields_of(BenchRequest)
    if isinstance(field.about, Option) and field.about.axis
)
"""Flags of ``trtbench bench`` that may be an axis of a sweep."""
BUILD = "build."
PREFIXES = ("opt.", BUILD, "shape.")
"""Options of the runtime itself, fields of a build (``build.optimization_level``), dimensions."""
MACHINE = "machine"
"""The axis of machines, by part of their names or of their GPUs', for sweeps with an executor."""
SOURCE = ("weights", "factory", "trust")
"""How a PyTorch model is loaded, wherever it is: options of the runtime, settings of an export."""
SETTLED = (
    "runtime", "precision", "calibration", "task",
    "shapes_min", "shapes_opt", "shapes_max", "input_shapes",
)  # fmt: skip
"""Fields of a build that a sweep settles for every case."""
ENDINGS = (".onnx", ".engine", ".plan", ".trt", ".pt", ".pth", ".pt2", ".ts", ".yaml")
"""Of files of models."""
MOST_CASES = 100_000
AXES = ("precision", "batch", "runtime", "engine")


class Matrix(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sweep, completely described: every value of every axis, and how it is measured."""

    models: tuple[str, ...] = ()
    """Files, or sources such as ``torchvision:resnet18``."""
    precision: tuple[Precision | Literal["as-is"], ...] = ("as-is",)
    """``as-is`` is whatever the file holds."""
    batch: tuple[int, ...] = ()
    """Items per query."""
    runtime: tuple[str, ...] = ()
    """What executes, as ``-r`` takes it."""
    engine: tuple[EngineShapes, ...] = ()
    """One engine per batch, one for all of them, or both side by side."""
    options: dict[str, tuple[Scalar, ...]] = {}
    """Further axes: a flag of ``bench``, ``opt.KEY``, ``build.KEY`` or a dimension, ``shape.M``."""
    exclude: tuple[dict[str, Scalar], ...] = ()
    """Cases to leave out, by the values they have."""
    rounds: int = 1
    """How often every case is measured, in turn."""
    seed: int = 0
    """Of the order within rounds."""
    data: str | None = None
    """What the accuracy of every artefact is taken on, as ``trtbench eval --data`` takes it."""
    task: str = "classification"
    """What the models are for, as ``trtbench eval --task`` takes it."""
    task_settings: dict[str, Scalar] = {}
    """Flags of the task, with underscores: ``gt``, ``normalize``, ``annotations``, ..."""
    inputs: str | None = None
    """What is measured on: arrays, or an image that the task prepares; else random values."""
    calibration: str | None = None
    """Data for INT8: a folder of images, an ``.npz``, or ``random``."""
    check: int = 0
    """On how many inputs outputs are compared with those of the model as given; 0: on none."""
    fetch_engines: bool = False
    """Whether what other machines built comes back, beside the results."""
    profile: tuple[int, int, int] | None = None
    """Least, best and largest batch of dynamic engines; by default those of the sweep."""
    shapes: dict[str, tuple[int | str, ...]] = {}
    """Shapes of inputs whose dimensions beside the batch are open; a letter is an axis."""
    input_shape: tuple[str, ...] = ()
    """Shapes to export with: ``-1x3x224x224``; a letter is an axis."""
    names: Literal["case", "vanilla"] = "case"
    """How rows are called: by runtime and precision, or Vanilla and TRT fp16, as ArtTRT does."""
    title: str | None = None
    """Of the report."""
    note: str | None = None
    """What to do where the file names no models."""


class Case(Value, frozen=True, kw_only=True):
    """One point of the matrix."""

    model: str
    runtime: str
    precision: Precision | None = None
    batch: int | None = None
    engine: EngineShapes | None = None
    options: dict[str, Scalar] = {}
    """What differs between cases."""
    fixed: dict[str, Scalar] = {}
    """Options that all cases have in common."""

    @property
    def settings(self) -> dict[str, Scalar]:
        return {**self.fixed, **self.options}

    def own(self, prefix: str) -> dict[str, Scalar]:
        """Find settings whose names begin so, by the rest of their names: ``build.``, ``opt.``."""
        return {k.removeprefix(prefix): v for k, v in self.settings.items() if k.startswith(prefix)}

    @property
    def label(self) -> str:
        """Name the case among those of its model and batch."""
        parts = [part for part in (self.runtime, self.precision, self.engine) if part]
        return " ".join([*parts, *(f"{key}={value}" for key, value in self.options.items())])

    @property
    def network(self) -> str:
        """The model's own name, without folder and ending."""
        return network_of(self.model)

    @property
    def name(self) -> str:
        batch = f"batch {self.batch}" if self.batch else ""
        parts = (self.network, self.runtime, self.precision, self.engine, batch)
        options = (f"{key}={value}" for key, value in self.options.items())
        return " · ".join(part for part in (*parts, *options) if part)


def network_of(model: str) -> str:
    """Call a model by its own name; ``timm:resnet50.a1_in1k`` has no ending."""
    _, source, name = model.rpartition(":")
    path = Path(name)
    return path.name if source and path.suffix.lower() not in ENDINGS else path.stem


def names_of_models(models: Sequence[str]) -> dict[str, str]:
    """Call every model by its own name, with ending or folder where others have that name too."""
    alike: dict[str, list[str]] = {}
    for model in dict.fromkeys(models):
        alike.setdefault(network_of(model), []).append(model)
    found: dict[str, str] = {}
    for same in alike.values():
        ways = [_ways_to_call(model) for model in same]
        best = next(way for way in zip(*ways, strict=True) if len({*way}) == len(same))
        found |= dict(zip(same, best, strict=True))
    return found


def _ways_to_call(model: str) -> tuple[str, ...]:
    path, network = Path(model), network_of(model)
    above = f"{path.parent.name}/{network}" if path.parent.name else network
    return network, path.name, above, model


def matrix_from_file(path: Path) -> Matrix:
    """Read a TOML or YAML file; models are meant from where the file is."""
    matrix = matrix_from_table(_table(path), where=str(path))
    weights = [_own_file(each, path.parent) for each in matrix.options.get("opt.weights", ())]
    placed = {
        "options": {**matrix.options, **({"opt.weights": tuple(weights)} if weights else {})},
        "models": tuple(_placed(each, path.parent) for each in matrix.models),
        "data": _placed(matrix.data, path.parent) if matrix.data else None,
        "inputs": _placed(matrix.inputs, path.parent) if matrix.inputs else None,
        "calibration": _placed(matrix.calibration, path.parent) if matrix.calibration else None,
        "task_settings": {
            key: _own_file(value, path.parent) for key, value in matrix.task_settings.items()
        },
    }
    return matrix.having(**placed)


def preset_names() -> list[str]:
    """List the presets."""
    folder = resources.files("trtbench.workflows.sweep") / "presets"
    return sorted(Path(str(each)).stem for each in folder.iterdir() if each.name.endswith(".toml"))


def matrix_from_preset(name: str) -> Matrix:
    """Read one of the presets that stand for a toolkit."""
    said = f"there is no preset {name!r}"
    refuse_unknown(name, preset_names(), said, listed="presets", flag="--preset")
    path = Path(str(resources.files("trtbench.workflows.sweep") / "presets" / f"{name}.toml"))
    return matrix_from_table(_table(path), where=f"preset {name}")


def matrix_from_table(table: Mapping[str, object], *, where: str) -> Matrix:
    """Read a matrix from decoded TOML or YAML; a single value is an axis of one."""
    axes = ("models", *AXES, "input_shape")
    plain = {key: _listed(value) if key in axes else value for key, value in table.items()}
    options = plain.get("options", {})
    if isinstance(options, Mapping):
        plain["options"] = {
            **{f"opt.{key}": _listed(_word(plain.pop(key))) for key in SOURCE if key in plain},
            **{key: _listed(value) for key, value in _flat(options).items()},
        }
    try:
        matrix = msgspec.convert(plain, type=Matrix)
    except msgspec.ValidationError as problem:
        raise _invalid(where, str(problem)) from None
    check_matrix(matrix, where=where)
    return matrix


def with_flags(matrix: Matrix, flags: Mapping[str, Any]) -> Matrix:
    """Let what was said on the command line stand above the file."""
    given = {key: value for key, value in flags.items() if value not in (None, (), [], {})}
    options = {**matrix.options, **given.pop("options", {})}
    table = {**msgspec.to_builtins(matrix), **given, "options": options}
    return matrix_from_table(table, where="the command line")


def check_matrix(matrix: Matrix, *, where: str) -> None:
    """Refuse an axis nobody knows, and numbers without meaning."""
    for name in matrix.options:
        if name not in (*FLAGS, MACHINE) and not name.startswith(PREFIXES):
            raise UsageError(
                f"{where}: {name!r} is not an option that can be swept",
                facts={
                    "options": " ".join((*FLAGS, MACHINE, "opt.KEY", "build.KEY", "shape.NAME"))
                },
                fix=meant(name, FLAGS),
            )
    _check_builds(matrix, where=where)
    if any(batch < 1 for batch in matrix.batch):
        raise UsageError(f"{where}: a batch is at least 1", fix="--batch 1,8,32")
    axes = (matrix.models, matrix.batch, matrix.runtime, matrix.precision, matrix.engine)
    count = math.prod(max(1, len(each)) for each in (*axes, *matrix.options.values()))
    if count > MOST_CASES:
        raise UsageError(
            f"{where}: the axes make more cases than anybody can measure",
            facts={"cases": count, "at most": MOST_CASES},
            fix="sweep fewer values at a time",
        )
    named = {name.rpartition(".")[2]: str(values) for name, values in matrix.options.items()}
    secret = [name for name, value in mask_values(named).items() if value != named[name]]
    if secret:
        raise UsageError(
            f"{where}: {secret[0]} looks like a secret, and a sweep keeps all that it is asked for",
            fix="give it in the environment",
        )
    if matrix.title is not None:
        check_title(matrix.title, where=where)
    if matrix.check < 0:
        raise UsageError(f"{where}: a check takes at least 1 input", fix="--check 100")
    if not 1 <= matrix.rounds <= 1000:
        raise UsageError(f"{where}: rounds are between 1 and 1000", fix="--rounds 3")
    if matrix.profile and not (1 <= matrix.profile[0] <= matrix.profile[1] <= matrix.profile[2]):
        raise UsageError(f"{where}: the batches of a profile rise", fix="profile = [1, 128, 256]")


def _check_builds(matrix: Matrix, *, where: str) -> None:
    """Read every ``build.KEY`` as the build will, before anything is measured."""
    for name, values in matrix.options.items():
        key = name.removeprefix(BUILD)
        if key == name:
            continue
        if key in SETTLED:
            raise UsageError(
                f"{where}: {name} is settled by the sweep itself", fix="--precision, --batch, ..."
            )
        for value in values:
            try:
                RecipeFields(**build_settings({key: str(value)}))
            except UsageError as problem:
                raise UsageError(
                    f"{where}: {name} = {value}: {problem.message}",
                    facts=problem.facts,
                    fix=problem.fix,
                ) from None


def cases_from_matrix(
    matrix: Matrix, *, runtime_of: Callable[[str], str], builds: Iterable[str] = ()
) -> tuple[Case, ...]:
    """List every case once, in the order of the axes; ``runtime_of`` names a model's default."""
    building = frozenset(builds)
    found: dict[bytes, Case] = {}
    varied = {name: values for name, values in matrix.options.items() if len(values) > 1}
    fixed = {name: values[0] for name, values in matrix.options.items() if len(values) == 1}
    for model, batch in itertools.product(matrix.models, matrix.batch or (None,)):
        runtimes: Sequence[str] = matrix.runtime or (runtime_of(model),)
        built = SUFFIXES.get(Path(model).suffix.lower()) == "engine"  # by somebody, somehow
        axes: list[Sequence[Any]] = [runtimes, matrix.precision, matrix.engine or (None,)]
        axes += varied.values()
        for runtime, precision, engine, *values in itertools.product(*axes):
            case = Case(
                model=model,
                runtime=runtime,
                precision=None if precision == "as-is" else precision,
                batch=batch,
                engine=(engine or "static") if runtime in building and not built else None,
                options=dict(zip(varied, values, strict=True)),
                fixed=fixed,
            )
            if not any(_matches(case, each) for each in matrix.exclude):
                found.setdefault(msgspec.json.encode(case), case)
    return tuple(found.values())


def _matches(case: Case, pattern: Mapping[str, Scalar]) -> bool:
    values = {**msgspec.structs.asdict(case), **case.settings, "network": case.network}
    names = [key for key in values if key != "options"]
    for key in pattern:
        if key != "options":
            refuse_unknown(key, names, f"exclude names {key!r}, which no case has", listed="names")
    return all(values[key] == value for key, value in pattern.items())


def _table(path: Path) -> Mapping[str, object]:
    is_yaml = path.suffix in (".yaml", ".yml")
    try:
        table = yaml_from_text(read_text(path), where=str(path)) if is_yaml else read_toml(path)
    except (OSError, UnicodeDecodeError) as problem:
        raise UsageError(f"{path} cannot be read", facts={"reason": problem}) from None
    except ValueError as problem:
        raise UsageError(
            f"{path} is not TOML",
            facts={"reason": problem},
            fix="correct it; docs/sweep.md shows such a file",
        ) from None
    if not isinstance(table, Mapping):
        raise UsageError(f"{path} holds no table", fix="write it like models = [...]")
    return table


def _flat(options: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Let ``[options.build]`` mean the same as ``build.NAME``."""
    flat: dict[str, object] = {}
    for key, value in options.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _word(value: object) -> object:
    """Write a switch as options of runtimes have it."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


def _listed(value: object) -> object:
    return value if isinstance(value, list | tuple) else [value]


def _placed(name: str, folder: Path) -> str:
    if ":" in name or name == "random" or Path(name).is_absolute():
        return name
    return str(folder / name)


def _own_file(value: Scalar, folder: Path) -> Scalar:
    """Take a text that names a file in this folder for that file."""
    return str(folder / value) if isinstance(value, str) and (folder / value).exists() else value


def _choices(hint: object) -> list[str]:
    """List all words that a type allows, from within tuples and unions."""
    if isinstance(hint, str):
        return [hint]
    return [word for part in get_args(hint) for word in _choices(part)]


def _invalid(where: str, reason: str) -> UsageError:
    known = Matrix.__struct_fields__
    wrong = re.match(r"Invalid enum value '(.*)' - at `\$\.(\w+)", reason)
    if wrong:
        value, axis = wrong.groups()
        choices = _choices(get_type_hints(Matrix)[axis])
        return UsageError(
            f"{value!r} is no {axis} of a sweep",
            facts={"known": ", ".join(choices), "from": where},
            fix=meant(value, choices),
        )
    return UsageError(
        f"{where} cannot be used as a sweep",
        facts={"reason": reason, "keys": " ".join(known)},
        fix=meant(reason.split("`")[1], known)
        if "unknown field" in reason
        else "docs/sweep.md shows what each key holds",
    )
