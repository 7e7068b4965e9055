"""Folders of toolkits, records of our own, and pages with several summaries, as runs."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from imports import bring, only, record, toolkit_files

import leftovers
import trtbench
from trtbench.core.codec import json_from_value
from trtbench.core.errors import InputError
from trtbench.core.run import Fact
from trtbench.importing.run import LOG
from trtbench.report.compose import document_from_runs
from trtbench.report.document import Table
from trtbench.store.store import Store
from trtbench.trtexec.conditions import build_metadata_from_log, profile_metadata_from_log
from trtbench.trtexec.log import read_log
from trtbench.workflows.report import load_runs


def test_a_folder_of_evaluation_toolkit_is_one_run(tmp_path: Path, store: Store) -> None:
    found = only(bring(leftovers.folder_000(tmp_path / "run"), store=store))
    made = record(found)
    assert len(found.files) == 7
    assert made.spec.model.path == "/models/pose.engine"
    assert made.spec.model.size_bytes == 1048576
    assert made.facts["measured_at"] == "2025-09-18T10:11:12+08:00"
    config = json.loads((toolkit_files(found, store) / "run_config.json").read_text())
    assert config["timestamp_iso"] == "2025-09-18T10:11:12+08:00"
    assert (config["batch"], config["warmup"], config["avg_runs"]) == (4, 200, 10)
    assert config["profile_enabled"] is True
    assert config["separate_profile_run"] is True


def test_our_own_metadata_speaks_for_its_log(tmp_path: Path, store: Store) -> None:
    first = only(bring(leftovers.run_set(tmp_path / "set"), store=store))
    assert first.path is not None
    result = bring(store.root, store=store)
    assert result.runs == (), "run directories of our own are left alone"
    assert any("reindex" in each.reason for each in result.unused)
    for name in ("times.json", "graph.json"):
        shutil.copy(first.path / name, tmp_path / f"net.{name}")
    (log,) = read_log((first.path / LOG).read_bytes(), where=LOG).runs
    for name, make in (("build", build_metadata_from_log), ("profile", profile_metadata_from_log)):
        (tmp_path / f"net.{name}.metadata.json").write_bytes(json_from_value(make(log)))
    found = only(bring(*tmp_path.glob("net.*"), store=store))
    made = record(found)
    assert made.conditions == record(first).conditions
    assert made.environment.versions == {"tensorrt": "8.6.1"}
    assert made.environment.gpus == record(first).environment.gpus
    assert made.reported["latency_p99_ms"] == record(first).reported["latency_p99_ms"]
    assert found.samples == 80


def test_a_folder_of_trtexec_pipeline_is_one_run(tmp_path: Path, store: Store) -> None:
    times = leftovers.times_text()
    measured = leftovers.log_text(times, engine="x.engine")
    built = leftovers.log_text(None, flags="--onnx=x.onnx --saveEngine=x.engine", options=False)
    texts = {
        "x.timing.json": times,
        "x.graph.json": leftovers.graph_text(),
        "x.profile.json": leftovers.profile_text(),
        "x.profile.log": measured,
        "x.build.log": built.replace("--loadEngine=net.engine ", ""),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "x.engine").write_bytes(b"ftrt" + bytes(60))
    result = bring(tmp_path, store=store)
    made = record(only(result))
    assert result.unused == ()
    assert made.spec.model.name == "x.engine"
    assert made.spec.model.sha256 is not None
    assert made.conditions["typing"] == Fact(value="weak", source="implied")
    path = only(result).path
    assert path is not None
    assert (path / "build.log").read_text() == (tmp_path / "x.build.log").read_text()


def test_results_of_evaluation_toolkit_alone(tmp_path: Path, store: Store) -> None:
    values = [2.0, 2.5, 3.0, 0.05]
    (tmp_path / "b").mkdir()
    (tmp_path / "summary.json").write_text(json.dumps(leftovers.summary_000(values)))
    (tmp_path / "b" / "latency_series.csv").write_text(leftovers.series_text(values))
    result = bring(tmp_path, store=store)
    by_parts = {each.parts: each for each in result.runs}
    summary, series = by_parts[("summary",)], by_parts[("latency_series",)]
    assert record(summary).reported["latency_p99.9_ms"] == 9.0
    assert (summary.samples, summary.median_s) == (0, pytest.approx(2.25e-3))
    assert (series.samples, series.median_s) == (4, pytest.approx(2.25e-3))
    assert record(summary).spec.batch == 4


def test_a_pytorch_result_of_evaluation_toolkit(tmp_path: Path, store: Store) -> None:
    (tmp_path / "bench_pt_result.json").write_text(json.dumps(leftovers.torch_result()))
    (tmp_path / "bench_pt_result.csv").write_text(leftovers.torch_csv())
    found = only(bring(tmp_path, store=store))
    made = record(found)
    spec = made.spec
    assert (spec.runtime, spec.model.name, spec.protocol) == ("torch", "yolo.pt", "serve")
    assert made.conditions["tf32"] == Fact(value=False, source="stated")
    assert found.median_s == pytest.approx(4.5e-3)
    assert made.facts["items_per_s"] == 400.0


def test_toolkit_files_go_where_they_are_asked_for(tmp_path: Path, store: Store) -> None:
    folder = leftovers.folder_000(tmp_path / "run")
    (folder / "output_diff.json").write_text('{"heatmap": {"max_abs": 0.0125}}')
    with pytest.raises(InputError) as refused:
        load_runs([str(folder)], store=store)
    assert refused.value.fix == f"trtbench import {folder}"
    bring(folder, store=store, output=tmp_path / "out", again=True)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    copy = json.loads((tmp_path / "out" / "output_diff.json").read_text())
    assert report["output_comparison"] == copy == {"heatmap": {"max_abs": 0.0125}}
    assert "0.0125" in (tmp_path / "out" / "report.md").read_text()
    before = {path: path.read_bytes() for path in folder.iterdir()}
    result = bring(folder, store=store, output=folder)
    names = {path.name for path in result.written}
    assert {"summary.csv", "enqueue_series.csv", "per_layer_times.csv", "latency_hist.png"} <= names
    assert {path: path.read_bytes() for path in before} == before
    assert only(result).known_as == only(bring(folder, store=store)).known_as is not None


DAYS = ("01/05/2023", "02/06/2023", "03/07/2023")


def summary(place: int, *, stamp: str = "") -> str:
    lines = [
        f"Throughput: {100 + place} qps",
        f"Latency: min = 4 ms, max = 6 ms, mean = 5 ms, median = {5 + place} ms",
        "Total Host Walltime: 3 s",
    ]
    return "\n".join(stamp + line for line in lines)


def excerpt(place: int) -> str:
    """An excerpt from the middle of a log: device, version and shape stand before the numbers."""
    stamp = f"[{DAYS[place]}-05:06:07] [I] "
    above = (
        f"Selected Device: board {place}",
        f"TensorRT version: 8.{place + 1}.0",
        f"Created input binding for x with dimensions {place + 1}x3x8x8",
        "Created output binding for y with dimensions {place + 1}x10",
        "Starting inference",
    )
    return "\n".join((*(stamp + line for line in above), summary(place, stamp=stamp)))


def runs_of(page: str, folder: Path, store: Store) -> list[Any]:
    (folder / "page.md").write_text(page)
    found = sorted((record(each) for each in bring(folder, store=store).runs), key=rate)
    assert [rate(each) for each in found] == [100 + place for place in range(len(found))]
    return found


def rate(run: Any) -> float:
    return float(run.reported["throughput_qps"])


@pytest.mark.parametrize(
    "between",
    ["\n```\n\n## another\n\n```\n", "\n\n## another\n\n", "\nsome words\n", "\n\n", "\n"],
    ids=["fences", "headings", "text", "blank", "nothing"],
)
def test_what_stands_above_a_summary_is_of_it(between: str, tmp_path: Path, store: Store) -> None:
    found = runs_of(between.join(map(excerpt, range(3))), tmp_path, store)
    assert [run.created[:10] for run in found] == ["2023-01-05", "2023-02-06", "2023-03-07"]
    assert [run.environment.gpus[0].name for run in found] == ["board 0", "board 1", "board 2"]
    versions = [run.environment.versions["tensorrt"] for run in found]
    assert versions == ["8.1.0", "8.2.0", "8.3.0"]
    assert [run.inputs[0].shape[0] for run in found] == [1, 2, 3]


def test_what_trtexec_prints_after_a_summary_stays_with_it(tmp_path: Path, store: Store) -> None:
    stamp = f"[{DAYS[0]}-05:06:09] [W] "
    warned = f"{excerpt(0)}\n{stamp}* GPU compute time is unstable.\n{excerpt(1)}"
    first, second = runs_of(warned, tmp_path, store)
    assert "H47" in {each.code for each in first.findings}
    assert "H47" not in {each.code for each in second.findings}


def test_a_device_at_the_top_or_in_a_heading_holds_below_it(tmp_path: Path, store: Store) -> None:
    page = "\n\n".join((
        "Measured on a Jetson AGX Orin with JetPack 5.1.", summary(0),
        "## Tesla T4", summary(1), "### int8", summary(2), "## Notes on both", summary(3),
    ))  # fmt: skip
    named = [[gpu.name for gpu in each.environment.gpus] for each in runs_of(page, tmp_path, store)]
    assert named == [["Jetson AGX Orin"], ["Tesla T4"], ["Tesla T4"], ["Jetson AGX Orin"]]
    for place, (line, names) in enumerate((
        ("On Jetson Nano, you will need nvcc in the PATH.", []),
        ("Example output of a test with RTX 3090.", ["RTX 3090"]),
        ("All nets were trained on 8 V100 GPUs.", []),
        ("The P4 head finds objects of medium size.", []),
        ("We have a Jetson Orin AGX 64GB here.", ["Jetson Orin AGX 64GB"]),
        ("# Xavier NX", ["Xavier NX"]),
        ("使用 Nvidia Tesla T4对模型进行性能的统计", ["Tesla T4"]),
    )):  # fmt: skip
        (tmp_path / str(place)).mkdir()
        (run,) = runs_of(f"# Net\n\n{line}\n\n{summary(0)}", tmp_path / str(place), store)
        assert [gpu.name for gpu in run.environment.gpus] == names
    both = f"The RTX 3090 and the Tesla T4\n\n{summary(0)}"
    (tmp_path / "b").mkdir()
    (run,) = runs_of(both, tmp_path / "b", store)
    assert run.environment.gpus == ()  # which of them is unknown


def test_a_command_above_numbers_gives_batch_and_precision(tmp_path: Path, store: Store) -> None:
    commands = (
        "trtexec --deploy=a.prototxt --batch=16 --half2",
        "trtexec --onnx=b.onnx --shapes=x:4x3x8x8 --int8 --fp16",
        "trtexec --loadEngine=c.engine",
        "trtexec --onnx=d.onnx --shapes=x:4,3,8,8",
    )
    page = "\n\n".join(f"$ {each}\n\n{summary(place)}" for place, each in enumerate(commands))
    found = runs_of(page, tmp_path, store)
    assert [each.known_items for each in found] == [16, 4, None, None]
    # trtexec has multiplied by an implicit batch.
    assert [each.facts.get("items_per_s") for each in found] == [100, 4 * 101, None, None]
    precisions = [each.conditions["precision"].value for each in found]
    assert precisions == ["fp32+fp16", "fp32+fp16+int8", None, None]


def test_a_command_below_the_numbers_is_of_its_section(tmp_path: Path, store: Store) -> None:
    page = "\n\n".join(
        f"## net {place}\n\n{summary(place)}\n\n    trtexec --onnx=n{place}.onnx --batch={size}\n"
        for place, size in enumerate((4, 8))
    )
    found = runs_of(page, tmp_path, store)
    names = [(each.spec.model.name, each.known_items) for each in found]
    assert names == [("n0.onnx", 4), ("n1.onnx", 8)]


def test_commands_below_a_rate_alone_are_of_the_next_numbers(tmp_path: Path, store: Store) -> None:
    def step(net: str, place: int) -> str:
        stamp = f"[{DAYS[place]}-05:06:07] [I] "
        printed = f"{stamp}=== Performance summary ===\n{stamp}Throughput: {100 + place} qps"
        return (
            f"## Step {place}\n\nWe build it:\n\n"
            f"    trtexec --onnx={net}.onnx --saveEngine={net}.engine --batch={place + 2}\n\n"
            f"which prints\n\n```\n{printed}\n```\n\nso many a second.\n\n## Use {net}\n\n"
            f"    nsys -o {net} trtexec --loadEngine={net}.engine --iterations=10\n\n"
        )

    found = runs_of(step("a", 0) + step("b", 1), tmp_path, store)
    names = [(each.spec.model.name, each.known_items) for each in found]
    assert names == [("a.onnx", 2), ("b.onnx", 3)]


COMMAND = "trtexec --onnx=a.onnx --batch=4"


@pytest.mark.parametrize(
    ("above", "items"),
    [
        (f"## trtexec --int8\n\n### 1\n\n{COMMAND}\n\nTime:", 4),
        (f"```\n{COMMAND}\n```\n\nsome words\n\n```", 4),
        (f"## Export\n\n{COMMAND}\n\n## net", None),
        (f"```\n{COMMAND}\n```\n\n```\npython3 serve.py", None),
        (f"- {COMMAND}\n- {COMMAND}8", 48),
        (f"- {COMMAND}\n- {COMMAND}8\n\nResults\n", None),  # which one was run is unknown
        (f"{COMMAND} --saveEngine=a\n{COMMAND} --saveEngine=b\n\nResults\n", None),
    ],
)
def test_a_command_is_of_the_numbers_below_it_in_its_section(
    above: str, items: int | None, tmp_path: Path, store: Store
) -> None:
    (run,) = runs_of(f"{above}\n{summary(0)}", tmp_path, store)
    assert (run.known_items, "items_per_s" in run.facts) == (items, items is not None)
    assert run.spec.model.name.startswith("a.onnx") == (items is not None)


def test_what_no_trtexec_printed_or_ran_is_none(tmp_path: Path, store: Store) -> None:
    (tmp_path / "program.py").write_text(
        "[I] Enqueue Time: min = 0.12 ms, max = 0.35 ms, mean = {mean:.2f} ms, median = 0.17 ms\n"
        "[I] GPU Compute Time: min = 2.0 ms, max = %.3f ms, mean = 2.1 ms\n"
    )
    assert not bring(tmp_path, store=store).runs
    (tmp_path / "program.py").unlink()
    (run,) = runs_of(f"bench -m a.onnx --backend trtexec --perf 1\n\n{summary(0)}", tmp_path, store)
    assert run.environment.command is None


def test_the_device_block_of_a_page_takes_no_heading(tmp_path: Path, store: Store) -> None:
    block = "```\n=== Device Information ===\nSelected Device: board 7\nSMs: 128\n```"
    page = f"# Device\n\n{block}\n\n## INT8 / FP16\n## Batch = 4\n\n```\n{summary(0)}\n```\n"
    for place, net in enumerate("ab", start=1):  # the first and the last pair have one level
        page += f"\n## net {net}\n\n{'#' * (4 - place)} Batch = 4\n\n{summary(place)}\n"
    found = runs_of(page, tmp_path, store)
    names = [each.spec.model.name.removeprefix("page: ") for each in found]
    assert names == ["INT8 - FP16, Batch = 4", "net a, Batch = 4", "net b, Batch = 4"]
    assert {each.environment.gpus[0].name for each in found} == {"board 7"}


def test_a_part_of_a_query_is_no_headline(tmp_path: Path, store: Store) -> None:
    block = ("Enqueue Time", "min: 0.5 ms", "median: 0.55 ms", "GPU Compute", "min: 12.2 ms")
    for last, of in (("median: 12.8 ms", "gpu, reported"), ("max: 13.4 ms", None)):
        (tmp_path / "a.log").write_text(
            "\n".join(f"[{DAYS[0]}-05:06:07] [I] {x}" for x in (*block, last))
        )
        (found,) = bring(tmp_path, store=store).runs
        expected = (of, pytest.approx(12.8e-3)) if of else (None, None)
        assert (found.median_of, found.median_s) == expected


NAMES = {
    "## net a": "net a",
    "# [M=32, K=256]": "[M=32, K=256]",
    "## Sum after a pair of transposes and so on": "Sum after a pair of transposes and so on",
    "### Performance of the FP16 engine on Orin": "Performance of the FP16 engine on Orin",
    "yolov5s fp16 batch 8": "yolov5s fp16 batch 8",
    "**Results for ResNet-50:**": "Results for ResNet-50",
    "- INT8": "INT8",
    "<summary>vit_base log</summary>": "vit_base log",
    "baseline:": "baseline",
}
NO_NAMES = (
    "it reached batch_size(16)=758.4052633325275fps on my machine",
    "Here are the results for ResNet-50", "I ran yolov5s on my Orin and got:", "Hello everyone",
    "As you can see, INT8 is faster.", "## How fast is it on the Orin?", "Hi all,", "Any idea?",
    "This is the output of the engine that I built\nyesterday for yolov8n", "x = model(y)",
    "$ cd build", "sudo nvpmodel -m 0", "python3 export.py", "root@nano:~/trt# ls", "import torch",
    "model | fps", "1. Build the engine with FP16", "https://example.com/net50", "12:30:01 INFO ok",
    "在Orin上运行yolov5s的结果如下：", "Das Modell läuft auf dem Orin mit FP16",
    "J'ai mesuré resnet50 avec TensorRT sur la carte", "Note that the TF32 option was on",
)  # fmt: skip


def test_a_name_is_the_heading_above_a_summary_no_sentence(tmp_path: Path, store: Store) -> None:
    wanted = NAMES | dict.fromkeys(NO_NAMES)
    page = "\n\n".join(f"{line}\n\n{summary(place)}" for place, line in enumerate(wanted))
    found = runs_of(page, tmp_path, store)
    names = [each.spec.model.name.removeprefix("page").removeprefix(": ") for each in found]
    assert names == [name or "" for name in wanted.values()]
    assert not any("items_per_s" in each.facts for each in found)  # the batch is unknown


@pytest.mark.parametrize(
    ("line", "device"),
    [("On RTX 3090:", "RTX 3090"), ("2. jetson orin nx yolov8n", "jetson orin nx"), ("T4:", "T4"),
     ("An RTX 3090 would be much faster than that.", None), ("", "Jetson Nano"),
     ("The Jetson Nano was at its limit there.", "Jetson Nano")],
)  # fmt: skip
def test_a_label_between_summaries_names_the_device_of_the_next_and_a_sentence_none(
    line: str, device: str | None, tmp_path: Path, store: Store
) -> None:
    command = "trtexec --onnx=a.onnx --int8 --batch=2\noutput"
    page = f"# Jetson Nano\n\n{summary(0)}\n\n{line}\n\n{command}\n\n{summary(1)}"
    first, second = runs_of(page, tmp_path, store)
    names = [each.environment.gpus[0].name if each.environment.gpus else None
             for each in (first, second)]  # fmt: skip
    assert names == ["Jetson Nano", device]
    assert second.conditions["precision"].value == "fp32+int8"  # "output" is no option


@pytest.mark.parametrize(
    "prefix",
    ["> ", "- ", "[I] ", f"[{DAYS[0]}-05:06:07] [I] ", "", "trt: ", "bench-1 | ", "[pod/a/main] ",
     "May 06 07:08:09 orin trtexec[12]: ", "2024-05-06T07:08:09.1234567Z ", "run.log:12:"],
)  # fmt: skip
def test_indents_behind_a_prefix_split_no_run(prefix: str, tmp_path: Path, store: Store) -> None:
    gpu = "GPU Compute Time: min = 3 ms, max = 5 ms, mean = 4 ms, median = 4 ms"
    indents = ("", "    ", "\t", "  ")
    pages = [
        "\n".join(
            f"{prefix}{indents[number % 4]}{line}"
            for number, line in enumerate(["", *summary(place).splitlines(), gpu])
        )
        for place in range(3)
    ]
    page = "\n\n".join(f"## net {place}\n\n{text}" for place, text in enumerate(pages))
    found = runs_of(page, tmp_path, store)
    assert [each.reported["latency_median_ms"] for each in found] == [5, 6, 7]
    assert [each.reported["gpu_compute_time_median_ms"] for each in found] == [4, 4, 4]


@pytest.mark.parametrize("stamp", ["", f"[{DAYS[0]}-05:06:07] [I] "], ids=["text", "log"])
def test_statistics_that_go_on_in_the_next_line(stamp: str, tmp_path: Path, store: Store) -> None:
    lines = [
        "Throughput: 100 qps",
        "Latency: min = 4 ms, max = 6 ms, mean = 5 ms, median",
        "= 5.5 ms",
        "         percentile( 90%) = 5.7ms, percentile(95%) = 5.8 ms, percentile(99%) = 5.9 ms",
        "GPU Compute Time: min = 3 ms, max 5 ms, median 4.5 ms,",
        "mean = 4 ms",
        "Total Host Walltime: 3 s",
    ]
    (run,) = runs_of("\n".join(stamp + line for line in lines), tmp_path, store)
    names = ("latency_median", "latency_p90", "latency_p99", "gpu_compute_time_median")
    assert [run.reported[f"{name}_ms"] for name in names] == [5.5, 5.7, 5.9, 4.5]


def summary_table(folder: Path, store: Store) -> Table:
    runs = [store.load(each.record.id) for each in bring(folder, store=store).runs]
    blocks = document_from_runs(runs, title="a page").sections[0].blocks  # type: ignore[arg-type]
    return next(each for each in blocks if isinstance(each, Table))


def test_undated_text_has_no_date_and_stands_last(tmp_path: Path, store: Store) -> None:
    for name, text in (("a", summary(0)), ("b", excerpt(2)), ("c", excerpt(1))):
        (tmp_path / f"{name}.log").write_text(text)
        os.utime(tmp_path / f"{name}.log", (1e9, 1e9))
    listed = summary_table(tmp_path, store)
    columns = [head.key for head in listed.headings]
    shown = [[row[columns.index(key)].shown for key in ("when", "device")] for row in listed.rows]
    assert [when for when, _ in shown[:2]] == ["2023-02-06 05:06", "2023-03-07 05:06"]
    assert (shown[2][0][:17], shown[2][1]) == ("file of 2001-09-0", "unknown")
    assert {entry.dated_by for entry in store.index.find()} == {"file", "log"}
    assert "no date" in trtbench.history(store=str(store.root)).left_out


def test_unknown_devices_may_be_several(tmp_path: Path, store: Store) -> None:
    (tmp_path / "page.md").write_text(f"## a\n\n{summary(0)}\n\n## b\n\n{summary(1)}")
    assert "device" in [head.key for head in summary_table(tmp_path, store).headings]
