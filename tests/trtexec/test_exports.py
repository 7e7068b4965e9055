"""Layer information, profiles, outputs, calibration caches, headers of engines, kinds of files."""

import json
from pathlib import Path

import pytest

import samples
from trtbench.core.codec import json_from_value, value_from_json
from trtbench.core.errors import ParseError
from trtbench.core.samples import EngineGraph, LayerProfile
from trtbench.trtexec import exports
from trtbench.trtexec.sniff import kind_of
from trtbench.trtexec.version import plan_from_bytes


def read_graph(value: object) -> EngineGraph:
    text = value if isinstance(value, str) else json.dumps(value)
    return exports.graph_from_json(text.encode(), where="graph.json")


def test_names_only() -> None:
    graph = read_graph(samples.graph("names"))
    assert not graph.detailed
    assert [layer.name for layer in graph.layers] == ["conv1", "relu1"]
    assert graph.io_tensors == ("x", "y")


@pytest.mark.parametrize("version", ["8.4", "8.6", "10", "11"])
def test_detailed_layers_of_every_version(version: str) -> None:
    graph = read_graph(samples.graph(version))
    conv = graph.layers[0]
    assert graph.detailed
    assert graph.io_tensors == ("x", "y")
    assert (conv.name, conv.type) == ("conv1 + relu1", "CaskConvolution")
    assert conv.inputs[0].dimensions == (1, 3, 8, 8)
    assert conv.inputs[0].dtype == ("bf16" if version == "11" else "fp16")
    assert conv.outputs[0].dtype == "fp16"
    assert conv.tactic == "sm80_something"
    assert conv.weights_count == 224
    assert conv.extra["ParameterType"] == "Convolution"
    assert conv.extra["TacticValue"] == "0x01"
    assert conv.stream == (None if version == "8.4" else 0)
    assert conv.origin == (() if version == "8.4" else ("/conv1", "/relu1"))


def test_flattened_myelin_layers() -> None:
    gemm = read_graph(samples.graph("10")).layers[1]
    assert (gemm.type, gemm.stream, gemm.weights_count) == ("gemm", 1, None)
    assert (gemm.inputs[0].dtype, gemm.outputs[0].dtype) == ("fp16", "fp32")
    assert gemm.inputs[0].location is None
    assert gemm.origin == ("/fc", "/add")


def test_tensorrt_11_keeps_what_it_says_of_inputs_and_outputs() -> None:
    graph = read_graph(samples.graph("11"))
    assert graph.extra["ProfilingVerbosity"] == "DETAILED"
    assert graph.extra["I/O Tensors"]
    assert graph.layers[0].inputs[0].format == "Linear"


def test_raw_control_characters_are_read() -> None:
    text = json.dumps(samples.graph("8.6")).replace("\\u001e", "\x1e")
    assert read_graph(text).layers[0].origin == ("/conv1", "/relu1")


@pytest.mark.parametrize(
    ("dtype", "wordings"),
    [
        ("fp32", ("Row major linear FP32", "Float")),
        ("fp16", ("Row major linear FP16 format", "Half", "kHALF")),
        ("fp16", ("Channel major FP16 format where channel % 8 == 0",)),
        ("int8", ("Thirty-two wide channel vectorized row major Int8 format",)),
        ("bf16", ("Row major linear BF16 format", "BFloat16")),
        ("uint8", ("Row major linear UInt8 format",)),
        ("fp8", ("FP8", "E4M3")),
        (None, ("N/A due to dynamic shapes", "", None)),
        *(("int32", ("Int32",)), ("int4", ("Int4",)), ("fp4", ("FP4E2M1",))),
    ],
)
def test_types_in_every_wording(dtype: str | None, wordings: tuple[str | None, ...]) -> None:
    assert [exports.dtype_from_format(each) for each in wordings] == [dtype] * len(wordings)


def test_metadata_names_each_node_once_and_keeps_brackets() -> None:
    text = "[ONNX Layer: a[0]]\x1e[ONNX Layer: b]\x1f[ONNX Layer: a[0]]\x1f\x1e"
    for metadata, origin in ((text, ("a[0]", "b")), ("", ()), ("something else", ())):
        graph = read_graph({"Layers": [{"Name": "n", "Metadata": metadata}]})
        assert graph.layers[0].origin == origin


def test_every_graph_of_a_folder_is_read(artefacts: Path) -> None:
    paths = list(samples.artefact_files(artefacts, "layers"))
    assert len(paths) >= 8
    for path in paths:
        graph = exports.graph_from_json(path.read_bytes(), where=path.name)
        assert len(graph.io_tensors) >= 2
        assert all(layer.name for layer in graph.layers)
        assert value_from_json(json_from_value(graph), EngineGraph, where="x") == graph
        if graph.detailed:
            tensors = [t for layer in graph.layers for t in layer.inputs + layer.outputs]
            assert all(tensor.dtype for tensor in tensors), path.name


