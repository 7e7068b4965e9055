"""Begin CUDA's context while a worker still imports its libraries, where that was requested.

A GPU makes one context at a time, 0.1 s each: workers that start at once would all wait for it
after importing. Who starts them names the device in the environment; nothing is said where it does
not work, because opening the device will say it. CUDA reads the environment meanwhile, and who
writes to it then may crash the process: what numpy's import would set is set before. Who has to
wait until others are gone makes its context afterwards.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from threading import Thread

VARIABLE = "TRTBENCH_EARLY_CONTEXT"
"""Holds the number of a device and the flags of its context: how the host waits."""
LATER = "TRTBENCH_CONTEXT"  # the same, of a context that is made when it is waited for
DRIVER = "libcuda.so.1"
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
LENT = ("OPENBLAS_MAIN_FREE", "GOTOBLAS_MAIN_FREE")
"""What ``one_thread`` sets unless one of the two is there, and what numpy does, for its import."""


def variables(device: int, flags: int) -> dict[str, str]:
    """Write what a worker has to find in its environment."""
    return {VARIABLE: f"{device} {flags}"}


def later(requested: Mapping[str, str]) -> dict[str, str]:
    """Ask for the same context, but not before it is waited for."""
    return {LATER: requested[VARIABLE]} if VARIABLE in requested else {}


def wait() -> None:
    """Return when the context is there, or could not be made; at once where none was requested."""
    if _maker is not None:
        _maker.join()
    while _lent:
        os.environ.pop(_lent.pop(), None)


def make_now() -> None:
    """Make the context that had to wait until now, where one had to."""
    requested = _numbers(os.environ.pop(LATER, None))
    if requested is not None:
        _make(*requested)


def _begin(requested: tuple[int, int] | None) -> Thread | None:
    if requested is None:
        return None
    names = LENT if any(name in os.environ for name in THREADS) else (THREADS[0], *LENT)
    _lent.extend(name for name in names if name not in os.environ)
    os.environ.update(dict.fromkeys(_lent, "1"))
    maker = Thread(target=_make, args=requested, daemon=True)
    maker.start()
    return maker


def _numbers(requested: str | None) -> tuple[int, int] | None:
    device, _, flags = (requested or "").partition(" ")
    return (int(device), int(flags)) if device.isdecimal() and flags.isdecimal() else None


def _make(number: int, flags: int) -> None:
    """Retain the context that CUDA's runtime will use too; it lives as long as the process."""
    try:
        driver = ctypes.CDLL(DRIVER)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), number):
            return
        if not driver.cuDevicePrimaryCtxSetFlags_v2(device, flags):
            driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    except (OSError, AttributeError):  # no driver, or one older than these functions
        return


_lent: list[str] = []
_maker = _begin(_numbers(os.environ.pop(VARIABLE, None)))
