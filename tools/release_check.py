"""Is this fit to be released? Builds wheel and sdist, and tries them as a stranger would.

    python tools/release_check.py            # or: make release-check
    python tools/release_check.py --no-demo  # only what takes seconds

Checks the metadata and the changelog, that the sdist builds the same wheel, that the light core
installs and works on every Python from 3.10 on that is found here, and that the demo runs from the
wheel in a clean environment. Ends with 0 when everything holds.
"""

from __future__ import annotations

import argparse
import email
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
NEEDED = ("Name", "Version", "Summary", "Requires-Python", "License-Expression", "Description")
MAX_BYTES = 100_000_000
"""Of all that the light core brings: packages without pip, and without bytecode made of them."""
LOG = """=== Performance summary ===
Throughput: 500 qps
Latency: min = 1 ms, max = 3 ms, mean = 2 ms, median = 2 ms, percentile(99%) = 2.5 ms
&&&& PASSED TensorRT.trtexec [TensorRT v8601] # trtexec --onnx=net.onnx
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-demo", action="store_true", help="leave the demo out")
    parser.add_argument("--python", action="append", metavar="PATH", help="only these interpreters")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel, sdist = build(ROOT, folder / "dist")
        problems = [*metadata_problems(wheel), *changelog_problems(version_of(wheel))]
        problems += sdist_problems(sdist, wheel, folder)
        for python in options.python or interpreters():
            problems += core_problems(wheel, python, folder)
        if not options.no_demo:
            problems += demo_problems(wheel, folder)
    for problem in problems:
        print(f"problem: {problem}")
    print("fit to be released" if not problems else f"{len(problems)} problems")
    return 1 if problems else 0


def build(source: Path, target: Path) -> tuple[Path, Path]:
    """Build both files with the build backend itself."""
    code = (
        "import sys; from hatchling import build as b\n"
        "print(b.build_sdist(sys.argv[1])); print(b.build_wheel(sys.argv[1]))"
    )
    target.mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-c", code, str(target)],
        cwd=source, check=True, capture_output=True, text=True,
    )  # fmt: skip
    sdist, wheel = (target / line for line in done.stdout.split()[-2:])
    print(f"built {wheel.name} ({wheel.stat().st_size >> 10} KiB) and {sdist.name}")
    return wheel, sdist


def metadata_problems(wheel: Path) -> list[str]:
    """Look for what package indexes and people need, and for what must not travel."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        file = next(name for name in names if name.endswith(".dist-info/METADATA"))
        told = email.message_from_bytes(archive.read(file))
    body = told.get_payload()
    found = [f"the metadata lack {key}" for key in NEEDED[:-1] if not told.get(key)]
    if not isinstance(body, str) or "# trtbench" not in body:
        found.append("the metadata hold no README")
    listed = {line.rsplit(" ", 1)[-1] for line in told.get_all("Classifier") or ()}
    found += [
        f"no classifier says Python {version}" for version in VERSIONS if version not in listed
    ]
    if "trtbench/py.typed" not in names:
        found.append("py.typed is missing: type checkers take it for untyped")
    found += [f"{name} is in the wheel" for name in names if "/tests/" in name or ".venv" in name]
    return found


def version_of(wheel: Path) -> str:
    return wheel.name.split("-")[1]


def changelog_problems(version: str) -> list[str]:
    """The changelog has a heading for this version with something below it."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    parts = re.split(r"^## ", text, flags=re.M)[1:]
    own = [part for part in parts if part.startswith(version)]
    if not own:
        return [f"CHANGELOG.md has no heading for {version}"]
    return [] if "\n- " in own[0] else [f"CHANGELOG.md says nothing about {version}"]


def sdist_problems(sdist: Path, wheel: Path, folder: Path) -> list[str]:
    """What the sdist builds is what was built from the checkout."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "sdist", filter="data")
    (inside,) = (folder / "sdist").iterdir()
    again, _ = build(inside, folder / "again")
    names = [_names(each) for each in (wheel, again)]
    return (
        [f"the sdist builds another wheel: {sorted(names[0] ^ names[1])[:4]}"]
        if (names[0] != names[1])
        else []
    )


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def interpreters() -> list[str]:
    """Find a Python of every version that is here."""
    homes = sorted((Path.home() / ".pyenv" / "versions").glob("3.*"))
    known = {".".join(home.name.split(".")[:2]): home / "bin" / "python3" for home in homes}
    found = [
        str(known[version]) if version in known else shutil.which(f"python{version}")
        for version in VERSIONS
    ]
    for version, path in zip(VERSIONS, found, strict=True):
        if path is None:
            print(f"Python {version} is not here: not tried")
    return [path for path in found if path]


def core_problems(wheel: Path, python: str, folder: Path) -> list[str]:
    """Install the light core alone; import, inspect and report with it."""
    told = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.split()
    here = folder / f"core-{told[1]}"
    inside = _environment(python, here, str(wheel))
    if isinstance(inside, str):
        return [f"Python {told[1]}: {inside}"]
    (here / "trtexec.log").write_text(LOG)
    for words in (
        "--version",
        "import trtexec.log --store store -o imported",
        "runs --store store",
        "report last --store store -o report",
        "inspect trtexec.log",
    ):
        done = subprocess.run(
            [inside / "trtbench", *words.split()],
            cwd=here, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no reason"])[-1]
            return [f"Python {told[1]}: trtbench {words} ends with {done.returncode}: {last}"]
    size = sum(
        each.stat().st_size
        for each in here.glob("lib/*/site-packages/**/*")
        if each.is_file() and each.suffix != ".pyc" and not {"pip", "setuptools"} & {*each.parts}
    )
    print(f"Python {told[1]}: the light core installs and works ({size / 1e6:.0f} MB)")
    return [f"Python {told[1]}: the light core is too large"] if size > MAX_BYTES else []


def _environment(python: str, here: Path, what: str) -> Path | str:
    subprocess.run([python, "-m", "venv", here], check=True)
    done = subprocess.run(
        [here / "bin" / "python", "-m", "pip", "install", "--quiet", what],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        return f"pip cannot install it: {done.stderr.strip().splitlines()[-1]}"
    return here / "bin"


def demo_problems(wheel: Path, folder: Path) -> list[str]:
    """Run the demo as its first command says, from the wheel alone."""
    here = folder / "demo"
    inside = _environment(sys.executable, here, f"{wheel}[all]")
    if isinstance(inside, str):
        return [f"demo: {inside}"]
    done = subprocess.run(
        [inside / "trtbench", "demo", "-o", "report"],
        cwd=here, capture_output=True, text=True, check=False,
    )  # fmt: skip
    page = here / "report" / "report.html"
    if done.returncode or not page.is_file():
        return [f"the demo ends with {done.returncode}: {done.stderr.strip()[-300:]}"]
    print(f"the demo runs from the wheel; its report has {page.stat().st_size >> 10} KiB")
    return []


if __name__ == "__main__":
    sys.exit(main())
