"""Steps that make models, kept in the store by the hash of all their inputs.

Sweeps and measurements share them: data, files, settings and versions of tools are in the key.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, Literal

import msgspec

from trtbench.analysis.pass_times import PictureValue
from trtbench.convert.build import build_spec, run_build, with_estimate
from trtbench.convert.builders import BUILDERS
from trtbench.convert.calibration import RANDOM
from trtbench.core.codec import json_from_value
from trtbench.core.errors import InputError, TrtbenchError, UsageError, writing
from trtbench.core.run import Scores
from trtbench.core.safety import clean_line, expand_home, file_name_from_text, inside
from trtbench.core.spec import BuildSpec, ModelRef, RunSpec, Value
from trtbench.core.units import text_from_seconds, text_from_shape
from trtbench.host.files import make_folder, write_whole
from trtbench.host.machine import read_environment
from trtbench.host.nvml import gpu_uuid
from trtbench.measure.bench import check_runtime_available, stage_lengths
from trtbench.models.identity import identity_of, kept_value, model_ref, sha256_of
from trtbench.models.onnx_model import input_specs, load_onnx
from trtbench.requests.execution import Event, Execution
from trtbench.requests.models import BuildRequest, build_settings
from trtbench.requests.settings import Config
from trtbench.runtimes import RUNTIMES, device_of
from trtbench.runtimes._session import resolve_inputs
from trtbench.store.directory import now
from trtbench.store.store import Store

RESULT_FILE = "made.json"  # written last: without it, the step was interrupted and is repeated
CACHE_VERSION = 3  # part of every key; increased when steps change, to invalidate cached results

StepKind = Literal["export", "quantize", "build", "eval"]


class Step(Value, frozen=True, kw_only=True):
    """Work that cases share; its result depends only on these fields."""

    key: str
    kind: StepKind
    title: str
    source: str  # the key of the previous step, or the given model
    network: str
    settings: dict[str, Any] = {}

    def expected_s(self, history: Sequence[StepResult]) -> float | None:
        """Return how long steps like this one took, those most like it if there are any."""
        alike = [made for made in history if made.kind == self.kind]
        network = [made for made in alike if made.network == self.network]
        exact = [made for made in network if made.precision == self.settings.get("precision")]
        took = [made.seconds for made in exact or network or alike]
        return median(took) if took else None


class StepResult(Value, frozen=True, kw_only=True):
    kind: str
    key: str
    network: str
    title: str
    created: str
    seconds: float = 0.0
    precision: str | None = None
    file: str | None = None  # the model, in the same folder; ``None`` for an evaluation
    sha256: str | None = None
    scores: tuple[Scores | None, ...] = ()  # of each evaluated model; ``None`` if it failed
    problems: tuple[str | None, ...] = ()  # why a model has no scores
    pictures: tuple[PictureValue, ...] = ()
    notes: tuple[str, ...] = ()


def new_step(
    kind: StepKind, title: str, source: str, settings: Mapping[str, Any], *, content: str, stem: str
) -> Step:
    """Return a step on a network called ``stem``; ``content`` is the hash of its source."""
    parts = {"recipe": CACHE_VERSION, "kind": kind, "source": content, "settings": settings}
    key, own = digest(parts), dict(settings)
    return Step(key=key, kind=kind, title=title, source=source, network=stem, settings=own)


def step_result(step: Step, **more: object) -> StepResult:
    same = {name: getattr(step, name) for name in ("kind", "key", "network", "title")}
    return StepResult(**same, created=now()).having(**more)


class Cache:
    """Results of steps that are kept in a store."""

    def __init__(self, store: Store) -> None:
        self._root, self._engines = store.root / "steps", store.code_folder("steps")

    def folder(self, step: Step) -> Path:
        root = self._engines if step.kind == "build" else self._root
        return root / f"{step.kind}-{step.key[:20]}"

    def find(self, step: Step) -> StepResult | None:
        """Return the result of a step if it is complete and its file is unchanged."""
        made = kept_value(self.folder(step) / RESULT_FILE, StepResult)
        if made is None or made.key != step.key:
            return None
        if made.file is None:
            return made
        try:
            file = inside(self.folder(step), made.file, what="file of a step")
        except InputError:
            return None
        return made if file.is_file() and identity_of(file) == made.sha256 else None

    def result(
        self, step: Step, make: Callable[[Path], tuple[Path, tuple[str, ...]]]
    ) -> StepResult:
        """Return the result of a step; ``make`` does it if it is not kept yet.

        ``make`` writes a file to the folder of the step, and returns it and notes.
        """
        if (found := self.find(step)) is not None:
            return found
        began = time.monotonic()
        file, notes = make(self.folder(step))
        made = step_result(
            step,
            seconds=time.monotonic() - began,
            precision=step.settings.get("precision"),
            file=file.name,
            sha256=identity_of(file),
            notes=notes,
        )
        return self.keep(step, made)

    def keep(self, step: Step, made: StepResult) -> StepResult:
        """Record the result of a step; its file must already be in its folder."""
        folder = self.folder(step)
        with writing(folder):
            make_folder(folder)
            write_whole(folder / RESULT_FILE, json_from_value(made))
        return made

    def history(self) -> list[StepResult]:
        roots = {self._root, self._engines}
        paths = sorted(path for root in roots for path in root.glob(f"*/{RESULT_FILE}"))
        return [made for path in paths if (made := kept_value(path, StepResult)) is not None]


def digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def data_hash(source: str) -> str:
    """Return the hash of a data file, or of all files of a folder."""
    path = Path(source)
    if source == RANDOM:
        return source
    if path.is_dir():
        files = (each for each in sorted(path.rglob("*")) if each.is_file())
        return digest([(clean_line(str(p.relative_to(path))), sha256_of(p)) for p in files])
    if not path.is_file():
        raise UsageError(f"there is no file {source}", fix="check the path")
    return sha256_of(path)


def builder_tools(builder: str, *, device: str, python: str | None) -> dict[str, str]:
    """Return what an engine depends on: builder version, GPU and driver."""
    gpus = read_environment(command=None, folder=Path.cwd()).gpus
    uuid = gpu_uuid(device)
    on = next((each for each in gpus if each.uuid and each.uuid == uuid), gpus[0] if gpus else None)
    gpu = {"gpu": on.name, "driver": on.driver or ""} if on else {}
    if not python:
        return {**gpu, **BUILDERS.load(builder).tools()}
    path = expand_home(python)  # its TensorRT is installed in the same environment
    places = path.absolute().parent.parent.glob("lib*/python3*/*-packages")
    names = {each.name for place in places for each in place.glob("[Tt]ensor[Rr][Tt]*-info")}
    return {**gpu, "python": str(path), "packages": " ".join(sorted(names))}


# The engine of a run: built from its ONNX file, or taken from the store

Side = tuple[RunSpec, str | None]  # the spec of a run, and the interpreter it runs in
MOST_SHAPES = 3  # in the name of an engine


def is_built(spec: RunSpec) -> bool:
    """Whether a run measures an engine that has to be built from its ONNX file first."""
    return spec.model.format == "onnx" and "engine" in RUNTIMES.load(spec.runtime).FORMATS


def with_engines(
    sides: Sequence[Side],
    build: Mapping[str, str],
    *,
    store: Store,
    config: Config,
    execution: Execution,
    rest_s: float | None = None,
) -> list[Side]:
    """Return the sides with an engine in place of every ONNX file that has to be built.

    An engine that was built with the same settings, builder and GPU is taken from the store.
    ``build`` are settings of ``trtbench build``. Everything is checked before the first build.
    ``rest_s`` is how long the work with the engines takes; by default, that of their launches.
    """
    if build and not any(is_built(spec) for spec, _ in sides):
        fix = "-r tensorrt, -r trtexec or -r tensorrt-rtx, with an ONNX file; or leave it out"
        raise UsageError("--build is for an engine that is built from an ONNX file", fix=fix)
    specs: list[BuildSpec | None] = []
    for spec, python in sides:
        here = is_built(spec) and not execution.executor.elsewhere
        if here:
            check_runtime_available(spec, python, on_gpu=True)
        elif is_built(spec) and (build or "onnx" not in RUNTIMES.load(spec.runtime).FORMATS):
            raise UsageError(
                "an engine is built on the machine that measures it",
                fix=f"trtbench sweep {shlex.quote(spec.model.name)} -r {spec.runtime} --executor "
                "NAME, which builds it there; or bench an engine",
            )
        specs.append(build_spec(_build_request(spec, python, build), config) if here else None)
    if rest_s is None:
        rest_s = sum(spec.launches * sum(stage_lengths(spec).values()) for spec, _ in sides)
    found = []
    for side, wanted in zip(sides, specs, strict=True):
        spec, python = side
        if wanted is not None:
            engine = _kept_engine(side, wanted, store=store, execution=execution, rest_s=rest_s)
            takes = RUNTIMES.load(spec.runtime).TAKES_PRECISION
            spec = spec.having(model=engine, precision=spec.precision if takes else None)
        found.append((spec, python))
    return found


def _build_request(spec: RunSpec, python: str | None, build: Mapping[str, str]) -> BuildRequest:
    """Return the request to build the engine of a run, for the shapes that it is measured with."""
    given = build_settings(build)
    name = given.pop("runtime", spec.runtime)
    if name != spec.runtime or name not in BUILDERS.names():
        fix = f"trtbench build {shlex.quote(spec.model.name)}, and bench the engine"
        raise UsageError(f"an engine for {spec.runtime} is not built by {name}", fix=fix)
    shapes: dict[str, tuple[int | str | None, ...]] = dict(spec.shapes)
    if spec.inputs.source is not None:  # they decide the shapes
        tensors = input_specs(load_onnx(Path(spec.model.path), weights=False))
        shapes = {each.name: each.shape for each in resolve_inputs(tensors, spec)[0]}
    options = BUILDERS.load(name).OPTIONS
    settings = {
        "device": spec.device,
        "extra_args": spec.extra_args,
        "precision": spec.precision,
        "shapes": shapes,
        "batch": None if shapes else spec.batch,
        "plugins": tuple(filter(None, spec.options.get("plugins", "").split(","))),
        "options": {key: value for key, value in spec.options.items() if key in options},
        **given,
    }
    return BuildRequest(spec.model.path, runtime=name, python=python, **settings)


def _engine_name(spec: BuildSpec) -> str:
    """Return the file name of an engine: model, precision and the shapes of its inputs."""
    shapes = {name: f"{text_from_shape(span.min)}-{text_from_shape(span.max)}"
              for name, span in spec.shapes.items()}  # fmt: skip
    with suppress(TrtbenchError):  # the builder reports what is wrong with the model
        inputs = input_specs(load_onnx(Path(spec.model.path), weights=False))
        shapes = {t.name: shapes.get(t.name) or text_from_shape(t.shape) for t in inputs}
    texts = [re.sub(r"^(.*)-\1$", r"\1", text) for text in shapes.values()]
    texts[MOST_SHAPES:] = ["and-more"] if texts[MOST_SHAPES:] else []
    parts = (Path(spec.model.path).stem, spec.precision or "as-is", "_".join(texts))
    return file_name_from_text(".".join(filter(None, parts))) + ".engine"


def _kept_engine(
    side: Side, spec: BuildSpec, *, store: Store, execution: Execution, rest_s: float
) -> ModelRef:
    """Return the engine of a build from the store; it is built if it is not there yet."""
    name, stem, (run, python) = _engine_name(spec), Path(spec.model.path).stem, side
    left = ("model", "output", "timing_cache", "calibration", "calibration_cache", "plugins",
            "device")  # fmt: skip
    files = (*filter(None, (spec.calibration, spec.calibration_cache)), *spec.plugins)
    settings = {
        **{key: value for key, value in msgspec.to_builtins(spec).items() if key not in left},
        "files": [data_hash(each) for each in files],
        "tools": builder_tools(spec.runtime, device=device_of(run), python=python),
    }
    source, content = spec.model.path, spec.model.identity
    step = new_step("build", f"build {stem}", source, settings, content=content, stem=stem)
    cache = Cache(store)
    word = "built" if cache.find(step) is None else "taken from the store; it was built"
    usual_s = step.expected_s(cache.history())

    def make(folder: Path) -> tuple[Path, tuple[str, ...]]:
        engine, timing = folder / name, spec.timing_cache
        if timing == f"{spec.output}.timing.cache":
            timing = f"{engine}.timing.cache"
        own = with_estimate(execution, usual_s, rest_s=rest_s, name="build: ", python=python)
        artefact = run_build(spec.having(output=str(engine), timing_cache=timing), execution=own)
        return engine, artefact.notes

    made = cache.result(step, make)
    engine, took = cache.folder(step) / str(made.file), text_from_seconds(made.seconds, digits=3)
    text = f"engine {word} by {spec.runtime} in {took}: {engine}"
    execution.listen(Event(kind="note", text=text))
    return model_ref(engine)
