"""Builds a network several times and measures every engine, to show how builds differ.

Two networks are compared by pairs of builds. The builds of a pair share a timing cache, so that
layers which both networks have get the same kernels; the spread over pairs then shows the effect
of kernel selection, which the verdict takes into account. Different versions of TensorRT, or
builders, cannot share a timing cache, so their builds are not paired.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from trtbench.analysis import builds
from trtbench.analysis.verdict import incomparable
from trtbench.compare.compare import csv_name
from trtbench.convert.build import build_spec, refuse_without_builder, run_build
from trtbench.convert.builders import BUILDERS
from trtbench.core.errors import TrtbenchError, UsageError
from trtbench.core.results import Artefact, Comparison
from trtbench.core.run import Run
from trtbench.core.spec import RunSpec
from trtbench.host.workers import can_import, check_interpreter
from trtbench.measure.bench import measure_in_rounds
from trtbench.models.identity import model_ref
from trtbench.requests.execution import Execution
from trtbench.requests.fields import converted
from trtbench.requests.measure import BenchRequest, CompareRequest
from trtbench.requests.models import BuildRequest, build_settings
from trtbench.requests.run_spec import default_runtime, run_spec, value_of_side
from trtbench.requests.settings import Config
from trtbench.runtimes import RUNTIMES
from trtbench.store.store import Store
from trtbench.workflows.inspect import read_graph

TAG = "builds"
BUILDING = 0.6  # share of the progress bar for building; the rest is for measuring
LAUNCHES, DURATION = 3, "1s"  # defaults for every compared engine
PAIRED = "pairs of builds, each pair with its own timing cache"
UNPAIRED = "independent builds"

Built = tuple[Artefact, str | None]  # an engine, and the interpreter that built it


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The runs of all engines, or the reason why there are none."""

    runs: Sequence[Run] = ()
    metric: str = "gpu"
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Builds:
    """Builds, measures and compares engines, for ``--builds``."""

    request: CompareRequest
    store: Store
    config: Config
    execution: Execution

    def compare(self) -> builds.Lottery | list[builds.NetworksCompared]:
        """Compare builds of one model, by one or two builders, or of several models."""
        names = self.request.models
        for name in names:
            if model_ref(Path(name)).format != "onnx":
                message = f"{name} is not an ONNX file, which --builds needs"
                raise UsageError(message, fix="omit --builds to compare existing engines")
        if len(names) > 1:
            return [self._compare_pair(number) for number in range(1, len(names))]
        # Every build times its kernels, unless a timing cache is given for all.
        alone = "timing_cache" not in self._settings
        if self._given("runtime", 0) is None and self._given("python", 0) is None:
            refuse_without_builder(self.config, self._settings.get("options", {}))
        folder = Path(str(self.request.output)) / f"{Path(names[0]).stem}.builds"

        def request_for(_: int, number: int) -> BuildRequest:
            engine = folder / f"build-{number}.engine"
            runtime = self._given("runtime", 0)
            return self._build_request(0, engine, runtime=runtime, no_timing_cache=alone)

        (built,) = self._build((0,), request_for)
        return summarize_builds(built, self.measure(built))

    def _compare_pair(self, number: int) -> builds.NetworksCompared:
        """Build baseline and candidate in the order A B, B A, and so on, and compare them."""
        places, names = (0, number), self.request.models
        runtimes = [self._given("runtime", place) for place in places]
        pythons = [self._given("python", place) for place in places]
        for python in filter(None, pythons):
            check_interpreter(python)
        alike = runtimes[0] == runtimes[1] and pythons[0] == pythons[1]
        is_one_model = not self.request.candidates
        title = csv_name(names[0], names[number]).removesuffix(".csv")
        if is_one_model:
            title = Path(names[0]).stem
            if not all(runtimes):
                common = common_builder([python or sys.executable for python in pythons])
                runtimes = [name or common for name in runtimes]
        folder = Path(str(self.request.output)) / f"{title}.builds"

        def request_for(side: int, pair: int) -> BuildRequest:
            engine = folder / f"{'ab'[side]}-{pair}.engine"
            request = self._build_request(places[side], engine, runtime=runtimes[side])
            if not alike:
                return request.having(no_timing_cache=True, timing_cache=None)
            cache = folder / f"pair-{pair}.timing.cache"
            if side == 1 - pair % 2:  # the first of its pair
                cache.unlink(missing_ok=True)
            if BUILDERS.load(build_spec(request, self.config).runtime).TIMING_CACHE:
                request = request.having(timing_cache=request.timing_cache or cache)
            return request

        built = self._build(places, request_for)
        used = {artefact.spec.runtime for side in built for artefact, _ in side}
        paired = alike and all(BUILDERS.load(name).TIMING_CACHE for name in used)
        measured = self.measure([*built[0], *built[1]])
        count = len(measured.runs) // 2
        halves = (replace(measured, runs=x) for x in (measured.runs[:count], measured.runs[count:]))
        first, second = map(summarize_builds, built, halves, "AB")
        if measured.reason is not None:
            reason = f"the engines were not measured: {measured.reason}"
            verdict = incomparable(measured.metric, reason=reason)
        else:
            margin, metric = self.request.margin_part, measured.metric
            verdict = builds.verdict_over_builds(
                first.draws, second.draws, metric=metric, margin=margin, paired=paired
            )
        comparison = Comparison(
            baseline=first.model, candidate=second.model, design="builds", verdicts=(verdict,)
        )
        return builds.NetworksCompared(first, second, comparison, PAIRED if paired else UNPAIRED)

    @cached_property
    def _settings(self) -> dict[str, Any]:
        device = value_of_side(self.request.device, 0, 1, what="--device")
        built = build_settings(self.request.build)
        return {"precision": self.request.precision, "device": device, **built}

    def _given(self, given: str, place: int) -> str | None:
        """Return the runtime or interpreter that the request gives for a model, if any."""
        values = getattr(self.request, given)
        return value_of_side(values, place, len(self.request.models), what=f"--{given}")

    def _build_request(self, place: int, engine: Path, **changes: object) -> BuildRequest:
        settings = {"model": self.request.models[place], "output": engine, **self._settings}
        return converted(self.request, BuildRequest, **{**changes, **settings})

    def _build(
        self, places: Sequence[int], request_for: Callable[[int, int], BuildRequest]
    ) -> list[list[Built]]:
        """Build every model ``--builds`` times, in alternating order."""
        built: list[list[Built]] = [[] for _ in places]
        count = self.request.builds or 2
        total = len(places) * count
        for number in range(1, count + 1):
            sides = range(len(places))
            for side in sides if number % 2 else reversed(sides):
                spec = build_spec(request_for(side, number), self.config)
                done = sum(map(len, built))
                ends = BUILDING * done / total, BUILDING * (done + 1) / total
                part = self.execution.part(*ends, name=f"build {done + 1}/{total}")
                python = self._given("python", places[side]) or part.python
                python = python or self.config.python_for(spec.runtime)
                artefact = run_build(spec, execution=replace(part, python=python))
                built[side].append((artefact, python))
        return built

    def measure(self, built: Sequence[Built]) -> Measured:
        """Measure every engine in rounds; an error becomes the reason of the result."""
        request = self.request

        def spec_of(artefact: Artefact, python: str | None) -> RunSpec:
            """Measure GPU time without transfers if possible, by the builder if it can run."""
            name = artefact.spec.runtime
            if name not in RUNTIMES.names() or not (
                python or RUNTIMES.load(name).available() is None
            ):
                name = default_runtime(model_ref(Path(artefact.path)), self.config) or name
            inside = RUNTIMES.load(name).open_session is not None
            bench = converted(
                request, BenchRequest, model=Path(artefact.path), runtime=name,
                device=value_of_side(request.device, 0, 1, what="--device"), precision=None,
                options={}, protocol=request.protocol or ("gpu" if inside else None),
                cuda_graph=request.cuda_graph or ("auto" if inside else None),
                duration=request.duration or DURATION, profile=False, launches=1,
            )  # fmt: skip
            return run_spec(bench, self.config)

        tags, rest = (*self.execution.tags, TAG), self.execution.part(BUILDING, 1.0)
        tagged = replace(rest, tags=tags, run_id=None, output=None)
        try:
            sides = [(spec_of(*each), each[1]) for each in built]
            rounds = request.launches or LAUNCHES
            runs = measure_in_rounds(sides, rounds=rounds, store=self.store, execution=tagged)
        except TrtbenchError as problem:
            return Measured(reason=problem.message)
        every = all(run.times.gpu is not None for run in runs)
        return Measured(runs=runs, metric="gpu" if every else runs[0].times.headline)


