"""`trtbench localize` from the command line and from Python: the answer, the files, the repair."""

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from made_detectors import squares

import trtbench
from command import Say
from planted_faults import WIDTH, convolutions, int8_of, overflowing, with_outlier
from trtbench.accuracy.localize import commands_for
from trtbench.convert.cast import cast
from trtbench.core.errors import EXIT_BROKEN
from trtbench.models.identity import read_sidecar
from trtbench.models.onnx_model import save_onnx
from trtbench.requests.models import LocalizeRequest


def test_the_answer_comes_first_and_the_repaired_model_is_written(tmp_path: Path, say: Say) -> None:
    reference = overflowing(tmp_path / "model.onnx", layer=2, seed=4, layers=5)
    fp16 = tmp_path / "model.fp16.onnx"
    save_onnx(cast(onnx.load(reference), precision="fp16").model, fp16)
    words = ["localize", reference, fp16, "--repair", "--where", "sqnr>=500dB", "-o", "made"]
    assert "No repair meets sqnr>=500dB" in say(*words, status=EXIT_BROKEN).out
    assert not list(Path("made").glob("*.repaired.onnx"))
    words = [*words[:3], "--distribution", "normal", "--repair", "-o", "made"]
    first = say(*words, status=0).out.splitlines()[1]
    assert first.startswith("fc2 overflows FP16: ")
    assert "> 65504" in first
    made = Path("made/model.fp16.repaired.onnx")
    assert made.is_file()
    found = json.loads(Path("made/localize.json").read_text())
    assert found["found"]["kept"] == ["fc2"]
    assert "--keep fc2 --keep fc2.relu --keep fc3 --keep fc3.relu" in found["commands"]["trtbench"]
    checked = trtbench.check(reference, made, random=32, distribution="normal", floor="off")
    assert checked.candidates[0].checks[0].sqnr_db > 40
    # The command that is printed makes a model as good.
    say(*found["commands"]["trtbench"].split()[1:], "-o", "again.onnx", status=0)
    again = trtbench.localize(reference, "again.onnx", distribution="normal", random=64).found
    assert again.candidate["nonfinite"] == 0
    assert again.candidate["sqnr_db"] == pytest.approx(found["found"]["repaired"]["sqnr_db"], abs=1)


def test_the_command_prepares_images_as_they_were_and_leaves_out_what_was_left_out(
    tmp_path: Path, say: Say
) -> None:
    """And does not write over the candidate."""
    model = convolutions(tmp_path / "net.onnx", layers=3, seed=0)
    squares(tmp_path / "set")
    words = ["quantize", "net.onnx", "--precision", "int8", "--data", "set/images/val",
             "--task", "detection", "--fit", "stretch", "--items", "9", "--method", "minmax",
             "--per-tensor", "--op", "Conv", "-o", "net.int8.onnx"]  # fmt: skip
    say(*words, status=0)
    found = trtbench.localize(
        model, "net.int8.onnx", images="set/images/val", task="detection",
        settings={"fit": "stretch"},
    )  # fmt: skip
    told = shlex.split(found.commands["trtbench"])
    assert {*words[4:-2]} <= {*told}
    before = (tmp_path / "net.int8.onnx").read_bytes()
    say(*told[1:], status=0)
    assert (tmp_path / "net.int8.onnx").read_bytes() == before
    better = trtbench.check(model, "net.int8.repaired.onnx", random=8, floor="off")
    assert better.candidates[0].checks[0].sqnr_db > 0
    made = read_sidecar(tmp_path / "net.int8.onnx")
    assert made is not None
    more = msgspec.structs.replace(made, kept={"other": "requested", "third": "adds a constant"})
    (tmp_path / "net.int8.json").write_bytes(msgspec.json.encode(more))
    again = commands_for(
        LocalizeRequest(reference=model, candidate="net.int8.onnx"), found.found
    )["trtbench"]  # fmt: skip
    assert "--exclude other --exclude" in again
    assert "third" not in again
    assert "-o net.int8.repaired.onnx" in again


@pytest.mark.usefixtures("place")
def test_the_metric_of_a_task_decides_where_there_are_answers(tmp_path: Path) -> None:
    reference = with_outlier(tmp_path / "model.onnx", layer=2, seed=3, layers=4)
    candidate = int8_of(reference, tmp_path / "model.int8.onnx", per_channel=False)
    items = np.random.default_rng(1).normal(size=(120, WIDTH)).astype(np.float32)
    outputs = _outputs(reference, items)
    np.savez(tmp_path / "data.npz", x=items, labels=outputs.argmax(axis=1))
    found = trtbench.localize(
        reference, candidate, task="classification", data="data.npz", repair=True,
        where="top1>=baseline-20",
    )  # fmt: skip
    result = found.found
    assert result.metric == "top1"
    assert result.reference["top1"] == 1.0
    assert result.candidate["top1"] < 0.8 <= result.repaired["top1"]
    assert (result.items, result.held_out) == (120, 60), "the claim is on items it did not see"
    assert result.repaired["top1_low"] > result.candidate["top1_high"]
    assert result.groups[0].node == "fc2"
    assert result.groups[0].gain > 0.1
    assert result.kept == ("fc2",)
    assert result.where == "top1>=baseline-20%", "and what was understood is said"


