"""Which core two processes measure from."""

from __future__ import annotations

from pathlib import Path

from trtbench.host.machine import fastest_core


def test_a_large_core_is_taken_before_a_small_one(tmp_path: Path) -> None:
    for core, capacity in ((0, 420), (1, 420), (4, 1024), (5, 1024)):
        (tmp_path / f"cpu{core}").mkdir()
        (tmp_path / f"cpu{core}" / "cpu_capacity").write_text(f"{capacity}\n")
    assert fastest_core({0, 1, 4, 5}, root=tmp_path) == 4
    assert fastest_core({0, 1}, root=tmp_path) == 0


def test_clocks_tell_where_capacities_do_not_and_else_the_first_is_taken(tmp_path: Path) -> None:
    (tmp_path / "cpu3" / "cpufreq").mkdir(parents=True)
    (tmp_path / "cpu3" / "cpufreq" / "cpuinfo_max_freq").write_text("2400000")
    assert fastest_core({2, 3}, root=tmp_path) == 3
    assert fastest_core({6, 7}, root=tmp_path) == 6
