"""Measure on a GPU what the documentation claims: agreement, overhead, one engine per process.

Runs on a bare host without a network, with two interpreters: one that has TensorRT, cuda-bindings,
numpy and msgspec, and one that has PyTorch, torchvision, numpy and msgspec. Neither needs trtbench
installed. Every measurement is a fresh process. Parts are chosen by name and end within the budget;
what was exported and built stays in --work for the next call.

    python tools/gpu_agreement.py --trt-python /opt/trt/python3 --torch-python python3 \
        --work /tmp/work --out /tmp/out --parts export,build,agree --budget 500
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
PARTS = (
    "export",
    "build",
    "agree",
    "overhead",
    "second",
    "protocols",
    "profile",
    "torch",
    "errors",
    "telemetry",
)
MODELS = ("resnet18", "resnet50", "mobilenet_v2", "vit_b_16")
KNOWN_MS = {"resnet18": (0.1580, 0.1585), "resnet50": (0.3524, 0.3530)}
"""GPU compute of trtexec on an H200 with TensorRT 8.6.0, FP16, batch 1, CUDA graph."""
SHAPE = (1, 3, 224, 224)

AGREE = {
    "pipeline graph": {"protocol": "pipeline", "cuda_graph": "on"},
    "gpu": {"protocol": "gpu", "cuda_graph": "on", "transfers": False, "spin_wait": True},
    "serve graph": {"protocol": "serve", "cuda_graph": "on"},
    "serve graph spin": {"protocol": "serve", "cuda_graph": "on", "spin_wait": True},
    "pipeline": {"protocol": "pipeline"},
    "serve": {"protocol": "serve"},
}
PROTOCOLS = {
    "no transfers": {"protocol": "serve", "cuda_graph": "on", "transfers": False},
    "gap 2 ms": {"protocol": "serve", "cuda_graph": "on", "gap_s": 2e-3},
    "streams 2": {"protocol": "pipeline", "streams": 2, "cuda_graph": "on"},
    "streams 4": {"protocol": "pipeline", "streams": 4, "cuda_graph": "on"},
    "server 500/s": {"protocol": "server", "rate_hz": 500.0, "cuda_graph": "on"},
    "server overload": {"protocol": "server", "rate_hz": 20000.0, "cuda_graph": "on"},
    "first": {"protocol": "first"},
}
TORCH = {
    "eager fp32": {},
    "eager tf32": {"precision": "tf32"},
    "autocast fp16": {"precision": "fp16"},
    "eager half": {"options": {"half": "on"}},
    "half graph": {"options": {"half": "on"}, "cuda_graph": "on"},
    "compiled half": {"options": {"half": "on", "compile": "reduce-overhead"}},
}


class Bench:
    """What one call of this script does, and how much time it has left."""

    def __init__(self, flags: argparse.Namespace) -> None:
        self.flags = flags
        self.work, self.out = Path(flags.work).resolve(), Path(flags.out).resolve()
        for folder in (self.work, self.out):
            folder.mkdir(parents=True, exist_ok=True)
        self.deadline = time.monotonic() + flags.budget
        self.results: list[dict[str, object]] = []

    def left(self) -> float:
        return self.deadline - time.monotonic()

    def keep(self, part: str, name: str, **numbers: object) -> None:
        self.results.append({"part": part, "name": name, **numbers})
        text = json.dumps({"host": host(), "results": self.results}, indent=1, default=str)
        (self.out / "results.json").write_text(text + "\n")

    def child(self, python: str, *arguments: str, limit: float) -> subprocess.CompletedProcess[str]:
        """Run an interpreter with trtbench lent to it; ended when its time or ours is over."""
        path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH", "")]))
        try:
            return subprocess.run(
                [python, *arguments],
                env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
                capture_output=True,
                text=True,
                timeout=max(5.0, min(limit, self.left())),
                check=False,
            )
        except subprocess.TimeoutExpired as ended:
            return subprocess.CompletedProcess(ended.cmd, 124, "", "timed out")

    def worker(self, python: str, job: dict[str, object], name: str, *, limit: float) -> dict:
        """Do a job of trtbench in a fresh process; gives its outcome, medians, or its error."""
        folder = self.out / "jobs" / name.replace(" ", "_").replace("/", "_")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "job.json").write_text(json.dumps(job))
        began = time.monotonic()
        ended = self.child(
            python, "-m", "trtbench.worker", str(folder / "job.json"), str(folder), limit=limit
        )
        (folder / "log.txt").write_text(ended.stdout + ended.stderr)
        told: dict = {"seconds": round(time.monotonic() - began, 2), "status": ended.returncode}
        for file in ("outcome.json", "error.json"):
            if (folder / file).is_file():
                told[file.split(".")[0]] = json.loads((folder / file).read_text())
        if "outcome" not in told and "error" not in told:
            told["error"] = {"message": (ended.stderr.strip().splitlines() or ["no word"])[-1]}
        if (folder / "samples.npz").is_file():
            told["ms"] = self.medians(python, folder / "samples.npz")
        return told

    def medians(self, python: str, samples: Path) -> dict[str, float]:
        code = (
            "import json,sys,numpy as np\n"
            "with np.load(sys.argv[1]) as a:\n"
            " print(json.dumps({n: float(np.median(a[n]))*1e3 for n in a.files}"
            " | {'n': float(len(a[a.files[0]]))}))"
        )
        return json.loads(self.child(python, "-c", code, str(samples), limit=60).stdout or "{}")

    def spec(self, engine: str, /, **changes: object) -> dict[str, object]:
        path = str(self.work / f"{engine}.engine")
        return {
            "model": {"path": path, "format": "engine"},
            "runtime": "tensorrt",
            "batch": 1,
            "warmup": {"floor": {"seconds": 1.0}, "cap_s": 5.0},
            "stop": {"seconds": self.flags.seconds, "iterations": 100},
            **changes,
        }


def host() -> dict[str, str]:
    query = ["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm", "--format=csv,noheader"]
    try:
        gpu = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        gpu = "unknown"
    return {"gpu": gpu, "machine": os.uname().machine, "kernel": os.uname().release}


EXPORT = """
import sys, torch, torchvision
torch.manual_seed(0)
name, target = sys.argv[1:]
model = torchvision.models.get_model(name, weights=None).eval()
torch.onnx.export(model, torch.rand(1, 3, 224, 224), target, dynamo=False, opset_version=17,
                  input_names=["input"], output_names=["output"])
