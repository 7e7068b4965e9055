"""Build one network several times and measure every engine: what differs from build to build.

Two networks are compared by several builds of each, in pairs: the two builds of a pair choose their
kernels from one timing cache of their own, so that layers which both networks have get the same
kernels; what the draw of kernels does is then seen over pairs, and counts against a verdict. Two
versions of TensorRT are compared by several builds of one network by each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from trtbench.accuracy.check import run_check
from trtbench.analysis.builds import (
    Aspect,
    Draw,
    Lottery,
    NetworksCompared,
    Upgrade,
    UpgradeSide,
    bytes_aspect,
    graph_aspects,
    latency_aspect,
    spread_of,
    verdict_over_builds,
    verdict_over_pairs,
)
from trtbench.analysis.verdict import incomparable
from trtbench.compare.compare import csv_name
from trtbench.convert.build import build_spec, refuse_without_builder, run_build
from trtbench.convert.builders import BUILDERS
from trtbench.core.errors import TrtbenchError, UsageError
from trtbench.core.results import Artefact, Comparison, Verdict
from trtbench.core.run import Run
from trtbench.core.samples import EngineGraph
from trtbench.core.spec import RunSpec
from trtbench.host.workers import can_import, check_interpreter
from trtbench.measure.bench import measure_in_rounds
from trtbench.models.identity import model_ref
from trtbench.requests.accuracy import CheckRequest
from trtbench.requests.convert import BuildRequest, build_settings
from trtbench.requests.execution import Execution
from trtbench.requests.fields import converted
from trtbench.requests.measure import BenchRequest, CompareRequest
from trtbench.requests.run_spec import default_runtime, pick, run_spec
from trtbench.requests.settings import Config
from trtbench.runtimes import RUNTIMES
from trtbench.store.store import Store
from trtbench.workflows.inspect import read_graph

TAG = "builds"
Recipe = tuple[BuildRequest, str, str | None]
BUILDING = 0.6
"""Part of the progress bar that building takes; the rest is measured."""
LAUNCHES, DURATION = 3, "1s"
"""Of every engine that is compared, unless the request says otherwise."""
RANDOM = 16
PAIRED = "pairs of builds, each with one timing cache of its own"
UNPAIRED = "builds that have nothing in common"
NO_OUTPUTS = Aspect(name="outputs", same=None, text="not compared: trtbench check compares outputs")


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
    def graph(self) -> EngineGraph | None:
        """The layers beside the engine; ``None`` where they cannot be read."""
        try:
            return read_graph(self.engine)
        except (OSError, TrtbenchError):
            return None

    def runtime(self, config: Config, *, with_outputs: bool = False) -> str:
        """Choose what runs the engine: what built it, where that runs engines too."""
        name = self.artefact.spec.runtime
        runs = name in RUNTIMES.names()
        if not runs or not (self.python or RUNTIMES.load(name).available() is None):
            name = default_runtime(model_ref(self.engine), config) or name
        if with_outputs and RUNTIMES.load(name).open_session is None:
            name = default_runtime(model_ref(self.engine), config, with_outputs=True) or name
        return name


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The runs of engines, in their order, or why there are none."""

    runs: tuple[Run, ...] = ()
    metric: str | None = None
    reason: str | None = None

    def half(self, place: int) -> Measured:
        """Return the runs of one side of two, which have as many each."""
        count = len(self.runs) // 2
        return replace(self, runs=self.runs[place * count : (place + 1) * count])

    def verdict(
        self, one: Lottery, other: Lottery, *, margin: float, paired: bool = False
    ) -> Verdict:
        """Judge two sides by their builds, or say why nothing can be judged."""
        metric = self.metric or "gpu"
        if self.reason is not None:
            return incomparable(metric, reason=f"the engines were not measured: {self.reason}")
        judge = verdict_over_pairs if paired else verdict_over_builds
        return judge(one.draws, other.draws, metric=metric, margin=margin)


