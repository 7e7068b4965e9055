"""The pages do what they say: commands run, outputs are those of a run, links lead somewhere."""

import importlib.util
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from waiting import printed

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FEW = "batch=8, launches=2, max_launches=2, pairs=12"
HOW_TO = sorted((DOCS / "howto").glob("*.md"))


def tool(name: str) -> ModuleType:
    """Import a program from tools/."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


run_docs = tool("run_docs")


def test_every_page_of_a_folder_is_in_its_index() -> None:
    """The site lists them by itself; the index says what each is for."""
    for folder in (DOCS / "howto", DOCS / "coming-from"):
        index = (folder / "index.md").read_text()
        for page in folder.glob("*.md"):
            assert page.name == "index.md" or f"({page.name})" in index, page.name


def test_what_the_tool_for_gpus_imports_exists() -> None:
    text = (ROOT / "tools" / "gpu_agreement.py").read_text()  # also in scripts for other processes
    for line in re.findall(r"^ *(from trtbench\S* import .+)$", text, re.MULTILINE):
        exec(line, {})


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("tensorrt_rtx")
def test_the_tutorial_runs_and_prints_what_it_shows(torch_python: str, tmp_path: Path) -> None:
    (tmp_path / "torch-env").symlink_to(Path(torch_python).parents[1])
    page = (DOCS / "tutorial.md").read_text()
    ran = run_docs.run_page(page, tmp_path)
    assert run_docs.differences(ran) == []


@pytest.mark.real("minutes")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)
def test_the_commands_of_how_to_pages_run(
    page: Path, folder: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    here = tmp_path / "here"
    shutil.copytree(folder, here, symlinks=True)
    names = ("PATH", "PYTHONPATH", "STANDIN_VERSION")
    run_docs.run_page(page.read_text(), here, env={name: environment[name] for name in names})


def test_the_python_of_the_readme_runs(folder: Path, environment: dict[str, str]) -> None:
    page = (ROOT / "README.md").read_text()
    (code,) = (each["text"] for each in run_docs.FENCE.finditer(page) if each["kind"] == "python")
    for long, short in (("launches=5", "launches=2"), ("int8, batch=8", f"int8, {FEW}")):
        assert long in code
        code = code.replace(long, short)
    program = [sys.executable, "-c", code]
    printed(program, cwd=folder, env={**environment, "TRTBENCH_TEST_STARTS": "few"})
    package = (ROOT / "pyproject.toml").read_text()
    assert 'all = ["trtbench[onnx,plots,tasks,pandas]"]' in package, "make demo installs these"
    assert (folder / "report" / "report.html").is_file()


@pytest.mark.timeout(900)
def test_the_notebook_runs_and_gives_what_it_shows(docs_python: str) -> None:
    program = [docs_python, str(ROOT / "tools" / "run_docs.py"), str(DOCS / "notebook.ipynb")]
    printed(program)


PAGES = sorted((ROOT / "docs" / "coming-from").glob("*.md"))


def rows(page: Path) -> list[list[str]]:
    """Read the cells of the tables of a page that have a command of ours."""
    lines = [line for line in page.read_text().splitlines() if line.startswith("| ")]
    found = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
    return [row for row in found if len(row) > 1 and row[1].startswith("`trtbench ")]


NAMED = [page for page in PAGES if page.name != "index.md"]


# fmt: off
CLAIMS = {
    "-1 3 224 224` | `trtbench build": ("--optShapes=image:128x1x32x32", "--maxShapes=image:256x"),
    "Latency-all": ("Top-1", "Top-5", "Latency-all", "Latency-model", "Size", "Parameters"),
    "`Close` is that share": ("Close",),
    "MAE and Disg": ('"mae"', '"disagree"', '"rank"'),
    "--histograma": ("report/latency_hist.png",), "(LaTeX)": ("report-latex/report.tex",),
    "layers and parameters": ("nodes", "parameters"), "batches, precisions": ("batch 1", "batch 8"),
    "abs_rel, sq_rel": ("abs_rel", "sq_rel", "rmse", "d1", "d3", "silog", "log10"),
    "resized by OpenCV": ("interpolation cv2-bicubic",),
    "MAE, RMSE, largest": ("mae", "rmse", "max"),
    "(figures)": ("benchmark_results/latency_hist.png", "benchmark_results/speed_benchmark.png"),
    "`*.graph.json`": tuple(f"results-here/{n}.json" for n in ("graph", "profile", "times")),
    "build.metadata.json`,": ("new.engine.build.metadata.json", "Memory Pools", "Precision"),
    "| power |": ("GPU",),
    "worst/*.npz": ("checked/worst/*.npz",), "--fp-to-fp16": ("half.onnx", "Close"),
    "M=1, M=2, M=5": ("3 cases", "M=1", "M=2", "M=5"),
    "best class is the same": ("Same best class",), "| `trex draw`": ("engine.svg",),
    "`plan.df`": (",",), "latency by precision": ("fp32", "fp16"),
    "ConvLinter": ("reformat", "Suspicious layers"), "--junit": ("layers.xml",),
    "--outdir artifacts/m": ("artifacts/m/summary.json", "artifacts/m/times.json"),
    "parse_trtexec_times": ("parsed/summary.json", "parsed/latency_series.csv"),
    "--topk 30": ("layers.csv",),
    "generate_report.py": ("report/report.html", "report/report.md", "report/report.json"),
    "--output-name": ("compared/pair.csv",), "exportTimes=": ("run/times.json",),
    "how do two differ": ("latency", "throughput"),
    "onnx_transform.py": ('"source": "torchvision:resnet18"', "-1"), "build_trt.py": ("--fp16",),
    "img_preprocess": ("inputs.npz", '"precision": "int8"'),
    "--build_op_lvl 5": ("--builderOptimizationLevel=5",),
    "(on the data set)": ("16 items of inputs.npz",), "memory watch": ("per batch of 8",),
    "(speed)": ("2 000 samples, 2 launches",), "with an interval": ("99 %: ",),
    "(GPU utilisation)": ("cuda:0", "telemetry"),
    "throttle check": ("meaning", "evidence", "remedy"),
    "--gt truth.npy": ("Depth on a.png", "abs_rel"), "least-squares scaling": ("the best fit",),
    "all of it, in one command": ("depth · onnxruntime · fp32", "eval"),
    "export_trt_int8.py": ("entropy2", "photos"), "float16` (export)": ('"half": true',),
    "(build), `--timing-cache-path`": ("engine_cache", "--fp16", "--timingCacheFile="),
    "(profile) |": ("--warmUp=5000", "--iterations=100"),
    "--input-shape 1 3 224 224` |": ("--shapes=input:1x3x8x8",),
    "for several models": ("model · trtexec · fp16", "build"),
    "| 1000 random inputs from a seed": ("on 1000 random inputs, uniform, seed 0",),
    "--rtol 1e-3` | all elements": ("<= 0.001 + 0.001 |r|",),
    "--check-error-stat": ("PASS", "max_abs<=100"), "--val-range": ("from 0 to 1",),
    "mark all": ("loses most accuracy", "Restored"), "(NaN, Inf)": ("PASS", "nan==0 and inf==0"),
    "--calibration-cache`": ("scales.cache",), "inspect model model.onnx": ("GlobalAveragePool",),
    "without TensorRT |": ("8.6.1",), "inspect capability": ("parsed by", "TensorRT 8.5 and later"),
    "--warm-up 10": ("200 samples",),
    "--workspace 12 ": ("--fp16", "--memPoolSize=workspace:12288"),
    "group_sum_attr": ("Convolution", "Share"), "get_layers_by_type": ("1 of 5 layers",),
    "compare_engines_layer": ("/fc/Gemm", "origin"),
    "every statistic with its name": ("loaded.log + times, graph",),
    "images:1x3x8x8": ("--shapes=images:1x3x8x8",),
    "--trtexec PATH": ("/opt/tensorrt/bin/trtexec --loadEngine",),
    "bench_pt_yolo": ('"imgsz": "640"', '"channels": "1"', '"iterations": 2000', '"fp16"'),
    "--no_tf32": ('"precision": "fp32"',), "without running it": ("--useCudaGraph",),
    "trtbench's own loop": ("protocol pipeline", "CUDA graph"),
}
# fmt: on
"""What a row with these words says: files, flags for trtexec, or words that its command prints."""
PRINTED = {"build": "built by", "bench": "median", "profile": "Share", "check": "SQNR",
           "compare": "Verdict", "eval": "Latency-all", "import": "imported"}  # fmt: skip
"""What every command of a verb prints, if it does its work."""


def untrue(row: list[str], page: str, folder: Path, environment: dict[str, str]) -> str | None:
    """Run the command of a row; gives what is not as the row says."""

    def shell(words: str) -> subprocess.CompletedProcess[str]:
        program = ["bash", "-c", words]
        return subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True)

    command, line = row[1].strip("`"), f"| {' | '.join(row)} |"
    began, done, verb = time.time(), shell(command), command.split()[1]
    if done.returncode or "incomparable" in done.stdout:
        return f"{command}\n{done.stdout[-500:]}{done.stderr}"
    failing = command.replace("<=100", "<=0").replace(">=1'", ">=999'")
    if "status 3" in line and command != failing and shell(failing).returncode != 3:
        return f"{failing}: not status 3"
    seen = done.stdout + done.stderr
    claims = [each for words, own in CLAIMS.items() if words in line for each in own]
    first = f"{row[0]}``".split("`")[1].replace("--dumpLayer", "--exportLayer")  # without others
    value = r"(?:=[\w:,+]+(?![\w.:,+/]))?"
    if "-r trtexec" in command and verb in ("bench", "build", "profile"):
        own = rf"--\w+{value}" if page == "trtexec" else rf"--[a-z]+[A-Z]\w+{value}"
        claims += re.findall(own, first) + command.partition(" -- ")[2].split()
        plan = re.sub(r"( --dry-run)?( -- .*)?$", r" --dry-run\2", command, count=1)
        seen += shell(plan).stdout if any(each[:2] == "--" for each in claims) else ""
    wanted = "" if re.search("--(dry-run|csv|by|draw) ?", command) else PRINTED.get(verb, "")
    written = re.findall(r" -o (\S+)", command) if "--dry-run" not in command else []
    if written and verb == "build":
        written += [written[0] + end for end in (".json", ".build.log", ".graph.json")]
    lacking = [
        each
        for each in [*claims, wanted]
        if each not in seen and not [*folder.glob(each)] and each != "--disableProfile"
    ]
    for each in written:
        paths = [folder / each, *(folder / each).rglob("*")]
        if not any(path.is_file() and path.stat().st_mtime >= began - 1 for path in paths):
            lacking.append(f"a new {each}")
    return f"{command}: without {', '.join(lacking)}" if lacking else None


@pytest.mark.real("minutes")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", NAMED, ids=lambda page: page.stem)
def test_every_row_of_a_page_does_what_it_says(
    page: Path, folder: Path, environment: dict[str, str]
) -> None:
    assert rows(page)
    found = [untrue(row, page.stem, folder, environment) for row in rows(page)]
    assert not any(found), "\n".join(filter(None, found))


def test_every_claim_is_of_a_row() -> None:
    lines = "".join(page.read_text() for page in NAMED)
    assert [words for words in CLAIMS if words not in lines] == []
