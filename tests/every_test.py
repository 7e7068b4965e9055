"""What holds for every test: how signals reach it, which part it needs, and what a skip may say.

``make test`` leaves the tests that need a real part to ``make test-all``, which installs the
parts. A plain ``pytest`` runs them where the part happens to be there.
"""

import functools
import os
import re
import signal
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import hypothesis
import pytest

LATER = "make test-all runs it"

PARTS = {
    "browser": "Chromium",
    "docs_python": "the tools of the documentation",
    "nodes": "Ray",
    "postgres_server": "PostgreSQL",
    "probed": "bindings of TensorRT",
    "s3": "S3 (moto)",
    "sshd": "sshd",
    "tensorrt_rtx": "TensorRT-RTX",
    "torch_python": "PyTorch",
}
"""Fixtures that give a real part, which a plain machine need not have."""

LONG = {
    "test_a_large_model_goes_alone_and_is_told",
    "test_a_sweep_fills_dimensions_of_inputs_by_name",
    "test_names_reach_tables_and_legends",
    "test_rare_stalls_leave_a_doubt_that_holds_the_truth",
    "test_slow_models_are_looked_at_after_four_launches",
    "test_tails_of_two_equal_processes_never_differ",
    "test_the_answer_of_a_search_is_right_within_its_doubt_and_its_time",
    "test_a_setting_of_bench_is_two_fields",
    "test_every_model_is_prepared_in_its_own_way",
    "test_work_goes_to_the_host_that_has_what_it_needs",
    "test_launches_and_candidates_count_towards_one_total",
    "test_a_second_list_of_contents_hides_no_code",
    "test_bytes_in_arrays_are_calibrated_with_as_they_are_judged",
    "test_networks_of_other_kinds",
    "test_no_row_takes_the_files_of_another",
    "test_no_secret_reaches_the_store_a_document_or_a_screen",
    "test_a_run_goes_there_and_comes_back",
    "test_a_comparison_without_flags_takes_bursts_in_turn",
    "test_a_sweep_goes_on_after_kill_9_without_repeating",
    "test_a_sweep_measures_every_case_in_every_round",
    "test_an_open_gate_on_the_main_branch_moves_the_baseline",
    "test_the_first_job_makes_the_baseline_and_the_next_is_held_against_it",
    "test_the_job_of_gitlab_runs_the_same_script",
    "test_networks_are_compared_by_pairs_of_builds",
    "test_one_timing_cache_makes_them_alike",
    "test_engines_on_a_gpu_are_looked_at_and_their_clocks_told",
    "test_a_kept_model_is_measured_in_turn_after_its_file_changed",
    "test_every_family_says_the_same_boxes",
    "test_a_sweep_of_precisions_with_its_accuracies",
    "test_an_error_of_the_run_there_is_the_same_error_here",
    "test_a_graph_that_one_side_lacks_is_left_out_on_both",
    "test_a_runtime_is_asked_in_the_interpreter_it_would_measure_with",
    "test_quantized_checked_and_judged_with_one_preparation",
    "test_a_protocol_with_a_loop_of_its_own_does_not_take_turns",
    "test_every_build_is_a_draw_and_the_spread_is_told",
    "test_no_wait_fails_at_once_while_another_device_is_free",
    "test_one_table_and_the_pictures_of_all_models",
    "test_whatever_room_is_left_no_half_run_is_seen",
    "test_memory_does_not_grow_with_a_verbose_log",
    "test_yolo_data_and_what_a_model_gets_wrong",
    "test_a_decoder_of_ones_own",
    "test_launches_that_do_not_fit_at_once_load_one_after_the_other",
    "test_trtexec",
    "test_users_editors_know_the_arguments",
}
"""Tests that take longest, by seconds on two quiet cores: they wait for ``make test-all``."""

ALLOWED = (
    "^no GPU: ",
    r"no bindings of TensorRT .* for this machine",
    "^no (torchvision|ultralytics) beside PyTorch$",  # not built for the CPU; stand-ins are tested
    "^no small disk: ",
    "^no Python 3.10 on this machine$",
    re.escape(LATER),
)
"""Reasons for which a test may be skipped in continuous integration, and no others."""


def set_up(config: pytest.Config) -> None:
    """Prepare a test process; the one that hears of every test counts what is skipped."""
    children_hear_signals()
    for name in ("COLUMNS", "LINES"):  # readline sets them for children of whoever imports it
        os.environ.pop(name, None)
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
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.real(PARTS["browser"]))
        if getattr(item, "originalname", None) in LONG:
            item.add_marker(pytest.mark.real("minutes"))
        marker = item.get_closest_marker("real")
        if marker and os.environ.get("TRTBENCH_TEST_REAL") == "0":
            # Whether the part is here does not matter now, and must not become the reason.
            item.own_markers = [each for each in item.own_markers if each.name != "skipif"]
            item.add_marker(pytest.mark.skip(reason=f"needs {marker.args[0]}: {LATER}"))


def scheduler(config: pytest.Config, log: Any) -> Any:
    """Let one worker run what has one costly start: a group, or a file that shares a fixture.

    Groups of pytest-xdist 3.8 are lost without a word under pytest 9.2, which names tests anew.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(config.rootpath / nodeid.partition("::")[0]) or nodeid

    return Together(config, log)


@functools.cache
def group_of(path: Path) -> str | None:
    """Name the group that a file of tests belongs to; none where tests need nothing together."""
    if path.parent.name == "gpu":
        return "gpu"
    text = path.read_text(encoding="utf-8")
    named = re.search(r'xdist_group\("(\w+)"\)', text)
    if named:
        return named[1]
    return str(path) if 'scope="module"' in text else None


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
