"""Numbers of docs/gpu.md: layers, tails, agreement with trtexec, start-up, --slo, sweeps, repairs.

    python benchmarks/gpu.py layers tails trtexec start slo sweep --models FOLDER [--minutes 3]
    python benchmarks/gpu.py providers repaired --models FOLDER

The folder has engines, and ONNX files, each of which is built once (``NAME.engine`` beside it, FP16
with little search for the best kernel), in the interpreter that has TensorRT. Every number comes
from whole commands, as a user types them. ``layers`` adds up the kernels of each engine beside its
GPU time; ``tails`` compares the first engine with itself, as often as --comparisons or --minutes
say, and counts verdicts; ``trtexec`` takes turns with ours on each engine, with and without a CUDA
graph; ``start`` times commands that measure for 1 s; ``slo`` asks for a rate and then scans rates
around it by hand; ``sweep`` builds and measures all models; ``providers`` compares each model on
ONNX Runtime with its engine, on one GPU, checks their outputs, and adds up the kernels of its nodes
(another provider than CUDA by ``--opt onnxruntime:providers=tensorrt``); ``repaired`` quantizes
each, repairs it with ``localize``, builds both and measures them. Prints tables in Markdown; ends
with 0 if the goals hold.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from _outcomes import conclude

QUICK = ("--duration", "1s", "--no-until-steady")
SCAN = (0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2)
"""Rates to serve by hand, as shares of the answer."""
ADDS_UP, AGREES, STARTED_S, ANSWERED_S = 0.03, 0.02, 3.5, 30.0
BROKEN = 3  # status of a check that fails


class Done(NamedTuple):
    out: str
    seconds: float

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Bench:
    """Types commands, and keeps tables and goals that do not hold."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.models = sorted(options.models.glob("*.onnx"))
        built = {path.with_suffix(".engine") for path in self.models}
        self.engines = sorted(built.union(options.models.glob("*.engine")))
        self.on = ["taskset", "-c", options.taskset] if options.taskset else []
        self.runtime = ("-r", options.runtime)
        self.lines: list[str] = []
        self.broken: list[str] = []

    def command(self, *words: object, program: Sequence[str] = ()) -> Done:
        began = time.monotonic()
        program = program or (sys.executable, "-m", "trtbench")
        command = [*self.on, *program, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, BROKEN):
            raise SystemExit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
        found = Done(done.stdout, time.monotonic() - began)
        print(f"{found.seconds:5.1f} s  {' '.join(map(str, words))}", file=sys.stderr, flush=True)
        return found

    def build(self) -> None:
        for model in self.models:
            if not (engine := model.with_suffix(".engine")).exists():
                words = ("--precision", "fp16", "--optimization-level", 1, "-o", engine)
                self.command("build", model, *self.runtime, *words)

    def table(self, title: str, *rows: Sequence[object]) -> None:
        lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
        lines.insert(1, "|---" * len(rows[0]) + "|")
        text = "\n".join([f"\n{title}\n", *lines])
        print(text, file=sys.stderr, flush=True)
        self.lines.append(text)

    def demand(self, goal: str, held: bool) -> None:
        self.broken += [] if held else [goal]


def layers(bench: Bench) -> None:
    rows = [("", "layers µs", "overlaps", "gaps", "GPU time", "off", "DRAM MB", "SM active")]
    for engine in bench.engines:
        words = (engine, *bench.runtime, "--cuda-graph", "on", *QUICK, "--all", "--json")
        found = bench.command("profile", *words).json
        sums, every = found["reconciliation"], found["layers"]
        parts = {part["name"]: part["seconds"] for part in sums["parts"]}
        off = sums["layers_s"] / sums["gpu_s"] - 1
        overlaps = (parts.get("overlaps") or 0.0) / sums["gpu_s"]  # counted by both layers
        moved = sum(each["dram_bytes"] or 0 for each in every)
        active = sum((each["sm_active"] or 0) * (each["share"] or 0) for each in every)
        times = (sums["layers_s"], parts.get("overlaps"), parts.get("gaps"), sums["gpu_s"])
        shown = ["–" if each is None else f"{each * 1e6:.1f}" for each in times]
        counted = (f"{moved / 1e6:.1f}", f"{active:.0%}") if moved else ("–", "–")
        rows.append((engine.stem, *shown, f"{off:+.1%}", *counted))
        bench.demand(f"{engine.stem}: layers are {off:+.1%} off", abs(off) <= ADDS_UP + overlaps)
    bench.table("Layers by their kernels", *rows)


