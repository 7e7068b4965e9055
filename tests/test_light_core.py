"""What needs no extra works without any, and what needs one says which."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from models import tiny_model
from trtbench.core.errors import UnavailableError
from trtbench.core.plugins import EXTRAS, missing_package, optional_library
from trtbench.store.store import Store
from waiting import printed

ROOT = Path(__file__).resolve().parents[1]

HIDDEN = (
    "scipy", "onnx", "onnxruntime", "matplotlib", "PIL", "psutil",
    "pandas", "torch", "pyarrow", "fsspec", "psycopg", "ray",
)  # fmt: skip

BLOCK = f"""
import sys
class Hiding:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        hidden = name.partition(".")[0] in {HIDDEN!r}
        return None if hidden else self.finder.find_spec(name, path, target)
sys.meta_path[:] = [Hiding(each) for each in sys.meta_path]
"""

SUMMARY = """=== Performance summary ===
Throughput: {rate} qps
Latency: min = 1 ms, max = 3 ms, mean = {mean} ms, median = {mean} ms, percentile(99%) = 2.5 ms
GPU Compute Time: min = 1 ms, max = 2 ms, mean = {mean} ms, median = {mean} ms
&&&& PASSED TensorRT.trtexec [TensorRT v8601] # trtexec --onnx=net.onnx
"""


@pytest.fixture
def light(tmp_path: Path) -> Path:
    """A folder in which Python sees the packages of the core alone."""
    (tmp_path / "light").mkdir()
    (tmp_path / "light" / "sitecustomize.py").write_text(BLOCK)
    return tmp_path


COMMANDS = """
import json, sys
from trtbench.cli import run
statuses = [run(words) for words in json.loads(sys.argv[1])]
assert not any(statuses[:-1]), statuses
sys.exit(statuses[-1])
"""


def trtbench(folder: Path, *commands: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run commands in one new process; its status is that of the last, if none failed before."""
    environment = {**os.environ, "PYTHONPATH": str(folder / "light"), "COLUMNS": "100",
                   "TRTBENCH_STORE": str(folder / "store")}  # fmt: skip
    return subprocess.run(
        [sys.executable, "-c", COMMANDS, json.dumps(commands)],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_what_the_page_on_laptops_promises_needs_no_extra(light: Path, made: Path) -> None:
    for name, mean in (("a", 1.5), ("b", 1.6)):
        (light / f"{name}.log").write_text(SUMMARY.format(mean=mean, rate=1000 / mean))
    assert trtbench(light, ("import", "a.log", "b.log")).returncode == 0
    first, second = (entry.id for entry in Store(light / "store").index.find())
    tiny_model(light / "model.onnx")
    whole = onnx.load(str(light / "model.onnx"))
    saved = {"save_as_external_data": True, "location": "w.bin", "size_threshold": 0}
    onnx.save(whole, str(light / "lacking.onnx"), **saved)
    (light / "w.bin").unlink()
    here = made / "trtexec-10.9.0"
    kinds = ("log", "times.json", "profile.json", "layerinfo.json")
    done = trtbench(
        light,
        ("runs",),
        ("runs", "show", "last"),
        ("import", *(str(here / f"loaded.{kind}") for kind in kinds), "-o", "imported"),
        ("report", "last", "-o", "out"),
        ("report", "last", "-o", "out", "--format", "csv,tex"),
        ("site", "-o", "site"),
        ("profile", str(here / "loaded.profile.json")),
        ("inspect", str(here / "net.engine")),
        ("inspect", "model.onnx"),
        ("inspect", "lacking.onnx"),
        ("compare", second, first),
        ("gate", first, "--metric", "latency.median<5ms"),
    )
    assert done.returncode == 0, done.stderr
    assert "MatMul" in done.stdout
    assert done.stdout.count("it cannot be loaded: the weights in w.bin are missing") == 1
    assert "pip install 'trtbench[onnx]'" in done.stdout
    for name in ("imported/report.md", "imported/per_layer_times.csv", "out/report.html"):
        text = (light / name).read_text()
        assert ".png" not in text
    assert "pip install &#39;trtbench[plots]&#39;" in text


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("report", "last", "--format", "md,png", "-o", "out"), "plots"),
        (("bench", "model.onnx"), "onnx"),
        (("compare", "model.onnx", "model.onnx"), "onnx"),
        (("check", "model.onnx", "model.onnx"), "onnx"),
    ],
)
def test_what_needs_an_extra_names_the_command_that_installs_it(
    words: tuple[str, ...], extra: str, light: Path
) -> None:
    (light / "a.log").write_text(SUMMARY.format(mean=1.5, rate=600))
    tiny_model(light / "model.onnx")
    done = trtbench(light, ("import", "a.log"), words)
    assert done.returncode == 4, done.stderr
    assert f"pip install 'trtbench[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_extras_of_the_code_are_those_of_the_package() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    block = text[text.index("[project.optional-dependencies]") : text.index("[project.scripts]")]
    declared = set(re.findall(r"^(\w+) = \[", block, flags=re.M))
    assert set(EXTRAS) <= declared
    assert missing_package(ModuleNotFoundError("x", name="nobody_has_this")) is None