@dataclass(frozen=True, kw_only=True)
class Builds:
    """Builds engines, measures them and compares them: all that ``--builds`` asks for."""

    request: CompareRequest
    store: Store
    config: Config
    execution: Execution

    def compare(self) -> Lottery | Upgrade | list[NetworksCompared]:
        """Compare builds of one model, of one model by two builders or versions, or of networks."""
        names = self.request.models
        for name in names:
            if model_ref(Path(name)).format != "onnx":
                raise UsageError(
                    f"{name} is not an ONNX file, and --builds builds what it compares",
                    fix="leave --builds out to compare engines as they are",
                )
        if self.request.candidates:
            return [self._networks(number) for number in range(1, len(names))]
        if len(names) > 2:
            raise UsageError("--builds compares two runtimes or versions", fix="name two")
        folder = Path(self.request.output_dir) / f"{Path(names[0]).stem}.builds"
        return self._upgrade(folder) if len(names) == 2 else self._lottery(folder)

    @cached_property
    def _settings(self) -> dict[str, Any]:
        return {"precision": self.request.precision, **build_settings(self.request.build)}

    def _side(self, given: str, place: int) -> str | None:
        """A side's own runtime or interpreter, where the request names one."""
        values = getattr(self.request, given)
        return pick(values, place, len(self.request.models), what=f"--{given}")

    def _lottery(self, folder: Path) -> Lottery:
        """Build the same engine several times and compare all that can be compared.

        Kernels are timed anew for every build, unless a timing cache is named: it is shared by all.
        """
        if self._side("runtime", 0) is None and self._side("python", 0) is None:
            refuse_without_builder(self.config, self._settings.get("options", {}))

        def recipe(_: int, number: int) -> Recipe:
            alone = "timing_cache" not in self._settings
            return self._recipe(
                0, folder / f"build-{number}.engine", str(number), no_timing_cache=alone
            )

        (built,) = self._build(recipe, 1)
        rest = replace(self, execution=self.execution.part(BUILDING, 1.0))
        outputs = rest.outputs(built, folder)
        return judged(built, rest.measure(built), outputs)

    def _networks(self, number: int) -> NetworksCompared:
        """Build the baseline and a candidate A B, then B A, and so on.

        Every pair starts with an empty timing cache.
        """
        names = self.request.models
        title = csv_name(names[0], names[number]).removesuffix(".csv")
        folder = Path(self.request.output_dir) / f"{title}.builds"

        def recipe(side: int, pair: int) -> Recipe:
            cache = folder / f"pair-{pair}.timing.cache"
            if side == 1 - pair % 2:  # the first of its pair
                with suppress(FileNotFoundError):
                    cache.unlink()
            engine = folder / f"{'ab'[side]}-{pair}.engine"
            place, label = (number if side else 0), f"{'AB'[side]}{pair}"
            request, label, python = self._recipe(place, engine, label)
            if BUILDERS.load(build_spec(request, self.config).runtime).TIMING_CACHE:
                request = replace(request, timing_cache=request.timing_cache or cache)
            return request, label, python

        built = self._build(recipe, 2)
        runtimes = {each.artefact.spec.runtime for side in built for each in side}
        paired = all(BUILDERS.load(name).TIMING_CACHE for name in runtimes)
        measured = self.measure([*built[0], *built[1]])
        first, second = (judged(built[k], measured.half(k), NO_OUTPUTS) for k in (0, 1))
        margin = self.request.margin_part
        verdict = measured.verdict(first, second, paired=paired, margin=margin)
        comparison = Comparison(
            baseline=first.model, candidate=second.model, design="builds", verdicts=(verdict,)
        )
        mode = PAIRED if paired else UNPAIRED
        return NetworksCompared(baseline=first, candidate=second, comparison=comparison, mode=mode)

    def _upgrade(self, folder: Path) -> Upgrade:
        """Build with both versions, in turn; measure all engines in rounds; compare everything."""
        runtimes = [self._side("runtime", place) for place in (0, 1)]
        pythons = [
            self._side("python", place) or self.config.python_for(name or "") or sys.executable
            for place, name in enumerate(runtimes)
        ]
        for python in pythons:
            check_interpreter(python)
        names = ["old", "new"] if runtimes[0] == runtimes[1] else [str(name) for name in runtimes]
        common = None if all(runtimes) else builder_of_both(pythons)

        def recipe(side: int, number: int) -> Recipe:
            engine = folder / f"{('old', 'new')[side]}-{number}.engine"
            label, alone = (
                f"{names[side]} {number}",
                {"no_timing_cache": True, "timing_cache": None},
            )
            request, _, _ = self._recipe(side, engine, label, **alone)
            return replace(request, runtime=request.runtime or common), label, pythons[side]

        built = self._build(recipe, 2)
        measured = self.measure([*built[0], *built[1]])
        old, new = (
            UpgradeSide(
                name=names[k],
                python=pythons[k],
                version=built[k][0].artefact.tensorrt,
                builds=judged(
                    built[k], measured.half(k), self.outputs(built[k], folder / f"outputs-{k}")
                ),
            )
            for k in (0, 1)
        )
        return Upgrade(
            model=str(self.request.baseline),
            old=old,
            new=new,
            verdict=measured.verdict(old.builds, new.builds, margin=self.request.margin_part),
            outputs=self.outputs([built[0][0], *built[1]], folder / "outputs"),
        )

    def _recipe(self, place: int, engine: Path, label: str, **changes: object) -> Recipe:
        """What to build for a side: the request's own flags, and those of ``--build``."""
        fixed = {"model": self.request.models[place], "runtime": self._side("runtime", place)}
        settings = {**fixed, "output": engine, **self._settings, **changes}
        return converted(self.request, BuildRequest, **settings), label, self._side("python", place)

    def _build(self, recipe: Callable[[int, int], Recipe], sides: int) -> list[list[Built]]:
        """Build every side so many times, there and back; each build fills its part of the bar."""
        built: list[list[Built]] = [[] for _ in range(sides)]
        count = self.request.builds or 2
        total = sides * count
        for number in range(1, count + 1):
            for side in range(sides) if number % 2 else reversed(range(sides)):
                request, label, python = recipe(side, number)
                spec = build_spec(request, self.config)
                done = sum(map(len, built))
                ends = BUILDING * done / total, BUILDING * (done + 1) / total
                part = self.execution.part(*ends, name=f"build {done + 1}/{total}")
                python = python or part.python or self.config.python_for(spec.runtime)
                artefact = run_build(spec, execution=replace(part, python=python))
                built[side].append(Built(label=label, artefact=artefact, python=python))
        return built

    def measure(self, built: Sequence[Built]) -> Measured:
        """Measure every engine in rounds; if the machine cannot run them, that is the reason."""
        request = self.request

        def side(each: Built) -> RunSpec:  # on the GPU alone, where the runtime can do that
            name = each.runtime(self.config)
            inside = RUNTIMES.load(name).open_session is not None
            bench = converted(
                request,
                BenchRequest,
                model=each.engine,
                runtime=name,
                device=pick(request.device, 0, 1, what="--device"),
                precision=None,
                options={},
                protocol=request.protocol or ("gpu" if inside else None),
                cuda_graph=request.cuda_graph or ("auto" if inside else None),
                duration=request.duration or DURATION,
                profile=False,
                launches=1,
            )
            return run_spec(bench, self.config)

        tags = (*self.execution.tags, TAG)
        tagged = replace(self.execution, tags=tags, run_id=None, output=None)
        try:
            sides = [(side(each), each.python) for each in built]
            runs = measure_in_rounds(
                sides, rounds=request.launches or LAUNCHES, store=self.store, execution=tagged
            )
        except TrtbenchError as problem:
            return Measured(reason=problem.message)
        every = all(run.times.gpu is not None for run in runs)
        return Measured(runs=tuple(runs), metric="gpu" if every else runs[0].times.headline)

    def outputs(self, built: Sequence[Built], folder: Path) -> Aspect:
        """Run every different engine on the same inputs and compare outputs with the first's."""
        different = list({each.artefact.sha256: each for each in reversed(built)}.values())[::-1]
        first, *others = different
        if not others:
            return Aspect(name="outputs", same=True, text="all engines are one file")
        request = converted(
            self.request,
            CheckRequest,
            reference=first.engine,
            candidates=tuple(each.engine for each in others),
            runtime=tuple(each.runtime(self.config, with_outputs=True) for each in different),
            python=tuple(each.python or "" for each in different)
            if any(each.python for each in built)
            else None,
            random=RANDOM,
            options={},
            output=folder / "outputs",
            task=None,
            timeout=None,
        )
        own = replace(self.execution, python=None)
        try:
            found = run_check(request, store=self.store, config=self.config, execution=own)
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
        floor = ""
        if found.floor is not None:
            steady = all(getattr(each, "identical", False) for each in found.floor)
            floor = f"; one engine {'agrees with' if steady else 'differs from'} itself"
            floor += "" if steady else " too"
        size = "nothing finite" if worst.rel_l2 is None else f"relative L2 {worst.rel_l2:.2g}"
        words = f"differ by up to {size} ({worst.output}) on {found.items} random inputs{floor}"
        return Aspect(name="outputs", same=False, text=words)


