"""Layers of files: ``profile``, ``diff`` and ``diff --why``, with and without the ONNX model."""

import csv
import io
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layer_sets import write_engine

import logs
import samples
from command import Say
from gpu_standin import plan_bytes
from models import conv_model, save_text
from trtbench.data import data_rows

FLOPS = 2 * 64 * 64 * 9 * 56 * 56  # of one 3x3 convolution with 64 channels on 56x56


@pytest.fixture
def fp16(tmp_path: Path) -> Path:
    return write_engine(tmp_path, "fp16")


@pytest.fixture
def int8(tmp_path: Path) -> Path:
    return write_engine(tmp_path, "int8")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("broken.profile.json", '[ { "count" : 3 }, { "name" : "a", "timeMs" : '),
        ("words.json", '{"hello": 1}'),
        ("nan.profile.json",
         '[ { "count" : 1 }, { "name" : "a", "timeMs" : nan, "averageMs" : nan, '
         '"medianMs" : nan, "percentage" : nan } ]'),
    ],
)  # fmt: skip
def test_bad_files_are_refused_with_a_reason(say: Say, name: str, content: str) -> None:
    Path(name).write_text(content)
    assert say("profile", name, status=1).err.startswith("error: ")


@pytest.mark.parametrize("name", ["own.profile.json", "own.csv"])
def test_a_table_of_layers_is_no_engine_and_its_run_is_asked_for(say: Say, fp16: Path, name: str):
    assert say("profile", fp16, "-o", name, status=0).err.endswith(f"wrote {name}\n")
    for words in (["diff", name, fp16], ["diff", fp16, name, "--why"], ["profile", name]):
        assert "fix: give the run instead: trtbench runs" in say(*words, status=1).err
    assert "a table of layers that trtbench profile wrote" in say("import", name).words


