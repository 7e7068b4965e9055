"""Waiting for a moment: never early, without slack, and earlier awake where wake-ups are late."""

import ctypes
import time

from trtbench.runtimes import _loop as waiting


def slack_ns() -> int:
    return int(ctypes.CDLL(None).prctl(waiting.GET_SLACK, 0, 0, 0, 0))


def test_a_wait_never_ends_before_its_moment() -> None:
    with waiting.exact_timers():
        wait = waiting.waiter()
        for ahead_ns in (0, 10_000, 300_000, 2_000_000):
            target = time.perf_counter_ns() + ahead_ns
            wait(target)
            assert time.perf_counter_ns() >= target
        wait(0)  # a moment that has passed is no wait


def test_timers_have_no_slack_inside_and_the_old_one_afterwards() -> None:
    before = slack_ns()
    with waiting.exact_timers():
        assert slack_ns() == waiting.LEAST_SLACK_NS
    assert slack_ns() == before > waiting.LEAST_SLACK_NS


def test_the_later_a_machine_wakes_the_earlier_it_is_told_to() -> None:
    least, most = waiting.SPIN_NS
    assert waiting.spin_for_wakes([5_000] * 100) == least
    assert waiting.spin_for_wakes([200_000] * 100) == 400_000
    assert waiting.spin_for_wakes([9_000_000] * 100) == most
    assert waiting.spin_for_wakes([5_000] * 99 + [9_000_000]) == least  # one lone straggler
