"""What the README, the docs and our own advice tell users to type really exists."""

import ast
import functools
import importlib
import inspect
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from fix_lines import FOREIGN, find_verb, flags_of, wrong_advice
from trtbench.cli import trtbench as group
from trtbench.tasks import TASKS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = sorted((ROOT / "src" / "trtbench").rglob("*.py"))


def commands(text: str) -> Iterator[str]:
    """Lines of code and cells of tables that begin with ``trtbench``, joined at backslashes."""
    yield from re.findall(r"\| `(trtbench [^`]*)` \|", text)
    fenced = False
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        if line.strip().startswith("```"):
            fenced = not fenced
        words = line.strip().removeprefix("$ ")
        if (fenced or line.startswith("    ")) and words.startswith("trtbench "):
            yield words.split(" #")[0].split("   ")[0].strip()


def flags_of_task(name: str) -> set[str]:
    """The flags that a task adds; those of the example's stand in its own file."""
    sys.path.append(str(ROOT / "docs" / "examples" / "plugins"))
    example = {"regression": "our_task"}.get(name)
    named = [each for each in TASKS.names() if each in name]  # a synopsis names several
    tasks = [importlib.import_module(example)] if example else [TASKS.load(n) for n in named]
    return {f"--{flag.name}" for task in tasks for flag in task.FLAGS}


PLANS = [ROOT / "docs" / "design.md", ROOT / "CONTRIBUTING.md"]
"""Pages about the code itself."""
ROOMS = ROOT / "src" / "trtbench"
PLACES = [ROOT, ROOMS, *(each for each in ROOMS.rglob("*") if each.is_dir())]
ENDINGS = ("json", "npz", "toml", "sqlite", "html", "md", "txt")


@functools.cache
def words_of_code() -> set[str]:
    texts = (path.read_text("utf-8") for path in SOURCES)
    return {word.lstrip("_") for text in texts for word in re.findall(r"\w+", text)}


def lost_names(text: str) -> Iterator[str]:
    """Names of files and of what they hold that a page has in backticks and the code has not."""
    for name in re.findall(r"`([^`<*]+)`", text):
        path, _, last = name.partition("(")[0].rpartition(".")
        if re.fullmatch(r"[\w./-]+\.py|[\w/]+/", name):
            there = any((place / name).exists() for place in PLACES)
        elif re.fullmatch(r"[\w/]+\.\w+", name) and last not in ENDINGS:
            files = [
                place / end for place in PLACES for end in (f"{path}.py", f"{path}/__init__.py")
            ]
            told = [file.read_text("utf-8") for file in files if file.is_file()]
            defined = re.compile(
                rf"^(?:def|class) {last}\b|^{last}\b|import .*\b{last}\b", re.MULTILINE
            )
            there = any(map(defined.search, told)) if told else "/" not in name
        elif re.match(r"\w*[a-z]_[a-z]|[A-Z]\w+$", name):
            there = re.split(r"\W", name)[0] in words_of_code()
        else:
            continue
        if not there:
            yield name


@pytest.mark.parametrize("page", PLANS, ids=lambda page: page.name)
def test_the_plan_names_only_what_stands_in_the_code(page: Path) -> None:
    assert list(lost_names(page.read_text("utf-8"))) == []


def test_the_plan_has_the_layers_that_are_checked() -> None:
    checked = re.findall(
        r"^layers = \[(.*?)\n\]", (ROOT / "pyproject.toml").read_text(), re.S | re.M
    )
    rooms, wings = (re.findall(r'"(.*?)"', each.replace("trtbench.", "")) for each in checked)
    plan = " ".join(PLANS[0].read_text("utf-8").split())
    assert " ".join(rooms) in plan
    assert " ".join(wings) in plan


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_on_a_page_exists_with_its_flags(page: Path) -> None:
    for line in commands(page.read_text()):
        try:
            words = shlex.split(line)[1:]
        except ValueError:
            continue  # prose that happens to begin with the name
        names = [word for word in words if not word.startswith("-")]
        if not words or not re.fullmatch(r"[a-z-]+", words[0]):
            continue
        command = find_verb(names)
        assert command is not None, f"{page.name}: {line}"
        known = flags_of(command) | flags_of(group) | {"-h"}
        if "--task" in words:
            known |= flags_of_task(words[words.index("--task") + 1])
        before = words[: words.index("--")] if "--" in words else words
        for word in before:
            flag = word.split("=")[0]
            if re.fullmatch(r"--?[a-zA-Z][\w-]*", flag) and not re.fullmatch(r"-\d+", flag):
                assert flag in known, f"{page.name}: {flag} in: {line}"


