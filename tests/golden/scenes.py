"""The commands whose doings are kept, in the order in which a scene runs them."""

import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import leftovers
from golden import ROOT, Case
from gpu_standin import plan_bytes
from made_artefacts import install_trtexec, make_artefacts

DEMO = ROOT / "src" / "trtbench" / "data" / "demo"
SHORT = "--warmup 5ms --iterations 20 --no-until-steady"
TURNS = "--launches 2 --max-launches 2 --pairs 12"
FIVE = "--launches 5 --max-launches 5 --pairs 12"
EIGHT = "--random 8"
DRAWN = "--calibration random --items 8"
JUDGED = "--task classification --batch 32 --data digits.npz --limit 64"
UNSTEADY = "--axis until_steady=false"


def _demo(folder: Path) -> None:
    for each in ("digits.onnx", "digits.int8.onnx", "digits.npz"):
        shutil.copy(DEMO / each, folder)
    (folder / "gates.toml").write_text('[models."digits.onnx"]\nmedian = "<10s"\n')
    leftovers.run_set(folder / "set")


def _trtexec(folder: Path) -> None:
    install_trtexec(folder / "bin")
    shutil.copy(DEMO / "digits.onnx", folder / "net.onnx")


def _gpu(folder: Path) -> None:
    (folder / "a.engine").write_bytes(plan_bytes())
    (folder / "b.engine").write_bytes(plan_bytes() + b"gpu_s=2e-3;")


def _files(folder: Path) -> None:
    leftovers.run_set(folder / "set")
    leftovers.run_set(folder / "other", seed=1, version="100300", flags="--useCudaGraph")
    log = folder / "other" / "net.log"  # a day later, so that it comes after the first
    log.write_text(log.read_text().replace("03/04/2025", "03/05/2025"))
    make_artefacts(folder / "made")
    shutil.copy(DEMO / "digits.onnx", folder)


def cases(text: str, **options: Any) -> list[Case]:
    """A case for each line, ``name: words``; words are split as a shell does it."""
    made = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _, words = line.partition(": ")
        made.append(Case(name=name, words=tuple(shlex.split(words)), **options))
    return made


EXACT = """
help: --help
version: --version
no-such-verb: benhc
no-such-flag: bench digits.onnx --bacth 2
no-such-model: bench nope.onnx
no-such-run: runs show nope
no-such-rule: gate digits.onnx --metric 'median<'
two-baselines: gate digits.onnx --baseline best --against digits.onnx --max-slowdown 3%
bench-dry-run: bench digits.onnx --batch 2 --dry-run
sweep-dry-run: sweep digits.onnx --batch 1,2 --precision fp32,int8 --dry-run
sweep-nothing: sweep
export-dry-run: export torchvision:resnet18 --weights none --for tensorrt-8.6 --dry-run
quantize-nothing: quantize nope.onnx --precision fp16
upgrade-nothing: compare --builds 5 --python nope/python --python nope/python digits.onnx
export-runs-nothing: runs export --to csv -o out
demo-nothing: demo --report
trust: doctor --trusted
runs-empty: runs
import-dry-run: import set --dry-run
import: import set --tag one
import-again: import set
import-other-json: import other --json
runs: runs
runs-json: runs --json
runs-failed: runs --failed
runs-show: runs show tag:one
runs-show-json: runs show tag:one --json
runs-path: runs path tag:one
runs-tag: runs tag tag:one two
runs-series: runs series tag:one -o series
runs-reindex: runs reindex
layers: profile tag:one
layers-json: profile made/trtexec-10.9.0/loaded.profile.json --json
layers-by: profile made/trtexec-10.9.0/loaded.profile.json --by kind
layers-csv: profile made/trtexec-8.6.1/loaded.profile.json --csv
layers-files: profile made/trtexec-8.6.1/loaded.profile.json --all -o layers.csv --draw layers.svg
layers-expect: profile set/net.profile.json --expect 'count(gemm)>=9' --junit layers.xml
diff: diff made/trtexec-8.6.1/loaded.profile.json made/trtexec-10.9.0/loaded.profile.json
diff-json: diff set/net.profile.json made/trtexec-10.9.0/loaded.profile.json --json
why: diff --why made/trtexec-10.9.0/loaded.profile.json set/net.profile.json
why-json: diff --why made/trtexec-10.9.0/loaded.profile.json set/net.profile.json --json
explain: compare --why tag:one other/net.times.json,other/net.log
explain-json: compare --why tag:one other/net.times.json,other/net.log --json
inspect: inspect digits.onnx
inspect-layers: inspect digits.onnx --batch 4 --layers
inspect-json: inspect digits.onnx --json
inspect-csv: inspect digits.onnx --csv
inspect-engine: inspect made/failures/new.engine
inspect-plan: inspect made/small/net.plan
inspect-graph: inspect made/small/net10.graph.json
inspect-cache: inspect made/small/calibration.cache
inspect-times: inspect made/old/net8.5.times.json
history: history --least 1
history-json: history --least 1 --json
compare-stored: compare tag:one last
compare-stored-json: compare tag:one last --json
gate-stored: gate tag:one --metric 'median<10s' --metric 'count(gemm)>=1'
gate-stored-json: gate tag:one --metric 'median<1ns' --json
report: report tag:one last --format md,json,html,csv,tex
site: site
runs-rm: runs rm tag:one --yes
import-made: import made
import-made-json: import made --again --dry-run --json
import-one: import other/net.times.json other/net.log --again -o toolkit
import-nothing: import made/small/notes.md
"""

