"""Build one network several times, measure every engine, and say in what they differ."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from trtbench.analysis.builds import (
    Aspect,
    Draw,
    Lottery,
    bytes_aspect,
    graph_aspects,
    latency_aspect,
    spread_of,
)
from trtbench.analysis.verdict import MARGIN, incomparable
from trtbench.domain.artefact import Artefact
from trtbench.domain.comparison import Verdict
from trtbench.domain.result import Run
from trtbench.domain.samples import EngineGraph
from trtbench.domain.spec import BuildSpec, RunSpec
from trtbench.errors import InputError, TrtbenchError
from trtbench.models.identity import model_ref, sha256_of
from trtbench.runtimes import RUNTIMES
from trtbench.store.store import Store
from trtbench.workflows.check.check import run_check
from trtbench.workflows.look.engine import read_artefact, read_graph
from trtbench.workflows.make.build import build_spec, run_build
from trtbench.workflows.measure.rounds import measure_in_rounds
from trtbench.workflows.request.choice import default_runtime
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.fields import converted
from trtbench.workflows.request.judging import CheckRequest
from trtbench.workflows.request.making import BuildRequest
from trtbench.workflows.request.measuring import BenchRequest
from trtbench.workflows.request.progress import Event
from trtbench.workflows.request.rebuilding import LotteryRequest, UpgradeRequest

TAG = "lottery"
BuildingRequest = LotteryRequest | UpgradeRequest
"""Who asks for engines to be built and measured."""
JudgeBuilds = Callable[..., Verdict]
BUILDING = 0.6
"""Part of the progress bar that building takes; the rest is measured."""


@dataclass(frozen=True, kw_only=True)
class Built:
    """One engine of several."""

    label: str
    artefact: Artefact
    python: str | None = None

    @property
    def engine(self) -> Path:
        return Path(self.artefact.path)

    @property
    def builder(self) -> str:
        return self.artefact.spec.runtime


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The runs of engines, in their order, or why there are none."""

    runs: tuple[Run, ...] = ()
    metric: str | None = None
    reason: str | None = None

    def half(self, place: int) -> Measured:
        """Leave the runs of one side of two, which have as many each."""
        count = len(self.runs) // 2
        return replace(self, runs=self.runs[place * count : (place + 1) * count])

    def verdict(
        self, sides: Sequence[Lottery], judge: JudgeBuilds, *, margin: float = MARGIN
    ) -> Verdict:
        """Judge two sides by their builds, or say why nothing can be judged."""
        metric = self.metric or "gpu"
        if self.reason is not None:
            return incomparable(metric, reason=f"the engines were not measured: {self.reason}")
        return judge(sides[0].draws, sides[1].draws, metric=metric, margin=margin)


def run_lottery(
    request: LotteryRequest, *, store: Store, config: Config, conduct: Conduct
) -> Lottery:
    """Build the same engine several times and compare all that can be compared.

    Kernels are timed anew for every build, unless a timing cache is named: it is shared by all.
    """
    folder = Path(request.output or f"{request.model}.builds")
    built: list[Built] = []
    for number in range(1, request.builds + 1):
        recipe = converted(
            request,
            BuildRequest,
            model=request.model,
            output=folder / f"build-{number}.engine",
            no_timing_cache=request.timing_cache is None,
        )
        heard = building(conduct, number, of=request.builds)
        try:
            made = build_one(
                recipe, str(number), config=config, conduct=heard, resume=request.resume
            )
        except KeyboardInterrupt:
            left = f"{len(built)} of {request.builds} engines are in {folder}"
            conduct.listen(Event(kind="note", text=f"{left}: --resume goes on with them"))
            raise
        built.append(made)
    refuse_mixed(built, folder)
    return lottery_of(built, request, folder=folder, store=store, config=config, conduct=conduct)


def build_one(
    recipe: BuildRequest, label: str, *, config: Config, conduct: Conduct, resume: bool = False
) -> Built:
    """Build one engine; what interpreter it takes is kept for whoever runs it.

    With ``resume``, an engine that the same command left there is taken as it is.
    """
    spec = build_spec(recipe, config)
    python = conduct.python or config.python_for(spec.runtime)
    artefact = _left_before(spec, conduct.machine or platform.node()) if resume else None
    if artefact is None:
        artefact = run_build(spec, conduct=replace(conduct, python=python))
    else:
        conduct.listen(Event(kind="note", text=f"{artefact.filename} was there already"))
    return Built(label=label, artefact=artefact, python=python)


