"""Build one network several times and measure every engine: what differs from build to build.

Two networks are compared by several builds of each, in pairs: the two builds of a pair choose their
kernels from one timing cache of their own, so that layers which both networks have get the same
kernels; what the draw of kernels does is then seen over pairs, and counts against a verdict. Two
versions of TensorRT are compared by several builds of one network by each.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from trtbench.accuracy.check import run_check
from trtbench.accuracy.evaluate import run_evaluation
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
from trtbench.analysis.verdict import MARGIN, incomparable
from trtbench.compare.compare import csv_name
from trtbench.convert.build import build_spec, run_build
from trtbench.convert.builders import BUILDERS
from trtbench.core.errors import InputError, TrtbenchError, UnavailableError, UsageError
from trtbench.core.results import Artefact, Comparison, Verdict
from trtbench.core.run import Run, Score
from trtbench.core.samples import EngineGraph
from trtbench.core.spec import BuildSpec, RunSpec
from trtbench.host.workers import can_import, check_interpreter
from trtbench.layers.diff import difference
from trtbench.layers.join import join_layers
from trtbench.measure.bench import measure_in_rounds
from trtbench.models.identity import model_ref, sha256_of
from trtbench.requests.accuracy import CheckRequest, EvalRequest
from trtbench.requests.convert import BuildRequest, LotteryRequest, UpgradeRequest, build_settings
from trtbench.requests.execution import Event, Execution
from trtbench.requests.fields import converted
from trtbench.requests.measure import BenchRequest, CompareRequest
from trtbench.requests.run_spec import default_runtime, pick, run_spec
from trtbench.requests.settings import Config
from trtbench.runtimes import RUNTIMES
from trtbench.store.store import Store
from trtbench.workflows.look.inspect import read_artefact, read_graph

TAG = "lottery"
Recipe = tuple[BuildRequest, str, str | None]
"""What to build, its label, and the interpreter that builds it."""
BuildingRequest = LotteryRequest | UpgradeRequest
BUILDING = 0.6
"""Part of the progress bar that building takes; the rest is measured."""
LAUNCHES, DURATION = 3, "1s"
"""Of every engine that is compared, unless the request says otherwise."""
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
        self, one: Lottery, other: Lottery, *, paired: bool = False, margin: float = MARGIN
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

    store: Store
    config: Config
    execution: Execution

    def compare(self, request: CompareRequest) -> Lottery | Upgrade | list[NetworksCompared]:
        """Compare builds of one model, of one model by two builders or versions, or of networks."""
        for name in request.models:
            if model_ref(Path(name)).format != "onnx":
                raise UsageError(
                    f"{name} is not an ONNX file, and --builds builds what it compares",
                    fix="leave --builds out to compare engines as they are",
                )
        if request.candidates:
            return self.networks(request)
        model, count = str(request.baseline), len(request.models)
        runtimes = [pick(request.runtime, place, count, what="-r") for place in range(count)]
        pythons = [pick(request.python, place, count, what="--python") for place in range(count)]
        changes: dict[str, object] = {
            "model": model,
            "builds": request.builds,
            "launches": request.launches or LAUNCHES,
            "duration": request.duration or DURATION,
            "output": Path(request.output_dir) / f"{Path(model).stem}.builds",
            "precision": request.precision,
        }
        settings = build_settings(request.build)
        if count == 1:
            own = replace(self, execution=replace(self.execution, python=pythons[0]))
            changes |= {"runtime": runtimes[0], **settings}
            return own.lottery(converted(request, LotteryRequest, **changes))
        if count > 2:
            raise UsageError("--builds compares two runtimes or versions", fix="name two")
        names = runtimes if runtimes[0] != runtimes[1] else ["old", "new"]
        old, new = (
            f"{name}={python or self.config.python_for(runtime or '') or sys.executable}"
            for name, runtime, python in zip(names, runtimes, pythons, strict=True)
        )
        changes |= {"old": old, "new": new, "runtime": None, **settings}
        return self.upgrade(converted(request, UpgradeRequest, **changes), runtimes=runtimes)

    def lottery(self, request: LotteryRequest) -> Lottery:
        """Build the same engine several times and compare all that can be compared.

        Kernels are timed anew for every build, unless a timing cache is named: it is shared by all.
        """
        folder = Path(request.output or f"{request.model}.builds")

        def recipe(_: int, number: int) -> Recipe:
            changes = {"no_timing_cache": request.timing_cache is None}
            engine = folder / f"build-{number}.engine"
            made = converted(request, BuildRequest, model=request.model, output=engine, **changes)
            return made, str(number), None

        (built,) = self._build(recipe, 1, request.builds, folder, resume=request.resume)
        refuse_mixed(built, folder)
        rest = replace(self, execution=self.execution.part(BUILDING, 1.0))
        outputs = rest.outputs(built, request, folder)
        return judged(built, rest.measure(built, request), outputs)

    def networks(self, request: CompareRequest) -> list[NetworksCompared]:
        """Build the baseline and every candidate several times, and judge them by all builds."""
        names = request.models
        found = []
        for number, name in enumerate(names[1:], start=1):
            title = csv_name(names[0], name).removesuffix(".csv")
            folder = Path(request.output_dir) / f"{title}.builds"
            sides, paired = self._pairs(request, (names[0], name), number, folder)
            asked = converted(
                request,
                LotteryRequest,
                model=names[0],
                launches=request.launches or LAUNCHES,
                duration=request.duration or DURATION,
                precision=None,
            )
            measured = self.measure([*sides[0], *sides[1]], asked)
            first, second = (judged(sides[k], measured.half(k), NO_OUTPUTS) for k in (0, 1))
            verdict = measured.verdict(first, second, paired=paired, margin=request.margin_part)
            comparison = Comparison(
                baseline=first.model, candidate=second.model, design="builds", verdicts=(verdict,)
            )
            mode = PAIRED if paired else UNPAIRED
            found.append(
                NetworksCompared(baseline=first, candidate=second, comparison=comparison, mode=mode)
            )
        return found

    def _pairs(
        self, request: CompareRequest, names: tuple[str, str], number: int, folder: Path
    ) -> tuple[list[list[Built]], bool]:
        """Build A B, then B A, and so on; every pair starts with an empty timing cache."""
        sides = len(request.candidates) + 1
        settings = {"precision": request.precision, **build_settings(request.build)}

        def recipe(side: int, pair: int) -> Recipe:
            cache, place = folder / f"pair-{pair}.timing.cache", number if side else 0
            if side == 1 - pair % 2:  # the first of its pair
                with suppress(FileNotFoundError):
                    cache.unlink()
            runtime = pick(request.runtime, place, sides, what="-r")
            asked = BuildRequest(
                model=names[side],
                output=folder / f"{'ab'[side]}-{pair}.engine",
                **{"runtime": runtime, **settings},
            )
            if BUILDERS.load(build_spec(asked, self.config).runtime).TIMING_CACHE:
                asked = replace(asked, timing_cache=asked.timing_cache or cache)
            python = pick(request.python, place, sides, what="--python")
            return asked, f"{'AB'[side]}{pair}", python

        built = self._build(recipe, 2, request.builds or 2, folder)
        runtimes = {each.artefact.spec.runtime for side in built for each in side}
        return built, all(BUILDERS.load(name).TIMING_CACHE for name in runtimes)

    def upgrade(
        self, request: UpgradeRequest, *, runtimes: Sequence[str | None] = (None, None)
    ) -> Upgrade:
        """Build with both versions, in turn; measure all engines in rounds; compare everything.

        ``runtimes`` are the builders of both sides, where they differ.
        """
        names = versions_named(str(request.old), str(request.new))
        if request.data is not None and request.task is None:
            raise UsageError("--data is judged by a task", fix="--task classification")
        folder = Path(request.output or f"{request.model}.upgrade")
        built = self._versions(request, names, runtimes, folder)
        measured = self.measure([*built[0], *built[1]], request)
        sides: list[UpgradeSide] = []
        notes: list[str] = []
        for place, (name, python) in enumerate(names):
            scores, problem = self._scores(built[place][0], request)
            notes += [f"accuracy of {name} was not taken: {problem}"] if problem else []
            outputs = self.outputs(built[place], request, folder / f"outputs-{place}")
            lottery = judged(built[place], measured.half(place), outputs)
            version = built[place][0].artefact.tensorrt
            sides.append(
                UpgradeSide(
                    name=name, python=python, version=version, builds=lottery, scores=scores
                )
            )
        old, new = sides
        return Upgrade(
            model=str(request.model),
            old=old,
            new=new,
            verdict=measured.verdict(old.builds, new.builds),
            outputs=self.outputs([built[0][0], *built[1]], request, folder / "outputs"),
            layers=_layers(built[0][0], built[1][0]),
            notes=tuple(notes),
        )

    def _versions(
        self,
        request: UpgradeRequest,
        names: Sequence[tuple[str, str]],
        runtimes: Sequence[str | None],
        folder: Path,
    ) -> list[list[Built]]:
        common = request.runtime or (
            None if all(runtimes) else builder_of_both([python for _, python in names])
        )
        # The task judges; images to calibrate with, where there are any, it prepares too.
        judges: dict[str, object] = (
            {} if request.calibration is not None else {"task": None, "settings": {}}
        )

        def recipe(side: int, number: int) -> Recipe:
            asked = converted(
                request,
                BuildRequest,
                model=request.model,
                runtime=runtimes[side] or common,
                output=folder / f"{('old', 'new')[side]}-{number}.engine",
                no_timing_cache=True,
                timing_cache=None,
                **judges,
            )
            return asked, f"{names[side][0]} {number}", names[side][1]

        built = self._build(recipe, 2, request.builds, folder, resume=request.resume)
        for each in built:
            refuse_mixed(each, folder)
        return built

    def _build(
        self,
        recipe: Callable[[int, int], Recipe],
        sides: int,
        count: int,
        folder: Path,
        *,
        resume: bool | None = None,
    ) -> list[list[Built]]:
        """Build every side so many times, there and back; each build fills its part of the bar.

        ``resume`` is ``None`` where an interrupted command cannot go on with what it built.
        """
        built: list[list[Built]] = [[] for _ in range(sides)]
        total = sides * count
        for number in range(1, count + 1):
            for side in range(sides) if number % 2 else reversed(range(sides)):
                asked, label, python = recipe(side, number)
                done = sum(map(len, built))
                ends = BUILDING * done / total, BUILDING * (done + 1) / total
                part = self.execution.part(*ends, name=f"build {done + 1}/{total}")
                heard = replace(self, execution=replace(part, python=python or part.python))
                try:
                    built[side].append(heard.build_one(asked, label, resume=bool(resume)))
                except KeyboardInterrupt:
                    if resume is not None:
                        left = f"{done} of {total} engines are in {folder}"
                        text = f"{left}: --resume goes on with them"
                        self.execution.listen(Event(kind="note", text=text))
                    raise
        return built

    def build_one(self, recipe: BuildRequest, label: str, *, resume: bool = False) -> Built:
        """Build one engine; what interpreter it takes is kept for whoever runs it.

        With ``resume``, an engine that the same command left there is taken as it is.
        """
        spec, execution = build_spec(recipe, self.config), self.execution
        python = execution.python or self.config.python_for(spec.runtime)
        artefact = _left_before(spec, execution.machine or platform.node()) if resume else None
        if artefact is None:
            artefact = run_build(spec, execution=replace(execution, python=python))
        else:
            text = f"{artefact.filename} was there already"
            execution.listen(Event(kind="note", text=text))
        return Built(label=label, artefact=artefact, python=python)

    def measure(self, built: Sequence[Built], request: BuildingRequest) -> Measured:
        """Measure every engine in rounds; if the machine cannot run them, that is the reason."""

        def side(each: Built) -> RunSpec:  # on the GPU alone, where the runtime can do that
            name = each.runtime(self.config)
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
            return run_spec(bench, self.config)

        tags = (*self.execution.tags, TAG)
        tagged = replace(self.execution, tags=tags, run_id=None, output=None)
        try:
            sides = [(side(each), each.python) for each in built]
            runs = measure_in_rounds(
                sides, rounds=request.launches, store=self.store, execution=tagged
            )
        except TrtbenchError as problem:
            return Measured(reason=problem.message)
        every = all(run.times.gpu is not None for run in runs)
        return Measured(runs=tuple(runs), metric="gpu" if every else runs[0].times.headline)

    def outputs(self, built: Sequence[Built], request: BuildingRequest, folder: Path) -> Aspect:
        """Run every different engine on the same inputs and compare outputs with the first's."""
        different = list({each.artefact.sha256: each for each in reversed(built)}.values())[::-1]
        first, *others = different
        if not others:
            return Aspect(name="outputs", same=True, text="all engines are one file")
        asked = converted(
            request,
            CheckRequest,
            reference=first.engine,
            candidates=tuple(each.engine for each in others),
            runtime=tuple(each.runtime(self.config, with_outputs=True) for each in different),
            python=tuple(each.python or "" for each in different)
            if any(each.python for each in built)
            else None,
            random=request.random,
            options={},
            output=folder / "outputs",
            task=None,
            timeout=None,
        )
        own = replace(self.execution, python=None)
        try:
            found = run_check(asked, store=self.store, config=self.config, execution=own)
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

    def _scores(
        self, built: Built, request: UpgradeRequest
    ) -> tuple[tuple[Score, ...], str | None]:
        """Evaluate one engine on the data, where there are any; or say why that failed."""
        if request.data is None:
            return (), None
        asked = converted(
            request,
            EvalRequest,
            models=(built.engine,),
            task=request.task,
            data=request.data,
            runtime=built.runtime(self.config),
            python=built.python,
            output=built.engine.with_suffix(".accuracy"),
            precision=None,
            options={},
            timeout=None,
        )
        try:
            found = run_evaluation(
                asked, store=self.store, config=self.config, execution=self.execution
            )
        except TrtbenchError as problem:
            return (), problem.message
        return found.models[0].scores, None


