"""What a user sees who asks for something that cannot be: never a traceback, always a way out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from command import in_folder

import models
from trtbench.core.spec import Protocol
from trtbench.requests.fields import fields_of
from trtbench.requests.measure import BenchRequest


@pytest.fixture
def say(tmp_path, monkeypatch, capsys):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    models.tiny_model(tmp_path / "tiny.onnx")
    return in_folder(tmp_path, monkeypatch, capsys)


QUICK = ("--warmup", "1ms", "--no-until-steady", "--duration", "20ms", "--threads", "1")


def bench(say, *arguments: object) -> tuple[int, str, str]:
    return say("bench", *arguments, *QUICK)


@pytest.mark.parametrize(
    ("arguments", "status", "message", "fix"),
    [
        (["tinny.onnx"], 1, "there is no file tinny.onnx", "did you mean tiny.onnx?"),
        (["no/such/m.onnx"], 1, "there is no file no/such/m.onnx", "path of a model file"),
        (["other"], 1, "there is no file other", "path of a model file"),
        (["x" * 5000 + ".onnx"], 1, "there is no file xxx", None),
        (["."], 1, "is a folder, not a model file", "did you mean empty.onnx?"),
        (["/dev/zero"], 1, "is a device or pipe, not a model file", None),
        (["empty.onnx"], 1, "empty.onnx is empty", "export the model again"),
        (["tiny.onnx", "-r", "onxruntime"], 2, "no runtime called 'onxruntime'", "onnxruntime?"),
        (["tiny.onnx", "-r", "mine"], 2, "no runtime called 'mine'", "one of those"),
        (["tiny.onnx", "--warmup", "500"], 2, "'500' has no unit", "500ms or 3s"),
        (["tiny.onnx", "--duration", "3sec"], 2, "unknown unit 'sec'", "3"),
        (["tiny.onnx", "--duration", "-3s"], 2, "not negative", "500ms or 3s"),
        (["tiny.onnx", "--duration", "soon"], 2, "'soon' is not a duration", "500ms or 3s"),
        (["tiny.onnx", "--duration", "0s"], 2, "measures nothing", "--duration 3s"),
        (["tiny.onnx", "--timeout", "0s"], 2, "lets nothing be measured", "--timeout 10min"),
        (["tiny.onnx", "--memory-limit", "4G"], 2, "unknown unit 'G'", "4G"),
        (["tiny.onnx", "--memory-limit", "0GiB"], 2, "lets nothing start", "8GiB"),
        (["tiny.onnx", "--batch", "0"], 2, "--batch must be at least 1, not 0", "--batch 1"),
        (["tiny.onnx", "--batch", "many"], 2, "'many' is not a valid integer", "--help"),
        (["tiny.onnx", "--iterations", "-5"], 2, "--iterations must be at least 1", None),
        (["tiny.onnx", "--launches", "0"], 2, "--launches must be at least 1", None),
        (["tiny.onnx", "--threads", "0"], 2, "--threads must be at least 1", None),
        (["tiny.onnx", "--seed", "-1"], 2, "--seed must be at least 0", None),
        (["tiny.onnx", "--warmup-iterations", "-1"], 2, "--warmup-iterations must be", None),
        (["tiny.onnx", "--shape", "x"], 2, "the shape 'x' cannot be read", "input:1x3x224x224"),
        (["tiny.onnx", "--switch-shape", "8x3"], 2, "error: the shape '8x3' cannot", "input:1x3"),
        (["tiny.onnx", "--shape", "x:0x16"], 2, "holds nothing", "at least 1"),
        (["tiny.onnx", "--shape", "x:1x16,x:2x16"], 2, "the input x has two shapes", "once"),
        (["tiny.onnx", "--opt", "spinning"], 2, "--opt spinning cannot be read", None),
        (["tiny.onnx", "--opt", "xyzzy=1"], 2, "no option 'xyzzy'", "one of providers, inter_"),
        (["tiny.onnx", "--opt", "spining=on"], 2, "no option 'spining'", "--opt spinning=on"),
        (["tiny.onnx", "--dry-run", "--opt", "xyzzy=1"], 2, "no option 'xyzzy'", "one of prov"),
        (["tiny.onnx", "--inputs", "daat.npz"], 1, "there are no inputs", "data.npz"),
        (["tiny.onnx", "--python", "/no/python"], 4, "no Python interpreter at", "--python PATH"),
        (["tiny.onnx", "--python", "/bin/true"], 4, "is not a Python interpreter", "bin/python"),
        (["tiny.onnx", "--python", "tiny.onnx"], 4, "no Python interpreter at", None),
        (["tiny.onnx", "--batc", "1"], 2, "No such option", "--help"),
        (["tiny.onnx", "--telemetry", "0s"], 2, "at most 1000 times", "--telemetry 100ms"),
        (["tiny.onnx", "--telemetry", "often"], 2, "'often' is not a duration", "500ms"),
        (["tiny.onnx", "--device", "gpu0"], 2, "'gpu0' is no device", "--device cuda:0"),
        (["tiny.onnx", "--device", "1"], 2, "'1' is no device", "--device cuda:1"),
        (["tiny.onnx", "--cuda-graph=maybe"], 2, "'maybe' is not one of", "--help"),
        (["tiny.onnx", "--lock-clocks=fast"], 2, "--lock-clocks fast cannot be read", "MHz"),
        ([], 2, "Missing argument 'MODEL'", "trtbench bench model.onnx"),
    ],
)
def test_what_cannot_be_asked_for(say, arguments, status, message, fix):
    Path("empty.onnx").touch()
    np.savez("data.npz", x=np.zeros((1, 16), np.float32))
    got, out, err = say("bench", *arguments)
    assert (got, out) == (status, "")
    first, *rest = err.splitlines()
    assert first.startswith("error: ")
    assert message in first
    if fix:
        assert rest[-1].startswith("fix: ")
        assert fix in rest[-1]
    assert not list(Path("store").glob("runs/*")), "something was left behind"


@pytest.mark.parametrize(
    ("shape", "message", "fix"),
    [
        ("z:1x16", "the model has no input called 'z'", None),
        ("x:1x2x16", "the shape of 'x' has the wrong rank", "--shape x:1x16"),
        ("x:1x17", "does not fit: 16 is fixed", "--shape x:1x16"),
    ],
)
def test_shapes_that_a_model_to_quantize_cannot_have(say, shape, message, fix):
    status, out, err = say("quantize", "tiny.onnx", "--precision", "fp16", "--shape", shape)
    assert (status, out) == (2 if fix is None else 1, "")
    assert message in err.splitlines()[0]
    assert fix is None or f"fix: {fix}" in err
    assert not Path("tiny.fp16.onnx").exists()


def test_layers_of_what_does_not_tell_them(say):
    """The way out is one that leads out: not the command that was typed."""
    assert bench(say, "tiny.onnx", "--batch", 1)[0] == 0
    status, out, err = say("profile", "last")
    assert (status, out) == (2, "")
    fix = next(line for line in err.splitlines() if line.startswith("fix: trtbench profile"))
    assert say(*fix.split()[2:], "--batch", 1, "--duration", "50ms")[0] == 0


def test_numbers_of_a_run_have_their_units(say):
    assert bench(say, "tiny.onnx", "--batch", 1)[0] == 0
    assert "items/s" in say("inspect", "last")[1]


def test_nothing_at_all_is_answered_with_the_help(say):
    assert say() == say("--help")
    assert say()[0] == 0


def test_a_terminal_that_has_only_ascii(say):
    assert bench(say, "tiny.onnx", "--batch", 1)[0] == 0
    shown = subprocess.run(
        [sys.executable, "-m", "trtbench", "runs", "show", "last"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
    )
    assert (shown.returncode, b"Traceback" in shown.stderr) == (0, False)
    assert b"tiny.onnx ? onnxruntime" in shown.stdout


def test_every_protocol_can_be_asked_for():
    flag = next(each for each in fields_of(BenchRequest) if each.name == "protocol")
    assert get_args(Protocol) == flag.choices


@pytest.mark.parametrize(
    ("flags", "name", "value"),
    [
        (["-r", "trtexec", "--cuda-graph", "tiny.onnx"], "cuda_graph", "on"),
        (["--cuda-graph=auto", "tiny.onnx"], "cuda_graph", "auto"),
        (["-r", "trtexec", "tiny.onnx", "--cuda-graph"], "cuda_graph", "on"),
        (["--telemetry", "tiny.onnx"], "telemetry_s", 0.1),
        (["--telemetry", "50ms", "tiny.onnx"], "telemetry_s", 0.05),
        (["--lock-clocks", "tiny.onnx"], "lock_clocks", "base"),
        (["--lock-clocks", "1500", "tiny.onnx"], "lock_clocks", "1500"),
    ],
)
def test_a_value_that_may_be_left_out_does_not_swallow_the_model(say, flags, name, value):
    got, out, err = say("bench", *flags, "--dry-run", "--json")
    assert got == 0, err
    assert json.loads(out)["job"]["spec"][name] == value


@pytest.mark.parametrize(
    ("arguments", "status", "message", "fix"),
    [
        (["--shape", "z:1x16"], 1, "no input called 'z'", "--shape x:1x16"),
        (["--shape", "x:1"], 1, "wrong rank", "--shape x:1x16"),
        (["--shape", "x:1x17"], 1, "16 is fixed", None),
        (["--batch", 1, "--opt", "spining=on"], 2, "no option 'spining'", "--opt spinning=on"),
        (["--inputs", "wrong.npz"], 1, "the input 'x' has the wrong type", "astype('float32')"),
    ],
)
def test_what_only_the_worker_can_know_is_passed_on(say, arguments, status, message, fix):
    np.savez("wrong.npz", x=np.zeros((1, 16)))
    got, out, err = bench(say, "tiny.onnx", *arguments)
    assert (got, out) == (status, "")
    assert f"error: {message}" in err or message in err.split("error: ")[1].splitlines()[0]
    if fix:
        assert fix in err.split("fix: ")[1]
    assert not list(Path("store").glob("runs/*")), "something was left behind"


def test_inputs_that_no_memory_holds(say):
    status, out, err = bench(say, "tiny.onnx", "--batch", 10**12)
    assert (status, out) == (1, "")
    assert "error: the measurement did not finish: out of memory" in err
    assert "Unable to allocate" in err
    assert err.splitlines()[-1].startswith("fix: a smaller --batch or --shape")


@pytest.mark.parametrize("name", ["labels.npy", "data.npz", "cut.npz"])
@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive", b"text"])
def test_data_that_is_damaged(say, name, content):
    np.savez("good.npz", images=np.zeros((4, 16), np.float32), labels=np.zeros(4, int))
    Path(name).write_bytes(content)
    data = ["--data", name] if name.endswith("z") else ["--data", "good.npz", "--labels", name]
    status, out, err = say("eval", "tiny.onnx", "--task", "classification", *data)
    assert (status, out) == (1, "")
    assert f"error: {name}" in err
    assert "pickle" not in err or name.endswith("npy")


def test_models_that_cannot_be_loaded(say, tmp_path):
    models.truncate(models.conv_model(tmp_path / "cut.onnx"))
    models.external_data_path(models.external_data_model(tmp_path / "parts.onnx")).unlink()
    models.unsupported_operator_model(tmp_path / "strange.onnx")
    Path("text.onnx").write_text("I am a text\n")
    expected = {
        "cut.onnx": "error: cut.onnx is damaged or cut short",
        "parts.onnx": "error: the model keeps its weights in another file, which is not there",
        "strange.onnx": "error: the model uses an operator that ONNX Runtime does not have",
        "text.onnx": "error: text.onnx is not an ONNX file",
    }
    for name, words in expected.items():
        status, out, err = bench(say, name, "--batch", 1)
        assert (status, out) == (1, "")
        assert words in err


@pytest.mark.parametrize("kind", ["npz", "npy", "raw"])
def test_inputs_from_files_are_measured(say, kind):
    array = np.random.default_rng(0).random((6, 16), np.float32)
    if kind == "npz":
        np.savez("data.npz", x=array)
    elif kind == "npy":
        np.save("data.npy", array)
    else:
        Path("data.raw").mkdir()
        array.tofile("data.raw/x.bin")
    status, out, err = bench(say, "tiny.onnx", "--inputs", f"data.{kind}", "--batch", 4, "--json")
    assert status == 0, err
    record = json.loads(out)["run"]
    assert record["inputs"][0]["shape"] == [4, 16]
    assert record["spec"]["inputs"]["source"] == str(Path(f"data.{kind}").absolute())


# --- the store -------------------------------------------------------------------------------


def test_a_store_that_cannot_be_written(say):
    Path("file").touch()
    for place in ("file", "file/below", "/proc/nowhere"):
        for command in (["bench", "tiny.onnx", "--batch", 1], ["runs"]):
            status, out, err = say(*command, "--store", place)
            assert (status, out) == (1, "")
            assert "cannot be written" in err
            assert "fix: give another place with --store" in err


def test_an_output_folder_that_is_taken(say):
    Path("taken").mkdir()
    Path("taken/thesis.txt").touch()
    status, _, err = bench(say, "tiny.onnx", "--batch", 1, "-o", "taken")
    assert status == 1
    assert "taken exists and is not empty" in err
    status, _, err = bench(say, "tiny.onnx", "--batch", 1, "-o", "tiny.onnx/below")
    assert status == 1
    assert "cannot be written" in err


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        (["check", "tiny.onnx", "tiny.onnx"], "-o"),
        (["eval", "tiny.onnx", "--task", "classification", "--data", "x.npz"], "-o"),
        (["gate", "tiny.onnx", "--metric", "median<1s"], "-o"),
        (["compare", "tiny.onnx", "tiny.onnx"], "--output-dir"),
    ],
)
def test_a_folder_for_results_is_tried_before_the_work(say, command, flag):
    status, out, err = say(*command, flag, "tiny.onnx/below")
    assert (status, out) == (1, "")
    assert err.startswith("error: tiny.onnx/below cannot be written")
    assert f"fix: give another place with {flag}" in err


def test_looking_into_a_file_needs_no_store(say):
    Path("file").touch()
    status, out, err = say("inspect", "tiny.onnx", "--store", "file/below")
    assert (status, err) == (0, "")
    assert "opset" in out


def test_a_configuration_with_a_typo(say):
    Path("trtbench.toml").write_text("[default]\nthreads = 2\n")
    status, _, err = say("runs")
    assert status == 2
    assert "trtbench.toml has a setting that cannot be used" in err
    assert "did you mean defaults?" in err


# --- runs ------------------------------------------------------------------------------------


def test_looking_after_runs(say, tmp_path, monkeypatch):
    assert bench(say, "tiny.onnx", "--batch", 1, "--tag", "first", "--tag", "both")[0] == 0
    models.tiny_model(tmp_path / "other.onnx")
    assert bench(say, "other.onnx", "--batch", 2, "--tag", "both", "-o", "outside/mine")[0] == 0

    def listed(*flags: object) -> list[str]:
        status, out, err = say("runs", "--json", *flags)
        assert status == 0, err
        return [entry["model"] for entry in json.loads(out)]

    assert listed() == ["other.onnx", "tiny.onnx"]
    assert listed("--model", "TINY") == ["tiny.onnx"]
    assert listed("--tag", "first") == ["tiny.onnx"]
    assert listed("-r", "onnxruntime", "--since", "today", "--until", "today") == listed()
    assert listed("-r", "torch") == listed("--until", "yesterday") == listed("--failed") == []
    assert listed("--limit", 1) == ["other.onnx"]
    status, out, _ = say("runs")
    assert status == 0
    assert "tiny.onnx" in out
    assert say("runs", "path", "last")[1] == f"{tmp_path / 'outside' / 'mine'}\n"
    assert "protocol" not in out, "all are of one protocol"
    assert "tiny.onnx" in say("runs", "show", "tag:first")[1]
    assert json.loads(say("runs", "show", "tag:first", "--json")[1])["run"]["tags"] == [
        "first",
        "both",
    ]
    assert say("runs", "tag", "tag:first", "renamed")[0] == 0
    assert say("runs", "tag", "tag:renamed", "first", "--remove")[0] == 0
    assert (listed("--tag", "first"), listed("--tag", "renamed")) == ([], ["tiny.onnx"])

    Path("outside").rename("moved")
    status, _, err = say("runs", "show", "last")
    assert status == 1
    assert "the run's directory is gone" in err
    assert "fix: trtbench runs reindex" in err
    assert say("runs", "reindex", "moved")[0] == 0
    assert say("runs", "path", "last")[1] == f"{tmp_path / 'moved' / 'mine'}\n"
    Path("store").rename("elsewhere")
    monkeypatch.setenv("TRTBENCH_STORE", str(tmp_path / "elsewhere"))
    assert listed() == ["other.onnx", "tiny.onnx"]
    Path("elsewhere/index.sqlite").unlink()
    assert say("runs", "reindex", "moved")[0] == 0
    assert listed("--tag", "both") == ["other.onnx", "tiny.onnx"]

    assert say("runs", "rm", "--yes", "tag:renamed")[0] == 0
    assert listed() == ["other.onnx"]
    assert not list(Path("elsewhere/runs").iterdir())


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["show", "nothing"], 2, "there is no run 'nothing'"),
        (["show"], 2, "there is no run 'last'"),
        (["path", "tag:none"], 2, "there is no run 'tag:none'"),
        (["rm", "-y", "zzz"], 2, "there is no run 'zzz'"),
        (["show", "."], 1, "is not a run directory"),
        (["reindex", "empty"], 2, "there is no run directory in empty"),
        (["--since", "someday"], 2, "'someday' is not a day"),
        (["dance"], 2, "dance"),
    ],
)
def test_runs_that_are_not_there(say, arguments, status, message):
    Path("empty").mkdir()
    got, out, err = say("runs", *arguments)
    assert (got, out) == (status, "")
    assert message in err


def test_damaged_runs(say):
    assert bench(say, "tiny.onnx", "--batch", 1)[0] == 0
    folder = next(iter(Path("store/runs").iterdir()))
    samples = folder / "samples.npz"
    samples.write_bytes(samples.read_bytes()[:200])
    status, _, err = say("runs", "show", "last")
    assert (status, "samples.npz is damaged" in err) == (1, True)
    record = json.loads((folder / "run.json").read_bytes())
    (folder / "run.json").write_text(json.dumps({**record, "schema": 99}))
    status, _, err = say("runs", "show", "last")
    assert (status, "was written by a newer trtbench" in err) == (1, True)
    (folder / "run.json").write_text("{")
    status, _, err = say("runs", "reindex")
    assert status == 1
    assert f"cannot be read, and stays listed: {folder.name}" in err
    assert json.loads(say("runs", "--json")[1])[0]["kind"] == "damaged"


# --- other interpreters ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def bare_venv(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False)
    return folder


def test_an_interpreter_that_lacks_msgspec(say, bare_venv):
    python = bare_venv / "bin" / "python"
    status, _, err = bench(say, "tiny.onnx", "--batch", 1, "--python", python)
    assert status == 4
    assert "error: the other interpreter lacks what a worker needs" in err
    assert f"fix: {python} -m pip install msgspec numpy" in err
    status, _, err = bench(say, "tiny.onnx", "--batch", 1, "--python", bare_venv)
    assert status == 4
    assert f"fix: --python {python}" in err


def test_another_interpreter_is_lent_this_package(say, tmp_path):
    """An environment with the libraries but without trtbench, as another one would be."""
    venv.create(tmp_path / "other", with_pip=False)
    python = tmp_path / "other" / "bin" / "python"
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    for package in ("msgspec", "numpy", "onnxruntime"):
        found = Path(__import__(package).__file__).parent
        for each in found.parent.glob(f"{package}*"):
            (libraries / each.name).symlink_to(each)
    site = next((tmp_path / "other").glob("lib/python*/site-packages"))
    (site / "lent.pth").write_text(f"{libraries}\n")
    probe = subprocess.run([python, "-c", "import trtbench"], cwd="/", capture_output=True)
    assert probe.returncode != 0, "trtbench can be imported there: nothing would be shown"
    status, out, err = bench(say, "tiny.onnx", "--batch", 1, "--python", python, "--json")
    assert status == 0, err
    environment = json.loads(out)["run"]["environment"]
    assert environment["python"] == sys.version.split()[0]
    assert set(environment["versions"]) >= {"numpy", "onnxruntime"}
    assert "scipy" not in environment["versions"]


def test_files_of_the_working_folder_do_not_shadow_libraries(say):
    for name in ("numpy", "queue", "random", "msgspec", "onnxruntime", "trtbench"):
        Path(f"{name}.py").write_text("raise SystemExit('the wrong module was imported')\n")
    status, _, err = bench(say, "tiny.onnx", "--batch", 1)
    assert status == 0, err
