"""The pages do what they say: commands run, outputs are those of a run, links lead somewhere."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
HOW_TO = sorted((DOCS / "howto").glob("*.md"))


def tool(name: str) -> ModuleType:
    """Import a program from tools/."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
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
    program = [sys.executable, "-c", code.replace("launches=5", "launches=2")]
    done = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    package = (ROOT / "pyproject.toml").read_text()
    assert 'all = ["trtbench[onnx,plots,tasks,pandas]"]' in package, "make demo installs these"
    assert (folder / "report" / "report.html").is_file()


@pytest.mark.timeout(900)
def test_the_notebook_runs_and_gives_what_it_shows(docs_python: str) -> None:
    program = [docs_python, str(ROOT / "tools" / "run_docs.py"), str(DOCS / "notebook.ipynb")]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


PAGES = sorted((ROOT / "docs" / "coming-from").glob("*.md"))


def rows(page: Path) -> list[list[str]]:
    """Read the cells of the tables of a page that have a command of ours."""
    lines = [line for line in page.read_text().splitlines() if line.startswith("| ")]
    found = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
    return [row for row in found if len(row) > 1 and row[1].startswith("`trtbench ")]


def commands(page: Path) -> list[str]:
    return [row[1].strip("`") for row in rows(page)]


NAMED = [page for page in PAGES if page.name != "index.md"]


@pytest.mark.real("minutes")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", NAMED, ids=lambda page: page.stem)
def test_every_new_command_of_a_page_runs(
    page: Path, folder: Path, environment: dict[str, str]
) -> None:
    assert commands(page)
    failed = []
    for command in commands(page):
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True
        )
        if done.returncode:
            failed.append(f"{command}\n{done.stdout[-500:]}{done.stderr}")
    assert not failed, "\n".join(failed)
