"""The steps that the cases of a sweep need, as a graph: shared, and named by what goes into them.

The key of a step is a hash of the content of its inputs and of all its settings, so a step that was
done once, for any sweep of the store, need not be done again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from trtbench.boundary import clean_line
from trtbench.build.builders import BUILDERS
from trtbench.domain.result import Scalar
from trtbench.domain.spec import ModelFormat, Value
from trtbench.errors import TrtbenchError, UsageError
from trtbench.host.environment import read_environment
from trtbench.host.gpu_names import gpu_uuid
from trtbench.host.versions import library_versions
from trtbench.models.folder_hashes import hashes_of_folder
from trtbench.models.identity import model_ref, sha256_of
from trtbench.models.sidecar import precision_of_engine
from trtbench.runtimes import RUNTIMES
from trtbench.tasks import TASKS
from trtbench.tasks.contract import completed
from trtbench.workflows.request.choice import first_choice
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.spec import refuse_other_precision
from trtbench.workflows.sweep.matrix import Case, Matrix, cases_from_matrix

StepKind = Literal["export", "quantize", "build", "eval"]
ORDER: tuple[StepKind, ...] = ("export", "quantize", "build", "eval")

CAST = ("fp16", "bf16", "int8", "fp8")
"""Precisions that an ONNX file is cast or quantized to; FP32 is what it is."""
RECIPE = 2
"""Part of every key: a new number makes everything anew, when steps come to do other things."""


class SweepStep(Value, frozen=True, kw_only=True):
    """Work that is shared by cases: what it makes depends on nothing but what is in here."""

    key: str
    kind: StepKind
    title: str
    source: str
    """The key of the step whose result it takes, or a model as the user gave it."""
    network: str
    settings: dict[str, Any] = {}


@dataclass(frozen=True, kw_only=True)
class SweepPlan:
    """Cases, the steps they share, and what each case needs in order."""

    matrix: Matrix
    cases: tuple[Case, ...]
    keys: tuple[str, ...]
    """One for each case, by content: of the model's bytes too."""
    steps: dict[str, SweepStep]
    chains: tuple[tuple[str, ...], ...]
    """For each case, the keys of the steps that make what is measured."""
    evals: tuple[str | None, ...]
    refused: dict[int, str]
    """Cases that cannot be measured here, and why."""

    def source(self, place: int) -> str:
        """What a case measures: the result of its last step, or the model itself."""
        chain = self.chains[place]
        return chain[-1] if chain else self.cases[place].model

    def dependants(self, key: str) -> list[int]:
        """Cases that need a step."""
        return [place for place, chain in enumerate(self.chains) if key in chain]


def plan_sweep(matrix: Matrix, *, config: Config, lenient: bool = False) -> SweepPlan:
    """Settle the cases and the graph; ``lenient`` makes an unknown runtime a row, not an error."""
    if not matrix.models:
        raise UsageError(
            "the sweep has no models", fix=matrix.note or "trtbench sweep model.onnx --batch 1,8"
        )
    cases = cases_from_matrix(matrix, runtime_of=_default_runtime, builds=BUILDERS.names())
    if not cases:
        raise UsageError("the sweep has no cases: everything is excluded")
    planner = _Planner(matrix, config, lenient=lenient)
    for place, case in enumerate(cases):
        planner.add(place, case)
    return SweepPlan(
        matrix=matrix,
        cases=cases,
        keys=tuple(planner.keys),
        steps=planner.steps,
        chains=tuple(planner.chains),
        evals=tuple(planner.evals),
        refused=planner.refused,
    )