def summarize_builds(built: Sequence[Built], measured: Measured, side: str = "") -> builds.Lottery:
    graphs, draws = [], []
    for place, (artefact, _) in enumerate(built):
        try:
            graphs.append(read_graph(Path(artefact.path)))
        except (OSError, TrtbenchError):
            graphs.append(None)
        run = measured.runs[place] if measured.runs else None
        columns = run.times.by_launch(measured.metric) if run else ()
        draws.append(
            builds.Draw(
                label=f"{side}{place + 1}",
                engine=artefact.path,
                sha256=artefact.sha256,
                size_bytes=artefact.size_bytes,
                build_s=artefact.build_s or artefact.wall_s,
                layers=len(graphs[-1].layers) if graphs[-1] else None,
                run=run.id if run else None,
                launches_s=tuple(float(np.median(column)) for column in columns),
            )
        )
    spread, first = builds.spread_from_draws(draws), built[0][0]
    latency = builds.latency_aspect(spread, measured.reason)
    return builds.Lottery(
        model=first.spec.model.path,
        builder=f"{first.spec.runtime} {first.tensorrt or ''}".rstrip(), command=first.command,
        metric=measured.metric if measured.runs else None, draws=tuple(draws),
        aspects=(builds.bytes_aspect(draws), *builds.graph_aspects(graphs), latency), spread=spread,
        notes=tuple(dict.fromkeys(note for artefact, _ in built for note in artefact.notes)),
    )  # fmt: skip


def common_builder(pythons: Sequence[str]) -> str:
    """Return a builder whose library both interpreters have."""
    own = {name for name, runtime in RUNTIMES.loaded() if runtime.open_session is not None}
    ranked = sorted(BUILDERS.loaded(), key=lambda each: (each[1].CHOSEN, each[0]))
    inside = [(name, builder.LIBRARY) for name, builder in ranked if name in own]
    fit = (name for name, needs in inside if needs and all(can_import(x, needs) for x in pythons))
    return next(fit, inside[0][0])  # whose error says what is missing