def test_links_between_the_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def advice_of(source: Path) -> Iterator[str]:
    """The texts of fixes and remedies in a file, with X for what is filled in."""
    for node in ast.walk(ast.parse(source.read_text())):
        named = {getattr(each, "id", None) for each in getattr(node, "targets", ())}
        named.add(node.arg if isinstance(node, ast.keyword) else None)
        if isinstance(node, (ast.Assign, ast.keyword)) and named & {"fix", "remedy"}:
            for part in ast.walk(node.value):
                if isinstance(part, ast.JoinedStr):
                    values = (getattr(each, "value", "X") for each in part.values)
                    yield "".join(each if isinstance(each, str) else "X" for each in values)
                elif isinstance(part, ast.Constant):
                    yield str(part.value)


def test_fixes_and_remedies_name_only_commands_and_flags_that_exist() -> None:
    """What a command prints is tried with that command: ``fixes_are_tried`` in conftest.py."""
    context = click.Context(group)
    every = [group, *(group.get_command(context, name) for name in group.list_commands(context))]
    known = FOREIGN.union(*(flags_of(each) for each in every if each))
    for source in SOURCES:
        for text in advice_of(source):
            assert list(wrong_advice(text)) == [], f"{source.name}: {text}"
            lone = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9](?![\w=X-])", text))
            assert lone <= known, f"{source.name}: {text}"


def test_examples_in_the_help_survive_a_shell() -> None:
    """A rule such as p99<5ms is a redirection unless it is quoted."""
    for name, text in _helps():
        for line in re.sub(r"\\\n\s*", " ", text).splitlines():
            words = line.strip()
            if words.startswith(("trtbench ", "--metric")):
                bare = re.sub(r"'[^']*'|\"[^\"]*\"| > \w+\.csv$", "", re.split(r"  +", words)[0])
                assert not re.search(r"[<>|;]", bare), f"{name}: {line}"


def _helps() -> list[tuple[str, str]]:
    context = click.Context(group)
    found = [(name, group.get_command(context, name)) for name in group.list_commands(context)]
    return [(name, (command.help or "") if command else "") for name, command in found]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_on_a_page_calls_what_there_is_with_words_it_takes(page: Path) -> None:
    text = page.read_text()
    known = {}
    for home, names in re.findall(r"^\s*from (trtbench[\w.]*) import ([\w, ]+)$", text, re.M):
        module = importlib.import_module(home)
        known |= {name.strip(): getattr(module, name.strip()) for name in names.split(",")}
    package = importlib.import_module("trtbench")
    verbs = re.findall(r"\btrtbench\.(\w+)\(", text)
    known |= {f"trtbench.{name}": getattr(package, name) for name in verbs}
    for name, found in known.items():
        for call in re.findall(rf"(?<![\w.]){re.escape(name)}\(([^()\n]*)\)", text):
            taken = inspect.signature(found).parameters
            anything = any(each.kind is each.VAR_KEYWORD for each in taken.values())
            plain = re.sub(r"\"[^\"]*\"|'[^']*'", "", call)
            wrong = set(re.findall(r"(\w+)=", plain)) - set(taken)
            assert anything or not wrong, f"{name} takes no {wrong}"


def test_every_test_that_the_page_on_security_names_is_there() -> None:
    attacks = "".join(path.read_text() for path in (ROOT / "tests" / "attacks").glob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "SECURITY.md").read_text()))
    assert len(named) > 20
    assert {name for name in named if f"def {name}(" not in attacks} == set()
