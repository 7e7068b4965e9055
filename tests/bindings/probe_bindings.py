"""Runs the adapter against real bindings, in a process of its own: ``SOURCE FOLDER MODULE NAMES``.

Prints one JSON document: what the bindings have of the names, what the adapter says they can do,
and how the classes it derives from TensorRT's own behave when they are called.
"""

import importlib
import json
import sys
import warnings
from pathlib import Path
from unittest.mock import MagicMock


def main(source: str, folder: str, module: str, names: list[str]) -> None:
    """Look at the bindings and print what was found."""
    warnings.simplefilter("ignore")
    sys.path.insert(0, source)
    for each in ("numpy", "numpy.typing", "numpy.random"):
        # Only the shape of a calibrator is looked at; under emulation numpy takes a minute.
        sys.modules[each] = MagicMock()
    trt = importlib.import_module(module)
    from trtbench.host.tensorrt import abilities_of, abilities_of_version

    flavour = "tensorrt_rtx" if module == "tensorrt_rtx" else "tensorrt"
    abilities = abilities_of(trt, flavour=flavour)
    table = abilities_of_version(abilities.version, flavour=flavour)
    document = {
        "version": abilities.version,
        "abilities": sorted(abilities.names),
        "table": sorted(table.names),
        "present": {name: _has(trt, name) for name in names},
        "heard": _listen(trt, Path(folder)),
        "watched": _watch(trt) if abilities.has("IBuilderConfig.progress_monitor") else None,
        "calibrators": _calibrate(trt, Path(folder)) if abilities.supports_calibration else None,
        "room": _room(trt),
        "builder": _builder(trt),
    }
    sys.stdout.write(json.dumps(document) + "\n")


def _has(trt: object, name: str) -> bool:
    for part in name.split("."):
        if not hasattr(trt, part):
            return False
        trt = getattr(trt, part)
    return True


def _listen(trt, folder: Path) -> list[list[str]]:
    from trtbench.host.tensorrt import LoggedErrors, make_logger

    heard = LoggedErrors()
    logger = make_logger(trt, path=folder / "build.log", logged=heard, verbose=False)
    for name in ("VERBOSE", "INFO", "WARNING", "ERROR", "INTERNAL_ERROR"):
        logger.log(getattr(trt.ILogger.Severity, name), f"said at {name}")
    return [heard.errors, (folder / "build.log").read_text().splitlines()]


def _watch(trt) -> list[object]:
    from trtbench.host.tensorrt import make_monitor

    told: list[object] = []
    monitor = make_monitor(
        trt, report=lambda done, text: told.append([done, text]), cancelled=lambda: len(told) > 1
    )
    monitor.phase_start("whole", None, 2)
    going = [monitor.step_complete("whole", 0), monitor.step_complete("whole", 1)]
    monitor.phase_finish("whole")
    return [going, told]


def _room(trt) -> list[object]:
    from trtbench.host.tensorrt import make_output_allocator

    room = make_output_allocator(trt, address=4096, size_bytes=64)
    given = [room.reallocate_output("y", 0, size, 256) for size in (64, 65)]
    given.append(room.reallocate_output_async("y", 0, 8, 256, 0))
    room.notify_shape("y", (2, 3))
    return [isinstance(room, trt.IOutputAllocator), given, room.shape]


def _calibrate(trt, folder: Path) -> dict[str, object]:
    from trtbench.host.tensorrt import BASES, CacheKey, ScaleCache, make_calibrator

    found = {}
    for algorithm, base in BASES.items():
        key = CacheKey(model="m", data="d", batch=4, algorithm=algorithm, tensorrt="x")
        cache = ScaleCache(folder / algorithm, key=key)
        calibrator = make_calibrator(
            trt, algorithm=algorithm, cache=cache, feeds=[], report=lambda done, all_: None
        )
        empty = calibrator.read_calibration_cache()
        calibrator.write_calibration_cache(b"scales")
        found[algorithm] = {
            "base": isinstance(calibrator, getattr(trt, base)),
            "algorithm": calibrator.get_algorithm().name,
            "empty": empty is None,
            "kept": bytes(calibrator.read_calibration_cache()) == b"scales",
            "batch": calibrator.get_batch(["x"]),
        }
    return found


def _builder(trt) -> str:
    try:
        trt.Builder(trt.Logger(trt.Logger.ERROR))
    except Exception as problem:
        return type(problem).__name__
    return "made"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4].split(","))
