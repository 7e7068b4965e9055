"""Can the verdicts on a GPU be trusted, and how long do they take? Fresh comparisons, no flags set.

    python benchmarks/trust_gpu.py --minutes 10 --json trust_gpu.jsonl

Builds stacks of 100 convolutions (about 0.2 and 0.6 ms on an H200), and the same with one and with
two layers more: 1 and 2 % more by construction. Every comparison is a whole ``trtbench compare``
with nothing set; of six, four compare an engine with itself, one with 1 % more, one with 2 % more.
Counts false verdicts, what was found, effects, the seconds until the GPU verdict was told and until
the end, and how far launches lie apart. The file of --json has a line for each comparison and is
read first, so that a run may be resumed; --engines keeps what was built. Ends with 0 if the goals
hold.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from _outcomes import conclude, keep, read
from trtbench.analysis.verdict import burst_effects, effects_by_load_order
from trtbench.compare.compare import compare
from trtbench.compare.turns import BURST_LAUNCHES
from trtbench.core.results import Compared, Verdict
from trtbench.requests.execution import Event, Execution
from trtbench.requests.measure import CompareRequest
from trtbench.requests.settings import load_config
from trtbench.store.store import Store

SIZES = {"0.2ms": 28, "0.6ms": 112}
"""Height and width of the images, by about how long a query takes."""
LAYERS = {"same": 100, "+1%": 101, "+2%": 102}
CASES = ("same", "same", "+1%", "same", "same", "+2%")
GPU_S, HOST_S, POWER = 8.0, 30.0, 0.95


@dataclass(frozen=True)
class Outcome:
    """One comparison: what was asked, what came out, how long it took."""

    model: str
    case: str
    gpu: str
    gpu_effect: float | None
    gpu_launches: int
    gpu_s: float | None
    """Seconds until the GPU verdict was told; ``None`` when it came with the others, at the end."""
    host: str
    host_effect: float | None
    host_launches: int
    seconds: float
    burst_spread: float | None
    """Standard deviation of the effects of one launch's bursts, the median over launches."""
    gpu_spread: float | None
    """Standard deviation of the effects of launches: GPU time in bursts, and host time."""
    placed_spread: float | None
    """The same of GPU time, of launches that loaded at the same place of the order."""
    host_spread: float | None
    gpu_time_s: float | None
    reason: str


def main() -> int:
    options = arguments()
    outcomes = read(options.json, Outcome)
    deadline = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as name:
        folder = (options.engines or Path(name)).resolve()
        engines = built(folder, options.models)
        while time.monotonic() < deadline:
            made = Counter(each.model for each in outcomes)
            model = min(options.models, key=lambda each: made[each])
            case = CASES[made[model] % len(CASES)]
            outcome = once(model, case, engines, first_look=options.first_look)
            outcomes.append(outcome)
            tell(outcome, len(outcomes))
            keep(options.json, outcome)
    return conclude(table(outcomes), broken(outcomes, first_look=options.first_look))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10, help="stop after this time")
    parser.add_argument("--json", type=Path, help="a line for every comparison; is resumed")
    parser.add_argument("--engines", type=Path, help="keep the engines in this folder")
    parser.add_argument(
        "--first-look",
        action="store_true",
        help="end each comparison after its first six launches: GPU time alone, many of them",
    )
    parser.add_argument(
        "--models", type=lambda text: text.split(","), default=list(SIZES), metavar="A,B"
    )
    return parser.parse_args()


def built(folder: Path, models: Sequence[str]) -> dict[tuple[str, str], Path]:
    """Build what is not there yet, in a process of its own: this one shall hold no GPU memory."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {(model, case): folder / f"{model}{case}.engine" for model in models for case in LAYERS}
    for model in models:
        paths = [found[model, case] for case in LAYERS]
        if all(path.is_file() for path in paths):
            continue
        code = (
            "import os, sys; from pathlib import Path; from _engines import conv_engines\n"
            "conv_engines([Path(each) for each in sys.argv[2:]], layers=LAYERS, "
            "size=int(sys.argv[1]))\n"
            "os._exit(0)"
        ).replace("LAYERS", str(list(LAYERS.values())))
        print(f"building engines of {model}", file=sys.stderr)
        command = [sys.executable, "-c", code, str(SIZES[model]), *map(str, paths)]
        subprocess.run(command, check=True, cwd=Path(__file__).parent)
    return found


def once(
    model: str, case: str, engines: dict[tuple[str, str], Path], *, first_look: bool
) -> Outcome:
    """Do one whole comparison, in a store of its own."""
    request = CompareRequest(
        baseline=str(engines[model, "same"]),
        candidates=[str(engines[model, case])],
        launches=BURST_LAUNCHES if first_look else None,
        max_launches=BURST_LAUNCHES if first_look else None,
    )
    watch = Watch()
    with tempfile.TemporaryDirectory() as store:
        config = load_config(store=store)
        execution = Execution(listen=watch)
        found = compare(request, store=Store(Path(store)), config=config, execution=execution)[0]
        seconds = time.monotonic() - watch.began
    verdicts = {each.metric: each for each in found.comparison.verdicts}
    gpu, host = verdicts["gpu"], verdicts["host"]
    return Outcome(
        model=model,
        case=case,
        gpu=gpu.kind,
        gpu_effect=effect(gpu),
        gpu_launches=gpu.launches,
        gpu_s=watch.gpu_s,
        host=host.kind,
        host_effect=effect(host),
        host_launches=host.launches,
        seconds=seconds,
        **spreads(found),
        reason=gpu.reason,
    )


class Watch:
    """Notes when the verdict on GPU time was told."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.gpu_s: float | None = None

    def __call__(self, event: Event) -> None:
        if event.kind == "note" and event.text.startswith("GPU time"):
            self.gpu_s = time.monotonic() - self.began


