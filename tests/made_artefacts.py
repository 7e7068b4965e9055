"""A folder of files as trtexec leaves them, of our own making, for whoever has no others.

The stand-in really runs, as three versions and in all the ways it can go wrong; what versions
before it wrote is put together from small samples.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import logs
import samples

PROGRAM = Path(__file__).resolve().parent / "standin" / "trtexec"
VERSIONS = ("8.6.1", "10.9.0", "11.1.0")
BATCHES = (1, 4, 8)
LONG = ("--duration=0.1", "--warmUp=50")


def make_artefacts(folder: Path) -> Path:
    """Fill a folder; gives it."""
    for version in VERSIONS:
        _make_runs(folder / f"trtexec-{version}", version)
    _make_failures(folder / "failures")
    _make_old(folder / "old")
    _make_small(folder / "small")
    return folder


def install_trtexec(folder: Path) -> Path:
    """Put the stand-in into a folder for a search path; gives the program.

    This interpreter has numpy; whatever ``env python3`` finds may not.
    """
    folder.mkdir()
    binary = folder / "trtexec"
    binary.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{PROGRAM}" "$@"\n')
    binary.chmod(0o755)
    return binary


def _make_runs(folder: Path, version: str) -> None:
    folder.mkdir(parents=True)
    (folder / "net.onnx").write_bytes(b"\x08\x08 a model")
    engine = f"--saveEngine={folder / 'net.engine'}"
    detailed = "--profilingVerbosity=detailed"
    _call(folder / "built.log", version, f"--onnx={folder / 'net.onnx'}", engine, detailed,
          "--skipInference", f"--timingCacheFile={folder / 'timing.cache'}")  # fmt: skip
    load = f"--loadEngine={folder / 'net.engine'}"
    kinds = ("Times", "Profile", "LayerInfo")
    exports = [f"--export{kind}={folder / f'loaded.{kind.lower()}.json'}" for kind in kinds]
    _call(folder / "loaded.log", version, load, *LONG, *exports, "--dumpProfile",
          "--separateProfileRun", detailed)  # fmt: skip
    other = "--useCudaGraph" if version < "9" or version.startswith("10") else "--noCudaGraph"
    times = f"--exportTimes={folder / 'other.times.json'}"
    _call(folder / "other.log", version, load, *LONG, times, other)
    _call(folder / "help.txt", version, "--help")


def _make_failures(folder: Path) -> None:
    folder.mkdir(parents=True)
    head = b"ftrt" + (1).to_bytes(4, "little") + bytes(16)
    (folder / "old.engine").write_bytes((head + bytes([8, 6, 1, 34])).ljust(64, b"\0") + b"{}")
    (folder / "new.engine").write_bytes(
        (head + bytes([10, 9, 0, 34])).ljust(64, b"\0")
        + json.dumps({"detailed": False, "shape": "1x3x8x8"}).encode()
    )
    load = f"--loadEngine={folder / 'new.engine'}"
    _call(folder / "flag.log", "10.9.0", load, "--noSuchFlag")
    _call(folder / "version.log", "10.9.0", f"--loadEngine={folder / 'old.engine'}")
    _call(folder / "memory.log", "10.9.0", load, behave="fail")
    _call(folder / "crash.log", "10.9.0", load, behave="crash")
    (folder / "net.onnx").write_bytes(b"\x08\x08 a model")
    _call(folder / "tactic.log", "10.9.0", f"--onnx={folder / 'net.onnx'}", behave="no-build")


def _make_old(folder: Path) -> None:
    """What no stand-in plays: TensorRT 5 to 8.2, several runs in one file."""
    folder.mkdir(parents=True)
    (folder / "five.log").write_text(logs.log_5())
    (folder / "eight.log").write_text(logs.log_82())
    (folder / "ten.log").write_text(logs.log_10())
    (folder / "raw_net.txt").write_text("".join(logs.log_7(batch=each) for each in BATCHES))
    arrays = [samples.times_file("7.1", rows=30 + each) for each in BATCHES]
    (folder / "times_net.json").write_bytes(b"".join(arrays))
    profiles = [samples.profile_text(samples.LAYERS, count=100 * each) for each in BATCHES]
    (folder / "profile_net.json").write_text("".join(profiles))
    values = [{"name": "y", "dimensions": "1x4", "values": [0.5] * 4 * each} for each in BATCHES]
    (folder / "output_net.json").write_text("\n".join(json.dumps([each]) for each in values))
    for variant in ("7.0", "8.0", "8.4", "8.5"):
        (folder / f"net{variant}.times.json").write_bytes(samples.times_file(variant))
    (folder / "net7.profile.json").write_text(samples.profile_text(samples.LAYERS, medians=False))


def _make_small(folder: Path) -> None:
    folder.mkdir(parents=True)
    for version in ("names", "8.4", "8.6", "10", "11"):
        (folder / f"net{version}.graph.json").write_text(json.dumps(samples.graph(version)))
    (folder / "calibration.cache").write_text(samples.CALIBRATION)
    (folder / "net.plan").write_bytes(samples.plan_head())
    (folder / "notes.md").write_text("# Notes\nMeasured on a Tuesday.\n")
    (folder / "broken.times.json").write_bytes(samples.times_file("8.5")[:900])


def _call(log: Path, version: str, *arguments: str, behave: str = "") -> None:
    settings = {"STANDIN_VERSION": version, "STANDIN_BEHAVIOUR": behave, "STANDIN_PAUSE": "0"}
    with log.open("wb") as sink:
        subprocess.run(
            [sys.executable, str(PROGRAM), *arguments],
            stdout=sink, stderr=subprocess.STDOUT, env={**os.environ, **settings},
        )  # fmt: skip
