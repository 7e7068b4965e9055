"""Tell which lines of trtbench the tests reach, in every process that they start.

    python tools/line_coverage.py [--python PATH] [--torch PATH] [--add] TESTS...

Workers, hosts behind ssh and nodes of Ray are processes of their own, and those with PyTorch have
another interpreter. So interpreters are made beside the two that are there (``.venv-all`` and
``.venv-torch``, which stay as they are): they have what those have, and note their lines, whoever
starts them. Copies of the package that hosts and nodes were lent count as the package. Prints a
table, and below it the lines that no test reached; all is kept in ``build/lines``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "lines"
SETTINGS = FOLDER / "settings"
SOURCE = ROOT / "src" / "trtbench"
TORCH = ("*torch*.py", "build/export*.py")
TESTS = (
    "tests/executors", "tests/runtimes", "tests/process", "tests/host/test_interpreters.py",
    "tests/host/test_mig.py", "tests/attacks/test_far_machines.py", "tests/attacks/test_pickles.py",
    "tests/build/test_export.py", "tests/workflows/test_sweep_torch.py",
)  # fmt: skip

NOTE = """[run]
parallel = true
data_file = {folder}/data/lines
source_pkgs = trtbench
patch = _exit
disable_warnings = no-data-collected, module-not-imported, module-not-measured
[paths]
source =
    {source}
    */trtbench
"""
START = (
    "import os; os.environ.setdefault('COVERAGE_PROCESS_START', {settings!r}); "
    "import coverage; coverage.process_startup()"
)


def main(words: Sequence[str]) -> int:
    """Run the tests, and print what they reached; gives the status of the tests."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", type=Path, default=ROOT / ".venv-all" / "bin" / "python")
    parser.add_argument("--torch", type=Path, default=ROOT / ".venv-torch" / "bin" / "python")
    parser.add_argument("--add", action="store_true", help="to what earlier runs have reached")
    asked, tests = parser.parse_known_args(words)
    if not asked.add:
        shutil.rmtree(FOLDER / "data", ignore_errors=True)
    (FOLDER / "data").mkdir(parents=True, exist_ok=True)
    SETTINGS.write_text(NOTE.format(folder=FOLDER, source=SOURCE))
    python, torch = (noting(name, getattr(asked, name)) for name in ("python", "torch"))
    environment = {
        **os.environ, "TRTBENCH_TEST_TORCH_PYTHON": str(torch), "TRTBENCH_TEST_STARTS": "all"
    }  # fmt: skip
    command = [python, "-m", "pytest", "-q", *(tests or TESTS)]
    status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    report(python)
    return status


def noting(name: str, other: Path) -> Path:
    """Make an interpreter that has what another has, and notes which lines it runs."""
    made, package = FOLDER / name, FOLDER / "package"
    if not package.is_dir():
        wanted = ["--target", str(package), "coverage>=7.10"]
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *wanted], check=True)
    subprocess.run([other, "-m", "venv", "--without-pip", made], check=True)
    (site,) = made.glob("lib/python3*/site-packages")
    (others,) = other.parent.parent.glob("lib/python3*/site-packages")
    lines = [SOURCE.parent, package, START.format(settings=str(SETTINGS))]
    lines.append(f"import site; site.addsitedir({str(others)!r})")
    (site / "lines.pth").write_text("\n".join(map(str, lines)) + "\n")
    return made / "bin" / "python"


def report(python: Path) -> None:
    """Put together what all processes noted, and print it by folder."""
    coverage = [python, "-m", "coverage"]
    data = [f"--rcfile={SETTINGS}", f"--data-file={FOLDER}/lines"]
    environment = {name: value for name, value in os.environ.items() if "COVERAGE" not in name}
    for rest in (["combine", "--keep", "-q", *data, FOLDER / "data"],
                 ["json", "-q", "-o", FOLDER / "all.json", *data]):  # fmt: skip
        subprocess.run([*coverage, *rest], cwd=ROOT, env=environment, check=True)
    found = json.loads((FOLDER / "all.json").read_text())["files"]
    files = {(ROOT / name).relative_to(SOURCE): each for name, each in found.items()}
    torch = [path for path in files if any(path.match(each) for each in TORCH)]
    groups = {
        **{name: [path for path in files if path.parts[0] == name]
           for name in ("executors", "runtimes")},
        **{str(path): [path] for path in sorted(torch)},
    }  # fmt: skip
    print("| where | lines | reached |\n|---|--:|--:|")
    for name, paths in groups.items():
        told = [files[path]["summary"] for path in paths]
        lines = sum(each["num_statements"] for each in told)
        reached = sum(each["covered_lines"] for each in told)
        print(f"| {name} | {lines} | {100 * reached / max(1, lines):.1f} % |")
    for path in sorted({path for paths in groups.values() for path in paths}):
        if missing := files[path]["missing_lines"]:
            share = files[path]["summary"]["percent_covered"]
            print(f"{path} {share:.0f} %: {spans(missing)}")


def spans(numbers: Sequence[int]) -> str:
    """Write numbers shortly: 3-5, 9."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
