"""What a user sees who asks for something that cannot be: never a traceback, always a way out."""

import datetime
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import models
from command import in_folder
from trtbench.core.errors import UsageError
from trtbench.workflows.runs import day_from_text


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
        (["x" * 5000 + ".onnx"], 2, "names nothing", "give a run or a file"),
        (["."], 1, "is a folder, not a model file", "did you mean empty.onnx?"),
        (["/dev/zero"], 1, "is a device or pipe, not a model file", None),
        (["empty.onnx"], 1, "empty.onnx is empty", "export the model again"),
        (["tiny.onnx", "-r", "onxruntime"], 2, "no runtime called 'onxruntime'", "onnxruntime?"),
        (["tiny.onnx", "--duration", "-3s"], 2, "not negative", "500ms or 3s"),
        (["tiny.onnx", "--duration", "0s"], 2, "longer than 0 s", "--duration 3s"),
        (["tiny.onnx", "--timeout", "0s"], 2, "longer than 0 s", "--timeout 10min"),
        (["tiny.onnx", "--memory-limit", "0GiB"], 2, "is too small", "8GiB"),
        (["tiny.onnx", "--batch", "0"], 2, "--batch must be at least 1, not 0", "--batch 1"),
        (["tiny.onnx", "--shape", "x"], 2, "the shape 'x' is not valid", "input:1x3x224x224"),
        (["tiny.onnx", "--shape", "x:0x16"], 2, "has no elements", "at least 1"),
        (["tiny.onnx", "--shape", "x:1x16,x:2x16"], 2, "the input x has two shapes", "once"),
        (["tiny.onnx", "--opt", "spinning"], 2, "--opt spinning is not valid", None),
        (["tiny.onnx", "--opt", "xyzzy=1"], 2, "no option 'xyzzy'", "one of providers, spinning"),
        (["tiny.onnx", "--opt", "spining=on"], 2, "no option 'spining'", "--opt spinning=on"),
        (["tiny.onnx", "--opt", "cuda.use_tf32=0"], 2, "setting of 'cuda'", "providers=cuda,cpu"),
        (["tiny.onnx", "--inputs", "daat.npz"], 1, "there are no inputs", "data.npz"),
        (["tiny.onnx", "--python", "/no/python"], 4, "no Python interpreter at", "--python PATH"),
        (["tiny.onnx", "--python", "/bin/true"], 4, "is not a working Python", "bin/python"),
        (["tiny.onnx", "--telemetry", "0s"], 2, "shortest interval", "--telemetry 100ms"),
        (["tiny.onnx", "--device", "gpu0"], 2, "'gpu0' is not a device", "--device cuda:0"),
        (["tiny.onnx", "--device", "1"], 2, "'1' is not a device", "--device cuda:1"),
        (["tiny.onnx", "--cuda-graph=maybe"], 2, "'maybe' is not one of", "off|on|auto"),
        (["tiny.onnx", "--lock-clocks=fast"], 2, "--lock-clocks fast is not valid", "MHz"),
        # what only the worker can know
        (["tiny.onnx", "--shape", "z:1x16", *QUICK], 1, "no input called 'z'", "--shape x:1x16"),
        (["tiny.onnx", "--shape", "x:1", *QUICK], 1, "wrong rank", "--shape x:1x16"),
        (["tiny.onnx", "--shape", "x:8x17", *QUICK], 1, "16 is fixed", "--shape x:8x16"),
        (["tiny.onnx", "--inputs", "wrong.npz", *QUICK], 1, "the input 'x' has the wrong type",
         "astype('float32')"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_for(say, arguments, status, message, fix):
    Path("empty.onnx").touch()
    for name, kind in (("data.npz", np.float32), ("wrong.npz", np.float64)):
        np.savez(name, x=np.zeros((1, 16), kind))
    got, out, err = say("bench", *arguments)
    assert (got, out) == (status, "")
    before, _, after = err.partition("error: ")
    assert not before or QUICK[0] in arguments, "only the progress of a worker comes before it"
    first, *rest = after.splitlines()
    assert message in first
    if fix:
        assert rest[-1].startswith("fix: ")
        assert fix in rest[-1]
    assert not list(Path("store").glob("runs/*")), "something was left behind"


def test_settings_of_a_provider_reach_it(say) -> None:
    status, out, err = bench(say, "tiny.onnx", "--opt", "onnxruntime:cpu.use_arena=0")
    assert status == 0, err
    assert "cpu.use_arena=0" in out
    asked = ("--opt", "providers=dml,cpu", "--opt", "dml.device_id=0")
    status, _, err = bench(say, "tiny.onnx", *asked)
    assert status == 4
    assert "no execution provider 'dml'" in err


@pytest.mark.parametrize("verb", ["check", "localize", "inspect"])
def test_an_input_that_the_model_does_not_have(say, verb):
    """Every verb names the inputs there are; ``check`` and ``localize`` used to ignore it."""
    models = ["tiny.onnx"] * (1 if verb == "inspect" else 2)
    err = say(verb, *models, "--shape", "z:1x16", status=1).err
    assert "no input called 'z'" in err
    assert "fix: --shape x:1x16" in err


def test_a_terminal_that_has_only_ascii(say):
    assert bench(say, "tiny.onnx", "--batch", 1)[0] == 0
    words = [sys.executable, "-m", "trtbench", "runs", "show", "last"]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = subprocess.run(words, env=ascii_only, capture_output=True)
    assert (shown.returncode, b"Traceback" in shown.stderr) == (0, False)
    assert b"tiny.onnx | onnxruntime" in shown.stdout
    assert re.search(rb"Host +[\d. ]+ us", shown.stdout)  # a unit does not get lost


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
    assert say("bench", *flags, "--dry-run", "--json").json["job"]["spec"][name] == value


def test_inputs_that_no_memory_holds(say):
    status, out, err = bench(say, "tiny.onnx", "--batch", 10**12)
    assert (status, out) == (1, "")
    assert "error: the measurement did not finish: out of memory" in err
    assert "Unable to allocate" in err
    assert err.splitlines()[-1].startswith("fix: use a smaller --batch or --shape")


# --- the store -------------------------------------------------------------------------------


def test_a_store_that_cannot_be_written(say):
    Path("file").touch()
    for place in ("file", "file/below", "/proc/nowhere"):
        for command in (["bench", "tiny.onnx", "--batch", 1], ["runs"]):
            status, out, err = say(*command, "--store", place)
            assert (status, out) == (1, "")
            assert "cannot be written" in err
            assert "for the store: --store DIR" in err


INTO_A_FOLDER = """check tiny.onnx tiny.onnx, eval tiny.onnx --task classification --data x.npz,
    gate tiny.onnx --metric median<1s, compare tiny.onnx tiny.onnx, bench tiny.onnx --batch 1"""


@pytest.mark.parametrize("command", INTO_A_FOLDER.split(","))
def test_a_folder_for_results_is_tried_before_the_work(say, command):
    status, out, err = say(*command.split(), "-o", "tiny.onnx/below")
    assert (status, out) == (1, "")
    assert "tiny.onnx/below cannot be written" in err
    assert "fix: use another folder with -o" in err


# --- runs ------------------------------------------------------------------------------------


def test_days_are_counted_back_as_far_as_there_are_any() -> None:
    days = [day_from_text(text) for text in ("7d", "yesterday", "today")]
    assert (days[2] - days[0]).days in (7, 8)  # midnight may pass between two of them
    assert days[0] < days[1] < days[2]
    assert day_from_text("2026-11-15") == datetime.date(2026, 11, 15)
    for odd in ("9999999d", f"{10**30}d", "9" * 5000 + "d", "²d", "2026-13-01", "soon"):
        with pytest.raises(UsageError, match="is not a day"):
            day_from_text(odd)


# --- other interpreters ----------------------------------------------------------------------


def test_files_of_the_working_folder_do_not_shadow_libraries(say):
    for name in ("numpy", "queue", "random", "msgspec", "onnxruntime", "trtbench"):
        Path(f"{name}.py").write_text("raise SystemExit('the wrong module was imported')\n")
    status, _, err = bench(say, "tiny.onnx", "--batch", 1)
    assert status == 0, err
