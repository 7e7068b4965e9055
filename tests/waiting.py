"""Waiting for what other processes do."""

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


@contextmanager
def ended(process: subprocess.Popen[Any]) -> Iterator[subprocess.Popen[Any]]:
    """Wait for a process as ``with Popen(...)`` does, but kill it where the block fails.

    ``Popen`` alone waits then too, so that the time of the test would not end it.
    """
    with process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def printed(command: Sequence[object], **settings: Any) -> str:
    """Return what a program prints, which must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, **settings)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return str(done.stdout)


def wait_for(found: Callable[[], T]) -> T:
    """Wait until something is so; what never comes ends with the time of the test, by name."""
    while not (value := found()):
        time.sleep(0.02)
    return value


def with_patience(attempt: Callable[[float], T], *, far_enough: Callable[[T], bool]) -> T:
    """Try with more and more seconds: a busy machine is ended before it came to the point."""
    for seconds in (0.6, 4.0, 40.0, 200.0):
        found = attempt(seconds)
        if far_enough(found):
            break
    return found