def judged(built: Sequence[Built], measured: Measured, outputs: Aspect) -> Lottery:
    """Put together what is known of several builds."""
    graphs = [each.graph for each in built]
    metric, runs = measured.metric, measured.runs or [None] * len(built)
    draws = tuple(
        Draw(
            label=each.label,
            engine=each.artefact.path,
            sha256=each.artefact.sha256,
            size_bytes=each.artefact.size_bytes,
            build_s=each.artefact.build_s or each.artefact.wall_s,
            layers=len(graph.layers) if graph else None,
            run=run.id if run else None,
            launches_s=tuple(float(np.median(column)) for column in run.times.by_launch(metric))
            if run and metric
            else (),
        )
        for each, run, graph in zip(built, runs, graphs, strict=True)
    )
    spread = spread_of(draws)
    if spread is not None:
        latency = latency_aspect(spread)
    else:
        words = f"not measured: {measured.reason or 'one build has no spread'}"
        latency = Aspect(name="latency", same=None, text=words)
    first = built[0].artefact
    return Lottery(
        model=first.spec.model.path,
        builder=f"{first.spec.runtime} {first.tensorrt or ''}".rstrip(),
        command=first.command,
        metric=metric,
        draws=draws,
        aspects=(bytes_aspect(draws), *graph_aspects(graphs), outputs, latency),
        spread=spread,
        notes=tuple(dict.fromkeys(note for each in built for note in each.artefact.notes)),
    )


def builder_of_both(pythons: Sequence[str]) -> str:
    """Choose a builder that both interpreters have: a program has one version only."""
    ranked = sorted(BUILDERS.loaded(), key=lambda each: (each[1].CHOSEN, each[0]))
    inside = [
        (name, builder)
        for name, builder in ranked
        if name in RUNTIMES.names() and RUNTIMES.load(name).open_session is not None
    ]
    for name, builder in inside:
        if builder.LIBRARY and all(can_import(each, builder.LIBRARY) for each in pythons):
            return name
    return inside[0][0]  # which says what is missing
