"""From an ONNX file to an engine's time in one step: built, kept by content, and measured."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import trtbench
from command import Say
from models import conv_model, tiny_model
from trtbench.convert.steps import Cache, with_engines
from trtbench.host.locks import hold
from trtbench.measure.bench import run_bench
from trtbench.requests.execution import Event, Execution
from trtbench.requests.measure import BenchRequest
from trtbench.requests.run_spec import run_spec
from trtbench.requests.settings import load_config, open_store

QUICK = ("--duration", "50ms", "--warmup", "1ms")


@pytest.mark.parametrize("verb", ["bench", "profile"])
def test_an_onnx_file_is_built_once_and_measured(
    trtexec: Any, place: Path, say: Say, verb: str
) -> None:
    conv_model(place / "net.onnx")
    words = [verb, "net.onnx", "-r", "trtexec", "--batch", "4", "--precision", "fp16", *QUICK]
    first = say(*words, "--build", "workspace=1GiB", status=0)
    assert "net.fp16.4x3x16x16.engine" in first.out + first.err
    assert "engine built by trtexec in" in first.err
    shutil.copyfile("net.onnx", "same.onnx")
    again = say(verb, "same.onnx", *words[2:], "--build", "workspace=1GiB", status=0)
    assert "engine taken from the store" in again.err
    assert "engine built by" in say(*words, status=0).err, "settings of the build are in the key"
    record: Any = trtbench.load("last").record
    assert record.facts["built_from"] == str(place / "net.onnx")
    assert record.facts["build_s"] > 0
    assert not [*place.glob("*.engine*")]
    trtexec.behave("no-build")
    broken = say(*words, "--build", "refit=on", status=1)
    assert "the engine was not built: trtexec ended with status 1" in broken.err


def test_every_side_that_needs_an_engine_gets_one(trtexec: Any, place: Path, say: Say) -> None:
    conv_model(place / "net.onnx")
    sides = ["net.onnx", "net.onnx", "-r", "trtexec", "--launches", "2", *QUICK]
    say("compare", *sides, "--batch", "2", "--build", "refit=on", status=0)
    gate = ["gate", "net.onnx", "-r", "trtexec", "--metric", "median<10s", "--launches", "2"]
    say(*gate, *QUICK, "-o", "out", status=0)
    assert json.loads(Path("out/gate.json").read_text())["model"].startswith("net.as-is.1x3x16x16")
    assert not Path("artifacts").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-r", "trtexec", "--build", "workspac=1GiB"], "a build has no setting workspac"),
        (["-r", "trtexec", "--build", "opt-level=1"], "fix: --build optimization_level=1"),
        (["--build", "workspace=1GiB"], "--build is for an engine that is built"),
        (["-r", "trtexec", "--build", "runtime=tensorrt"], "is not built by tensorrt"),
        (["-r", "trtexec", "--threads", "2"], "trtexec has no counterpart of --threads"),
        (["-r", "trtexec", "--", "--loadEngine=x"], "--loadEngine cannot be passed on"),
        (["--cuda-graph", "on"], "one stream, no CUDA graph"),
    ],
)
def test_flags_are_refused_before_the_device_is_waited_for(
    trtexec: Any, place: Path, say: Say, words: list[str], said: str
) -> None:
    tiny_model(place / "net.onnx")
    for device in ("cpu", "cuda:0"):
        with hold(device, what="another"):
            found = say("bench", "net.onnx", "--batch", "1", "--no-wait", *words, status=2)
        assert said in found.err
    assert not (place / "store" / "steps").exists()


@pytest.mark.real("tensorrt_rtx")
def test_tensorrt_rtx_builds_here_and_is_asked_once(
    place: Path, tensorrt_rtx: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trtbench.runtimes import RUNTIMES

    monkeypatch.setattr(RUNTIMES.load("tensorrt-rtx"), "available", lambda: None)
    request = BenchRequest(conv_model(place / "net.onnx"), runtime="tensorrt-rtx", batch=2)
    config, said = load_config(), list[Event]()
    side, store = (run_spec(request, config), None), open_store(config)
    for word in ("built", "taken from the store"):
        [(spec, _)] = with_engines(
            [side], {}, store=store, config=config, execution=Execution(listen=said.append)
        )
        assert spec.model.format == "engine"
        assert f"engine {word}" in said[-1].text
        assert Path(spec.model.path).name == "net.as-is.2x3x16x16.engine"
    assert len(Cache(store).history()) == 1


def test_launches_before_an_interrupt_are_kept(place: Path) -> None:
    def listen(event: Event) -> None:
        if event.text.startswith("launch 3/6: measuring"):
            raise KeyboardInterrupt

    request = BenchRequest(tiny_model(place / "m.onnx"), batch=1, launches=6, duration=0.02)
    config = load_config()
    spec = run_spec(request, config)
    with pytest.raises(KeyboardInterrupt):
        run_bench(spec, store=open_store(config), execution=Execution(listen=listen))
    record: Any = trtbench.load("last").record
    assert (len(record.launches), record.facts["launches_asked"]) == (2, 6)
    assert "interrupted: 2 of 6 launches" in record.notes