def test_the_slowest_layers_are_drawn_and_the_tail_is_told(
    say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = "net (float[2, 4] x) => (float[2, 4] y) { a = Relu(x) b = Tanh(a) y = Add(b, x) }"
    save_text(Path("m.onnx"), net)
    said = say("bench", "m.onnx", "--iterations", "60", "--top", "2", "-o", "run", "-v", status=0)
    assert Path("run/per_layer_time.png").read_bytes()[:4] == b"\x89PNG"
    p99, jitter = (
        next(x for x in said.out.splitlines() if x.startswith(y)) for y in ("p99", "jit")
    )
    assert re.search(r"[\d.]+ .?s in these samples; at least .+ \(95 %\), no upper end", p99)
    assert re.search(r"std [\d.]+ %, p99 [\d.]+ % of the mean host time", jitter)
    record = Path("run/run.json")  # as telemetry records it
    record.write_text(
        record.read_text().replace('"facts": {', '"facts": {"energy_above_idle_j": 2.5,')
    )
    told, table = say("profile", "run").out, say("profile", "run", "--csv").out.splitlines()
    assert "Energy*" in told
    assert "2.5e+03 mJ per batch above idle" in told
    each = [float(row["energy_j"] or 0) for row in csv.DictReader(table)]
    assert sum(each) == pytest.approx(2.5)
    words = ("--draw", "bars.png", "--top", "1", "--expect", "tail>=1%")
    say("profile", "run", *words, status=0)
    assert Path("bars.png").read_bytes()[:4] == b"\x89PNG"
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert "nobody answered" in say("runs", "rm", "last", status=2).err
    assert say("runs", "rm", "last", "--yes").status == 0
    assert not Path("run").exists()


# Two engines


def stalled(name: str, *, relu_us: float = 9.0, medians: bool = True) -> Path:
    """A profile in which one inference of 100 was interrupted within a Relu."""
    layers = [("/a/Conv", 10.0), ("/r/Relu", relu_us / 10)]
    text = samples.profile_text(layers, medians=medians)
    Path(name).write_text(text.replace(f'medianMs" : {relu_us / 1e3:g}', 'medianMs" : 0.009'))
    return Path(name)


def test_one_interrupted_inference_decides_nothing(say: Say, monkeypatch: pytest.MonkeyPatch):
    quiet, interrupted = stalled("a.profile.json"), stalled("b.profile.json", relu_us=252.0)
    for width in ("80", "60"):
        monkeypatch.setenv("COLUMNS", width)
        lines = say("profile", interrupted).out.splitlines()
        assert "Median" in lines[1]
        assert "/a/Conv" in lines[2], "the slowest by median first"
    assert layers(say, interrupted)["/r/Relu"]["share"] == pytest.approx(9 / 109)
    for words in (["diff"], ["diff", "--why"]):
        said = say(*words, quiet, interrupted).words
        assert said.startswith("B b.profile.json is about as fast as A a.profile.json"), said
    before = stalled("old.profile.json", medians=False)
    assert "by averages, as one profile has no medians" in say("diff", before, interrupted).words


def test_which_is_faster_is_said_by_gpu_time_and_first(say: Say, fp16: Path, int8: Path) -> None:
    for path, gpu_ms in ((fp16, 0.05), (int8, 0.06)):
        text = logs.log_10().replace("median = 0.51 ms", f"median = {gpu_ms} ms")
        path.with_name(f"{path.stem.split('.')[0]}.log").write_text(text)
    for words in (["diff"], ["diff", "--why"]):
        said = say(*words, fp16, int8).words
        assert said.startswith("B int8.profile.json takes 1.20x the time of A fp16.profile.json"), (
            said
        )
    found = say("diff", fp16, int8, "--json").json  # 54 µs of layers, scaled to the GPU time
    assert any("A: times of layers are scaled by 0.93" in each for each in found["notes"])
    assert found["delta_s"] == pytest.approx(-7e-6)
    said = say("compare", "--why", "fp16.log", "int8.log").words
    assert said.startswith("int8.log is about as fast as fp16.log (median latency:")


def test_without_layer_information_the_file_is_asked_for(say: Say) -> None:
    """Names that only count say nothing, so nothing is blamed."""
    one, other = Path("one.profile.json"), Path("other.profile.json")
    named = {one: "Conv_{0} + Relu_{0}", other: "w + QuantizeLinear_9{0} + Conv_9{0}"}
    for path, form in named.items():
        rows = [(form.format(place), float(place + 1)) for place in range(9)]
        path.write_text(samples.profile_text(rows))
    for words in (["diff"], ["diff", "--why"]):
        said = say(*words, one, other).words
        assert "A and B: no layer information" in said
        assert "--exportLayerInfo=graph.json" in said
    assert "no cause can be named" in said
    assert say("diff", "--why", one, other, "--json").json["causes"] == []


def test_why_names_the_layer_and_gives_a_command(say: Say, fp16: Path, int8: Path) -> None:
    shown = say("diff", "--why", fp16, int8).out
    assert shown.startswith("B int8.profile.json is 1.26x as fast as A fp16.profile.json")
    assert "1. /act/Gelu interrupts INT8: it computes in FP16: 8.00 µs" in shown
    assert "computes in   A fp16; B int8, fp16" in shown
    command = "trtbench quantize MODEL.onnx --precision int8 --data DATA.npz"
    assert f"{command} --op Conv --op Gemm --op Gelu" in shown
    document = say("diff", "--why", fp16, int8, "--json").json
    explained = sum(each["explains_s"] for each in document["causes"])
    assert explained <= document["shortfall_s"] + 1e-12
    assert document["causes"][0]["layers"][0] == "/act/Gelu"


@pytest.mark.parametrize("command", sorted({row[3] for row in data_rows("causes.txt")}))
def test_a_remedy_can_be_typed(say: Say, fp16: Path, int8: Path, command: str) -> None:
    """With the files that its words stand for, every command is accepted."""
    conv_model(Path("net.onnx"))
    np.savez("data.npz", image=np.zeros((8, 3, 16, 16), np.float32))
    Path("net.engine").write_bytes(plan_bytes())
    data = " --data data.npz"
    typed = command.format(asked="int8", op="Add", data=data, built=" --precision fp16")
    files = {"MODEL.onnx": "net.onnx", "MODEL.engine": "net.engine", "BASELINE": fp16,
             "CANDIDATE": int8}  # fmt: skip
    for word, file in files.items():
        typed = typed.replace(word, str(file))
    accepted(say, typed)


def accepted(say: Say, command: str) -> None:
    _, verb, *words = shlex.split(command)
    runtime = ["-r", "tensorrt"] if verb in ("bench", "build") else []
    say(verb, *words, *([] if verb in ("diff", "profile") else [*runtime, "--dry-run"]), status=0)


def test_what_why_prints_can_be_typed_as_it_stands(say: Say, tmp_path: Path) -> None:
    """Files keep their folders, quoted where needed."""
    for folder in (tmp_path / "a b", tmp_path / "sub"):
        folder.mkdir()
    one, other = write_engine(tmp_path / "a b", "fp16"), write_engine(tmp_path / "sub", "int8")
    less = Path("less.profile.json")  # no Gelu, which the other one adds
    less.write_text(re.sub(r"\{[^{}]*Gelu[^{}]*\}\s*,", "", one.read_text()))
    conv_model(Path("net.onnx"))
    np.savez("DATA.npz", image=np.zeros((8, 3, 16, 16), np.float32))
    pairs = [(other, one), ("a b/fp16.profile.json", other), (less, "a b/fp16.profile.json")]
    found = [say("diff", "--why", *pair, "--json").json["causes"] for pair in pairs]
    printed = [each["command"] for causes in found for each in causes]
    assert "trtbench diff less.profile.json 'a b/fp16.profile.json'" in printed, printed
    for command in printed:
        accepted(say, command.replace("MODEL.onnx", "net.onnx"))


# With the model


def write_model(*, prefix: str = "", quantized: bool = False) -> Path:
    """Three convolutions and a Gelu of the names that the engines know."""
    lines, weights = [], {f"w_{letter}": np.zeros((64, 64, 3, 3)) for letter in "abc"}

    def read(tensor: str) -> str:
        if not quantized:
            return tensor
        lines.append(f"{tensor}_q = QuantizeLinear({tensor}, scale, zero)")
        lines.append(f"{tensor}_dq = DequantizeLinear({tensor}_q, scale, zero)")
        return f"{tensor}_dq"

    for tensor, letter in (("input", "a"), ("a", "b"), ("act", "c")):
        inputs = f"{read(tensor)}, {read(f'w_{letter}')}"
        how = "kernel_shape = [3, 3], pads = [1, 1, 1, 1]"
        lines.append(f'["{prefix}/{letter}/Conv"] {letter} = Conv <{how}> ({inputs})')
        if letter == "b":
            lines.append(f'["{prefix}/act/Gelu"] act = Erf(b)')
    ends = "(float[1, 64, 56, 56] input) => (float[1, 64, 56, 56] c)"
    text = f"net {ends} {{{' '.join(lines)}}}"
    return save_text(Path("net.onnx"), text, scale=0.1, zero=np.int8(0), **weights)


def layers(say: Say, *words: object) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in say("profile", *words, "--all", "--json").json["layers"]}


