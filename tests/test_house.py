"""The rules of the house that matter are tests: arrows, public names, what an import costs."""

import ast
import json
import re
import sys
from collections import Counter
from fnmatch import fnmatch
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

import trtbench
from waiting import printed

ROOT = Path(__file__).resolve().parents[1]

HEAVY = {
    "numpy", "scipy", "matplotlib", "onnx", "onnxruntime", "torch", "tensorrt", "sqlalchemy",
    "pynvml", "rich", "msgspec", "jinja2", "pandas",
}  # fmt: skip


def modules_after(code: str) -> set[str]:
    """Top-level packages loaded by a fresh interpreter that ran the code."""
    script = f"{code}\nimport sys, json\nsys.__stdout__.write(json.dumps(sorted(sys.modules)))"
    names = json.loads(printed([sys.executable, "-c", script]).splitlines()[-1])
    return {name.partition(".")[0] for name in names}


VERBS = """
import io, sys; sys.stdout = io.StringIO()
from trtbench.cli import run, trtbench
for verb in ([], *([each] for each in trtbench.list_commands(None))):
    assert run([*verb, '--help']) == 0
"""
LATER = {"sqlalchemy", "asyncio", "ssl", "rich", "onnx", "onnxruntime", "pynvml"}


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import trtbench", HEAVY),
        (VERBS, HEAVY),
        # what a comparison needs before it starts its workers
        ("import trtbench.verbs.compare, trtbench.compare.compare", LATER),
        ("from trtbench.runtimes import RUNTIMES; RUNTIMES.names()", {"onnxruntime"}),
    ],
    ids=["package", "help of all verbs", "comparison", "names of runtimes"],
)
def test_what_begins_quickly_loads_nothing_heavy(code: str, unwanted: set[str]) -> None:
    assert not modules_after(code) & unwanted


def test_arrows_of_the_layers_point_down() -> None:
    printed([Path(sys.executable).with_name("lint-imports")], cwd=ROOT)


def test_no_circle_runs_through_the_house() -> None:
    """Also where an import stands inside a function, or is there for types alone."""
    graph = grimp.build_graph("trtbench", cache_dir=None)
    arrows = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    TopologicalSorter(arrows).prepare()  # raises a CycleError that names the circle


DOORS = {
    # In a folder of plug-ins a file that is none begins with ``_``; these are called from above.
    "trtbench.runtimes._turns", "trtbench.runtimes._stream", "trtbench.runtimes._session",
    "trtbench.tasks._feed", "trtbench.executors._transfer",
    "trtbench.convert.builders._precision",
    "trtbench.verbs._verb", "trtbench.verbs._screen",
}  # fmt: skip


def test_private_modules_are_imported_from_their_own_folder_only() -> None:
    source = ROOT / "src"
    for path in sorted((source / "trtbench").rglob("*.py")):
        folder = ".".join(path.relative_to(source).parent.parts)
        for module in re.findall(r"from (trtbench[\w.]*\._[a-z]\w*) import", path.read_text()):
            home = module.rpartition(".")[0]
            assert folder.startswith(home) or module in DOORS, f"{path.name}: {module}"


@pytest.mark.parametrize("folder", ["runtimes", "convert/builders", "tasks"])
def test_plug_ins_do_not_know_one_another(folder: str) -> None:
    """The folder is the registry: its public modules are the plug-ins."""
    files = sorted((ROOT / "src/trtbench" / folder).glob("[!_]*.py"))
    plug_ins = {path.stem for path in files} - {"contract"}
    assert len(plug_ins) > 2
    package = "trtbench." + folder.replace("/", ".")
    for path in files:
        named = set(re.findall(rf"{re.escape(package)}\.(\w+)", path.read_text("utf-8")))
        named |= {
            word.strip()
            for words in re.findall(rf"from {re.escape(package)} import ([^\n]+)", path.read_text())
            for word in words.split(",")
        }
        assert not named & (plug_ins - {path.stem}), path


def test_public_names_are_these_and_can_be_imported() -> None:
    assert len(trtbench.__all__) <= 40
    for name in trtbench.__all__:
        assert getattr(trtbench, name) is not None
    assert set(trtbench.__all__) <= set(dir(trtbench))
    with pytest.raises(AttributeError):
        trtbench.no_such_name  # noqa: B018


def test_every_file_of_tests_is_collected(pytestconfig: pytest.Config) -> None:
    """Pytest leaves out folders by name, and takes two files of one name for one."""
    files = list((ROOT / "tests").rglob("*.py"))
    skipped = pytestconfig.getini("norecursedirs")
    folders = {part for path in files for part in path.parent.relative_to(ROOT).parts}
    assert [name for name in folders if any(fnmatch(name, each) for each in skipped)] == []
    names = Counter(path.name for path in files if path.name not in ("conftest.py", "__init__.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_no_wait_of_a_test_has_a_time_of_its_own() -> None:
    """A busy machine takes as long as it takes; every test ends with its own time, by name."""
    own = re.compile(r"\b(?<!mark\.)(?:wait_for_timeout\(|timeout=\d)")
    for path in sorted((ROOT / "tests").rglob("*.py")):
        assert path == Path(__file__) or not own.search(path.read_text("utf-8")), path.name


MOST_ANYS = 106
"""Where values of any type pass through; what a library makes is called by the library's name."""


def test_any_stands_only_where_a_library_forces_it() -> None:
    trees = [ast.parse(path.read_text("utf-8")) for path in (ROOT / "src").rglob("*.py")]
    nodes = (node for tree in trees for node in ast.walk(tree))
    count = sum(isinstance(node, ast.Name) and node.id == "Any" for node in nodes)
    assert count <= MOST_ANYS, "name the type: ModuleType, AnyArray, Scalar, a request, a Protocol"


READ_THEMSELVES = {
    # What they read was written by this program, its own child or the system, a moment before.
    "core/safety.py", "convert/builders", "convert/verify.py", "convert/calibration.py",
    "verbs/gate.py", "executors/ray.py", "executors/ssh.py",
    "host", "report", "runtimes", "worker.py", "accuracy/evaluate.py",
    "accuracy/localize.py", "workflows/engines.py", "compare",
    "convert/build.py", "measure", "workflows/report.py",
    # Checked by the boundary a line before.
    "tasks/depth.py", "tasks/classification.py", "sweep/matrix.py",
}  # fmt: skip


def test_whatever_reads_from_outside_asks_the_boundary_first() -> None:
    """Whole files are read by ``boundary.read_bytes``, which waits for no pipe and has a bound."""
    raw = re.compile(r"\.read_bytes\(\)|\.read_text\(|np\.load\(|yaml\.(?:safe_)?load|extractall\(")
    package = ROOT / "src" / "trtbench"
    for path in sorted(package.rglob("*.py")):
        name = str(path.relative_to(package))
        known = any(name == each or name.startswith(f"{each}/") for each in READ_THEMSELVES)
        assert known or not raw.search(path.read_text()), f"{name}: use trtbench.core.safety"
