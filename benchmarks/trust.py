"""Can the verdicts be trusted? Fresh comparisons on default flags, of many kinds.

    python benchmarks/trust.py --minutes 60 --json trust.jsonl

Every comparison is a whole ``trtbench compare`` with nothing set: models of about 50 µs, 0.5, 5 and
50 ms on the machine it runs on; in one process (the default) and in lock-step; with all threads
(the default) and one; with no neighbour of ours and beside one that is busy for 0.1 s and idle for
0.3 s on average. Two thirds compare a model with itself, a sixth with one that does 2 % more by
construction, a sixth with one of another kind, whose sign the times alone must not deny. The kind
of comparison that was made least comes next, so that a run may be stopped and resumed: the file of
--json has a line for each and is read first. Prints a table in Markdown; ends with 0 if the goals
hold.
"""

from __future__ import annotations

import argparse
import itertools
import math
import multiprocessing
import os
import platform
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from _models import conv_chain, sigmoid_chain
from _outcomes import conclude, keep, read
from trtbench.compare.compare import compare
from trtbench.core.words import Mode
from trtbench.requests.execution import Event, Execution
from trtbench.requests.measure import CompareRequest
from trtbench.requests.settings import load_config
from trtbench.store.store import Store

MODELS = ("50us", "0.5ms", "5ms", "50ms")
MODES: dict[str, Mode] = {"one-process": "auto", "lock-step": "lock-step"}
THREADS = {"all": None, "1": 1}
NEIGHBOURS = ("none", "busy")
CASES = ("same", "same", "same", "same", "slower", "unlike")

TAILS = ("p90", "p99")
BIAS = 0.003
SAME_SHARE = POWER = 0.95
QUIET_S = 10.0


@dataclass(frozen=True)
class Kind:
    """What is compared, and how."""

    model: str
    mode: str
    threads: str
    neighbour: str


@dataclass(frozen=True)
class Outcome:
    """One comparison: what was asked, what came out, how long it took."""

    model: str
    mode: str
    threads: str
    neighbour: str
    case: str
    kind: str
    ratio: float | None
    low: float | None
    high: float | None
    alone: float | None
    alone_low: float | None
    alone_high: float | None
    launches: int
    seconds: float
    load: float
    """Processes that wanted to run when it began, as the kernel counts them."""
    p90: str = "unknown"  # in files of before
    p99: str = "unknown"

    @property
    def denied(self) -> bool:
        """Whether it has a sign that the times alone, measured in the same launches, deny."""
        if self.alone_low is None or self.alone_high is None:
            return False
        return (self.kind == "slower" and self.alone_high < 1) or (
            self.kind == "faster" and self.alone_low > 1
        )


def main() -> int:
    options = arguments()
    cases = options.cases
    outcomes = read(options.json, Outcome)
    deadline = time.monotonic() + 60 * options.minutes
    kinds = [
        Kind(*parts)
        for parts in itertools.product(
            options.models, options.modes, options.threads, options.neighbours
        )
    ]
    with tempfile.TemporaryDirectory() as name:
        files = models(Path(name))
        while time.monotonic() < deadline:
            kind = rarest(kinds, outcomes)
            case = cases[len(outcomes) % len(cases)]  # over all kinds: a short run has every case
            outcome = once(kind, case, files, folder=Path(name))
            outcomes.append(outcome)
            tell(outcome, len(outcomes))
            keep(options.json, outcome)
    return conclude(table(outcomes), broken(outcomes))


def arguments() -> argparse.Namespace:
    def some(text: str) -> list[str]:
        return text.split(",")

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60, help="stop after this time")
    parser.add_argument("--json", type=Path, help="a line for every comparison; is resumed")
    parser.add_argument("--models", type=some, default=list(MODELS), metavar="A,B")
    parser.add_argument("--modes", type=some, default=list(MODES), metavar="A,B")
    parser.add_argument("--threads", type=some, default=list(THREADS), metavar="A,B")
    parser.add_argument("--cases", type=some, default=list(CASES), metavar="A,B", help="same, ...")
    parser.add_argument("--neighbours", type=some, default=list(NEIGHBOURS), metavar="A,B")
    return parser.parse_args()


