"""Scenes, each played once in a folder whose name is equally long everywhere."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scenes import SCENES

from golden import environment_of, observe


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="golden_", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def played(place: Path) -> Callable[[str, str], str]:
    """What a command of a scene did; those before it are run first."""
    scenes: dict[str, Iterator[tuple[str, str]]] = {}
    found: dict[str, str] = {}

    def play(scene: str) -> Iterator[tuple[str, str]]:
        folder = place / scene
        folder.mkdir()
        SCENES[scene].make(folder)
        environment = environment_of(folder, **SCENES[scene].settings)
        given = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for case in SCENES[scene].cases:
            done = observe(case, folder=folder, environment=environment)
            changed = [path for path, bytes in given.items() if path.read_bytes() != bytes]
            assert not changed, f"{case.words} changed its inputs"
            yield case.name, done

    def until(scene: str, name: str) -> str:
        steps = scenes.setdefault(scene, play(scene))
        while name not in found:
            done, text = next(steps)
            found[done] = text
        return found[name]

    return until
