"""What commands that measure print, exit with and write, but for what they measured."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from scenes import RETURNS, SCENES

from golden import compare, environment_of, mask
from waiting import printed

pytestmark = pytest.mark.xdist_group("goldenmeasured")

NAMED = [
    (scene, case.name) for scene in ("measures", "builds", "gpu") for case in SCENES[scene].cases
]


@pytest.mark.parametrize(("scene", "name"), NAMED)
def test_a_command_that_measures(scene: str, name: str, played: Callable[[str, str], str]) -> None:
    compare(name, played(scene, name))


def test_what_the_python_api_returns(place: Path) -> None:
    folder = place / "api"
    folder.mkdir()
    SCENES["measures"].make(folder)
    environment = environment_of(folder, TRTBENCH_TEST_STARTS="few")
    said = printed([sys.executable, "-c", RETURNS], cwd=folder, env=environment)
    compare("api-returns", mask(said, here=str(folder)))
