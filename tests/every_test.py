"""What holds for every test: how signals reach it, which part it needs, and what a skip may say.

``make test`` leaves the tests that need a real part to ``make test-all``, which installs the
parts. A plain ``pytest`` runs them where the part happens to be there.
"""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import hypothesis
import pytest

HERE = Path(__file__).resolve().parent
LATER = "make test-all runs it"

PARTS = {
    "browser": "Chromium",
    "docs_python": "the tools of the documentation",
    "found_rtx": "TensorRT-RTX",
    "nodes": "Ray",
    "postgres_server": "PostgreSQL",
    "probed": "bindings of TensorRT",
    "s3": "S3 (moto)",
    "sshd": "sshd",
    "torch_python": "PyTorch",
}
"""Fixtures that give a real part, which a plain machine need not have."""

ALLOWED = (
    "^no GPU: ",
    r"no bindings of TensorRT .* for this machine",
    "^no (torchvision|ultralytics) beside PyTorch$",  # not built for the CPU; stand-ins are tested
    "^no small disk: ",
    re.escape(LATER),
)
"""Reasons for which a test may be skipped in continuous integration, and no others."""


def set_up(config: pytest.Config) -> None:
    """Prepare a test process; the one that hears of every test counts what is skipped."""
    children_hear_signals()
    # No example has a time of its own, and every run tries the same ones.
    hypothesis.settings.register_profile("house", deadline=None, derandomize=True)
    hypothesis.settings.load_profile("house")
    if not hasattr(config, "workerinput"):
        strict = os.environ.get("TRTBENCH_TEST_COMPLETE") == "1"
        config.pluginmanager.register(Skips(strict=strict))


def children_hear_signals() -> None:
    """Let signals that this process ignores reach the programs that the tests start.

    A shell starts ``make test &`` with SIGINT ignored, and nohup with SIGHUP ignored, and
    children inherit that: a test that interrupts one would wait for ever. A handler that does
    nothing is as good as ignoring here, and is not inherited.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def mark_parts(items: Iterable[pytest.Item]) -> None:
    """Mark the tests that need a real part, by the fixtures they use."""
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            if fixture in PARTS:
                item.add_marker(pytest.mark.real(PARTS[fixture]))
        marker = item.get_closest_marker("real")
        if marker and os.environ.get("TRTBENCH_TEST_REAL") == "0":
            item.add_marker(pytest.mark.skip(reason=f"needs {marker.args[0]}: {LATER}"))


class Skips:
    """The tests that were skipped, by reason; in continuous integration few reasons count."""

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.reasons: Counter[str] = Counter()
        self.files: dict[str, set[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not report.skipped or hasattr(report, "wasxfail"):
            return
        told = report.longrepr
        reason = str(told[2] if isinstance(told, tuple) else told).removeprefix("Skipped: ")
        self.reasons[reason] += 1
        self.files.setdefault(reason, set()).add(report.nodeid.partition("::")[0])

    def refused(self) -> list[str]:
        """List the reasons that are none where every part should be."""
        return [each for each in self.reasons if not any(re.search(ok, each) for ok in ALLOWED)]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.strict and self.refused() and session.exitstatus in (0, 5):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.reasons:
            return
        refused = self.refused() if self.strict else []
        terminalreporter.section("skipped, and why")
        for reason, count in sorted(self.reasons.items()):
            files = ", ".join(sorted(self.files[reason]))
            terminalreporter.write_line(f"{count:4} {reason}  ({files})")
        for reason in refused:
            terminalreporter.write_line(f"error: skipped for no reason that counts: {reason}")
