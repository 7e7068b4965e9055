"""Sweeps, gates, comparisons, histories and searches, each over many of their flags at once."""

import io
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from onnx import TensorProto

import logs
from command import QUICK, Say
from models import conv_model, identity, slow_model, tiny_model, unsupported_operator_model
from trtbench.core.codec import json_from_value
from trtbench.executors import ssh
from trtbench.executors._node import result_of
from trtbench.executors._transfer import place_upload, store_blob, upload_from_job
from trtbench.executors.contract import Executor, Needs, Notify, RemoteJob
from trtbench.node import main as node

SHORT = (
    "--duration", "20ms", "--axis", "warmup=5ms", "--axis", "until_steady=false",
    "--axis", "telemetry=off", "--format", "none",
)  # fmt: skip
TURNS = ("--batch", "1", "--launches", "3", "--pairs", "10")
ENOUGH = ("--launches", "4", "--max-launches", "4")  # for a verdict on a busy machine too


class Other(Executor):
    """A machine in this very process: gets files and a job as any other, and sends results back."""

    def width(self, needs: Needs) -> int:
        return 1

    def run(self, job: RemoteJob, *, folder: Path, notify: Notify) -> None:
        if Path("unplugged").exists():
            raise KeyboardInterrupt
        upload, there = upload_from_job(job), Path("other", job.id).absolute()
        for sha256, path in upload.contents.items():
            store_blob(there / "blobs", sha256, [path.read_bytes()])
        placed = place_upload(upload, cache=there / "blobs", folder=there)
        (there / "job.json").write_bytes(json_from_value(placed))
        how = f"status {node([str(there / 'job.json'), str(there)])}"
        shutil.copytree(result_of(there, where="other", how=how), folder, dirs_exist_ok=True)


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[str, ...]:
    monkeypatch.setenv("TRTBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(ssh, "open_executor", lambda settings: Other())
    return ("--executor", "ssh")


def rows_of(folder: str) -> Any:
    return json.loads(Path(folder, "results.json").read_text())["rows"]


def test_cases_runs_and_comparisons_go_to_another_machine(say: Say, away: tuple[str, ...]) -> None:
    rng = np.random.default_rng(0)
    np.savez("val.npz", x=rng.random((12, 16), np.float32), labels=rng.integers(0, 4, 12))
    tiny_model(Path("net.onnx"))
    unsupported_operator_model(Path("odd.onnx"))
    words = ("net.onnx", "--precision", "int8,fp8", "--batch", "2", "--data", "val.npz")
    assert "the machine it is sent to" in say("sweep", *words, *away, "--dry-run").words
    Path("unplugged").touch()
    said = say("sweep", *words, *SHORT, *away, "-o", "out", "--best", "top1")
    assert "trtbench sweep --resume out and the same --executor" in said.words
    Path("unplugged").unlink()
    assert say("sweep", "--resume", "out", *away, "--format", "none").status == 0
    good, bad = rows_of("out")
    assert good["scores"]["top1"]["count"] == 12
    assert "random data" not in good["remark"], "calibrated on the data that are evaluated"
    assert bad["reason"].startswith("bench: quantize: ")
    assert not Path("store/steps").exists(), "quantized here"
    words = (*away, "--where", "top1>100%", "--format", "none")
    assert "where top1>100%: 0 of 1" in say("sweep", "--resume", "out", *words, status=3).words
    failed = say("sweep", "odd.onnx", *SHORT, *away, status=1)
    assert "no case of the sweep could be measured" in failed.words
    assert "measured on" in say("bench", "net.onnx", "--batch", "1", *QUICK, *away).words
    words = ("compare", "net.onnx", "net.onnx", *TURNS, "--max-launches", "3", *away)
    found = say(*words, "--json").json["comparison"]
    assert (found["design"], found["verdicts"][0]["launches"]) == ("duet", 3)
    listed = {each["id"] for each in say("runs", "--json").json}
    assert {*good["runs"], found["baseline"], found["candidate"]} < listed
    assert len(listed) == 4


def test_engines_of_a_sweep_are_built_named_and_planned(say: Say, trtexec: Any) -> None:
    for folder, batch in (("open", "batch"), ("fixed", 4)):
        Path(folder).mkdir()
        conv_model(Path(folder, "net.onnx"), batch=batch)
    np.savez("val.npz", image=np.ones((4, 3, 16, 16), np.float32), labels=np.arange(4))
    Path("sweep.toml").write_text(
        'models = ["open/net.onnx", "fixed/net.onnx"]\nruntime = "trtexec"\nprecision = "fp16"\n'
        'engine = ["static", "dynamic"]\nbatch = [1, 2]\nnames = "vanilla"\ndata = "val.npz"\n'
        '[[exclude]]\nengine = "dynamic"\nbatch = 1\n'
        '[options]\nduration = "20ms"\nwarmup = "10ms"\n'
    )
    said = say("sweep", "sweep.toml", "-o", "out", "--format", "none", status=0)
    rows = rows_of("out")
    names = [(row["engine"], row["batch"]) for row in rows if row["model"] == "open/net"]
    assert names == [("static", 1), ("static", 2), ("dynamic", 2)]
    assert all(row["layers"] and row["gpu"] for row in rows[:3])
    assert all("trtexec" in row["remark"] for row in rows[:3]), "no outputs to judge"
    assert all("batch of the input 'image' is fixed at 4" in row["reason"] for row in rows[3:])
    assert "2 TRT fp16-dynamic" in said.words
    [results] = Path("out/results").iterdir()
    names = [f"open-net_fp16_{each}_batch2" for each in ("dynamic", "static")]
    files = {path.name.partition(".")[0] for path in results.iterdir()}
    assert files == {*names, "open-net_fp16_static_batch1"}
    assert "FP16" in (results / f"{names[0]}.build.metadata.json").read_text()
    assert "performance_summary" in (results / f"{names[0]}.profile.metadata.json").read_text()
    [record] = Path("store/steps").glob("build-*/*.dynamic.fp16.engine.json")
    shapes = json.loads(record.read_text())["spec"]["shapes"]["image"]
    assert [shapes[end][0] for end in ("min", "opt", "max")] == [1, 2, 2]
    assert "build 3 3 0" in say("sweep", "sweep.toml", "--dry-run").words
    words = ("--preset", "classification", "-r", "torch,trtexec", "--precision", "fp32")
    words += ("--input-shape", "-1x3xMxM", "--axis", "shape.M=8,16", "--batch", "1,2", "--dry-run")
    words += ("--axis", "protocol=pipeline")
    assert "shape.M=16" in say("sweep", "torchvision:resnet18", *words).words
    python = f'python = "{sys.executable}"\n'
    Path("trtbench.toml").write_text(f"[runtimes.torch]\n{python}[runtimes.trtexec]\n{python}")
    steps = say("sweep", "torchvision:resnet18", *words, "--json").json["steps"]
    exports = [step["settings"]["inputs"] for step in steps if step["kind"] == "export"]
    assert exports == [["-1x3x8x8"], ["-1x3x16x16"]]
    assert sum(step["kind"] == "build" for step in steps) == 6


def test_one_file_gates_several_models_and_one_command_compares_them(say: Say) -> None:
    tiny_model(Path("net.onnx"))
    slow_model(Path("slow.onnx"), width=16, rows="batch", passes=600)
    Path("bad.onnx").write_bytes(b"no model")
    Path("none.toml").write_text("batch = 1\n")
    for words, expected in (
        (("gate", "net.onnx"), "the gate has no rules"),
        (("gate", "net.onnx", "--max-slowdown", "3%"), "needs something to compare with"),
        (("gate", "none.toml"), "[models."),
        (("compare", "net.onnx"), "needs a candidate"),
    ):
        assert expected in say(*words, status=2).words
    assert "model kept as" in say("bench", "net.onnx", "--batch", "1", *QUICK, "--keep-model").words
    tiny_model(Path("net.onnx"), batch="rows")  # the baseline is measured from the kept copy
    Path("gates.toml").write_text(
        '[models."bad.onnx"]\nmedian = "<10s"\n'
        '[models."net.onnx"]\nbaseline = "last"\nmax_slowdown = "900%"\nthroughput = ">=1/s"\n'
        '[models."slow.onnx"]\nbatch = 2\nagainst = "net.onnx"\nmax_slowdown = "3%"\n'
        'median = "<1ns"\n'
    )
    said = say("gate", "gates.toml", *TURNS, "-o", "gate", status=3)
    assert "FAIL: 2 of 3 models: slow.onnx, bad.onnx" in said.words
    net, slow, bad = json.loads(Path("gate/gate.json").read_text())
    assert [each["open"] for each in (net, slow, bad)] == [True, False, False]
    assert net["comparison"]["design"] == "duet"
    before, after = (
        say("runs", "show", net["comparison"][side], "--json").json["run"]["spec"]["model"]
        for side in ("baseline", "candidate")
    )
    assert before["sha256"] != after["sha256"]
    assert "store/models" in before["path"]
    reasons = " ".join(slow["closed_by"])
    assert "slowdown<=3%: too slow" in reasons
    assert "median<1ns: does not hold" in reasons
    assert say("runs", "show", slow["candidate"], "--json").json["run"]["spec"]["batch"] == 2
    assert "bad.onnx is not an ONNX file" in Path("gate/gate.md").read_text()
    suites = ElementTree.parse("gate/gate.junit.xml").getroot()
    counts = [(each.get("failures"), each.get("errors")) for each in suites]
    assert counts == [("0", "0"), ("2", "0"), ("0", "1")]
    assert all(float(each.get("time", "nan")) > 0 for each in suites[1].iter("testcase"))
    said = say("compare", "net.onnx", "slow.onnx", "net.onnx", *TURNS, *ENOUGH)
    assert re.search(r"\d\. slow\.onnx is slower: 0\.\d+x as fast as net\.onnx \(", said.words)
    assert re.search(r"slow\.onnx (net.onnx )?[\d. ]+ \ws slower", said.words)
    assert "corrected by Holm's rule" in said.words
    said = say("compare", "last", "slow.onnx", *TURNS, "--duration", "20ms", "-v")
    assert "measured as they were stored" in said.words


def test_a_rate_is_searched_for_and_kept(
    say: Say, away: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_model(Path("net.onnx"))
    words = ("bench", "net.onnx", "--batch", "1", "--slo", "median<5s", "--rate", "400/s", *QUICK)
    assert "--slo needs --protocol server" in say(*words, "--protocol", "serve").words
    assert "leave out --gap" in say(*words, "--gap", "1ms").words
    assert "of the search" in say(*words, "--dry-run").words
    assert "--time-limit needs --slo" in say("bench", "net.onnx", "--time-limit", "9s").words
    found = say(*words, "--json").json
    name, load = found["run"]["id"], found["load"]
    assert (load["likely_hz"], load["at_least"], load["complete"]) == (400, True, True)
    assert found["run"]["spec"]["rate_hz"] == 400
    assert [each["id"] for each in say("runs", "--json").json] == [name], "one run, probes inside"
    assert "400/s or more meets median<5s" in say("runs", "show", name).words
    said = say(*words[:5], "p99<1ns", *words[8:], "--time-limit", "1s", "--launches", "2", *away)
    assert re.search(r"no rate meets p99<1ns; [\d .]+/s is the lowest rate tried", said.words)
    assert re.search(r"p99 .*s in \d+ probes? at ", said.words)
    assert say("report", name, "--format", "md", "-o", "report").status == 0
    assert "400/s or more meets" in Path("report/report.md").read_text()
    assert list(Path("report").glob("latency_vs_rate*.png"))
    assert "fix: trtbench profile" in say("diff", name, name, status=2).words
    assert "the newest 1; --limit 0 shows all" in say("runs", "--limit", "1").words
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    say("runs", "rm", name)
    Path("store/runs", name, "run.json").write_text("{}")
    assert f"{name}: " in say("runs", "reindex", status=1).words


def test_a_history_of_logs_shows_when_its_level_changed(say: Say) -> None:
    Path("nights").mkdir()
    for night in range(1, 17):
        slower = 1.25 if night > 8 else 1.0
        median = (2.5 + 0.001 * (night % 3)) * slower
        text = logs.log_82().replace("median = 2.5 ms", f"median = {median:.4f} ms")
        Path(f"nights/{night:02}.log").write_text(text.replace("03/04/2025", f"03/{night:02}/2025"))
    assert say("import", "nights").status == 0
    said = say("history", "-o", "series", "--format", "md,html,json", "--json")
    [series] = said.json["series"]
    [change] = series["changes"]
    assert change["at"]["change"] == pytest.approx(0.25, abs=0.01)
    assert change["created"].startswith("2025-03-09")
    shown = say("history", "--changes")
    assert "+25" in shown.out
    assert "2025-03-09" in shown.out
    assert "2025-03-09" in Path("series/report.md").read_text()
    assert say("history", "--since", "2026-01-01").words.count("2025") == 0


def test_a_sweep_fills_dimensions_of_inputs_by_name(say: Say) -> None:
    identity(Path("net.onnx"), ("x", TensorProto.FLOAT, ["N", 3, "T"]))
    words = ("net.onnx", "--axis", "shape.T=4,8", "--batch", "1,2", "-o", "swept")
    words += ("--shape", "x:1x3xT")
    assert "4 cases" in say("sweep", *words, "--dry-run").words
    assert say("sweep", *words, "--duration", "10ms", "--launches", "1").status == 0
    rows = json.loads(Path("swept/results.json").read_text())["rows"]
    assert sorted((row["batch"], row["shape.T"]) for row in rows) == [
        (1, 4), (1, 8), (2, 4), (2, 8),
    ]  # fmt: skip
    words = ("--axis", "shape.x=2x3x4", "-o", "whole", "--duration", "10ms")
    say("sweep", "net.onnx", *words, status=0)
    [tensor] = say("runs", "show", "last", "--json").json["run"]["inputs"]
    assert tensor["shape"] == [2, 3, 4]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--axis", "shape.x=2xx4"), "shape.x = 2xx4 is not a shape"),
        (("--shape", "x:1x3xK"), "'K'"),
        (("--preset", "depht"), "--preset depth"),
        (("--batch", "many"), "--batch"),
        (("--inputs", "gone.npz"), "there is no file"),
        (("--batch", "1", "--exclude", "batch=1"), "are excluded"),
        (("--resume", "swept"), "--resume cannot be combined"),
        (("--resume", "swept", "--dry-run"), "--resume has no dry run"),
        (("m.yaml",), "m.yaml"),
        (("m.toml", "--preset", "depth"), "give only one matrix file or preset"),
    ],
)
def test_a_sweep_that_cannot_be_meant_is_refused_before_it_begins(
    words: tuple[str, ...], expected: str, say: Say
) -> None:
    identity(Path("net.onnx"), ("x", TensorProto.FLOAT, ["N", 3, "T"]))
    Path("m.toml").write_text('models = ["net.onnx"]\n')
    Path("m.yaml").write_text("- net.onnx\n")
    assert expected in say("sweep", "net.onnx", *words, "-o", "swept", status=2).words
    assert not Path("swept").exists()
