"""jetson-stats as a source: the structures of two of its versions, and boards that lack parts."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from trtbench.core.samples import TelemetrySample
from trtbench.host import telemetry
from trtbench.host.telemetry import Counters, JtopSource, Sources


class Board:
    """What ``jtop.jtop()`` gives: entered as a context, its values are attributes."""

    def __init__(self, *, fails: Exception | None = None, **values: Any) -> None:
        self._fails = fails
        self.__dict__ |= values
        self.closed = False

    def __enter__(self) -> Board:
        if self._fails:
            raise self._fails
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    def ok(self) -> bool:
        return True


VERSION_4 = {
    "gpu": {"ga10b": {"status": {"load": 37.5}, "freq": {"cur": 624750, "max": 1300500}}},
    "memory": {"RAM": {"tot": 15_000_000, "used": 4096}, "EMC": {"cur": 2133000, "val": 12}},
    "temperature": {
        "cpu": {"temp": 50.0, "online": True},
        "gpu": {"temp": 47.25, "online": True},
    },
    "power": {"rail": {"VDD_GPU_SOC": {"power": 3000}}, "tot": {"power": 7450, "avg": 7000}},
    "nvpmodel": SimpleNamespace(name="MODE_30W", id=2),
    "jetson_clocks": True,
}
VERSION_3 = {
    "gpu": {"val": 0, "frq": 114750},
    "ram": {"use": 2048, "tot": 4_000_000},
    "emc": {"val": 3, "frq": 1600000},
    "temperature": {"CPU": 40.0, "GPU": 38.5},
    "power": ({"cur": 2500, "avg": 2400}, {}),
}


def library(board: Board) -> Any:
    return SimpleNamespace(jtop=lambda *, interval: board)


def test_the_values_of_version_4() -> None:
    board = Board(**VERSION_4)
    with JtopSource.opened(library=library(board)) as source:
        assert source is not None
        assert source.sample(1.5) == TelemetrySample(
            at_s=1.5,
            gpu_util=0.375,
            memory_util=0.12,
            memory_used_bytes=4096 * 1024,
            sm_clock_hz=624.75e6,
            memory_clock_hz=2133e6,
            power_w=pytest.approx(7.45),
            temperature_c=47.25,
        )
        assert source.settings() == {"nvpmodel": "MODE_30W (2)", "jetson_clocks": True}
        assert source.counters().sm_clock_hz == 624.75e6
    assert board.closed


def test_the_values_of_version_3_and_an_idle_gpu_is_not_unknown() -> None:
    with JtopSource.opened(library=library(Board(**VERSION_3))) as source:
        assert source is not None
        seen = source.sample(0.0)
        assert seen.gpu_util == 0.0
        assert (seen.memory_used_bytes, seen.power_w) == (2048 * 1024, pytest.approx(2.5))
        assert (seen.sm_clock_hz, seen.temperature_c) == (114.75e6, 38.5)
        assert source.settings() == {}


@pytest.mark.parametrize("missing", ["gpu", "memory", "temperature", "power"])
def test_each_quantity_is_probed_by_itself(missing: str) -> None:
    values = {name: value for name, value in VERSION_4.items() if name != missing}
    with JtopSource.opened(library=library(Board(**values))) as source:
        assert source is not None
        seen = source.sample(0.0)
    known = [seen.gpu_util, seen.memory_used_bytes, seen.temperature_c, seen.power_w]
    assert known.count(None) == 1


def test_a_sensor_that_is_off_and_a_service_that_is_not_there() -> None:
    off = {"temperature": {"gpu": {"temp": -256.0, "online": False}}}
    with JtopSource.opened(library=library(Board(**off))) as source:
        assert source is not None
        assert source.sample(0.0) == TelemetrySample(at_s=0.0)
    gone = Board(fails=RuntimeError("The jetson_stats.service is not active"))
    with JtopSource.opened(library=library(gone)) as source:
        assert source is None
    with JtopSource.opened() as source:
        assert source is None, "the package is not installed here"


def test_what_tegrastats_does_not_tell_comes_from_the_service() -> None:
    class Lines:
        def sample(self, at_s: float) -> TelemetrySample:
            return TelemetrySample(at_s=at_s, gpu_util=0.5)

        def counters(self, *, energy: bool = False) -> Counters:
            return Counters(at_s=1.0)

    with JtopSource.opened(library=library(Board(**VERSION_4))) as service:
        assert service is not None
        both = Sources([Lines(), service])
        seen = both.sample(2.0)
        assert (seen.at_s, seen.gpu_util, seen.sm_clock_hz) == (2.0, 0.5, 624.75e6)
        assert both.counters().sm_clock_hz == 624.75e6


def test_a_board_is_looked_at_through_the_service_alone_where_nothing_else_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(telemetry, "is_jetson", lambda: True)
    monkeypatch.setitem(sys.modules, "jtop", library(Board(**VERSION_4)))
    with telemetry.source_of(0) as source:
        assert source is not None
        assert source.sample(0.0).power_w == pytest.approx(7.45)
    assert telemetry.board_settings() == {"nvpmodel": "MODE_30W (2)", "jetson_clocks": True}