def test_flops_and_operators_come_from_the_model(say: Say, fp16: Path) -> None:
    found = layers(say, fp16, write_model())
    assert found["/a/Conv"]["flops"] == FLOPS
    assert found["/act/Gelu"]["operators"] == "Erf", "as the model says, not as the name does"
    assert found["/a/Conv"]["flops_per_s"] == pytest.approx(FLOPS / 10e-6)
    row = '{"name": "/b/Conv + /act/Gelu", "timeMs": 1, "averageMs": 1, "percentage": 100}'
    Path("p.json").write_text(f'[{{"count": 1}}, {row}]')  # names alone, and the model
    (fused,), weights = layers(say, "p.json", "net.onnx").values(), 4 * 64 * 64 * 9
    moved = (2 * 4 * 64 * 56 * 56 + weights, weights)  # of the tensor between them nothing
    assert (fused["traffic_bytes"], fused["weight_bytes"]) == moved
    said = say("profile", fp16).words  # without the model, those of the Gelu are unknown
    assert "100.0 % of known FLOPs (unknown in 7.4 % of time)" in said


def test_layers_that_q_dq_asks_to_be_int8_and_are_not(say: Say, fp16: Path) -> None:
    model = write_model(quantized=True)
    found = layers(say, fp16, model)
    assert found["/b/Conv"]["precision_asked"] == "int8"
    assert found["/act/Gelu"]["precision_asked"] is None
    doubts = [each["what"] for each in say("profile", fp16, model, "--json").json["lint"]]
    assert doubts.count("computes in FP16; the model's Q/DQ or types request INT8") == 3


def test_a_model_of_another_network_is_said_to_be(say: Say, fp16: Path) -> None:
    model = write_model(prefix="/other")
    assert "the model is another network" in say("profile", fp16, "--onnx", model).out


def test_measured_bytes_are_shown_and_make_the_roofline(say: Say, fp16: Path) -> None:
    def conv() -> dict[str, Any]:
        return layers(say, fp16, write_model(), "--gpu", "NVIDIA H200")["/a/Conv"]

    before = conv()
    counted = '"percentage" : 18.5185, "dramBytes" : 36e6, "smActive" : 0.75'
    fp16.write_text(fp16.read_text().replace('"percentage" : 18.5185', counted))
    after, said = conv(), say("profile", fp16, "--gpu", "NVIDIA H200").words
    assert (before["bound"], before["dram_bytes"]) == ("compute", None)
    assert (after["bound"], after["dram_bytes"], after["sm_active"]) == ("memory", 36e6, 0.75)
    assert after["roofline_share"] == pytest.approx(36e6 / 4.8e12 / 10e-6)
    for shown in ("DRAM", "34.3 MiB", "SM active", "75.0 %", "measured by hardware counters"):
        assert shown in said, said


