"""Every plug-in keeps the contract of its folder, and rules read what something writes."""

import ast
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from trtbench.convert.builders import BUILDERS
from trtbench.core.errors import UsageError
from trtbench.core.plugins import Registry
from trtbench.core.spec import ModelRef, RunSpec
from trtbench.executors import EXECUTORS
from trtbench.report.compose import RENDERERS, SECTIONS
from trtbench.runtimes import RUNTIMES
from trtbench.runtimes.contract import Runtime
from trtbench.tasks import TASKS

REGISTRIES: tuple[Registry[Any], ...] = (
    RUNTIMES, BUILDERS, TASKS, EXECUTORS, SECTIONS, RENDERERS,
)  # fmt: skip

WHOLE = """
FORMATS = ("onnx",)
def available(): return None
def fix(): return None
def device(spec): return "cpu"
def bench(spec, *, folder, stage): ...
"""


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda each: each.noun)
def test_every_plugin_of_a_folder_keeps_its_contract(registry: Registry[Any]) -> None:
    names = [name for name, _ in registry.loaded()]
    assert names
    assert "contract" not in names


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Load a runtime that the entry point of a zipped package adds."""

    def loading(text: str) -> Any:
        file = tmp_path / f"guest-{len(text)}.zip"
        with ZipFile(file, "w") as package:
            package.writestr("guest_runtime.py", text)
            package.writestr("guest-1.dist-info/METADATA", "Name: guest\nVersion: 1\n")
            points = "[trtbench.runtimes]\nguest = guest_runtime\n"
            package.writestr("guest-1.dist-info/entry_points.txt", points)
        monkeypatch.syspath_prepend(str(file))
        sys.modules.pop("guest_runtime", None)
        registry = Registry("trtbench.runtimes", noun="runtime", contract=Runtime)
        return registry.load("guest")

    return loading


def test_abilities_that_are_left_out_have_their_values(load: Callable[[str], Any]) -> None:
    guest = load(WHOLE)
    assert guest.OPTIONS == {}
    assert guest.TAKES_ARGUMENTS is False
    assert guest.DEFAULT_PROTOCOL == "serve"
    assert guest.open_session is None


@pytest.mark.parametrize(
    ("before", "after", "words", "fix"),
    [
        ("def available(): return None", "def avalable(): return None", "no available", "avalable"),
        ("def device(spec)", "def device(model)", "device has no parameter spec", None),
        ("folder, stage", "folder", "bench has no parameter stage", None),
        ("folder, stage", "folder, stage, seed", "requires seed, which is never passed", None),
        ('FORMATS = ("onnx",)', "", "no FORMATS", None),
        ('FORMATS = ("onnx",)', 'FORMATS = ("onnx",)\nfix = 3\ndel fix', "no fix", None),
        ("FORMATS", "TAKE_ARGUMENTS = True\nFORMATS", "which is not used", "TAKES_ARGUMENTS"),
    ],
)
def test_a_plugin_that_breaks_its_contract_is_refused_with_file_and_part(
    before: str, after: str, words: str, fix: str | None, load: Callable[[str], Any]
) -> None:
    text = WHOLE.replace(before, after, 1)
    if words == "no fix":
        text = WHOLE.replace("def fix(): return None\n", "")
    with pytest.raises(UsageError) as caught:
        load(text)
    assert words in caught.value.message
    assert caught.value.facts["file"].endswith("guest_runtime.py")
    if fix is not None:
        assert fix in str(caught.value.fix) or fix in caught.value.message


@pytest.mark.parametrize("name", RUNTIMES.names())
def test_a_runtime_says_what_it_is(name: str) -> None:
    runtime = RUNTIMES.load(name)
    assert runtime.FORMATS
    assert set(runtime.CHOSEN_FOR) <= set(runtime.FORMATS)
    assert runtime.available() is None or runtime.fix()
    assert (runtime.open_session is None) == (runtime.command_lines is not None)
    path = "torchvision:x" if runtime.FORMATS[0] == "torch" else "/m"
    spec = RunSpec(model=ModelRef(path=path, format=runtime.FORMATS[0]), runtime=name)
    assert runtime.device(spec).partition(":")[0] in ("cpu", "cuda")


@pytest.mark.parametrize("name", BUILDERS.names())
def test_a_builder_says_what_it_is(name: str) -> None:
    builder = BUILDERS.load(name)
    assert builder.CHOSEN
    assert builder.available() is None or builder.fix()
    assert all(isinstance(value, str) for value in builder.tools().values())


def test_every_format_has_a_runtime_that_comes_first() -> None:
    ranks: dict[tuple[str, str], list[int]] = {}
    for _, runtime in RUNTIMES.loaded():
        for each, rank in runtime.CHOSEN_FOR.items():
            ranks.setdefault((each, runtime.FLAVOUR), []).append(rank)
    assert {each for each, _ in ranks} == {"onnx", "engine", "torch"}
    assert all(len(set(found)) == len(found) for found in ranks.values())


SOURCE = Path(__file__).resolve().parents[1] / "src" / "trtbench"
RULES = sorted((SOURCE / "analysis" / "findings").glob("*.py"))
READ = re.compile(r"\.(?:fact|flag|text|condition)\(\"(\w+)\"\)")


def test_rules_read_only_what_something_writes() -> None:
    others = "".join(path.read_text() for path in SOURCE.rglob("*.py") if path not in RULES)
    for path in RULES:
        for name in READ.findall(path.read_text()):
            assert re.search(rf"[\"_]{name}\b|\b{name}=", others), f"nothing writes {name}"


NAMED = {
    "verbs/demo.py",  # shows ONNX Runtime on purpose
    "importing/make.py",  # says whose files these are
}


def test_no_runtime_is_named_outside_its_file() -> None:
    """A runtime is chosen by what it can do: its name decides nothing in any other file."""
    names = {*RUNTIMES.names(), *(name.replace("-", "_") for name in RUNTIMES.names())}
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        if place.startswith(("runtimes/", "convert/builders/")) or place in NAMED:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            assert not _decides(node, names), f"{place}:{getattr(node, 'lineno', 0)}"


def _decides(node: ast.AST, names: set[str]) -> bool:
    """Whether code compares a runtime with a name, hands one over, or loads one by it."""

    def named(value: ast.AST) -> bool:
        inner = value.elts if isinstance(value, (ast.Tuple, ast.List, ast.Set)) else [value]
        return any(isinstance(each, ast.Constant) and each.value in names for each in inner)

    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        about = any(
            isinstance(side, (ast.Attribute, ast.Name))
            and ast.unparse(side).rpartition(".")[2] in ("runtime", "builder")
            for side in sides
        )
        return about and any(named(side) for side in sides)
    if isinstance(node, ast.Call):
        target = ast.unparse(node.func)
        given = [keyword.value for keyword in node.keywords if keyword.arg == "runtime"]
        loaded = node.args if target in ("RUNTIMES.load", "BUILDERS.load") else []
        return any(named(value) for value in (*given, *loaded))
    return False