def _left_before(spec: BuildSpec, machine: str) -> Artefact | None:
    """Find an unchanged engine that an earlier try built by the same words on this machine."""

    def timeless(spec: BuildSpec) -> BuildSpec:  # when the model was written does not count
        return spec.having(model=spec.model.having(modified=None))

    engine = Path(spec.output)
    try:
        found = read_artefact(engine)
    except TrtbenchError:
        return None
    if found is None or timeless(found.spec) != timeless(spec) or found.host != machine:
        return None
    return found if engine.is_file() and sha256_of(engine) == found.sha256 else None


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


def versions_named(*words: str) -> list[tuple[str, str]]:
    """Read ``8.6=/opt/trt86/bin/python``; a bare path is the old one, or the new."""
    found = []
    for word, place in zip(words, ("old", "new"), strict=True):
        name, python = word.split("=", 1) if "=" in word else (place, word)
        if not name or not python:
            raise UsageError(
                f"{word} names no interpreter", fix="trtbench upgrade 8.6=PYTHON 10=PYTHON MODEL"
            )
        try:
            check_interpreter(python)
        except UnavailableError as problem:
            problem.fix = (problem.fix or "").partition(",")[0].replace("--python ", f"{name}=")
            raise
        found.append((name, python))
    if found[0][0] == found[1][0]:
        raise UsageError(f"both versions are called {found[0][0]}", fix="8.6=PYTHON 10=PYTHON")
    return found


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


def _layers(old: Built, new: Built) -> str:
    """Say how the layers of the first builds differ; without a GPU they are the network's own."""
    first, second = old.graph, new.graph
    if first is None or second is None:
        return "not known: a builder left no layer information"
    found = difference(join_layers(None, first), join_layers(None, second))
    fused = all(each.artefact.facts.get("layers_from") != "network" for each in (old, new))
    counts = f"{len(first.layers)} and {len(second.layers)} layers"
    counts += "" if fused else " of the network, before any was fused"
    words = [
        f"{count} with another {what}"
        for what in ("fusion", "precision", "tactic")
        if (count := sum(what in each.changed for each in found.changes))
    ]
    words += [
        f"{len(found.only(side))} only in the {name}"
        for side, name in (("a", "old"), ("b", "new"))
        if found.only(side)
    ]
    return f"{counts}: {', '.join(words) or 'the same pieces of work'}"