def effect(verdict: Verdict) -> float | None:
    return None if verdict.ratio is None else verdict.ratio - 1


def spreads(found: Compared) -> dict[str, float | None]:
    """Tell how far bursts of a launch, and launches, lie apart."""
    sides = (found.baseline.record.launches, found.candidate.record.launches)
    inside = [
        float(np.std(np.log(np.array(b.burst_s) / np.array(a.burst_s)), ddof=1))
        for a, b in zip(*sides, strict=True)
        if len(a.burst_s) > 1
    ]
    gpu, placed = burst_effects(*sides), effects_by_load_order(*sides)
    host = found.comparison.effects
    times = [each for launch in sides[0] for each in launch.burst_s]
    return {
        "burst_spread": float(np.median(inside)) if inside else None,
        "gpu_spread": float(np.std(gpu, ddof=1)) if len(gpu) > 1 else None,
        "placed_spread": float(np.std(placed, ddof=1)) if len(placed) > 1 else None,
        "host_spread": float(np.std(host, ddof=1)) if len(host) > 1 else None,
        "gpu_time_s": float(np.median(times)) if times else None,
    }


def tell(outcome: Outcome, number: int) -> None:
    gpu, host = (percent(each) for each in (outcome.gpu_effect, outcome.host_effect))
    after = "at the end" if outcome.gpu_s is None else f"{outcome.gpu_s:.1f} s"
    print(
        f"{number} {outcome.model} {outcome.case}: GPU {outcome.gpu} {gpu} ({after}, "
        f"{outcome.gpu_launches} launches, apart {percent(outcome.gpu_spread)}, by "
        f"place {percent(outcome.placed_spread)}, bursts {percent(outcome.burst_spread)}), "
        f"host {outcome.host} {host} ({outcome.seconds:.1f} s, "
        f"{outcome.host_launches} launches, apart {percent(outcome.host_spread)})",
        file=sys.stderr,
    )


def percent(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2%}"


def table(outcomes: Sequence[Outcome]) -> str:
    """Count by engine and case, once for GPU time and once for host time."""
    lines = [
        f"{len(outcomes)} comparisons",
        "",
        "| engine | case | time | comparisons | same | faster | slower | unclear | mean effect "
        "| sd of effects | apart (launches) | median s | longest s |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for model in SIZES:
        for case in LAYERS:
            part = [each for each in outcomes if (each.model, each.case) == (model, case)]
            if not part:
                continue
            for metric in ("gpu", "host"):
                lines.append(f"| {model} | {case} | {metric} | {' | '.join(cells(part, metric))} |")
    return "\n".join(lines)


def cells(part: Sequence[Outcome], metric: str) -> list[str]:
    kinds = Counter(getattr(each, metric) for each in part)
    effects = [e for each in part if (e := getattr(each, f"{metric}_effect")) is not None]
    apart = [s for each in part if (s := getattr(each, f"{metric}_spread")) is not None]
    times = sorted(seconds_of(each, metric) for each in part)
    return [
        str(len(part)),
        *(str(kinds[kind]) for kind in ("same", "faster", "slower", "unclear")),
        percent(float(np.mean(effects)) if effects else None),
        percent(float(np.std(effects, ddof=1)) if len(effects) > 1 else None),
        percent(float(np.median(apart)) if apart else None),
        f"{times[len(times) // 2]:.1f}",
        f"{times[-1]:.1f}",
    ]


def seconds_of(outcome: Outcome, metric: str) -> float:
    if metric == "gpu" and outcome.gpu_s is not None:
        return outcome.gpu_s
    return outcome.seconds


def broken(outcomes: Sequence[Outcome], *, first_look: bool) -> list[str]:
    """Name the goals that do not hold; host time is known later than at the first look."""
    equal = [each for each in outcomes if each.case == "same"]
    more = [each for each in outcomes if each.case != "same"]
    signs = ("faster", "slower")
    found = [each.gpu == "slower" for each in more]
    checks = {
        "an equal pair was called different": any(
            each.gpu in signs or each.host in signs for each in equal
        ),
        "a slower engine was called faster": any(
            "faster" in (each.gpu, each.host) for each in more
        ),
        f"1 or 2 % more found in less than {POWER:.0%}": bool(found) and np.mean(found) < POWER,
        f"GPU verdict later than {GPU_S:g} s": any(
            seconds_of(each, "gpu") > GPU_S for each in outcomes
        ),
        f"host verdict later than {HOST_S:g} s": any(each.seconds > HOST_S for each in outcomes),
        "host time unclear": not first_look and any(each.host == "unclear" for each in outcomes),
    }
    return [text for text, wrong in checks.items() if wrong]


if __name__ == "__main__":
    sys.exit(main())
