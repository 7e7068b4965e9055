"""What trtexec exports: times, layers, profiles, outputs, caches, engines; and kinds of files."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import samples
from made_artefacts import BATCHES
from trtbench.core.codec import json_from_value, value_from_json
from trtbench.core.errors import ParseError
from trtbench.core.samples import EngineGraph, LayerProfile
from trtbench.trtexec import exports
from trtbench.trtexec import times as _rows
from trtbench.trtexec.sniff import kind_of
from trtbench.trtexec.times import TimesArray, read_times, times_from_arrays
from trtbench.trtexec.version import plan_from_bytes
from waiting import printed


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


def test_flattened_myelin_layers_and_what_11_says_of_inputs_and_outputs() -> None:
    gemm = read_graph(samples.graph("10")).layers[1]
    assert (gemm.type, gemm.stream, gemm.weights_count) == ("gemm", 1, None)
    assert (gemm.inputs[0].dtype, gemm.outputs[0].dtype) == ("fp16", "fp32")
    assert gemm.inputs[0].location is None
    assert gemm.origin == ("/fc", "/add")
    graph = read_graph(samples.graph("11"))
    assert graph.extra["ProfilingVerbosity"] == "DETAILED"
    assert graph.extra["I/O Tensors"]
    assert graph.layers[0].inputs[0].format == "Linear"
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


def test_a_profile_of_nothing_and_several_in_one_file() -> None:
    profile = read_profile(samples.profile_text([("a", 0.0), ("b", 0.0)], count=1))
    assert profile.count == 1
    assert [layer.share for layer in profile.layers] == [None, None]
    text = samples.profile_text(samples.LAYERS, count=10) + samples.profile_text([("a", 1.0)])
    profiles = exports.profiles_from_json(text, where="profile.json")
    assert [(each.count, len(each.layers)) for each in profiles] == [(10, 4), (100, 1)]


def test_json_that_was_written_anew_is_read_as_json_and_half_characters_can_be_stored() -> None:
    records = json.loads(samples.profile_text(samples.LAYERS))
    records[1]["name"] = 'quoted "name"\\'
    for indent in (None, 2):
        profile = read_profile(json.dumps(records, indent=indent))
        assert profile.layers[0].name == 'quoted "name"\\'
        assert profile.count == 100
    text = r'[{"count": 2}, {"name": "a\ud800b\udc00\ud83d\ude00", "timeMs": 3.0}]'
    profile = read_profile(text)
    assert profile.layers[0].name == "a\ufffdb\ufffd\U0001f600"
    assert json_from_value(profile)


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


def read(data: bytes | str, **options: float) -> tuple[TimesArray, ...]:
    data = data.encode() if isinstance(data, str) else data
    return read_times(data, where="times.json", **options)


def one(data: bytes | str, **options: float) -> TimesArray:
    (array,) = read(data, **options)
    return array


@pytest.mark.parametrize("variant", samples.STAMPED)
def test_every_schema_is_named_and_its_phases_are_found(variant: str) -> None:
    array = one(samples.times_file(variant))
    times = times_from_arrays([array])
    assert array.variant == variant
    dropped = 0 if variant == "8.5" else 20  # rows at 2.5, 12.5 ... 192.5 ms
    assert array.warmup_rows == dropped
    assert len(times) == 40 - dropped
    assert times.gpu == pytest.approx([(2 + i / 1000) / 1e3 for i in range(dropped, 40)])
    assert times.h2d == pytest.approx(0.5e-3)
    assert times.d2h == pytest.approx(0.125e-3)
    assert times.host is None
    assert (times.end_to_end is not None) == (variant in ("7.0", "7.1", "8.0"))
    assert times.start[0] == 0
    assert np.diff(times.start) == pytest.approx(0.01, abs=2e-5)
    if variant == "7.0":
        assert times.enqueue is None
    else:
        assert times.enqueue == pytest.approx(samples.ENQUEUE_MS / 1e3, abs=1e-6)


def test_a_7_1_file_with_the_pairs_in_place_is_not_swapped() -> None:
    rows = samples.times_rows("7.1")
    for row in rows:
        for end in ("start", "end"):
            row[f"{end}EnqMs"], row[f"{end}InMs"] = row[f"{end}InMs"], row[f"{end}EnqMs"]
    assert not one(samples.times_text(rows)).swapped


def test_warmup_is_as_stated_or_assumed_and_ends_at_the_first_measured_row() -> None:
    data = samples.times_file("8.4")
    assert one(data, warmup_ms=50).warmup_rows == 5
    assert one(data, warmup_ms=0).warmup_rows == 0
    assert one(data, warmup_ms=0).variant == "8.5"
    array = one(samples.times_file("8.4", rows=5))  # all within the assumed one
    assert (len(array), array.warmup_rows, array.warmup_ms) == (5, 0, None)
    rows = samples.times_rows("8.4", rows=30)
    late = rows.pop(2)
    assert one(samples.times_text([*rows, late])).warmup_rows == 19


def test_arrays_in_one_file_are_launches() -> None:
    data = samples.times_file("8.5", rows=3) + samples.times_file("8.4", rows=40)
    arrays = read(data)
    times = times_from_arrays(arrays)
    assert [len(array) for array in arrays] == [3, 20]
    assert [array.variant for array in arrays] == ["8.5", "8.4"]
    assert times.launch.tolist() == [0] * 3 + [1] * 20


def test_transfers_that_were_off_are_absent() -> None:
    array = one(samples.times_file("8.5", transfers=False))
    times = times_from_arrays([array])
    assert times.h2d is None
    assert times.d2h is None
    assert not array.columns["h2dMs"].any()
    assert times.latency is not None
    assert times.latency == pytest.approx(times.gpu)


@pytest.mark.parametrize("word", ["inf", "nan", "-nan", "-inf", "NaN", "Infinity", "1e999"])
def test_values_that_are_no_numbers_are_kept_and_no_samples(word: str) -> None:
    data = samples.times_file("8.5").replace(
        b'"computeMs" : 2.003', f'"computeMs" : {word}'.encode()
    )
    array = one(data)
    assert not math.isfinite(array.columns["computeMs"][3])
    assert len(array) == 40
    assert len(times_from_arrays([array])) == 39


def test_unknown_keys_and_nested_values_do_no_harm_and_a_key_that_rows_lack_is_nan_there() -> None:
    rows = [{**row, "streamId": 3.0} for row in samples.times_rows("8.5", first_ms=300)]
    assert set(one(samples.times_text(rows)).columns["streamId"]) == {3.0}
    nested = [{**row, "note": {"a": [1, {"b": "}]"}]}} for row in rows]
    assert len(one(json.dumps(nested))) == 40
    del rows[2]["startEnqMs"]
    lacking = np.isnan(one(samples.times_text(rows[:4])).columns["startEnqMs"])
    assert lacking.tolist() == [False, False, True, False]


@pytest.mark.parametrize("indent", [None, 1, 4])
def test_any_formatting_gives_the_same_columns(indent: int | None) -> None:
    rows = samples.times_rows("8.5", first_ms=300)
    expected = {key: [row[key] for row in rows] for key in rows[0]}
    found = one(json.dumps(rows, indent=indent)).columns
    assert {key: column.tolist() for key, column in found.items()} == expected


def test_foreign_encodings() -> None:
    text = samples.times_file("8.4").decode()
    for data in (
        text.encode("utf-16"),
        b"\xef\xbb\xbf" + text.encode(),
        text.replace("\n", "\r\n").encode(),
    ):
        assert len(one(data)) == 20


@pytest.mark.parametrize("name", ["perIteration", "per_iteration", "iteration_times"])
def test_lists_of_columns_under_a_name(name: str) -> None:
    columns = {"latencyMs": [1.5, 2.5], "enqueue_ms": [0.1, 0.2], "gpu_compute_ms": [1, 2]}
    times = times_from_arrays(read(json.dumps({name: columns})))
    assert times.latency == pytest.approx([0.0015, 0.0025])
    assert times.enqueue == pytest.approx([0.0001, 0.0002])
    assert times.gpu == pytest.approx([0.001, 0.002])


@pytest.mark.parametrize(
    ("document", "has_unit"),
    [
        ([2.5, 1.5], False),
        (["2500 us", "1.5ms"], True),
        ({"runs": [2.5, 1.5]}, False),
        ({"shape": [1, 3], "runs": [{"latency": "2500.0us"}, {"latency": "0.0015 s"}]}, True),
        ([{"latency": "2500 microseconds"}, {"latency": "1.5 ms"}], True),
        ({"iterations": {"latency_us": ["2.5 ms", "1.5 ms"]}}, True),
        ({"perIteration": {"latency": ["2.5ms", "1500µs"]}}, True),
    ],
)
def test_times_as_other_tools_write_them(document: object, has_unit: bool) -> None:
    assert kind_of(json.dumps(document).encode(), name="net.times.json") == "times"
    array = one(json.dumps(document))
    assert times_from_arrays([array]).latency == pytest.approx([0.0025, 0.0015])
    if has_unit:
        text = json.dumps(document, ensure_ascii=False).encode()
        assert kind_of(text, name="x.json") == "times"
    else:
        assert array.without_unit
        assert kind_of(json.dumps(document).encode(), name="shape.json") == "unknown"


def test_enqueue_resolution_grows_with_the_run() -> None:
    early = one(samples.times_file("8.5", first_ms=201.0, rows=10))
    late = one(samples.times_file("8.5", first_ms=5000.123, rows=10))
    assert early.enqueue_resolution_s == pytest.approx(1e-6)
    assert late.enqueue_resolution_s == pytest.approx(1e-5)
    exact = json.dumps(samples.times_rows("8.5", first_ms=5000.1234567, rows=10))
    assert one(exact).enqueue_resolution_s is None
    assert one(samples.times_file("7.0")).enqueue_resolution_s is None


@given(
    values=st.lists(st.floats(allow_nan=False, width=32) | st.floats(0, 1e4), min_size=2),
    digits=st.sampled_from([".6g", ".3f", ".9g", ".17g", ".8f"]),
)
def test_any_printed_number_is_the_double_of_python(values: list[float], digits: str) -> None:
    printed = [format(value, digits) for value in values]
    expected = [float(number) for number in printed]
    assume(any(map(math.isfinite, expected)))  # else the file is refused
    rows = [f'{{ "latencyMs" : {number}, "x" : {number} }}' for number in printed]
    columns = one("[\n  " + "\n, ".join(rows) + "\n]\n").columns
    assert columns["latencyMs"].tolist() == columns["x"].tolist() == expected


def test_pieces_cut_anywhere_give_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    data = samples.times_file("8.5", rows=30) + samples.times_file("8.5", rows=20)
    whole = [array.columns for array in read(data)]
    for size in (1, 7, 64, 300, 1000):
        monkeypatch.setattr(_rows, "PIECE_BYTES", size)
        for array, columns in zip(read(data), whole, strict=True):
            assert all((array.columns[key] == columns[key]).all() for key in columns)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory from /proc")
def test_a_large_file_needs_little_memory(tmp_path: Path) -> None:
    """60 MB here; benchmarks/import.py --big shows 200 MB."""
    path = tmp_path / "times.json"
    rows = samples.times_file("8.5", rows=5000)[2:-2]
    with path.open("wb") as file:
        file.write(b"[\n" + rows)
        while file.tell() < 60e6:
            file.write(rows.replace(b"  {", b", {", 1))
        file.write(b"]\n")
    script = (
        "import sys; from trtbench.trtexec.times import read_times\n"
        "peak = lambda: int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])\n"
        "before = peak(); read_times(open(sys.argv[1], 'rb'), where='f')\n"
        "print((peak() - before) * 1024)"
    )
    assert int(printed([sys.executable, "-c", script, str(path)])) < 0.55 * path.stat().st_size


# Whole folders


def test_every_times_file_of_a_folder_is_read_as_a_json_reader_does(artefacts: Path) -> None:
    found = [p for p in samples.artefact_files(artefacts, "times") if "broken" not in p.name]
    assert len(found) >= 11
    for path in found:
        with path.open("rb") as file:
            times = times_from_arrays(read_times(file, where=path.name))
        assert times.gpu is not None
        assert (times.gpu > 0).all()
        assert times.latency is not None
        if times.h2d is not None and times.d2h is not None:
            assert times.latency == pytest.approx(times.h2d + times.gpu + times.d2h, rel=1e-3)
        if "N2_None" in path.name or path.name == "times_net.json":
            continue  # several arrays: not JSON as a whole
        rows = json.loads(path.read_bytes())
        columns = one(path.read_bytes(), warmup_ms=0).columns
        for key in rows[0]:
            assert (columns[key] == [row[key] for row in rows]).all(), (path.name, key)


def test_several_exports_of_7_1_in_one_file(made: Path) -> None:
    arrays = read((made / "old" / "times_net.json").read_bytes())
    assert len(arrays) == len(BATCHES)
    assert all(array.swapped for array in arrays)
    for array in arrays:
        enqueue = times_from_arrays([array]).enqueue
        assert enqueue is not None
        assert np.median(enqueue) * 1e3 == pytest.approx(samples.ENQUEUE_MS, rel=1e-3)