def tails(bench: Bench) -> None:
    kinds: dict[str, Counter[str]] = {}
    until, number, seconds = time.monotonic() + 60 * bench.options.minutes, 0, []
    most = bench.options.comparisons
    while not number or (number < most if most else time.monotonic() < until):
        number += 1
        pair = (bench.engines[0], bench.engines[0])
        done = bench.command("compare", *pair, *bench.runtime, "--json")
        seconds.append(done.seconds)
        found = done.json["comparison"]["verdicts"]
        for each in found:
            kinds.setdefault(each["metric"], Counter())[each["kind"]] += 1
        print("  ".join(f"{each['metric']} {each['kind']}" for each in found), file=sys.stderr)
    names = ("same", "unclear", "faster", "slower")
    rows = [(metric, *(count[name] for name in names)) for metric, count in kinds.items()]
    took = f"{np.median(seconds):.1f} s each (median)"
    title = f"{bench.engines[0].stem} against itself, {number} comparisons, {took}"
    bench.table(title, ("verdict on", *names), *rows)
    wrong = sum(count["faster"] + count["slower"] for count in kinds.values())
    bench.demand(f"{wrong} false verdicts", not wrong)


def trtexec(bench: Bench) -> None:
    names = ("GPU µs", "enqueue µs", "queries/s")
    rows: list[Sequence[object]] = [
        ("", "CUDA graph", *(f"{who} {each}" for each in names for who in ("trtexec", "ours")))
    ]
    for engine in bench.engines:
        for graph in bench.options.graphs.split(","):
            theirs: list[tuple[float, ...]] = []
            ours: list[tuple[float, ...]] = []
            for number in range(bench.options.rounds):
                turns = [(theirs, by_trtexec), (ours, by_bench)]
                for kept, measured in turns if number % 2 else turns[::-1]:
                    kept.append(measured(bench, engine, graph))
            pairs = [*zip(zip(*theirs, strict=True), zip(*ours, strict=True), strict=True)]
            shown = [
                f"{np.median(each):.4g} ({min(each):.4g} to {max(each):.4g})"
                for pair in pairs
                for each in pair
            ]
            rows.append((engine.stem, graph, *shown))
            off = np.median(pairs[0][1]) / np.median(pairs[0][0]) - 1
            least = max(AGREES, np.ptp(pairs[0][0]) / np.median(pairs[0][0]))
            bench.demand(f"{engine.stem}, graph {graph}: GPU time {off:+.1%}", abs(off) <= least)
    title = f"Agreement with trtexec, medians of {bench.options.rounds} processes in turn"
    bench.table(f"{title}{f', on CPU {bench.options.taskset}' if bench.on else ''}", *rows)


def by_trtexec(bench: Bench, engine: Path, graph: str) -> tuple[float, ...]:
    words = [f"--loadEngine={engine}", "--warmUp=500", "--duration=1"]
    words += ["--useCudaGraph"] * (graph == "on")
    log = bench.command(*words, program=[bench.options.trtexec]).out
    kinds = (r"GPU Compute Time:.* median = ([\d.]+) ms", r"Enqueue Time:.* median = ([\d.]+) ms")
    found = [re.search(each, log) for each in (*kinds, r"Throughput: ([\d.]+) qps")]
    gpu, enqueue, rate = (float(each[1]) for each in found if each)
    return gpu * 1e3, enqueue * 1e3, rate


def by_bench(bench: Bench, engine: Path, graph: str) -> tuple[float, ...]:
    words = (engine, *bench.runtime, "--protocol", "pipeline", "--cuda-graph", graph)
    summary = bench.command("bench", *words, *QUICK, "--json").json["summary"]
    medians = {each["column"]: each["median"] for each in summary["columns"]}
    return medians["gpu"] * 1e6, medians["enqueue"] * 1e6, summary["queries_per_s"]


