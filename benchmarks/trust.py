"""Can the verdicts be trusted? Fresh comparisons of a model with itself and with a slower one.

    python benchmarks/trust.py --comparisons 300 --slower 60

A third of them run beside a bursty neighbour (busy for 0.1 s on average, idle for 0.3 s). The
model is a chain of 50 identical convolutions of about 0.5 ms; the slower one has 51: 2 % more by
construction. Every comparison is a whole ``trtbench compare``: ten fresh launches, both sides in
turn. Prints a table in Markdown; --json FILE keeps every single verdict.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from _models import conv_chain
from trtbench.store.store import Store
from trtbench.workflows.compare.compare import compare
from trtbench.workflows.compare.sides import Asked
from trtbench.workflows.request.config import load_config


@dataclass(frozen=True)
class Outcome:
    """One comparison: what was asked, what came out, how long it took."""

    case: str
    neighbour: bool
    kind: str
    ratio: float | None
    low: float | None
    high: float | None
    launches: int
    mode: str
    seconds: float


def main() -> int:
    options = arguments()
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = conv_chain(folder / "model.onnx", layers=50)
        slower = conv_chain(folder / "slower.onnx", layers=51)
        plan = [("same", model, i % 3 == 2) for i in range(options.comparisons)]
        plan += [("slower", slower, i % 3 == 2) for i in range(options.slower)]
        random.Random(0).shuffle(plan)
        if options.resume and options.json and options.json.exists():
            outcomes = [Outcome(**each) for each in json.loads(options.json.read_text())]
        for number, (case, candidate, neighbour) in enumerate(plan, start=1):
            if number <= len(outcomes):
                continue
            outcome = once(case, model, candidate, neighbour=neighbour, folder=folder)
            outcomes.append(outcome)
            print(
                f"{number}/{len(plan)} {case}{' beside a neighbour' if neighbour else ''}: "
                f"{outcome.kind} {outcome.ratio or 0:.4f} in {outcome.seconds:.1f} s",
                file=sys.stderr,
            )
            if options.json:
                options.json.write_text(json.dumps([asdict(each) for each in outcomes], indent=1))
    print(table(outcomes))
    return 0 if holds(outcomes) else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--comparisons", type=int, default=300)
    parser.add_argument("--slower", type=int, default=60)
    parser.add_argument("--json", type=Path, help="keep every single verdict here")
    parser.add_argument("--resume", action="store_true", help="go on where --json ends")
    return parser.parse_args()


def once(case: str, model: Path, candidate: Path, *, neighbour: bool, folder: Path) -> Outcome:
    """Do one whole comparison, in a store of its own."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        store = Store(Path(place))
        busy = multiprocessing.Process(target=disturb, daemon=True) if neighbour else None
        if busy:
            busy.start()
        began = time.monotonic()
        try:
            asked = Asked(flags={"threads": 1}, runtimes=("onnxruntime",))
            config = load_config(store=place)
            found = compare(str(model), [str(candidate)], store=store, config=config, asked=asked)[
                0
            ]
        finally:
            if busy:
                busy.terminate()
                busy.join()
        verdict = found.comparison.verdicts[0]
        interval = verdict.interval
        return Outcome(
            case=case,
            neighbour=neighbour,
            kind=verdict.kind,
            ratio=verdict.ratio,
            low=interval.low if interval else None,
            high=interval.high if interval else None,
            launches=verdict.launches,
            mode=found.mode,
            seconds=time.monotonic() - began,
        )


def disturb() -> None:
    """A neighbour that comes and goes."""
    generator = random.Random()
    while True:
        until = time.monotonic() + generator.expovariate(1 / 0.1)
        while time.monotonic() < until:
            sum(range(1000))
        time.sleep(generator.expovariate(1 / 0.3))


def table(outcomes: list[Outcome]) -> str:
    lines = [
        f"Machine: {platform.machine()}, {multiprocessing.cpu_count()} cores, "
        f"Python {platform.python_version()}",
        "",
        "| sides | neighbour | comparisons | same | faster | slower | unclear "
        "| median s | longest s |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for case in ("same", "slower"):
        for neighbour in (False, True):
            part = [o for o in outcomes if o.case == case and o.neighbour == neighbour]
            if not part:
                continue
            kinds = Counter(o.kind for o in part)
            times = sorted(o.seconds for o in part)
            what = "the model and itself" if case == "same" else "the model and one 2 % slower"
            lines.append(
                f"| {what} | {'bursty' if neighbour else 'none of ours'} | {len(part)} | "
                f"{kinds['same']} | {kinds['faster']} | {kinds['slower']} | {kinds['unclear']} | "
                f"{times[len(times) // 2]:.1f} | {times[-1]:.1f} |"
            )
    return "\n".join(lines)


def holds(outcomes: list[Outcome]) -> bool:
    """At most 1 % of equal pairs called different; 95 % of slower ones found; never reversed."""
    equal = [o for o in outcomes if o.case == "same"]
    slower = [o for o in outcomes if o.case == "slower"]
    false = sum(o.kind in ("faster", "slower") for o in equal)
    found = sum(o.kind == "slower" for o in slower)
    reversed_ = sum(o.kind == "faster" for o in slower)
    return false <= 0.01 * len(equal) and found >= 0.95 * len(slower) and not reversed_


if __name__ == "__main__":
    sys.exit(main())