def read_profile(text: str) -> LayerProfile:
    [profile] = exports.profiles_from_json(text.encode(), where="profile.json")
    return profile


@pytest.mark.parametrize("medians", [True, False])
def test_layers_keep_order_repeated_names_and_zero_times(medians: bool) -> None:
    profile = read_profile(samples.profile_text(samples.LAYERS, medians=medians))
    assert profile.count == 100
    assert [layer.name for layer in profile.layers] == [name for name, _ in samples.LAYERS]
    assert [layer.total_s for layer in profile.layers] == pytest.approx([0.0425, 0.0075, 0, 0.05])
    assert [layer.average_s for layer in profile.layers] == pytest.approx(
        [0.000425, 0.000075, 0, 0.0005]
    )
    assert [layer.share for layer in profile.layers] == pytest.approx([0.425, 0.075, 0, 0.5])
    assert (profile.layers[0].median_s is not None) == medians


NAMES = ('say "hi"', "back\\slash", 'ends with "', "C:\\new\\table", 'a", b', "{x} [y]: z, \\", '"')


@pytest.mark.parametrize("name", [*NAMES, ""])
def test_names_that_were_not_escaped_are_taken_as_they_stand(name: str) -> None:
    profile = read_profile(samples.profile_text([(name, 1.0), ("next", 2.0), (name, 3.0)]))
    assert [layer.name for layer in profile.layers] == [name, "next", name]
    assert [layer.total_s for layer in profile.layers] == pytest.approx([0.001, 0.002, 0.003])


def test_a_profile_of_nothing_has_no_shares() -> None:
    profile = read_profile(samples.profile_text([("a", 0.0), ("b", 0.0)], count=1))
    assert profile.count == 1
    assert [layer.share for layer in profile.layers] == [None, None]


def test_json_that_was_written_anew_is_read_as_json() -> None:
    records = json.loads(samples.profile_text(samples.LAYERS))
    records[1]["name"] = 'quoted "name"\\'
    for indent in (None, 2):
        profile = read_profile(json.dumps(records, indent=indent))
        assert profile.layers[0].name == 'quoted "name"\\'
        assert profile.count == 100


def test_half_characters_do_not_hinder_storing() -> None:
    text = r'[{"count": 2}, {"name": "a\ud800b\udc00\ud83d\ude00", "timeMs": 3.0}]'
    profile = read_profile(text)
    assert profile.layers[0].name == "a\ufffdb\ufffd\U0001f600"
    assert json_from_value(profile)


def test_several_profiles_in_one_file() -> None:
    text = samples.profile_text(samples.LAYERS, count=10) + samples.profile_text([("a", 1.0)])
    profiles = exports.profiles_from_json(text, where="profile.json")
    assert [(each.count, len(each.layers)) for each in profiles] == [(10, 4), (100, 1)]


def test_a_profilers_series_gives_minimum_median_and_maximum() -> None:
    profile = read_profile(json.dumps({"conv": [1.0, 3.0, 2.0], "fc": [0.5, 0.5, 0.5]}))
    conv = profile.layers[0]
    assert profile.count == 3
    assert (conv.total_s, conv.average_s, conv.median_s) == pytest.approx((0.006, 0.002, 0.002))
    assert (conv.min_s, conv.max_s) == pytest.approx((0.001, 0.003))
    assert conv.share == pytest.approx(0.8)


@pytest.mark.parametrize("nest", ["layers", "profile", "anything"])
def test_nestings_of_other_tools(nest: str) -> None:
    records = [
        {"name": "conv", "avg_time_ms": 1.5, "min_time_ms": 1.0, "max_time_ms": 2.0},
        {"name": "fc", "avg_time_ms": 0.5},
    ]
    profile = read_profile(json.dumps({"meta": {"gpu": "x"}, "data": {nest: records, "count": 4}}))
    assert profile.count == 4
    assert [layer.average_s for layer in profile.layers] == pytest.approx([0.0015, 0.0005])
    assert profile.layers[0].total_s == pytest.approx(0.006)
    assert [layer.share for layer in profile.layers] == pytest.approx([0.75, 0.25])