def models(folder: Path) -> dict[tuple[str, str], Path]:
    """Make the models by size and case; the slower ones have 51 layers where the others have 50.

    Of the shortest, two more: a call of it costs as much as some of its layers.
    """
    sizes = {"0.5ms": (16, 0.0005), "5ms": (32, 0.005), "50ms": (64, 0.05)}
    found = {}
    for size, (channels, seconds) in sizes.items():
        side = side_for(seconds, channels=channels, path=folder / "pace.onnx")
        for case, layers in (("same", 50), ("slower", 51), ("unlike", 40)):
            path = folder / f"{size}-{case}.onnx"
            part = channels if case != "unlike" else 3 * channels // 4
            found[size, case] = conv_chain(path, layers=layers, channels=part, size=side)
    for case, layers in (("same", 50), ("slower", 52)):
        found["50us", case] = sigmoid_chain(folder / f"50us-{case}.onnx", layers=layers)
    found["50us", "unlike"] = conv_chain(folder / "50us-unlike.onnx", layers=10, channels=3, size=8)
    return found


def side_for(seconds: float, *, channels: int, path: Path, side: int = 24) -> int:
    """Find the side of the images with which a query takes so long on this machine."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        conv_chain(path, layers=50, channels=channels, size=side)
    )
    feed = {"input": np.zeros((1, channels, side, side), np.float32)}
    lengths = []
    for _ in range(12):
        began = time.perf_counter()
        session.run(None, feed)
        lengths.append(time.perf_counter() - began)
    return max(4, round(side * math.sqrt(seconds / float(np.median(lengths)))))


def place(outcome: Outcome) -> Kind:
    return Kind(outcome.model, outcome.mode, outcome.threads, outcome.neighbour)


def rarest(kinds: Sequence[Kind], outcomes: Sequence[Outcome]) -> Kind:
    """Choose at random among the kinds of which there are fewest."""
    made = Counter(place(each) for each in outcomes)
    least = min(made[kind] for kind in kinds)
    return random.choice([kind for kind in kinds if made[kind] == least])


def once(kind: Kind, case: str, files: dict[tuple[str, str], Path], *, folder: Path) -> Outcome:
    """Do one whole comparison, in a store of its own."""
    load = float(Path("/proc/loadavg").read_text().split()[0])
    baseline, candidate = files[kind.model, "same"], files[kind.model, case]
    request = CompareRequest(
        baseline=str(baseline),
        candidates=[str(candidate)],
        threads=THREADS[kind.threads],
        mode=MODES[kind.mode],
        accept=("inputs",) if case == "unlike" else (),
    )
    busy = multiprocessing.Process(target=disturb, daemon=True)
    if kind.neighbour == "busy":
        busy.start()
    queue = Queue()
    execution = Execution(listen=queue)
    with tempfile.TemporaryDirectory(dir=folder) as store:
        began = time.monotonic()
        try:
            config = load_config(store=store)
            found = compare(request, store=Store(Path(store)), config=config, execution=execution)[
                0
            ]
        finally:
            if kind.neighbour == "busy":
                busy.terminate()
                busy.join()
        seconds = time.monotonic() - began - queue.waited_s
    verdict, alone = found.comparison.verdicts[0], found.comparison.alone
    tails = {each.metric: each.kind for each in found.comparison.verdicts if each.metric in TAILS}
    interval = verdict.interval
    beside = alone.interval if alone is not None else None
    return Outcome(
        **asdict(kind),
        case=case,
        kind=verdict.kind,
        ratio=verdict.ratio,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        alone=alone.ratio if alone is not None else None,
        alone_low=beside.low if beside else None,
        alone_high=beside.high if beside else None,
        launches=verdict.launches,
        seconds=seconds,
        load=load,
        **tails,
    )


class Queue:
    """Counts the time spent waiting until nobody else measures on this machine."""

    def __init__(self) -> None:
        self.waited_s = 0.0
        self._since: float | None = None

    def __call__(self, event: Event) -> None:
        now = time.monotonic()
        if self._since is not None:
            self.waited_s += now - self._since
        self._since = now if event.kind == "wait" else None


def disturb() -> None:
    """A neighbour that comes and goes."""
    generator = random.Random()
    while True:
        until = time.monotonic() + generator.expovariate(1 / 0.1)
        while time.monotonic() < until:
            sum(range(1000))
        time.sleep(generator.expovariate(1 / 0.3))


def tell(outcome: Outcome, number: int) -> None:
    change = f"{outcome.ratio - 1:+.2%}" if outcome.ratio else ""
    alone = f" (alone {outcome.alone - 1:+.1%})" if outcome.alone else ""
    print(
        f"{number} {outcome.model} {outcome.mode} {outcome.threads} threads, neighbour "
        f"{outcome.neighbour}, {outcome.case}: {outcome.kind} {change}{alone}, p90 {outcome.p90}, "
        f"p99 {outcome.p99} in {outcome.seconds:.1f} s, load {outcome.load}",
        file=sys.stderr,
    )


def table(outcomes: Sequence[Outcome]) -> str:
    """Count by kind of comparison: equal pairs first, then the slower and the unlike ones."""
    lines = [
        f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, "
        f"Python {platform.python_version()}, {len(outcomes)} comparisons",
        "",
        "| model | design | threads | neighbour | with itself | false | same | mean effect "
        "| median s | longest s | +2 % | found | reversed | unlike | sign denied | load "
        "| tails: same | unclear | false |",
        "|---|---|---|---|" + "--:|" * 15,
    ]
    order = list(itertools.product(MODELS, MODES, THREADS, NEIGHBOURS))
    for parts in order:
        part = [each for each in outcomes if place(each) == Kind(*parts)]
        if part:
            lines.append(f"| {' | '.join(parts)} | {' | '.join(cells(part))} |")
    lines.append(f"| all | | | | {' | '.join(cells(outcomes))} |")
    return "\n".join(lines)


def cells(part: Sequence[Outcome]) -> list[str]:
    equal = [each for each in part if each.case == "same"]
    slower = [each for each in part if each.case == "slower"]
    unlike = [each for each in part if each.case == "unlike"]
    effects = [each.ratio - 1 for each in equal if each.ratio]
    times = sorted(each.seconds for each in part)
    tails = Counter(kind for each in equal for kind in (each.p90, each.p99))
    return [
        str(len(equal)),
        str(sum(each.kind in ("faster", "slower") for each in equal)),
        f"{np.mean([each.kind == 'same' for each in equal]):.0%}" if equal else "–",
        f"{np.mean(effects):+.2%}" if effects else "–",
        f"{times[len(times) // 2]:.1f}",
        f"{times[-1]:.1f}",
        str(len(slower)),
        str(sum(each.kind == "slower" for each in slower)),
        str(sum(each.kind == "faster" for each in slower)),
        str(len(unlike)),
        str(sum(each.denied for each in part)),
        f"{np.median([each.load for each in part]):.1f}",
        *(str(tails[kind]) for kind in ("same", "unclear")),
        str(tails["faster"] + tails["slower"]),
    ]


def broken(outcomes: Sequence[Outcome]) -> list[str]:
    """Name the goals that do not hold; bias, share and time count where no neighbour was."""
    equal = [each for each in outcomes if each.case == "same"]
    slower = [each for each in outcomes if each.case == "slower"]
    quiet = [each for each in equal if each.neighbour == "none"]
    effects = [each.ratio - 1 for each in quiet if each.ratio]
    found = [each.kind == "slower" for each in slower]
    same = [each.kind == "same" for each in quiet]
    checks = {
        "an equal pair was called different": any(
            each.kind in ("faster", "slower") for each in equal
        ),
        "tails of an equal pair were called different": any(
            {each.p90, each.p99} & {"faster", "slower"} for each in equal
        ),
        "a slower model was called faster": any(each.kind == "faster" for each in slower),
        "a sign that the times alone deny": any(each.denied for each in outcomes),
        f"bias beyond {BIAS:.1%}": bool(effects) and abs(float(np.mean(effects))) > BIAS,
        f"same in less than {SAME_SHARE:.0%}": bool(same) and float(np.mean(same)) < SAME_SHARE,
        f"+2 % found in less than {POWER:.0%}": bool(found) and float(np.mean(found)) < POWER,
        f"longer than {QUIET_S:g} s": bool(quiet)
        and float(np.median([each.seconds for each in quiet])) > QUIET_S,
    }
    return [text for text, wrong in checks.items() if wrong]


if __name__ == "__main__":
    sys.exit(main())
