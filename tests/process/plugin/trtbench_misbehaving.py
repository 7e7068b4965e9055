"""A runtime of another package: works, or fails in the way ``--opt do=...`` says.

``--opt launch=1`` misbehaves in that launch only, counted by a file beside the model.
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from trtbench.core.jobs import BenchOutcome
from trtbench.core.run import LaunchFacts
from trtbench.core.samples import IterationTimes

FORMATS = ("onnx",)


def available() -> str | None:
    return None


def fix() -> str | None:
    return None


def device(spec) -> str:
    return spec.device or "misbehaving"


def bench(spec, *, folder, stage):
    stage("load")
    stage("measure")
    behaviour = spec.options.get("do", "work")
    Path(spec.model.path).with_suffix(".ready").touch()
    if _is_turn(spec):
        globals()[f"do_{behaviour}"](spec, folder)
    host = np.linspace(1e-3, 2e-3, 40)
    times = IterationTimes(host=host, start=np.cumsum(host))
    return BenchOutcome(facts=LaunchFacts(wall_s=float(host.sum()))), times


def _is_turn(spec) -> bool:
    if "launch" not in spec.options:
        return True
    counter = Path(spec.model.path).with_suffix(".count")
    done = int(counter.read_text()) if counter.exists() else 0
    counter.write_text(str(done + 1))
    return done == int(spec.options["launch"])


def do_work(spec, folder):
    print("all is well")


def do_sleep(spec, folder):
    time.sleep(spec.stop.seconds)


def do_wait(spec, folder):
    """Go on when a file appears beside the model."""
    while not Path(spec.model.path).with_suffix(".go").exists():
        time.sleep(0.02)


def do_toil(spec, folder):
    """Keep the processor busy for ever."""
    while True:
        pass


def do_kill(spec, folder):
    os.kill(os.getpid(), signal.SIGKILL)


def do_segfault(spec, folder):
    ctypes.string_at(0)


def do_hang(spec, folder):
    print("hanging")
    while True:
        time.sleep(1)


def do_eat(spec, folder):
    kept = []
    while True:
        kept.append(np.empty(16_000_000))  # the limit is on addresses: no need to touch them


def do_raise(spec, folder):
    raise ZeroDivisionError("a bug in the runtime")


def do_exit(spec, folder):
    sys.exit(0)


def do_vanish(spec, folder):
    os._exit(0)


def do_chatter(spec, folder):
    for number in range(10_000):
        print("line", number)
    os.abort()


def do_fill(spec, folder):
    """Write until the disk is full."""
    with open(folder / "large.bin", "wb") as file:
        while True:
            file.write(bytes(1 << 16))


def do_refuse(spec, folder):
    from trtbench.core.errors import InputError

    raise InputError("the model is not to my taste", facts={"taste": "bitter"}, fix="add sugar")


def do_flood(spec, folder):
    """Leave a disk that is full."""
    path = folder.parents[2] / "filler"
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
