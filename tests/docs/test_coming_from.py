"""Every command that the pages for users of other tools name runs, on ONNX Runtime or stand-ins."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
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
            ["bash", "-c", command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            failed.append(f"{command}\n{done.stdout[-500:]}{done.stderr}")
    assert not failed, "\n".join(failed)