def test_noise_is_not_repaired(tmp_path: Path, say: Say) -> None:
    """Labels nobody can know, sorted by class: a gain on 60 items is none on others."""
    reference = overflowing(tmp_path / "a.onnx", layer=0, seed=0, layers=6, factor=1)
    candidate = int8_of(reference, tmp_path / "b.onnx", per_channel=False)
    rng = np.random.default_rng(3)
    items, labels = rng.normal(size=(800, WIDTH)).astype(np.float32), np.arange(800) // 100
    np.savez(tmp_path / "data.npz", x=items, labels=labels)
    asked = ["--task", "classification", "--data", "data.npz", "--limit", "120", "-o", "made"]
    words = ["localize", reference, candidate, *asked]
    told = say(*words, status=0).words
    found = json.loads(Path("made/localize.json").read_text())
    assert found["found"]["reference"]["top1"] < 0.4, "not of one class"
    assert found["found"]["groups"][0]["gain"] > 0
    assert "No group of nodes brings accuracy back beyond chance; with " in told
    assert "compared on 60 items that the search did not see, with 95 % intervals" in told
    assert not found["commands"]
    where = f"top1>={100 * found['found']['groups'][0]['restored']['top1'] - 0.1:.1f}%"
    told = say(*words, "--repair", "--where", where, status=EXIT_BROKEN).words
    assert f"No repair meets {where}: on held-out items, top1 " in told
    assert not list(Path("made").glob("*.repaired.onnx"))
    told = say(*words[:3], "--max-time", "1ms", status=0).words
    assert "a.onnx Time ran out before any of 6 groups was restored. 6 groups" in told
    assert "--exclude" not in told, "nothing was measured"


def test_nodes_without_names_are_called_after_their_tensors(tmp_path: Path, say: Say) -> None:
    """And the numbers are those of other verbs, which optimize graphs."""
    model = onnx.load(overflowing(tmp_path / "a.onnx", layer=0, seed=0, layers=3, factor=1))
    for node in model.graph.node:
        node.name = ""
    onnx.save(model, tmp_path / "a.onnx")
    int8_of(tmp_path / "a.onnx", tmp_path / "b.onnx")
    found = trtbench.localize("a.onnx", "b.onnx", random=32)
    tensors = {name for node in model.graph.node for name in node.output}
    assert {name for group in found.found.groups for name in group.nodes} <= tensors
    checked = trtbench.check("a.onnx", "b.onnx", random=32, floor="off")
    assert found.found.candidate["sqnr_db"] == pytest.approx(
        checked.candidates[0].checks[0].sqnr_db
    )
    words = shlex.split(found.commands["trtbench"].replace(" DATA", " random"))
    say(*words[1:], status=0)


@pytest.mark.usefixtures("place")
def test_an_interrupt_keeps_the_best_answer_so_far(tmp_path: Path) -> None:
    reference = with_outlier(tmp_path / "a.onnx", layer=20, seed=1, layers=40)
    candidate = int8_of(reference, tmp_path / "b.onnx", per_channel=False)
    words = ["localize", str(reference), str(candidate), "--random", "2000", "-o", "made"]
    pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-m", "trtbench", *words], **pipes) as job:
        next(line for line in job.stderr if "models tried" in line)
        job.send_signal(signal.SIGINT)
        assert "Interrupted: " in job.communicate()[0]
    assert job.returncode == 0
    found = json.loads(Path("made/localize.json").read_text())["found"]
    assert found["interrupted"]
    assert len(found["groups"]) == 40


def test_a_range_that_does_not_fit_is_said_before_any_node(tmp_path: Path, say: Say) -> None:
    """And a model whose every group is restored is no INT8 model that was repaired."""
    convolutions(tmp_path / "net.onnx", layers=3, seed=0)
    words = ["quantize", "net.onnx", "--precision", "int8", "--calibration", "random"]
    say(*words, "--items", "16", "-o", "net.int8.onnx", status=0)
    pair = ["localize", "net.onnx", "net.int8.onnx", "--random", "16", "-o", "made"]
    for values in ("0:255", "0:0.01"):
        told = say(*pair, "--range", values, status=0).words
        assert "net.onnx The calibration does not fit these inputs: the input x is" in told
        assert "--exclude" not in told
    told = say(*pair, "--repair", "--where", "sqnr>=90dB", status=EXIT_BROKEN).words
    assert "nothing is quantized any more: use the reference" in told
    assert "does not fit" not in told
    assert not list(Path("made").glob("*.repaired.onnx"))


def _outputs(path: Path, items: np.ndarray) -> np.ndarray:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(["y"], {"x": items})[0])
