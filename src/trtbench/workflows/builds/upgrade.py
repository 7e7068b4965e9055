"""Two versions of TensorRT, several builds of one network by each, and one verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trtbench.analysis.builds import Aspect, Lottery, verdict_over_builds
from trtbench.analysis.layers.difference import difference
from trtbench.analysis.layers.join import join_layers
from trtbench.build.builders import BUILDERS
from trtbench.domain.comparison import Verdict
from trtbench.domain.result import Score
from trtbench.domain.short_view import ShortView
from trtbench.domain.spec import Value
from trtbench.errors import TrtbenchError, UnavailableError, UsageError
from trtbench.executors import can_import, check_interpreter
from trtbench.runtimes import RUNTIMES
from trtbench.store.store import Store
from trtbench.workflows.builds.draws import (
    Built,
    build_one,
    building,
    graph_of,
    judged,
    measure,
    output_aspect,
    refuse_mixed,
    runtime_of,
)
from trtbench.workflows.check.evaluate import run_evaluation
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.fields import converted
from trtbench.workflows.request.judging import EvalRequest
from trtbench.workflows.request.making import BuildRequest
from trtbench.workflows.request.rebuilding import UpgradeRequest


class UpgradeSide(Value, frozen=True, kw_only=True):
    """One version: its engines, and how right the first of them is."""

    name: str
    python: str
    version: str | None
    builds: Lottery
    scores: tuple[Score, ...] = ()


class Upgrade(ShortView, Value, frozen=True, kw_only=True):
    """What changes with the version of TensorRT."""

    model: str
    old: UpgradeSide
    new: UpgradeSide
    verdict: Verdict
    outputs: Aspect
    """Of the new version's engines against the old one's."""
    layers: str
    """What became of the layers, in words."""
    notes: tuple[str, ...] = ()


def run_upgrade(
    request: UpgradeRequest, *, store: Store, config: Config, conduct: Conduct
) -> Upgrade:
    """Build with both, in turn; measure all engines in rounds; compare everything."""
    names = _named((str(request.old), str(request.new)))
    if request.data is not None and request.task is None:
        raise UsageError("--data is judged by a task", fix="--task classification")
    folder = Path(request.output or f"{request.model}.upgrade")
    built = _build_all(request, names, folder, config=config, conduct=conduct)
    measured = measure([*built[0], *built[1]], request, store=store, config=config, conduct=conduct)
    sides: list[UpgradeSide] = []
    notes: list[str] = []
    for place, (name, python) in enumerate(names):
        scores, problem = _scores(built[place][0], request, store, config, conduct)
        notes += [f"accuracy of {name} was not taken: {problem}"] if problem else []
        inside = output_aspect(
            built[place], request, folder=folder / f"outputs-{place}", store=store, config=config,
            conduct=conduct,
        )  # fmt: skip
        lottery = judged(built[place], measured.half(place), inside)
        version = built[place][0].artefact.tensorrt
        sides.append(
            UpgradeSide(name=name, python=python, version=version, builds=lottery, scores=scores)
        )
    across = output_aspect(
        [built[0][0], *built[1]], request, folder=folder / "outputs", store=store, config=config,
        conduct=conduct,
    )  # fmt: skip
    return Upgrade(
        model=str(request.model),
        old=sides[0],
        new=sides[1],
        verdict=measured.verdict([side.builds for side in sides], verdict_over_builds),
        outputs=across,
        layers=_layers(built[0][0], built[1][0]),
        notes=tuple(notes),
    )


def _named(words: tuple[str, str]) -> list[tuple[str, str]]:
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


def _build_all(
    request: UpgradeRequest,
    names: Sequence[tuple[str, str]],
    folder: Path,
    *,
    config: Config,
    conduct: Conduct,
) -> tuple[list[Built], list[Built]]:
    built: tuple[list[Built], list[Built]] = ([], [])
    builder = request.runtime or _in_process([python for _, python in names])
    # The task judges; images to calibrate with, where there are any, it prepares too.
    judges: dict[str, object] = (
        {} if request.calibration is not None else {"task": None, "settings": {}}
    )
    for number in range(request.builds):
        for turn, side in enumerate((0, 1) if number % 2 == 0 else (1, 0)):
            recipe = converted(
                request,
                BuildRequest,
                model=request.model,
                runtime=builder,
                output=folder / f"{('old', 'new')[side]}-{number + 1}.engine",
                no_timing_cache=True,
                timing_cache=None,
                **judges,
            )
            heard = building(conduct, 2 * number + turn + 1, of=2 * request.builds)
            heard = replace(heard, python=names[side][1])
            label = f"{names[side][0]} {number + 1}"
            made = build_one(recipe, label, config=config, conduct=heard, resume=request.resume)
            built[side].append(made)
    for each in built:
        refuse_mixed(each, folder)
    return built


def _in_process(pythons: Sequence[str]) -> str:
    """Choose a builder that both interpreters have: a program has one version only."""
    ranked = sorted(BUILDERS.loaded(), key=lambda each: (each[1].CHOSEN, each[0]))
    inside = [(name, builder) for name, builder in ranked if _runs_inside(name)]
    for name, builder in inside:
        if builder.LIBRARY and all(can_import(each, builder.LIBRARY) for each in pythons):
            return name
    return inside[0][0]  # which says what is missing


def _runs_inside(name: str) -> bool:
    return name in RUNTIMES.names() and RUNTIMES.load(name).open_session is not None


def _scores(
    built: Built, request: UpgradeRequest, store: Store, config: Config, conduct: Conduct
) -> tuple[tuple[Score, ...], str | None]:
    """Evaluate one engine on the data, where there are any."""
    if request.data is None:
        return (), None
    asked = converted(
        request,
        EvalRequest,
        models=(built.engine,),
        task=request.task,
        data=request.data,
        runtime=runtime_of(built, config),
        python=built.python,
        output=built.engine.with_suffix(".accuracy"),
        precision=None,
        options={},
        timeout=None,
    )
    try:
        found = run_evaluation(asked, store=store, config=config, conduct=conduct)
    except TrtbenchError as problem:
        return (), problem.message
    return found.models[0].scores, None


def _layers(old: Built, new: Built) -> str:
    """Say how the layers of the first builds differ; without a GPU they are the network's own."""
    tables = [graph_of(each.engine) for each in (old, new)]
    if tables[0] is None or tables[1] is None:
        return "not known: a builder left no layer information"
    found = difference(*(join_layers(None, graph) for graph in tables))
    fused = all(each.artefact.facts.get("layers_from") != "network" for each in (old, new))
    counts = f"{len(tables[0].layers)} and {len(tables[1].layers)} layers"
    counts += "" if fused else " of the network, before any was fused"
    changed = {
        what: sum(what in each.changed for each in found.changes)
        for what in ("fusion", "precision", "tactic")
    }
    words = [f"{count} with another {what}" for what, count in changed.items() if count]
    only = [
        f"{len(found.only(side))} only in the {name}"
        for side, name in (("a", "old"), ("b", "new"))
        if found.only(side)
    ]
    return f"{counts}: {', '.join([*words, *only]) or 'the same pieces of work'}"
