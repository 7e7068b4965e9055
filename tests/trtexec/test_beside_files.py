"""Numbers of files from other machines, where they lie beside the checkout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import samples
from trtbench.trtexec.abilities import abilities_from_help, abilities_of_version
from trtbench.trtexec.calibration import calibration_from_text
from trtbench.trtexec.layers import graph_from_json
from trtbench.trtexec.outputs import outputs_from_json
from trtbench.trtexec.profile import profile_from_json, profiles_from_json
from trtbench.trtexec.times import TimesFile, read_times, times_from_file


def read(data: bytes) -> TimesFile:
    return read_times(data, where="times.json")


def nearest_rank(column_ms: np.ndarray, percent: float) -> float:
    """trtexec's own percentile."""
    ordered = np.sort(column_ms)
    return float(ordered[max(len(ordered) - 1 - int((1 - percent / 100) * len(ordered)), 0)])


def queries_per_s(file: TimesFile) -> float:
    span_ms = file.columns["endD2hMs"][-1] - file.columns["startH2dMs"][0]
    return float(len(file) / span_ms * 1e3)


def test_alexnet_of_10_4(beside: Path) -> None:
    (path,) = beside.rglob("alexnet_fp16.timing.json")
    file = read(path.read_bytes())
    assert file.variant == "8.5"
    assert file.warmup_rows == 0
    assert np.median(file.columns["latencyMs"]) == pytest.approx(0.495605)
    assert nearest_rank(file.columns["latencyMs"], 99) == pytest.approx(0.5)
    assert queries_per_s(file) == pytest.approx(2012.22, rel=1e-4)
    assert times_from_file(file).h2d is None


def test_mobilenet_of_8_4(beside: Path) -> None:
    (path,) = beside.rglob("mobilenet.qat.onnx.engine.timing.json")
    file = read(path.read_bytes())
    assert (file.variant, file.warmup_rows, len(file)) == ("8.4", 455, 8945 - 455)
    found = [nearest_rank(file.columns["latencyMs"], p) for p in (90, 95, 99)]
    assert found == pytest.approx([0.352234, 0.352295, 0.376038])
    assert queries_per_s(file) == pytest.approx(2829.15, rel=1e-5)


def test_seven_exports_of_7_1_in_one_file(beside: Path) -> None:
    (path,) = beside.rglob("times_ResNet50_N2_None_int8_10.json")
    (log,) = beside.rglob("raw_ResNet50_N2_None_int8_10.txt")
    file = read(path.read_bytes())
    assert len(file.arrays) == 7
    assert all(array.swapped for array in file.arrays)
    printed = log.read_text(errors="replace").split("Enqueue Time")[1:]
    for array, text in zip(range(7), printed, strict=True):
        enqueue = times_from_file(file, array=array).enqueue
        assert enqueue is not None
        median_ms = float(text.split("median: ")[1].split()[0])
        assert np.median(enqueue) * 1e3 == pytest.approx(median_ms, abs=0.011)


def test_seven_real_profiles_in_one_file(beside: Path) -> None:
    (path,) = beside.rglob("profile_ResNet50_N2_None_int8_10.json")
    profiles = profiles_from_json(path.read_bytes(), where=path.name)
    assert [profile.count for profile in profiles][:3] == [1013, 477, 282]
    assert {len(profile.layers) for profile in profiles} == {58}


def test_names_of_profile_and_graph_agree(beside: Path) -> None:
    from trtbench.trtexec.layers import graph_from_json

    folder = beside / "julianleeowl__depth-anything-win"
    profile = profile_from_json((folder / "profile.json").read_bytes(), where="profile.json")
    graph = graph_from_json((folder / "layers.json").read_bytes(), where="layers.json")
    assert [layer.name for layer in profile.layers] == [layer.name for layer in graph.layers]
    assert len(profile.layers) == 139


def test_parameters_of_resnet18(beside: Path) -> None:
    folder = beside / "h200__trtexec-8.6.0"
    path = folder / "resnet18_fp16_b1.graph.json"
    graph = graph_from_json(path.read_bytes(), where=path.name)
    assert sum(layer.weights_count or 0 for layer in graph.layers) == 11_684_712
    assert graph.layers[-1].origin == ("/fc/Gemm",)


def test_seven_real_outputs_in_one_file(beside: Path) -> None:
    (path,) = samples.artefact_files(beside, "output")
    sets = outputs_from_json(path.read_bytes(), where=path.name)
    assert [tensors[0].values.size // 1000 for tensors in sets] == [1, 4, 8, 16, 32, 64, 128]
    assert all(np.isfinite(tensors[0].values).all() for tensors in sets)


def test_every_real_calibration_cache_is_read(beside: Path) -> None:
    caches = {
        path.name: calibration_from_text(path.read_bytes(), where=path.name)
        for path in samples.artefact_files(beside, "calibration")
    }
    assert len(caches) >= 9
    assert all(cache.algorithm == "EntropyCalibration2" for cache in caches.values())
    assert sum(not each.usable for each in caches["int8.cache"].scales) == 87
    assert len(caches["googlenet_calibration"].duplicates) == 76
    traffic = caches["resnet18_trafficcamnet_pruned_int8.txt"]
    assert traffic.version == "10.3.0"
    assert sum(":0" in each.name for each in traffic.scales) == 142


def test_abilities_of_real_help_texts(beside: Path) -> None:
    ten = abilities_from_help(next(beside.glob("NVIDIA__trt-*/**/Help.txt")).read_bytes())
    seven = abilities_from_help(next(beside.glob("Khairul*/**/trtexec-help.txt")).read_bytes())
    assert ten.version == "10.16.1"
    assert len(ten.flags) > 100
    assert not ten.inverted
    known = abilities_of_version("10.16.1").flags
    assert known - ten.flags <= {"--streams", "--plugins"}, "the table and the tool agree"
    assert abilities_of_version("7.2").flags <= seven.flags | {"--plugins"}