def start(bench: Bench) -> None:
    engine = bench.engines[0]
    measured = ("bench", engine, *bench.runtime, *QUICK)
    commands: dict[str, Callable[[], Done]] = {
        "bench, 1 s": lambda: bench.command(*measured),
        "compare": lambda: bench.command("compare", engine, engine, *bench.runtime),
        "--help": lambda: bench.command("bench", "--help"),
    }
    if bench.options.trtexec:
        words = (f"--loadEngine={engine}", "--warmUp=200", "--duration=1")
        commands["trtexec, 1 s"] = lambda: bench.command(*words, program=[bench.options.trtexec])
    rows: list[Sequence[object]] = [("", "median s", "least", "most")]
    for name, command in commands.items():
        took = [command().seconds for _ in range(bench.options.rounds)]
        rows.append((name, *(f"{each:.2f}" for each in (np.median(took), min(took), max(took)))))
        late = name.startswith("bench") and float(np.median(took)) > STARTED_S
        bench.demand(f"1 s of measuring took more than {STARTED_S} s", not late)
    bench.table(f"Whole commands, {engine.stem}", *rows)


def slo(bench: Bench) -> None:
    engine = bench.engines[0]
    rows: list[Sequence[object]] = [("", "rate", "took, or percentile")]
    served: tuple[object, ...] = ("bench", engine, *bench.runtime, "--protocol", "server")
    served += ("--cuda-graph", "on") if bench.runtime[1] == "tensorrt" else ()
    done = bench.command(*served, "--slo", bench.options.slo, "--json")
    found = done.json["load"]
    rate = found["likely_hz"]
    shown = f"{rate:.0f}/s" if rate else "no rate"
    rows.append((bench.options.slo, shown, f"{done.seconds:.1f} s"))
    bound, crossed = found["slo"], 0.0
    for share in SCAN if rate else ():
        asked = f"{share * rate:.0f}/s"
        with tempfile.TemporaryDirectory() as folder:
            words = ("--rate", asked, "--duration", "2s", "-o", f"{folder}/run")
            bench.command(*served, *words)
            with np.load(f"{folder}/run/samples.npz") as samples:
                value = float(np.quantile(samples["host"], bound["q"]))
        crossed = share if value <= bound["limit_s"] else crossed
        told = f"{bound['statistic']} {value * 1e3:.2f} ms"
        rows.append((f"served at {share:.0%} of it", asked, told))
    bench.demand(f"a scan by hand bears {crossed:.0%}", SCAN[0] < crossed < SCAN[-1])
    bench.table(f"--slo, {engine.stem}", *rows)
    bench.demand(f"--slo took {done.seconds:.0f} s", done.seconds <= ANSWERED_S + STARTED_S)


def sweep(bench: Bench) -> None:
    count, words = len(bench.models), (*bench.models, *bench.runtime, *QUICK[:2])
    if bench.options.runtime == "tensorrt":
        words += ("--precision", "fp16", "--axis", "build.optimization-level=1")
    with tempfile.TemporaryDirectory() as folder:  # nothing is built or measured yet
        done = bench.command("sweep", *words, "--store", f"{folder}/store", "-o", f"{folder}/out")
    bench.table("A sweep, engines built", ("models", "took s"), (count, f"{done.seconds:.0f}"))