class _Planner:
    """Adds case after case to the graph."""

    def __init__(self, matrix: Matrix, config: Config, *, lenient: bool) -> None:
        self._matrix, self._config, self._lenient = matrix, config, lenient
        self.steps: dict[str, SweepStep] = {}
        self.chains: list[tuple[str, ...]] = []
        self.keys: list[str] = []
        self.evals: list[str | None] = []
        self.refused: dict[int, str] = {}
        self._contents: dict[str, str] = {}
        self._data = data_digest(matrix.data) if matrix.data else None
        self._judging = judging_of(matrix) if matrix.data else {}
        self._calibration = data_digest(matrix.calibration) if matrix.calibration else None

    def add(self, place: int, case: Case) -> None:
        """Put one case and the steps it needs into the graph, or the reason why it cannot be."""
        problem = unusable(case.runtime, self._config, lenient=self._lenient)
        try:
            content = self._content(case.model)
            chain = self._chain(case) if problem is None else ()
        except TrtbenchError as error:
            if isinstance(error, UsageError):
                raise
            problem, content, chain = reason_of(error), "", ()
        if problem is not None:
            self.refused[place] = problem
        self.chains.append(chain)
        self.keys.append(digest({"content": content, "case": case}))
        self.evals.append(self._eval(case, chain) if self._data and problem is None else None)

    def _chain(self, case: Case) -> tuple[str, ...]:
        formats = RUNTIMES.load(case.runtime).FORMATS
        kind = source_format(case.model)
        if kind == "engine" and case.precision is not None:
            _refuse_precision(case)
        chain: list[str] = []
        if kind == "torch" and "torch" not in formats:
            chain.append(self._export(case))
            kind = "onnx"
        builds = case.runtime in BUILDERS.names() and "engine" in formats
        if kind == "onnx" and builds:
            chain += self._built(case, chain[-1] if chain else case.model)
        elif kind == "onnx" and case.precision in CAST:
            chain.append(self._quantize(case, chain[-1] if chain else case.model, keep_io=True))
        return tuple(chain)

    def _export(self, case: Case) -> str:
        settings = {"inputs": self._matrix.input_shape, "tools": tools("torch")}
        return self._step("export", case, case.model, f"export {case.network}", settings)

    def _quantize(self, case: Case, source: str, *, keep_io: bool) -> str:
        settings = {
            "precision": case.precision,
            "keep_io": keep_io,
            **self._calibrated(case.precision in ("int8", "fp8")),
            "tools": tools("onnx", "onnxruntime"),
        }
        title = f"quantize {case.network} to {case.precision}"
        return self._step("quantize", case, source, title, settings)

    def _calibrated(self, needed: bool) -> dict[str, Any]:
        """What a calibration depends on: its data, and how the task of the sweep prepares them."""
        images = needed and prepares(self._matrix)
        return {
            "calibration": self._calibration if needed else None,
            "prepared": {"task": self._matrix.task, **preparing_of(self._matrix)} if images else {},
        }

    def _built(self, case: Case, source: str) -> list[str]:
        """List the steps to an engine; a builder that only takes types gets a typed file first."""
        steps: list[str] = []
        typed = case.precision in CAST and needs_types(case)
        if typed:
            steps.append(self._quantize(case, source, keep_io=False))
            source = steps[-1]
        profile = self._profile(case)
        settings = {
            "builder": case.runtime,
            "precision": None if typed else case.precision,
            "typed": typed,
            "engine": case.engine,
            "batches": profile,
            "shapes": self._matrix.shapes,
            **self._calibrated(case.precision == "int8" and not typed),
            "options": _with_prefix(case.settings, "build."),
            "tools": builder_tools(
                case.runtime,
                device=str(case.settings.get("device") or "cuda:0"),
                python=self._config.python_for(case.runtime),
            ),
        }
        batch = "batches" if case.engine == "dynamic" else "batch"
        span = f"{profile[0]} to {profile[2]}" if case.engine == "dynamic" else f"{profile[1]}"
        precision = case.precision or "as it is"
        title = f"build {case.network}, {precision}, {batch} {span}"
        return [*steps, self._step("build", case, source, title, settings)]

    def _profile(self, case: Case) -> tuple[int, int, int]:
        if case.engine != "dynamic":
            return (case.batch or 1,) * 3
        batches = sorted(self._matrix.batch or (1,))
        return self._matrix.profile or (1, batches[len(batches) // 2], batches[-1])

    def _eval(self, case: Case, chain: tuple[str, ...]) -> str:
        """Take the accuracy of what is measured, once for all the cases that measure it."""
        source = chain[-1] if chain else case.model
        settings = {
            "runtime": case.runtime,
            "data": self._data,
            "precision": _told(case),
            **self._judging,
        }
        title = f"accuracy of {case.network}, {case.precision or 'as it is'}, {case.runtime}"
        return self._step("eval", case, source, title, settings)

    def _step(
        self, kind: StepKind, case: Case, source: str, title: str, settings: Mapping[str, Any]
    ) -> str:
        content = source if source in self.steps else self._content(source)
        key = digest({"recipe": RECIPE, "kind": kind, "source": content, "settings": settings})
        self.steps.setdefault(
            key,
            SweepStep(
                key=key,
                kind=kind,
                title=title,
                source=source,
                network=case.network,
                settings=dict(settings),
            ),
        )
        return key

    def _content(self, model: str) -> str:
        if model not in self._contents:
            hub = is_hub(model)
            self._contents[model] = model if hub else model_ref(Path(model)).sha256 or ""
        return self._contents[model]


def digest(value: object) -> str:
    """Hash a value by its content."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def is_hub(model: str) -> bool:
    """Tell ``torchvision:resnet18`` from a file."""
    head, colon, _ = model.partition(":")
    return bool(colon) and "/" not in head and not Path(model).exists()


def source_format(model: str) -> ModelFormat:
    return "torch" if is_hub(model) else model_ref(Path(model)).format


def judging_of(matrix: Matrix) -> dict[str, Any]:
    """How accuracies are taken: the task, its settings, and what the files they name hold."""
    settings = completed(TASKS.load(matrix.task).FLAGS, matrix.task_settings)
    files = {
        key: data_digest(value)
        for key, value in settings.items()
        if isinstance(value, str) and Path(value).exists()
    }
    return {"task": matrix.task, "settings": settings, "files": files}


def prepares(matrix: Matrix) -> bool:
    """Whether data to calibrate with are images, which the task of the sweep prepares."""
    source = matrix.calibration
    return source not in (None, "random") and Path(str(source)).is_dir()


def preparing_of(matrix: Matrix) -> dict[str, Scalar]:
    """Settings of the task that matter for inputs: the same for calibrating and for judging."""
    flags = TASKS.load(matrix.task).FLAGS
    settings = completed(flags, matrix.task_settings)
    return {flag.key: settings[flag.key] for flag in flags if flag.preprocessing}


def data_digest(source: str) -> str:
    """Hash a file of data, or all files of a folder, by their bytes."""
    path = Path(source)
    if source == "random":
        return source
    if path.is_dir():
        return digest([(clean_line(name), each) for name, each in hashes_of_folder(path).items()])
    if not path.is_file():
        raise UsageError(f"there is no file {source}")
    return sha256_of(path)


def unusable(runtime: str, config: Config, *, lenient: bool) -> str | None:
    """Say why a runtime cannot be used here; another interpreter is not asked."""
    try:
        module = RUNTIMES.load(runtime)
    except UsageError as problem:
        if not lenient:
            raise
        return problem.message
    if config.python_for(runtime):
        return None
    reason = module.available()
    return f"{runtime} is not usable here: {reason}" if reason else None


def reason_of(problem: TrtbenchError) -> str:
    """Put an error into one line of a table."""
    first = problem.message.splitlines()[0]
    told = problem.facts.get("reason")
    return f"{first}: {told.splitlines()[0]}" if told and told not in first else first


def needs_types(case: Case) -> bool:
    """Ask the builder whether it only builds the types of the file, as TensorRT 11 does."""
    asks = BUILDERS.load(case.runtime).needs_types
    own = {k[4:]: str(v) for k, v in case.settings.items() if k.startswith("opt.")}
    return asks is not None and asks(own)


def tools(*names: str) -> dict[str, str]:
    """Versions of what does a step: another version may make another file."""
    versions = library_versions()
    return {name: versions[name] for name in names if name in versions}


def builder_tools(builder: str, *, device: str, python: str | None) -> dict[str, str]:
    """What an engine depends on beside its inputs: the builder, the GPU it is for, its driver."""
    gpus = read_environment(command=None, folder=Path.cwd()).gpus
    uuid = gpu_uuid(device)
    on = next((each for each in gpus if each.uuid and each.uuid == uuid), gpus[0] if gpus else None)
    gpu = {"gpu": on.name, "driver": on.driver or ""} if on else {}
    return {**gpu, **(packages_of(python) if python else BUILDERS.load(builder).tools())}


def packages_of(python: str) -> dict[str, str]:
    """Which TensorRT another interpreter has, by what is installed beside it."""
    path = Path(python).expanduser()
    places = path.absolute().parent.parent.glob("lib*/python3*/*-packages")
    names = {each.name for place in places for each in place.glob("[Tt]ensor[Rr][Tt]*-info")}
    return {"python": str(path), "packages": " ".join(sorted(names))}


def _refuse_precision(case: Case) -> None:
    """An engine has one precision: it cannot be swept, and must be known to be named."""
    reference = model_ref(Path(case.model))
    refuse_other_precision(reference, case.precision)
    if precision_of_engine(reference) is None:
        raise UsageError(
            f"nobody knows the precision of {reference.name}, so it cannot be called "
            f"{case.precision}",
            fix="leave --precision out, or sweep the ONNX file it was built from",
        )


def _default_runtime(model: str) -> str:
    return first_choice(source_format(model)) or first_choice("onnx")


def _told(case: Case) -> str | None:
    """Some runtimes compute in a precision; the others measure a file that has one."""
    return case.precision if RUNTIMES.load(case.runtime).TAKES_PRECISION else None


def _with_prefix(options: Mapping[str, Scalar], prefix: str) -> dict[str, Scalar]:
    return {k.removeprefix(prefix): v for k, v in options.items() if k.startswith(prefix)}