def _left_before(spec: BuildSpec, machine: str) -> Artefact | None:
    """Find what an earlier try built by the same words, on this machine, and nobody changed."""
    engine = Path(spec.output)
    try:
        found = read_artefact(engine)
    except TrtbenchError:
        return None
    if found is None or _timeless(found.spec) != _timeless(spec) or found.host != machine:
        return None
    whole = engine.is_file() and sha256_of(engine) == found.sha256
    return found if whole else None


def _timeless(spec: BuildSpec) -> BuildSpec:
    """Leave out when the model was written: its bytes count."""
    model = spec.model.having(modified=None)
    return spec.having(model=model)


def refuse_mixed(built: Sequence[Built], folder: Path) -> None:
    """Refuse engines of several TensorRTs or GPUs: an earlier try may have had others."""
    for name, kinds in (
        ("TensorRT", {each.artefact.tensorrt for each in built}),
        ("GPUs", {tuple(gpu.uuid for gpu in each.artefact.gpus) for each in built}),
    ):
        if len(kinds) > 1:
            raise InputError(
                f"the builds in {folder} are not of one {name.removesuffix('s')}",
                facts={name: ", ".join(sorted(map(str, kinds)))},
                fix="without --resume all are built anew",
            )


def lottery_of(
    built: Sequence[Built],
    request: BuildingRequest,
    *,
    folder: Path,
    store: Store,
    config: Config,
    conduct: Conduct,
) -> Lottery:
    """Measure engines of one network in rounds, and judge them in every respect."""
    heard = conduct.part(BUILDING, 1.0)
    outputs = output_aspect(
        built, request, folder=folder, store=store, config=config, conduct=heard
    )
    measured = measure(built, request, store=store, config=config, conduct=heard)
    return judged(built, measured, outputs)


def judged(built: Sequence[Built], measured: Measured, outputs: Aspect) -> Lottery:
    """Put together what is known of several builds."""
    graphs = [graph_of(each.engine) for each in built]
    draws = draws_of(built, measured, graphs)
    spread = spread_of(draws)
    if spread is not None:
        latency = latency_aspect(spread)
    else:
        words = f"not measured: {measured.reason or 'one build tells nothing'}"
        latency = Aspect(name="latency", same=None, text=words)
    first = built[0].artefact
    return Lottery(
        model=first.spec.model.path,
        builder=f"{first.spec.runtime} {first.tensorrt or ''}".rstrip(),
        command=first.command,
        metric=measured.metric,
        draws=tuple(draws),
        aspects=(bytes_aspect(draws), *graph_aspects(graphs), outputs, latency),
        spread=spread,
        notes=tuple(dict.fromkeys(note for each in built for note in each.artefact.notes)),
    )


def draws_of(
    built: Sequence[Built], measured: Measured, graphs: Sequence[EngineGraph | None]
) -> list[Draw]:
    """Describe every build with the times of its launches."""
    runs: Sequence[Run | None] = measured.runs or [None] * len(built)
    return [
        Draw(
            label=each.label,
            engine=each.artefact.path,
            sha256=each.artefact.sha256,
            size_bytes=each.artefact.size_bytes,
            build_s=each.artefact.build_s or each.artefact.wall_s,
            layers=len(graph.layers) if graph else None,
            run=run.id if run else None,
            launches_s=_medians(run, measured.metric) if run and measured.metric else (),
        )
        for each, run, graph in zip(built, runs, graphs, strict=True)
    ]


def _medians(run: Run, metric: str) -> tuple[float, ...]:
    return tuple(float(np.median(column)) for column in run.times.by_launch(metric))


def graph_of(engine: Path) -> EngineGraph | None:
    """Read the layers beside an engine; what cannot be read is not there."""
    try:
        return read_graph(engine)
    except (OSError, TrtbenchError):
        return None