def test_a_layer_that_was_cut_out_of_the_middle_is_not_swallowed() -> None:
    text = samples.profile_text([("a", 1.0), ("b", 2.0), ("c", 3.0)])
    broken = text.replace('"b", "timeMs" : 2, "averageMs" : 0.02,', '"b",')
    with pytest.raises(ParseError, match="a layer without a time") as caught:
        read_profile(broken)
    assert caught.value.facts["place"] == "layer 'b'"
    with pytest.raises(ParseError, match="is cut off"):
        read_profile(text[:-20])


def test_every_profile_of_a_folder_is_read(artefacts: Path) -> None:
    paths = list(samples.artefact_files(artefacts, "profile"))
    assert len(paths) >= 5
    for path in paths:
        for profile in exports.profiles_from_json(path.read_bytes(), where=path.name):
            assert profile.count
            shares = [layer.share or 0 for layer in profile.layers]
            assert sum(shares) == pytest.approx(1, abs=1e-4), path.name
            for layer in profile.layers:
                assert layer.average_s * profile.count == pytest.approx(layer.total_s, rel=1e-4)


# Calibration caches


def test_calibration_cache_with_every_oddity() -> None:
    cache = exports.calibration_from_text(samples.CALIBRATION, where="calibration.cache")
    assert (cache.version, cache.algorithm) == ("8.6.1", "EntropyCalibration2")
    assert [each.name for each in cache.scales][:2] == ["images:0", "block::conv [0]"]
    scales = {each.name: each.scale for each in cache.scales}
    assert scales["images:0"] == pytest.approx(0.0078759, rel=1e-4)
    assert scales["block::conv [0]"] == 2.0
    assert [each.name for each in cache.scales if not each.usable] == ["sample", "wild", "lost"]
    assert cache.scales[1].dynamic_range == 127


# Engine headers


def test_plan_headers_of_both_flavours() -> None:
    plan = plan_from_bytes(samples.plan_head(), where="model.engine")
    assert (plan.flavour, plan.version, plan.compute_capabilities) == ("tensorrt", "10.3.0.26", ())
    rtx = plan_from_bytes(samples.plan_head(b"vtrt", b"\x01\x07\x01\x74"), where="model.engine")
    assert (rtx.flavour, rtx.version) == ("tensorrt_rtx", "1.7.1.116")
    assert rtx.compute_capabilities == ("8.0", "8.6", "8.9", "12.0", "12.1")
    assert (rtx.plan_bytes, rtx.weight_bytes) == (123456, 1000)


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
        (b"\0\1\2\3" * 9, "model.engine", "plan"), (b"\0\1\2\3" * 9, "run.log", "unknown"),
        (b"&&&& RUNNING TensorRT.trtexec # trtexec", "notes.txt", "log"),
        (b"$ trtexec\n[03/04/2025-05:06:07] [I] === Model Options ===\n", "a", "log"),
        (b"Average over 10 runs is 1.5 ms (host walltime is 2 ms,", "a", "log"),
        (b"anything at all", "trtexec_stdout.log", "unknown"),
        (b'{"Layers": ["a"], "Bindings": ["x"]}', "export.log", "layers"),
        (b'{"a": [1.5, 2.5]}', "layer_latency.json", "profile"),
        (b'{"a": [1.5, 2.5]}', "numbers.json", "unknown"),
        (json.dumps(SUMMARY).encode(), "summary.json", "toolkit-summary"),
        (json.dumps(BENCH).encode(), "bench.json", "toolkit-torch-bench"),
        (json.dumps({"runs": [SUMMARY, BENCH]}).encode(), "bench.json", "unknown"),
        (b'{"throughput_qps": 9.5, "metrics": {"recall": 0.9}}', "search.json", "unknown"),
        (b'[{"name": "GET /", "calls": 7, "avgMs": 1.5}]', "endpoints.json", "unknown"),
        (b"latency_ms\n1.5\n", "a.csv", "toolkit-series"),
        (b"percentile,latency_ms\n50,1.5\n", "a.csv", "toolkit-table"),
        (b'{"size_bytes": 3, "modified_iso": "x"}', "e.json", "toolkit-engine-metadata"),
        (b'{"batch": 1, "avg_runs": 100, "command": "x"}', "c.json", "toolkit-run-config"),
        (b'{"model_options": {"Format": "ONNX"}}', "a.json", "metadata"),
        (b"", "times.json", "unknown"), (b"{", "times.json", "unknown"),
        (b'{"gpu_s": [0.1, 0.2]}', "x.json", "times"),
        (b'{"host": "here", "gpus": [{"name": "L4"}]}', "x.json", "unknown"),  # not seconds
    ],
)  # fmt: skip
def test_content_first_and_name_second(data: bytes, name: str, kind: str) -> None:
    assert kind_of(data, name=name) == kind
