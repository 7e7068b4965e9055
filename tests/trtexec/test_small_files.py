from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import samples
from made_artefacts import BATCHES
from trtbench.errors import ParseError
from trtbench.trtexec.calibration import calibration_from_text
from trtbench.trtexec.outputs import outputs_from_json
from trtbench.trtexec.plan import plan_from_bytes
from trtbench.trtexec.sniff import kind_of

# Outputs


def test_outputs_keep_values_json_has_no_words_for() -> None:
    ((tensor,),) = outputs_from_json(samples.outputs_text(), where="output.json")
    assert (tensor.name, tensor.dimensions) == ("prob", (1, 4))
    assert tensor.values[0] == 0.5
    assert math.isnan(tensor.values[1])
    assert tensor.values[2] == -math.inf


def test_a_batch_that_the_dimensions_leave_out() -> None:
    text = json.dumps([{"name": "y", "dimensions": "2x3", "values": list(range(24))}])
    ((tensor,),) = outputs_from_json(text * 2, where="output.json")[:1]
    assert (tensor.dimensions, tensor.values.size) == ((2, 3), 24)
    assert len(outputs_from_json(text * 2, where="output.json")) == 2


@pytest.mark.parametrize("value", [[], {}, [3], [{"name": "y"}], [{"name": "y", "values": 3}]])
def test_what_is_no_output_file_is_refused(value: object) -> None:
    with pytest.raises(ParseError, match="not an output file"):
        outputs_from_json(json.dumps(value), where="output.json")


def test_outputs_of_several_runs_in_one_file(made: Path) -> None:
    (path,) = samples.artefact_files(made, "output")
    sets = outputs_from_json(path.read_bytes(), where=path.name)
    assert [tensors[0].values.size for tensors in sets] == [4 * each for each in BATCHES]


# Calibration caches


def test_calibration_cache_with_every_oddity() -> None:
    cache = calibration_from_text(samples.CALIBRATION, where="calibration.cache")
    assert (cache.version, cache.algorithm) == ("8.6.1", "EntropyCalibration2")
    assert [each.name for each in cache.scales][:2] == ["images:0", "block::conv [0]"]
    scales = {each.name: each.scale for each in cache.scales}
    assert scales["images:0"] == pytest.approx(0.0078759, rel=1e-4)
    assert scales["block::conv [0]"] == 2.0
    assert cache.duplicates == ("block::conv [0]",)
    assert [each.name for each in cache.scales if not each.usable] == ["sample", "wild", "lost"]
    assert cache.scales[1].dynamic_range == 127


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("TRT-x\n", "line 1"),
        ("hello: 3f800000\n", "line 1"),
        ("TRT-8601-EntropyCalibration2\na: 3f80\nb 3f80\n", "line 3"),
        ("TRT-8601-EntropyCalibration2\na: 123456789\n", "line 2"),
        ("TRT-8601-EntropyCalibration2\na: zz\n", "line 2"),
    ],
)
def test_what_is_no_calibration_cache_is_refused(text: str, place: str) -> None:
    with pytest.raises(ParseError) as caught:
        calibration_from_text(text, where="calibration.cache")
    assert caught.value.facts["place"] == place


# Engine headers


def test_plan_headers_of_both_flavours() -> None:
    plan = plan_from_bytes(samples.plan_head(), where="model.engine")
    assert (plan.flavour, plan.version, plan.compute_capabilities) == ("tensorrt", "10.3.0.26", ())
    rtx = plan_from_bytes(samples.plan_head(b"vtrt", b"\x01\x07\x01\x74"), where="model.engine")
    assert (rtx.flavour, rtx.version) == ("tensorrt_rtx", "1.7.1.116")
    assert rtx.compute_capabilities == ("8.0", "8.6", "8.9", "12.0", "12.1")
    assert (rtx.plan_bytes, rtx.weight_bytes, rtx.capability_mask) == (123456, 1000, 0x7E)


@pytest.mark.parametrize("head", [b"", b"ftrt", samples.plan_head()[:27], b"PK\3\4" * 20])
def test_what_is_no_plan_is_refused(head: bytes) -> None:
    with pytest.raises(ParseError):
        plan_from_bytes(head, where="model.engine")


# Kinds


@pytest.mark.parametrize("name", [name for name in samples.every_file() if "series" not in name])
def test_content_tells_the_kind(name: str) -> None:
    assert kind_of(samples.every_file()[name], name="file.bin") == name.split()[0]


SUMMARY = {"batch": 1, "samples": 9, "throughput_qps": 3.0, "latency": {"count": 9}}
BENCH = {"model_path": "x.pt", "iters": 3, "throughput_qps": 3.0, "metrics": {"host": {}}}


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        (b"ptrt\0\0\0\0", "timing.cache", "timing-cache"),
        (b"\x08\x08\x12\x07pytorch\x00", "model.onnx", "onnx"),
        (b"\0\1\2\3" * 9, "model.engine", "plan"),
        (b"\0\1\2\3" * 9, "run.log", "unknown"),
        (b"&&&& RUNNING TensorRT.trtexec # trtexec", "notes.txt", "log"),
        (b"$ trtexec\n[03/04/2025-05:06:07] [I] === Model Options ===\n", "a", "log"),
        (b"Average over 10 runs is 1.5 ms (host walltime is 2 ms,", "a", "log"),
        (b"anything at all", "trtexec_stdout.log", "unknown"),
        (b'{"Layers": ["a"], "Bindings": ["x"]}', "export.log", "layers"),
        (b'{"a": [1.5, 2.5]}', "layer_latency.json", "profile"),
        (b'{"a": [1.5, 2.5]}', "numbers.json", "unknown"),
        (json.dumps(SUMMARY).encode(), "summary.json", "toolkit-summary"),
        (json.dumps(BENCH).encode(), "bench.json", "toolkit-torch-bench"),
        (b"latency_ms\n1.5\n", "a.csv", "toolkit-series"),
        (b"percentile,latency_ms\n50,1.5\n", "a.csv", "toolkit-percentiles"),
        (
            b'{"path": "e", "size_bytes": 3, "modified_iso": "x"}',
            "e.json",
            "toolkit-engine-metadata",
        ),
        (b'{"batch": 1, "avg_runs": 100, "command": "x"}', "c.json", "toolkit-run-config"),
        (b'{"model_options": {"Format": "ONNX"}}', "a.json", "metadata"),
        (b"", "times.json", "unknown"),
        (b"{", "times.json", "unknown"),
    ],
)
def test_content_first_and_name_second(data: bytes, name: str, kind: str) -> None:
    assert kind_of(data, name=name) == kind


def test_a_plural_is_no_number_of_seconds() -> None:
    assert kind_of(b'{"host": "here", "gpus": [{"name": "L4"}]}', name="x.json") == "unknown"
    assert kind_of(b'{"gpu_s": [0.1, 0.2]}', name="x.json") == "times"