"""

BUILD = """
import sys, tensorrt as trt
source, target = sys.argv[1:]
logger = trt.Logger(trt.Logger.WARNING)
builder = trt.Builder(logger)
flags = 1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)
network = builder.create_network(flags)
parser = trt.OnnxParser(network, logger)
assert parser.parse(open(source, "rb").read()), [str(parser.get_error(i))
    for i in range(parser.num_errors)]
config = builder.create_builder_config()
config.set_flag(trt.BuilderFlag.FP16)
config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
plan = builder.build_serialized_network(network, config)
assert plan is not None
open(target, "wb").write(plan)
"""


def export(bench: Bench) -> None:
    for model in bench.flags.models:
        target = bench.work / f"{model}.onnx"
        if target.is_file() or bench.left() < 30:
            continue
        began = time.monotonic()
        ended = bench.child(bench.flags.torch_python, "-c", EXPORT, model, str(target), limit=120)
        say(f"export {model}: {time.monotonic() - began:.1f} s, status {ended.returncode}")
        bench.keep("export", model, status=ended.returncode, log=ended.stderr[-500:])


def build(bench: Bench) -> None:
    """Build with trtbench; with the bare API where that fails, so that the rest can go on."""
    for model in bench.flags.models:
        source, target = bench.work / f"{model}.onnx", bench.work / f"{model}.engine"
        if target.is_file() or not source.is_file() or bench.left() < 150:
            continue
        spec = {
            "model": {"path": str(source), "format": "onnx"},
            "output": "built.engine",
            "runtime": "tensorrt",
            "precision": "fp16",
        }
        job = {"job": "build", "spec": spec}
        began = time.monotonic()
        told = bench.worker(bench.flags.trt_python, job, f"build {model}", limit=280)
        built = next((bench.out / "jobs" / f"build_{model}").glob("**/*.engine"), None)
        how = "trtbench"
        if built is not None and "error" not in told:
            shutil.copy(built, target)
            built.unlink()
        else:
            say(f"  trtbench build: {told.get('error', {}).get('message')}")
            how = "bare API"
            bench.child(bench.flags.trt_python, "-c", BUILD, str(source), str(target), limit=280)
        took = time.monotonic() - began
        say(f"build {model} ({how}): {took:.0f} s, {'ok' if target.is_file() else 'FAILED'}")
        bench.keep("build", model, seconds=took, how=how, error=told.get("error"))


def measured(bench: Bench, part: str, name: str, spec: dict[str, object], python: str) -> dict:
    told = bench.worker(python, {"job": "bench", "spec": spec}, f"{part} {name}", limit=150)
    outcome = told.get("outcome", {})
    facts = outcome.get("facts", {})
    numbers = {
        "ms": told.get("ms", {}),
        "wall_s": facts.get("wall_s"),
        "first_s": facts.get("first_s"),
        "load_s": facts.get("load_s"),
        "steady": facts.get("steady"),
        "evidence": outcome.get("evidence"),
        "conditions": outcome.get("conditions"),
        "versions": outcome.get("versions"),
        "error": told.get("error"),
    }
    bench.keep(part, name, **numbers)
    if told.get("error"):
        say(f"  {name}: {told['error']['message']} {told['error'].get('facts', '')}")
    return numbers


def rate(numbers: dict) -> float:
    wall, count = numbers.get("wall_s"), numbers["ms"].get("n")
    return count / wall if wall and count else float("nan")


def row(name: str, numbers: dict) -> str:
    ms = numbers["ms"]
    columns = ("gpu", "latency", "host", "enqueue", "h2d", "d2h")
    cells = " ".join(f"{ms[c]:9.4f}" if c in ms else "        –" for c in columns)
    return f"  {name:28s} {cells} {rate(numbers):9.1f}/s"


def header(title: str) -> None:
    columns = ("gpu", "latency", "host", "enqueue", "h2d", "d2h")
    say(f"\n{title:30s} " + " ".join(f"{c:>9s}" for c in columns) + "  (medians, ms)")


def agree(bench: Bench) -> None:
    for model in engines(bench):
        header(model)
        if model in KNOWN_MS:
            say(f"  trtexec, H200, 8.6.0 graph     {KNOWN_MS[model][0]:.4f} – {KNOWN_MS[model][1]}")
        if bench.flags.trtexec:
            trtexec(bench, model)
        for name, changes in AGREE.items():
            for number in range(bench.flags.repeat):
                if bench.left() < 20:
                    return say("  out of time")
                spec = bench.spec(model, **changes)
                label = f"{name} #{number}"
                found = measured(bench, "agree", f"{model} {label}", spec, bench.flags.trt_python)
                if found["ms"]:
                    say(row(label, found))
    return None


def trtexec(bench: Bench, model: str) -> None:
    """Run NVIDIA's own program beside, where there is one."""
    for graph in ("--useCudaGraph", None):
        target = bench.out / f"trtexec_{model}.json"
        command = [
            bench.flags.trtexec,
            f"--loadEngine={bench.work / f'{model}.engine'}",
            f"--exportTimes={target}",
            "--warmUp=1000",
            *([graph] if graph else []),
        ]
        subprocess.run(command, capture_output=True, timeout=60, check=False)
        if not target.is_file():
            continue
        rows = json.loads(target.read_text())
        ms = {
            ours: sorted(each[theirs] for each in rows)[len(rows) // 2]
            for ours, theirs in (("gpu", "computeMs"), ("latency", "latencyMs"), ("h2d", "h2dMs"))
        }
        name = f"trtexec {graph or 'no graph'}"
        say(row(name, {"ms": ms}))
        bench.keep("agree", f"{model} {name}", ms=ms)


def protocols(bench: Bench) -> None:
    for model in engines(bench)[:1]:
        header(f"{model}, other protocols")
        for name, changes in PROTOCOLS.items():
            if bench.left() < 20:
                return
            spec = bench.spec(model, **changes)
            found = measured(bench, "protocols", f"{model} {name}", spec, bench.flags.trt_python)
            if found["ms"]:
                say(row(name, found))
                load = {
                    k: v for k, v in (found["evidence"] or {}).items() if "hz" in k or "_s" in k
                }
                say(f"    {load} first {found['first_s']} load {found['load_s']}")


def profile(bench: Bench) -> None:
    for model in engines(bench)[:2]:
        if bench.left() < 20:
            return
        spec = bench.spec(model, profile=True, cuda_graph="on", protocol="pipeline")
        told = bench.worker(
            bench.flags.trt_python, {"job": "bench", "spec": spec}, f"profile {model}", limit=150
        )
        outcome = told.get("outcome", {})
        layers = (outcome.get("layers") or {}).get("layers", [])
        total = sum(each["median_s"] for each in layers) * 1e3
        graph = bench.out / "jobs" / f"profile_{model}" / "graph.json"
        evidence = outcome.get("evidence", {})
        busy = (evidence.get("kernel_busy_s") or 0) * 1e3
        say(
            f"profile {model}: {len(layers)} layers by {evidence.get('layer_times')}, sum "
            f"{total:.4f} ms, kernels ran {busy:.4f}, GPU time {told.get('ms', {}).get('gpu')}, "
            f"graph.json {graph.is_file()}"
        )
        bench.keep("profile", model, layers=len(layers), sum_ms=total, error=told.get("error"))


def overhead(bench: Bench) -> None:
    child(bench, "overhead", engines(bench)[:2])


def second(bench: Bench) -> None:
    child(bench, "second", engines(bench)[:2])


def child(bench: Bench, part: str, models: list[str]) -> None:
    for model in models:
        if bench.left() < 30:
            return
        ended = bench.child(
            bench.flags.trt_python,
            str(Path(__file__).resolve()),
            "--child",
            part,
            str(bench.work / f"{model}.engine"),
            limit=120,
        )
        line = (ended.stdout.strip().splitlines() or ["{}"])[-1]
        say(f"{part} {model}: {line if ended.returncode == 0 else ended.stderr[-800:]}")
        bench.keep(part, model, told=line, status=ended.returncode)


def torch(bench: Bench) -> None:
    for model in bench.flags.models:
        header(f"{model}, PyTorch")
        for name, changes in TORCH.items():
            if bench.left() < (100 if "compiled" in name else 25):
                say("  out of time")
                return
            options = {"weights": "none", **changes.get("options", {})}
            spec = bench.spec(model, **{**changes, "options": options})
            spec |= {
                "model": {"path": f"torchvision:{model}", "format": "torch"},
                "runtime": "torch",
            }
            found = measured(bench, "torch", f"{model} {name}", spec, bench.flags.torch_python)
            if found["ms"]:
                say(row(name, found))


def errors(bench: Bench) -> None:
    """Produce what goes wrong, and show how it is told."""
    models = engines(bench)
    if not models:
        return
    engine = (bench.work / f"{models[0]}.engine").read_bytes()
    cut, other = bench.work / "cut.engine", bench.work / "other.engine"
    cut.write_bytes(engine[: len(engine) // 2])
    other.write_bytes(engine[:24] + bytes((11, 0, 0, 1)) + engine[28:])
    cases = {
        "cut": {"model": {"path": str(cut), "format": "engine"}},
        "other version": {"model": {"path": str(other), "format": "engine"}},
        "no such device": {"device": "cuda:7"},
        "wrong shape": {"shapes": {"input": [2, 3, 224, 224]}, "batch": None},
        "wrong profile": {"profile_index": 3},
    }
    for name, changes in cases.items():
        if bench.left() < 20:
            return
        spec = bench.spec(models[0], **changes)
        told = bench.worker(
            bench.flags.trt_python, {"job": "bench", "spec": spec}, f"errors {name}", limit=90
        )
        error = told.get("error", {"message": "NO ERROR"})
        say(f"{name}: {error.get('message')} {error.get('facts', {})} fix: {error.get('fix')}")
        bench.keep("errors", name, error=error, status=told["status"])
    no_memory(bench, models[0])


HOG = """
import sys, time
from contextlib import closing
from trtbench.host.cuda import open_cuda
with closing(open_cuda()) as cuda:
    cuda.malloc(cuda.memory()[0] - (int(sys.argv[1]) << 20))
    print("ready", flush=True)
    time.sleep(60)
"""


def no_memory(bench: Bench, model: str) -> None:
    """Leave an engine next to no memory: another process holds the rest."""
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH", "")]))
    for megabytes in ("900", "520"):
        hog = subprocess.Popen(
            [bench.flags.trt_python, "-c", HOG, megabytes],
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            hog.stdout.readline()
            job = {"job": "bench", "spec": bench.spec(model, batch=1)}
            told = bench.worker(bench.flags.trt_python, job, f"errors memory {megabytes}", limit=60)
        finally:
            hog.kill()
            hog.wait()
        error = told.get("error", {"message": "NO ERROR: it fitted"})
        say(f"{megabytes} MiB left: {error.get('message')} {error.get('facts', {})}")
        bench.keep("errors", f"memory {megabytes}", error=error, status=told["status"])


LOOK = """
import json, sys, time
from trtbench.host.nvml import opened
from trtbench.host.telemetry import NvmlSource, growth, locked_clocks
with opened(0) as device:
    source = NvmlSource(device)
    before = source.counters(energy=True)
    clock, costs, samples = time.perf_counter, [], []
    until = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < until:
        began = clock()
        samples.append(source.sample(time.monotonic()))
        costs.append(clock() - began)
        time.sleep(0.1)
    grown = growth(before, source.counters(energy=True))
    with locked_clocks(0, "base") as lock:
        locked = {"locked": lock.locked, "mhz": lock.clock_mhz, "note": lock.note}
    last = {name: getattr(samples[-1], name) for name in samples[-1].__struct_fields__}
    print(json.dumps({"samples": len(samples), "look_ms": 1e3 * sorted(costs)[len(costs) // 2],
        "max_gpu_util": max(s.gpu_util or 0 for s in samples),
        "clock_mhz": sorted({(s.sm_clock_hz or 0) / 1e6 for s in samples}),
        "limits_s": grown.limits_s, "energy_j": grown.energy_j, "seconds": grown.at_s,
        "energy_period_s": source.energy_period_s(), "lock": locked, "last": last}))
"""


def telemetry(bench: Bench) -> None:
    """Look at the GPU from one process while an engine runs in another."""
    models = engines(bench)
    if not models or bench.left() < 40:
        return
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH", "")]))
    looking = subprocess.Popen(
        [bench.flags.trt_python, "-c", LOOK, "12"],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    spec = bench.spec(models[0], protocol="gpu", cuda_graph="on", transfers=False)
    spec["stop"] = {"seconds": 6.0}
    found = measured(bench, "telemetry", f"{models[0]} looked at", spec, bench.flags.trt_python)
    told, problem = looking.communicate(timeout=60)
    say(row("looked at", found) if found["ms"] else "  no times")
    say(told.strip() or problem[-800:])
    bench.keep("telemetry", models[0], told=told.strip(), error=problem[-800:])


def engines(bench: Bench) -> list[str]:
    return [m for m in bench.flags.models if (bench.work / f"{m}.engine").is_file()]


def say(text: str) -> None:
    print(text, flush=True)


def in_child(part: str, engine: str, *, queries: int) -> None:
    """What has to happen inside one process that has TensorRT."""
    found = _overhead(engine, queries=queries) if part == "overhead" else _second(engine)
    print(json.dumps(found), flush=True)
    os._exit(0)  # as workers do: TensorRT's objects are not taken apart


def _prepared(engine: str, **changes: object):
    import msgspec

    from trtbench.core.spec import RunSpec
    from trtbench.runtimes import tensorrt
    from trtbench.runtimes._loop import prepare

    fields = {"model": {"path": engine, "format": "engine"}, "runtime": "tensorrt", "batch": 1}
    spec = msgspec.convert({**fields, **changes}, RunSpec)
    return prepare(tensorrt.open_session, spec)


def _timed(prepared, seconds: float = 2.0) -> dict[str, float]:
    import numpy as np

    from trtbench.core.spec import Length, Warmup
    from trtbench.runtimes._loop import measure, warm_up

    warm_up(prepared.step, Warmup(floor=Length(seconds=1.0), cap_s=4.0))
    times, _ = measure(prepared.step, Length(seconds=seconds), spans=prepared.session.spans)
    return {name: float(np.median(c)) * 1e6 for name, c in times.durations().items()}


def _overhead(engine: str, *, queries: int) -> dict[str, object]:
    """The enqueue that a run shows, against the bare call with nothing around it.

    Both take turns, one query each, so that a wandering of the driver meets both alike. What the
    way from Python into C++ costs is shown by a call that does next to nothing there.
    """
    import numpy as np

    from trtbench.core.spec import Length, Warmup
    from trtbench.host.tensorrt import keep_until_exit
    from trtbench.runtimes._loop import warm_up

    clock = time.perf_counter_ns
    found: dict[str, object] = {}
    for label, graph in (("plain", "off"), ("graph", "on")):
        prepared = _prepared(engine, cuda_graph=graph, spin_wait=True)
        session, step, spans = prepared.session, prepared.step, prepared.session.spans
        unit = session._units[0]
        copies = [session._copies(unit, unit.stream, out=out) for out in (False, True)]
        cuda, enqueue = session._cuda, unit.enqueue()
        if graph == "on":
            launch = dict(zip(enqueue.__code__.co_freevars, enqueue.__closure__, strict=True))
            enqueue = launch["function"].cell_contents
        warm_up(step, Warmup(floor=Length(iterations=queries // 4), cap_s=4.0))
        spans.clear()
        bare = []
        for _ in range(queries):
            step()
            spans.take()
            for copy in copies[0]:
                copy()
            before = clock()
            enqueue()
            after = clock()
            for copy in copies[1]:
                copy()
            cuda.synchronize(unit.stream)
            bare.append(after - before)
        ours = {name: float(np.median(c)) * 1e6 for name, c in spans.columns().items()}
        found[label] = {
            "ours_us": round(ours["enqueue"], 2),
            "bare_us": round(float(np.median(bare)) / 1e3, 2),
            "gpu_us": round(ours["gpu"], 2),
            "into_c_us": round(_into_c_us(session.engine.engine), 3),
        }
        keep_until_exit(prepared, step, enqueue)  # contexts must not outlive their streams
    return found


def _into_c_us(engine) -> float:
    """Microseconds from Python into the library and back, by the call that does least there."""
    count, clock = 20000, time.perf_counter
    ask = engine.get_tensor_name
    began = clock()
    for _ in range(count):
        ask(0)
    return (clock() - began) / count * 1e6


def _second(engine: str) -> dict[str, object]:
    """The same engine, alone and as a second copy in the same process."""
    asked = {"protocol": "pipeline", "cuda_graph": "on"}
    first = _prepared(engine, **asked)
    alone = _timed(first)["gpu"]
    other = _prepared(engine, **asked)
    beside = _timed(other)["gpu"]
    again = _timed(first)["gpu"]
    return {
        "alone_us": round(alone, 2),
        "second_us": round(beside, 2),
        "first_again_us": round(again, 2),
        "second_over_alone": round(beside / alone, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trt-python", default=sys.executable)
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--trtexec", help="NVIDIA's trtexec, to be run beside")
    parser.add_argument("--work", default="gpu-work", help="models and engines, kept")
    parser.add_argument("--out", default="gpu-out", help="results.json and the folders of the jobs")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--repeat", type=int, default=2, help="fresh processes per number")
    parser.add_argument("--seconds", type=float, default=2.0, help="measured time per process")
    parser.add_argument("--budget", type=float, default=500.0, help="seconds in all")
    parser.add_argument("--queries", type=int, default=4000, help="of the loop and bare, in turn")
    parser.add_argument("--child", nargs=2, metavar=("PART", "ENGINE"), help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.child:
        in_child(*flags.child, queries=flags.queries)
        return
    flags.models = flags.models.split(",")
    wanted = flags.parts.split(",")
    unknown = sorted(set(wanted) - set(PARTS))
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)} (there are {', '.join(PARTS)})")
    bench = Bench(flags)
    say(str(host()))
    for part in PARTS:
        if part in wanted and bench.left() > 10:
            say(f"\n== {part} ({bench.left():.0f} s left)")
            globals()[part](bench)
    say(f"\n{bench.left():.0f} s left; results in {bench.out / 'results.json'}")


if __name__ == "__main__":
    main()