def providers(bench: Bench) -> None:
    names = ("verdict", "host time", "outputs", "SQNR", "nodes", "their sum µs", "kernels µs")
    rows: list[Sequence[object]] = [("", *names)]
    own = [word for each in bench.options.opt for word in ("--opt", each)]
    by_python = ["--python", bench.options.onnxruntime] if bench.options.onnxruntime else []
    on_gpu = bench.runtime[1] == "tensorrt"
    own += ["--device", "cuda:0"] * on_gpu
    sides = ("-r", "onnxruntime", *bench.runtime, *own, *by_python)
    sides += ("--python", sys.executable) if by_python else ()
    for model in bench.models:
        pair = (model, model.with_suffix(".engine") if on_gpu else model)
        found = bench.command("compare", *pair, *sides, "--json").json["comparison"]
        first = found["verdicts"][0]
        checked = bench.command("check", *pair, *sides, "--random", 64, "--json").json["check"]
        decibels = checked["candidates"][0]["checks"][0]["sqnr_db"]
        alone = (*sides[:2], *own, *by_python)
        layers = bench.command("profile", model, *alone, *QUICK, "--all", "--json").json
        change = "–" if first["ratio"] is None else f"{first['ratio'] - 1:+.1%}"
        outputs = "PASS" if checked["passed"] else "FAIL"
        busy = layers["facts"]["kernel_busy_s"]
        shown = ["–" if each is None else f"{each * 1e6:.1f}" for each in (layers["sum_s"], busy)]
        quality = "–" if decibels is None else f"{decibels:.1f} dB"
        row = (first["kind"], change, outputs, quality, len(layers["layers"]), *shown)
        rows.append((model.stem, *row))
        bench.demand(f"{model.stem}: outputs differ", checked["passed"])
        adds_up = busy is None or abs(layers["sum_s"] / busy - 1) <= ADDS_UP
        bench.demand(f"{model.stem}: nodes do not add up", adds_up)
    asked = ", ".join(bench.options.opt) or "no options"
    bench.table(f"The engine against ONNX Runtime on the same GPU, {asked}", *rows)


def repaired(bench: Bench) -> None:
    rows: list[Sequence[object]] = [("", "INT8 µs", "outputs", "repaired µs", "outputs")]
    for model in bench.models:
        with tempfile.TemporaryDirectory() as folder:
            int8 = Path(folder) / "int8.onnx"
            made = ("--precision", "int8", "--random", 32, "-o", int8)
            bench.command("quantize", model, *made)
            words = ("--repair", "--where", bench.options.where, "--random", 16, "-o", folder)
            found = bench.command("localize", model, int8, *words, "--json").json
            repair = Path(found["repaired"] or int8)  # which may meet that as it is
            rows.append(
                (model.stem, *measured(bench, model, int8), *measured(bench, model, repair))
            )
    bench.table("INT8 repaired by localize, built and run", *rows)


def measured(bench: Bench, model: Path, made: Path) -> tuple[str, str]:
    """Build what was made of a model; gives its time and whether its outputs pass."""
    if bench.runtime[1] == "tensorrt":
        engine = made.with_suffix(".engine")
        bench.command("build", made, *bench.runtime, "--precision", "best", "-o", engine)
        made = engine
    summary = bench.command("bench", made, *bench.runtime, *QUICK, "--json").json["summary"]
    column = next(each for each in summary["columns"] if each["column"] == summary["headline"])
    sides = ("-r", "onnxruntime", *bench.runtime, "--random", 64, "--json")
    checked = bench.command("check", model, made, *sides).json["check"]
    return f"{column['median'] * 1e6:.1f}", "PASS" if checked["passed"] else "FAIL"


PARTS = {
    each.__name__: each for each in (layers, tails, trtexec, start, slo, sweep, providers, repaired)
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--models", type=Path, required=True, help="a folder of ONNX files")
    parser.add_argument("--minutes", type=float, default=3, help="for tails")
    parser.add_argument("--comparisons", type=int, help="for tails, instead of --minutes")
    parser.add_argument("--rounds", type=int, default=3, help="processes of trtexec and start")
    parser.add_argument("--graphs", default="on,off", help="CUDA graphs of trtexec")
    parser.add_argument("--taskset", metavar="CPUS", help="run every command on these CPUs")
    parser.add_argument("--slo", default="p99<2ms")
    parser.add_argument("--trtexec", help="the program, for trtexec and start")
    parser.add_argument("--onnxruntime", metavar="PYTHON", help="its interpreter, for providers")
    parser.add_argument("--opt", action="append", default=[], help="options of providers")
    parser.add_argument("--where", default="sqnr>=42dB", help="what repaired models have to meet")
    parser.add_argument("--runtime", default="tensorrt")
    bench = Bench(parser.parse_args())
    if bench.runtime[1] == "tensorrt":
        bench.build()
    else:  # to try this script without a GPU
        bench.engines = bench.models
    for name in bench.options.parts:
        PARTS[name](bench)
    return conclude("\n".join(bench.lines), bench.broken)


if __name__ == "__main__":
    sys.exit(main())
