"""Parts of the builders that need no TensorRT: progress, caches, calibration data."""

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trtbench.host import tensorrt

OLD = tensorrt.abilities_of_version("8.6.1", flavour="tensorrt")


def test_progress_of_nested_phases_never_goes_back() -> None:
    seen: list[float] = []
    fake: Any = SimpleNamespace(IProgressMonitor=object)
    monitor = tensorrt.make_monitor(
        fake, report=lambda done, name: seen.append(done), cancelled=lambda: False
    )
    monitor.phase_start("build", None, 4)
    for outer in range(4):
        monitor.phase_start(f"inner{outer}", "build", 2)
        for inner in range(2):
            assert monitor.step_complete(f"inner{outer}", inner)
        monitor.phase_finish(f"inner{outer}")
        assert monitor.step_complete("build", outer)
    monitor.phase_finish("build")
    assert seen == sorted(seen)
    assert seen[0] == pytest.approx(1 / 8)
    assert seen[-1] == 1.0


def test_the_cause_is_not_the_noise_of_a_machine_without_a_driver() -> None:
    noise = "[checkMacros.cpp::catchCudaError::250] Error Code 1: Cuda Runtime (cudaError 35)"
    heard = tensorrt.LoggedErrors(errors=[noise, "no tactics within workspace limit", noise])
    assert heard.cause() == "no tactics within workspace limit"
    assert tensorrt.LoggedErrors(errors=[noise]).cause() == noise
    assert tensorrt.LoggedErrors().cause() is None


def key(**changes: Any) -> tensorrt.CacheKey:
    made = tensorrt.CacheKey(model="m", data="d", batch=8, algorithm="entropy2", tensorrt="8.6.1")
    return made.having(**changes)


def test_scales_are_reused_for_the_same_calibration_only(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "scales.cache"
    tensorrt.ScaleCache(path, key=key()).write(b"TRT-8601-EntropyCalibration2\nx: 3c010a14\n")
    again = tensorrt.ScaleCache(path, key=key())
    assert (again.read() or b"").startswith(b"TRT-8601")
    assert again.used
    for changes in (
        {"model": "other"},
        {"data": "other"},
        {"batch": 16},
        {"algorithm": "minmax"},
        {"tensorrt": "10.9"},
    ):
        other = tensorrt.ScaleCache(path, key=key(**changes))
        assert other.read() is None
        assert not other.used


def test_scales_of_unknown_origin_are_used_only_when_named_without_data(tmp_path: Path) -> None:
    path = tmp_path / "scales.cache"
    path.write_bytes(b"scales")
    assert tensorrt.ScaleCache(path, key=key()).read() is None
    assert tensorrt.ScaleCache(path, key=None).read() == b"scales"
    path.with_name("scales.cache.json").write_text("{not json")
    assert tensorrt.ScaleCache(path, key=key()).read() is None


class FakeCache:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def serialize(self) -> bytes:
        return self.data


class FakeConfig:
    """A configuration that takes caches of its own kind only and adds what it times."""

    def __init__(self, *, adds: bytes = b"", forgets: bool = False) -> None:
        self.adds, self.forgets = adds, forgets
        self.cache: FakeCache | None = None

    def create_timing_cache(self, data: bytes) -> FakeCache | None:
        if data and b"mine" not in data:
            return FakeCache(timings(b"mine")) if self.forgets else None
        return FakeCache(data or timings(b"mine"))

    def set_timing_cache(self, cache: FakeCache, ignore_mismatch: bool) -> bool:
        assert ignore_mismatch is False
        self.cache = cache
        return True

    def build(self) -> None:
        self.cache.data = timings(self.cache.data[24:] + self.adds)


def timings(content: bytes) -> bytes:
    """A cache as TensorRT 8.6 writes it."""
    return b"ptrt" + struct.pack("<IQQ", 0, 236, len(content)) + content


def use_of(path: Path, *, adds: bytes, forgets: bool = False) -> Any:
    config = FakeConfig(adds=adds, forgets=forgets)
    cache = tensorrt.TimingCache(config, path=path, abilities=OLD)
    config.build()
    return cache.save()


def test_a_timing_cache_is_made_reused_and_added_to(tmp_path: Path) -> None:
    path = tmp_path / "timing.cache"
    assert use_of(path, adds=b" a")[0] == "new"
    assert use_of(path, adds=b"")[0] == "hit"
    use, facts = use_of(path, adds=b" b")
    assert use == facts["timing_cache"] == "partial"
    assert facts["timing_cache_before_bytes"] == 30
    assert facts["timing_cache_after_bytes"] == 32
    assert path.read_bytes() == timings(b"mine a b")
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(
    ("held", "forgets"),
    [
        pytest.param(timings(b"another's"), False, id="refused by TensorRT"),
        pytest.param(timings(b"another's"), True, id="taken, and nothing kept"),
        pytest.param(b"of another world" * 8, True, id="no cache at all"),
        pytest.param(timings(b"mine a b")[:-3], False, id="cut short"),
        pytest.param(b"ptrt", False, id="cut in its first bytes"),
    ],
)
def test_a_timing_cache_of_elsewhere_is_kept_and_said(tmp_path: Path, held: bytes, forgets: bool):
    path = tmp_path / "timing.cache"
    path.write_bytes(held)
    assert use_of(path, adds=b" a", forgets=forgets)[0] == "refused"
    assert path.read_bytes() == timings(b"mine a")
    assert (tmp_path / "timing.cache.old").read_bytes() == held
