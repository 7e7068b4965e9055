"""Creates the CUDA context of a worker in a thread, while the worker imports its libraries.

A GPU creates one context at a time, 0.1 s each: workers that start together would all wait for it
after importing. Errors are ignored here, because opening the device reports them. CUDA reads the
environment in this thread, and a change by another thread may crash the process: variables that
numpy's import would set are set before.
"""

import ctypes
import os
from collections.abc import Mapping
from threading import Thread

VARIABLE = "TRTBENCH_EARLY_CONTEXT"
"""Has the number of a device and the flags of its context, which say how the host waits."""
LATER = "TRTBENCH_CONTEXT"  # the same, for a context that ``make_delayed`` creates
DRIVER = "libcuda.so.1"
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
LENT = ("OPENBLAS_MAIN_FREE", "GOTOBLAS_MAIN_FREE")
"""``one_thread`` sets the first of ``THREADS`` unless one is set; numpy's import sets ``LENT``."""


def variables(device: int, flags: int) -> dict[str, str]:
    """Return the environment variables that make a worker create a context early."""
    return {VARIABLE: f"{device} {flags}"}


def delayed(requested: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables for the same context, created by ``make_delayed``."""
    return {LATER: requested[VARIABLE]} if VARIABLE in requested else {}


def wait() -> None:
    """Wait until the context exists or has failed; returns at once if none was requested."""
    if _maker is not None:
        _maker.join()
    while _lent:
        os.environ.pop(_lent.pop(), None)


def make_delayed() -> None:
    """Create the delayed context, if one was requested."""
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
    """Create the device's primary context, which the CUDA runtime uses too; it is never freed."""
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