MEASURED = f"""
bench: bench digits.onnx --batch 2 {SHORT} --launches 2 --tag one
bench-json: bench digits.onnx {SHORT} --json
bench-server: bench digits.onnx {SHORT} --protocol server --rate 200/s --tag server
bench-kept: bench digits.onnx {SHORT} -o kept
compare: compare digits.onnx digits.int8.onnx {TURNS}
compare-json: compare digits.onnx digits.int8.onnx {TURNS} --json
check: check digits.onnx digits.int8.onnx --random 8
check-json: check digits.onnx digits.int8.onnx --random 8 --floor off --json
check-expect: check digits.onnx digits.int8.onnx --random 8 --floor off --expect 'max_abs<=1e-7'
gate: gate digits.onnx --metric 'median<10s' {SHORT} --launches 2
gate-fail-json: gate digits.onnx --metric 'median<1ns' {SHORT} --launches 2 --json
gate-file: gate gates.toml {SHORT} --launches 2
gate-against: gate digits.onnx --against digits.int8.onnx --max-slowdown 9900% {FIVE}
eval: eval digits.onnx digits.int8.onnx {JUDGED}
eval-json: eval digits.onnx {JUDGED} --json
quantize: quantize digits.onnx --precision fp16 -o half.onnx
quantize-json: quantize digits.onnx --precision int8 {DRAWN} --json -o digits.8bit.onnx
localize: localize digits.onnx digits.int8.onnx {EIGHT}
localize-json: localize digits.onnx digits.int8.onnx {EIGHT} --repair --where 'sqnr>=20dB' --json
sweep: sweep digits.onnx --batch 1,2 --duration 10ms --axis warmup=5ms {UNSTEADY} -o swept
sweep-resume-json: sweep --resume swept --format none --where 'median<10s' --json
runs-measured: runs show tag:one
explain-measured: compare --why tag:one tag:server
doctor-json: doctor --json
"""

ENGINES = """
build: build net.onnx --precision fp16 -o net.engine
build-json: build net.onnx --batch 4 -o four.engine --json
bench-trtexec: bench net.engine -r trtexec --duration 50ms --warmup 50ms --tag one
profile: profile net.engine --duration 50ms --warmup 50ms
profile-json: profile last --json
lottery: compare net.onnx --builds 2 --launches 1 --duration 50ms
"""

ON_GPU = f"""
gpu-bench: bench a.engine -r tensorrt {SHORT} --batch 4 --cuda-graph on --profile
gpu-compare: compare a.engine b.engine -r tensorrt {TURNS} --batch 4
"""


@dataclass(frozen=True)
class Scene:
    """A folder, commands that are run in it one after another, and variables they get."""

    make: Callable[[Path], None]
    cases: list[Case]
    settings: dict[str, str] = field(default_factory=dict)


DRY_BUILD = "build-dry-run: build net.onnx --precision fp16 -o net.engine --dry-run"
SCENES = {
    "reads": Scene(_files, cases(EXACT)),
    "measures": Scene(_demo, cases(MEASURED, measured=True)),
    "builds": Scene(
        _trtexec, [*cases(DRY_BUILD), *cases(ENGINES, measured=True)], {"STANDIN_VERSION": "10.9.0"}
    ),
    "gpu": Scene(
        _gpu, cases(ON_GPU, measured=True), {"PYTHONPATH": str(ROOT / "tests" / "standin_gpu")}
    ),
}
KEPT = {"flags", "api-names", "api-returns", "beside"}

RETURNS = """
import trtbench
quick = dict(iterations=20, warmup="5ms", until_steady=False)
turns = dict(launches=2, max_launches=2, pairs=12)

def show(name, value):
    many = isinstance(value, (list, tuple))
    first = value[0] if many and len(value) else value
    if hasattr(first, "columns") and hasattr(first, "iloc"):
        names = list(first.columns)
    else:
        names = [each for each in dir(first) if each[0] != "_"]
        if type(first).__module__ in ("builtins", "pathlib", "pathlib._local"):
            names = []
    called = type(first).__name__
    known = called in trtbench.__all__ or not names
    print(f"{name}:", "list of" * many, called.replace("Posix", "") * known)
    for begin in range(0, len(names), 8):
        print("   ", *names[begin:begin + 8])

run = trtbench.bench("digits.onnx", tags=["one"], **quick)
show("bench", run)
show("summary", trtbench.summary(run))
show("runs", trtbench.runs())
show("load", trtbench.load("last"))
show("compare", trtbench.compare("digits.onnx", "digits.int8.onnx", **turns))
show("check", trtbench.check("digits.onnx", "digits.int8.onnx", random=8))
show("gate", trtbench.gate("digits.onnx", metrics=["median<10s"], launches=2, **quick))
show("sweep", trtbench.sweep("digits.onnx", batch=[1], duration="10ms", output="swept",
                             axis={"warmup": ["5ms"], "until_steady": [False]}))
show("evaluate", trtbench.evaluate("digits.onnx", task="classification", data="digits.npz",
                                   batch=32, limit=64))
show("quantize", trtbench.quantize("digits.onnx", precision="fp16", output="half.onnx"))
show("import_runs", trtbench.import_runs("set", tags=["two"]))
show("layers", trtbench.layers("tag:two"))
show("diff", trtbench.diff("tag:two", "set/net.profile.json"))
show("why", trtbench.why("tag:two", "set/net.profile.json"))
show("explain", trtbench.explain("tag:one", against="tag:two"))
show("inspect", trtbench.inspect("digits.onnx"))
show("history", trtbench.history(least=1))
show("report", trtbench.report("tag:two", format="md"))
show("site", trtbench.site())
show("doctor", trtbench.doctor())
"""