def measure(
    built: Sequence[Built],
    request: BuildingRequest,
    *,
    store: Store,
    config: Config,
    conduct: Conduct,
) -> Measured:
    """Measure every engine in rounds; a machine that cannot run them is a reason, not an error."""
    try:
        sides = [(_spec(each, request, config), each.python) for each in built]
        tagged = replace(conduct, tags=(*conduct.tags, TAG), run_id=None, output=None)
        runs = measure_in_rounds(sides, rounds=request.launches, store=store, conduct=tagged)
    except TrtbenchError as problem:
        return Measured(reason=problem.message)
    every = all(run.times.gpu is not None for run in runs)
    return Measured(runs=tuple(runs), metric="gpu" if every else runs[0].times.headline)


def _spec(each: Built, request: BuildingRequest, config: Config) -> RunSpec:
    """Settle how an engine is measured: on the GPU alone, where the runtime can do that."""
    from trtbench.workflows.request.spec import run_spec

    name = runtime_of(each, config)
    inside = RUNTIMES.load(name).open_session is not None
    bench = converted(
        request,
        BenchRequest,
        model=each.engine,
        runtime=name,
        precision=None,
        options={},
        protocol=request.protocol or ("gpu" if inside else None),
        cuda_graph=request.cuda_graph or ("auto" if inside else None),
        duration=request.duration,
        profile=False,
        launches=1,
    )
    return run_spec(bench, config)


def runtime_of(each: Built, config: Config) -> str:
    """Choose what runs an engine: what built it, where that runs engines too."""
    name = each.builder
    if name in RUNTIMES.names() and (each.python or RUNTIMES.load(name).available() is None):
        return name
    return default_runtime(model_ref(each.engine), config) or name


def output_aspect(
    built: Sequence[Built],
    request: BuildingRequest,
    *,
    folder: Path,
    store: Store,
    config: Config,
    conduct: Conduct,
) -> Aspect:
    """Run every different engine on the same inputs and hold its outputs to the first one's."""
    first, *others = different(built)
    if not others:
        return Aspect(name="outputs", same=True, text="all engines are one file")
    names = [_with_outputs(each, config) for each in (first, *others)]
    asked = converted(
        request,
        CheckRequest,
        reference=first.engine,
        candidates=tuple(each.engine for each in others),
        runtime=tuple(names),
        python=tuple(each.python or "" for each in (first, *others))
        if any(each.python for each in built)
        else None,
        random=request.random,
        options={},
        output=folder / "outputs",
        task=None,
        timeout=None,
    )
    try:
        found = run_check(asked, store=store, config=config, conduct=replace(conduct, python=None))
    except TrtbenchError as problem:
        return Aspect(name="outputs", same=None, text=f"not compared: {problem.message}")
    checks = [check for each in found.candidates for check in each.checks]
    if found.failed or not checks:
        reason = found.failed[0].reason if found.failed else "no output is of both"
        return Aspect(name="outputs", same=None, text=f"not compared: {reason}")
    if all(check.identical for check in checks):
        words = f"identical to the last bit on {found.items} random inputs"
        return Aspect(name="outputs", same=True, text=words)
    worst = max(
        checks, key=lambda check: check.rel_l2 if check.rel_l2 is not None else float("inf")
    )
    floor = _floor_words(found.floor)
    size = "nothing finite" if worst.rel_l2 is None else f"relative L2 {worst.rel_l2:.2g}"
    words = f"differ by up to {size} ({worst.output}) on {found.items} random inputs{floor}"
    return Aspect(name="outputs", same=False, text=words)


def _floor_words(floor: Sequence[object] | None) -> str:
    """Say whether one engine agrees with itself, where that was tried."""
    if floor is None:
        return ""
    steady = all(getattr(each, "identical", False) for each in floor)
    return "; one engine agrees with itself" if steady else "; one engine differs from itself too"


def _with_outputs(each: Built, config: Config) -> str:
    name = runtime_of(each, config)
    if RUNTIMES.load(name).open_session is not None:
        return name
    return default_runtime(model_ref(each.engine), config, with_outputs=True) or name


def different(built: Sequence[Built]) -> list[Built]:
    """List the builds whose files differ, each kind once."""
    return list({each.artefact.sha256: each for each in reversed(built)}.values())[::-1]


def building(conduct: Conduct, number: int, *, of: int) -> Conduct:
    """Have one build of several fill its part of the bar."""
    ends = BUILDING * (number - 1) / of, BUILDING * number / of
    return conduct.part(*ends, name=f"build {number}/{of}")
