"""What commands that only read print, exit with and write, and what the Python API offers.

``TRTBENCH_GOLDEN=write pytest tests/golden`` writes the texts that are kept anew.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from scenes import KEPT, SCENES

from golden import EXPECTED, Case, compare, environment_of, folded, observe
from waiting import printed

pytestmark = pytest.mark.xdist_group("golden")

SURFACE = """
import inspect, trtbench
for name in trtbench.__all__:
    thing = getattr(trtbench, name)
    if inspect.isclass(thing):
        own = sorted(set(dir(thing)) - set(dir(Exception)))
        print(name, *(each for each in own if each[0] != "_"), sep=" | ")
    elif callable(thing):
        taken = inspect.signature(thing).parameters.values()
        stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
        words = (f"{stars.get(p.kind, '')}{p.name}={p.default!r}" for p in taken)
        print(name, *(each.removesuffix("=<class 'inspect._empty'>") for each in words), sep=" | ")
"""


@pytest.mark.parametrize("name", [case.name for case in SCENES["reads"].cases])
def test_a_command_that_reads(name: str, played: Callable[[str, str], str]) -> None:
    compare(name, played("reads", name))


def test_the_flags_of_every_verb(tmp_path: Path) -> None:
    """Names, and what they take; what is said about them may be said better."""
    environment, lines = environment_of(tmp_path), []

    def helped(*words: str) -> str:
        case = Case(name="help", words=(*words, "--help"))
        return observe(case, folder=tmp_path, environment=environment)

    verbs = re.findall(r"^  ([a-z-]+)  ", helped().partition("Commands:")[2], flags=re.M)
    acts = re.findall(r"^  ([a-z-]+)  ", helped("runs").partition("Commands:")[2], flags=re.M)
    for verb in [*verbs, *(f"runs {act}" for act in acts)]:
        shown = helped(*verb.split())
        found = re.findall(r"^  (-\S.*?)(?:  |$)", shown, flags=re.M)
        lines += folded(f"{verb}: ", [each.strip() for each in found])
    compare("flags", "\n".join(lines) + "\n")


def test_names_and_arguments_of_the_python_api() -> None:
    lines = []
    for line in printed([sys.executable, "-c", SURFACE]).splitlines():
        name, *parts = line.split(" | ")
        lines += folded(f"{name}: ", parts)
    compare("api-names", "\n".join(lines) + "\n")


def test_every_text_belongs_to_a_command() -> None:
    cases = {case.name for scene in SCENES.values() for case in scene.cases}
    assert {path.stem for path in EXPECTED.iterdir()} == cases | KEPT