def test_what_another_interpreter_lacks_is_installed_with_its_own_pip() -> None:
    code = "import trtbench.core.plugins as p; print(p.missing_package(ImportError(name='onnx')))"
    place = {"PYTHONPATH": str(ROOT / "src")}  # with --python, trtbench is not installed there
    shown = subprocess.run([sys.executable, "-S", "-c", code], env=place, capture_output=True)
    assert f"fix: {sys.executable} -m pip install onnx\n" in shown.stdout.decode()


def test_a_package_is_not_blamed_for_one_that_it_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s3fs.py").write_text("import nobody_has_this.either")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "s3fs", raising=False)
    with pytest.raises(UnavailableError, match="s3fs cannot be imported") as told:
        optional_library("s3fs")
    assert told.value.fix == "pip install nobody_has_this"
    assert "nobody_has_this" in str(told.value.facts["reason"])


def test_no_module_of_the_core_imports_an_extra_at_its_top() -> None:
    """Renderers that draw may: they are imported when they are asked for."""
    hidden = {*HIDDEN, "tensorrt", "tensorrt_rtx", "cuda"}
    for path in sorted((ROOT / "src" / "trtbench").rglob("*.py")):
        if path.parent.name == "renderers":
            continue
        for node in ast.parse(path.read_text()).body:
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            heavy = {name.partition(".")[0] for name in names} & hidden
            assert not heavy, f"{path.name} imports {heavy}"


@pytest.mark.real("minutes")
def test_the_wheel_works_in_a_clean_environment() -> None:
    program = [sys.executable, str(ROOT / "tools" / "release_check.py")]
    words = ["--no-demo", "--python", sys.executable]
    printed([*program, *words])


@pytest.mark.parametrize("kept", [True, False])
def test_bytecode_is_kept_aside_where_python_keeps_none(tmp_path: Path, kept: bool) -> None:
    cache, own = tmp_path / "cache", {"PYTHONDONTWRITEBYTECODE": "1"}
    tiny_model(tmp_path / "model.onnx")
    if not kept:
        cache.write_text("a file where the folder would be")
    quick = ("--iterations", "5", "--warmup", "0s", "--no-until-steady", "--store", "store")
    done = subprocess.run(
        [sys.executable, "-m", "trtbench", "bench", "model.onnx", *quick],
        cwd=tmp_path, env={**os.environ, **own, "TRTBENCH_CACHE": str(cache)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = {path.name.partition(".")[0] for path in (cache / "bytecode").rglob("*.pyc")}
    assert ({"cli", "worker", "onnxruntime"} <= found) == kept
