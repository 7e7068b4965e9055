"""Compare networks, not one lucky engine of each: both are built several times, in pairs.

The two builds of a pair choose their kernels from one timing cache of their own, so that layers
which both networks have get the same kernels; what the draw of kernels does is then seen over
pairs, and counts against a verdict.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from trtbench.analysis.builds import Aspect, Lottery, verdict_over_builds, verdict_over_pairs
from trtbench.build.builders import BUILDERS
from trtbench.domain.comparison import Comparison
from trtbench.errors import UsageError
from trtbench.models.identity import model_ref
from trtbench.store.store import Store
from trtbench.workflows.builds.draws import Built, build_one, building, judged, measure
from trtbench.workflows.compare.compare import csv_name_of
from trtbench.workflows.make.build import build_spec
from trtbench.workflows.request.comparing import CompareRequest
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.fields import converted
from trtbench.workflows.request.making import BuildRequest, build_settings
from trtbench.workflows.request.rebuilding import LotteryRequest
from trtbench.workflows.request.spec import pick

LAUNCHES, DURATION = 3, "1s"
"""Of every engine, where nobody says."""
PAIRED = "pairs of builds, each with one timing cache of its own"
UNPAIRED = "builds that have nothing in common"
NO_OUTPUTS = Aspect(name="outputs", same=None, text="not compared: trtbench check compares outputs")


@dataclass(frozen=True, kw_only=True)
class NetworksCompared:
    """Two networks, the engines of each, and a verdict that knows how engines spread."""

    baseline: Lottery
    candidate: Lottery
    comparison: Comparison
    mode: str
    interference: tuple[float, float] | None = None


def compare_networks(
    request: CompareRequest, *, store: Store, config: Config, conduct: Conduct
) -> list[NetworksCompared]:
    """Build the baseline and every candidate several times, measure all, and judge by builds."""
    names = [str(each) for each in (request.baseline, *request.candidates)]
    if len(names) < 2:
        raise UsageError("a comparison needs a candidate", fix="trtbench compare A.onnx B.onnx")
    for name in names:
        _demand_onnx(name)
    return [
        _compare(request, (names[0], name), number, store=store, config=config, conduct=conduct)
        for number, name in enumerate(names[1:], start=1)
    ]


def _demand_onnx(name: str) -> None:
    if model_ref(Path(name)).format != "onnx":
        raise UsageError(
            f"{name} is not an ONNX file, and --builds builds what it compares",
            fix="leave --builds out to compare engines as they are",
        )


def _compare(
    request: CompareRequest,
    names: tuple[str, str],
    number: int,
    *,
    store: Store,
    config: Config,
    conduct: Conduct,
) -> NetworksCompared:
    stem = csv_name_of(*names).removesuffix(".csv")
    folder = Path(request.output_dir) / f"{stem}.builds"
    sides, paired = _build_pairs(request, names, number, folder, config=config, conduct=conduct)
    asked = converted(
        request,
        LotteryRequest,
        model=names[0],
        launches=request.launches or LAUNCHES,
        duration=request.duration or DURATION,
        precision=None,
    )
    measured = measure([*sides[0], *sides[1]], asked, store=store, config=config, conduct=conduct)
    first, second = (judged(sides[k], measured.half(k), NO_OUTPUTS) for k in (0, 1))
    judge = verdict_over_pairs if paired else verdict_over_builds
    verdict = measured.verdict((first, second), judge, margin=request.margin_part)
    return NetworksCompared(
        baseline=first,
        candidate=second,
        comparison=Comparison(
            baseline=first.model, candidate=second.model, design="builds", verdicts=(verdict,)
        ),
        mode=PAIRED if paired else UNPAIRED,
    )


def _build_pairs(
    request: CompareRequest,
    names: tuple[str, str],
    number: int,
    folder: Path,
    *,
    config: Config,
    conduct: Conduct,
) -> tuple[tuple[list[Built], list[Built]], bool]:
    """Build A B, then B A, and so on; every pair starts with an empty timing cache."""
    count, sides = request.builds or 2, len(request.candidates) + 1
    settings = build_settings(request.build)
    built: tuple[list[Built], list[Built]] = ([], [])
    paired = True
    for pair in range(count):
        cache = folder / f"pair-{pair + 1}.timing.cache"
        with suppress(FileNotFoundError):
            cache.unlink()
        for turn, side in enumerate((0, 1) if pair % 2 == 0 else (1, 0)):
            place = 0 if side == 0 else number
            recipe = BuildRequest(
                model=names[side],
                output=folder / f"{'ab'[side]}-{pair + 1}.engine",
                runtime=pick(request.runtime, place, sides, what="-r"),
                **{"precision": request.precision, **settings},
            )
            if BUILDERS.load(build_spec(recipe, config).runtime).TIMING_CACHE:
                recipe = replace(recipe, timing_cache=recipe.timing_cache or cache)
            heard = replace(
                building(conduct, 2 * pair + turn + 1, of=2 * count),
                python=pick(request.python, place, sides, what="--python"),
            )
            made = build_one(recipe, f"{'AB'[side]}{pair + 1}", config=config, conduct=heard)
            paired = paired and BUILDERS.load(made.builder).TIMING_CACHE
            built[side].append(made)
    return built, paired