def test_a_roofline_is_asked_for_by_name(say: Say, fp16: Path) -> None:
    assert 0 < layers(say, fp16, "--gpu", "NVIDIA H200")["/a/Conv"]["roofline_share"] < 1
    assert "is not a known GPU" in say("profile", fp16, "--gpu", "Voodoo 2", status=2).err
    assert "A100-PCIE-40GB" in say("profile", fp16, "--gpu", "NVIDIA A100", status=2).err


# Attributes of layers, and several engines


def test_attributes_of_layers_are_columns_and_filters(say: Say, int8: Path) -> None:
    """A 3x3 convolution with 64 channels on 56x56 multiplies 3136x576 by 576x64."""
    rows = layers(say, int8, "--filter", "kernel=3x3,k>=576")
    assert sorted(rows) == ["/a/Conv", "/b/Conv", "/c/Conv"]
    found = rows["/b/Conv"]
    shown = ("kernel", "groups", "m", "n", "k", "format_in", "format_out", "weight_bytes")
    assert [found[key] for key in shown] == ["3x3", 1, 3136, 64, 576, "chw32", "chw", 36864]
    for condition, count in (("origin=qdq", 2), ("format_in=chw32,precision!=int8", 0),
                             ("kind=conv*,format_out=chw", 2), ("m<3136", 0)):  # fmt: skip
        words = ("--filter", condition, "--by", "role", "--json")
        said = say("profile", int8, *words, status=0 if count else 2)
        assert not count or sum(x["layers"] for x in said.json["groups"]) == count, condition
    picked = say("profile", int8, "--columns", "name,kernel,k", "--top", "1", "--csv").out
    assert picked.splitlines()[:2] == ["name,kernel,k", "/b/Conv,3x3,576"]
    for words, near in ((("--filter", "kernl=3x3"), "kernel"), (("--columns", "oops"), "index"),
                        (("--expect", "count(kernel>3)>1"), "use = or !="),
                        (("--draw", "x.bmp"), ".svg")):  # fmt: skip
        assert near in say("profile", int8, *words, status=2).err
    expected = ("--expect", "count(kernel=3x3)==3 and share(origin=QDQ)<50%")
    assert say("profile", int8, *expected).status == 0


@pytest.mark.parametrize("chart", ["memory", "mnk"])
def test_bytes_and_sizes_are_drawn_without_times(say: Say, int8: Path, chart: str) -> None:
    graph = int8.with_name("int8.graph.json").rename("alone.graph.json")
    words = ("--draw", "bars.png", "--chart", chart)
    say("profile", graph, *words, status=0)
    assert Path("bars.png").read_bytes()[:4] == b"\x89PNG"
    assert "unknown in 1 layer)" in say("profile", graph).out
    Path(graph).unlink()
    alone = int8.rename("int8.profile")
    assert "--exportLayerInfo" in say("profile", alone, *words, status=2).err


def test_five_engines_are_one_table_and_one_picture(say: Say, fp16: Path, int8: Path) -> None:
    engines = [fp16, int8, fp16, int8, fp16]
    said = say("diff", *engines, "--json").json
    rows = {row["name"]: row for row in said["rows"]}
    columns = ["a_s", "b_s", "c_s", "d_s", "e_s"]
    assert [rows["/b/Conv"][x] for x in columns] == pytest.approx([2e-5, 1e-5, 2e-5, 1e-5, 2e-5])
    reformat = next(row for name, row in rows.items() if name.endswith("/c/Conv") and row["b_s"])
    for place, column in enumerate(columns):
        total = sum(row[column] or 0 for row in rows.values())
        assert total == pytest.approx(list(said["sums_s"].values())[place])
    assert len(rows) == 6, "the same conversion in two engines is one row"
    assert reformat["a_s"] is not None
    drawn = say("diff", *engines, "--by", "kind", "--draw", "kinds.png")
    assert Path("kinds.png").read_bytes()[:4] == b"\x89PNG", drawn.err
    assert "Convolution" in drawn.out
    assert say("diff", *engines, "--why").status == say("diff", *engines, "--draw", "x").status == 2
