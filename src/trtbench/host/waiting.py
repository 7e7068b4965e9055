"""Waiting for a moment of the clock: the kernel's own timer, then a short look at the clock.

Python's sleep is woken with the slack that Linux gives every thread, 50 µs, and on older versions
counts from when it was called. Here the moment itself is named, without slack; how late the
machine still wakes is measured, and that much is spent looking at the clock.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np

Until = Callable[[int], None]
"""Returns at, or shortly after, a moment in nanoseconds of ``perf_counter_ns``."""

MONOTONIC, ABSOLUTE = 1, 1
"""CLOCK_MONOTONIC, which is what ``perf_counter_ns`` reads on Linux, and TIMER_ABSTIME."""
SET_SLACK, GET_SLACK, LEAST_SLACK_NS = 29, 30, 1
"""PR_SET_TIMERSLACK and PR_GET_TIMERSLACK."""
PROBES, PROBE_NS = 100, 500_000
SPIN_NS = (100_000, 1_000_000)
"""The least and the most that is spent looking at the clock."""
ALMOST_ALL, TIMES = 98, 2.0
"""Per cent of wake-ups that are early enough with a look of this many times their delay."""


class _Moment(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


@contextmanager
def exact_timers() -> Iterator[None]:
    """Have the kernel wake this thread without slack for the length of the block."""
    libc = _libc()
    if libc is None:
        yield
        return
    before = libc.prctl(GET_SLACK, *_ulongs(0))
    libc.prctl(SET_SLACK, *_ulongs(LEAST_SLACK_NS))
    try:
        yield
    finally:
        libc.prctl(SET_SLACK, *_ulongs(max(0, before)))


def sleep_until(target_ns: int) -> None:
    """Sleep up to a moment; comes late by what the machine takes to wake."""
    libc = _libc()
    if libc is None:
        time.sleep(max(0, target_ns - time.perf_counter_ns()) * 1e-9)
        return
    moment = _Moment(*divmod(target_ns, 10**9))
    libc.clock_nanosleep(MONOTONIC, ABSOLUTE, ctypes.byref(moment), None)


def waiter() -> Until:
    """Make what waits for a moment, fitted to how late this machine wakes."""
    spin_ns, sleep, clock = spin_for_wakes(wake_delays_ns()), sleep_until, time.perf_counter_ns

    def wait(target_ns: int) -> None:
        if target_ns - clock() > spin_ns:
            sleep(target_ns - spin_ns)
        while clock() < target_ns:
            pass

    return wait


def wake_delays_ns() -> list[int]:
    """Look how late the machine wakes from short sleeps."""
    delays = []
    for _ in range(PROBES):
        target = time.perf_counter_ns() + PROBE_NS
        sleep_until(target)
        delays.append(time.perf_counter_ns() - target)
    return delays


def spin_for_wakes(delays_ns: list[int]) -> int:
    """Choose how long before a moment to wake: earlier than almost all wake-ups were late."""
    least, most = SPIN_NS
    return int(min(most, max(least, TIMES * float(np.percentile(delays_ns, ALMOST_ALL)))))


@cache
def _libc() -> ctypes.CDLL | None:
    """Find the C library where its clock is Python's own; ``None`` elsewhere."""
    if "CLOCK_MONOTONIC" not in time.get_clock_info("perf_counter").implementation:
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "clock_nanosleep") and hasattr(libc, "prctl") else None


def _ulongs(first: int) -> tuple[ctypes.c_ulong, ...]:
    return tuple(ctypes.c_ulong(each) for each in (first, 0, 0, 0))
