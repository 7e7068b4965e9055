"""One network built several times, with a stand-in that draws kernels as builders do."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import models
from trtbench.cli import run as command
from trtbench.core.errors import InputError
from trtbench.requests.convert import BuildRequest, LotteryRequest
from trtbench.requests.execution import Execution
from trtbench.requests.measure import CompareRequest
from trtbench.requests.settings import Config
from trtbench.store.store import Store
from trtbench.workflows import builds as draws
from trtbench.workflows.builds import Builds, builder_of_both

QUICK: dict[str, Any] = {"launches": 2, "duration": "50ms"}


def lottery(trtexec: Any, store: Store, config: Config, **changes: Any) -> Any:
    request = LotteryRequest(model=trtexec.onnx(), **{**QUICK, **changes})
    return Builds(store=store, config=config, execution=Execution()).lottery(request)


def test_every_build_is_a_draw_and_the_spread_is_told(
    trtexec: Any, store: Store, config: Config
) -> None:
    trtexec.behave("draw")
    found = lottery(trtexec, store, config, builds=4)
    assert [each.same for each in found.aspects] == [False, True, False, None, False]
    assert found.spread.between > 0.01
    assert found.spread.within < 0.005
    assert len({each.run for each in found.draws}) == 4
    assert all(len(store.load(each.run).record.launches) == 2 for each in found.draws)
    assert found.spread.needed["1 %"] > found.spread.needed["10 %"]


def test_one_timing_cache_makes_them_alike(trtexec: Any, store: Store, config: Config) -> None:
    trtexec.behave("draw")
    cache = trtexec.folder / "shared.cache"
    found = lottery(trtexec, store, config, builds=3, timing_cache=cache)
    assert found.aspect("bytes").same is True
    assert found.aspect("latency").same is True
    again = lottery(trtexec, store, config, builds=3)
    assert again.aspect("latency").same is False, "a cache that nobody named was used"


def test_an_interrupted_lottery_goes_on_with_what_it_built(
    trtexec: Any, store: Store, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    trtexec.behave("draw")
    folder = trtexec.folder / "draws"
    told: list[str] = []
    build, tries = draws.run_build, []

    def interrupted(spec: Any, **others: Any) -> Any:
        tries.append(Path(spec.output).name)
        if len(tries) == 3:
            raise KeyboardInterrupt
        return build(spec, **others)

    monkeypatch.setattr(draws, "run_build", interrupted)
    request = LotteryRequest(model=trtexec.onnx(), output=folder, builds=4, **QUICK)
    heard = Execution(listen=lambda event: told.append(event.text))
    with pytest.raises(KeyboardInterrupt):
        Builds(store=store, config=config, execution=heard).lottery(request)
    assert f"2 of 4 engines are in {folder}: --resume goes on with them" in told
    before = [(folder / f"build-{n}.engine").read_bytes() for n in (1, 2)]
    (folder / "build-2.engine").write_bytes(b"another")  # this one is no longer what was built
    found = lottery(trtexec, store, config, output=folder, builds=4, resume=True)
    assert tries[3:] == ["build-2.engine", "build-3.engine", "build-4.engine"]
    assert (folder / "build-1.engine").read_bytes() == before[0]
    assert len(found.draws) == 4
    assert all(each.launches_s for each in found.draws)


def test_engines_of_two_versions_are_no_lottery(trtexec: Any, store: Store, config: Config) -> None:
    folder = trtexec.folder
    recipe = BuildRequest(model=trtexec.onnx(), output=folder / "build-1.engine")
    built = Builds(store=store, config=config, execution=Execution()).build_one(recipe, "1")
    draws.refuse_mixed([built, built], folder)
    older = built.artefact.having(tensorrt="7.2.3")
    with pytest.raises(InputError, match="not of one TensorRT"):
        draws.refuse_mixed([built, dataclasses.replace(built, artefact=older)], folder)


def networks(trtexec: Any) -> tuple[Path, Path]:
    old = trtexec.folder / "old.onnx"
    new = trtexec.folder / "new.onnx"
    old.write_bytes(b"\x08\x08 a model")
    new.write_bytes(b"\x08\x08 a slower model")
    return old, new


def test_networks_are_compared_by_pairs_of_builds(
    trtexec: Any, store: Store, config: Config
) -> None:
    trtexec.behave("draw")
    old, new = networks(trtexec)
    request = CompareRequest(
        baseline=old, candidates=[new], builds=3, output_dir=trtexec.folder / "out", **QUICK
    )
    (found,) = Builds(store=store, config=config, execution=Execution()).networks(request)
    verdict = found.comparison.verdicts[0]
    assert verdict.kind == "slower"
    assert verdict.ratio == pytest.approx(1.03, abs=0.003)
    assert verdict.design == "builds"
    assert found.baseline.spread is not None
    assert found.baseline.spread.range > 0.02, "draws were to differ more than the networks"
    itself = CompareRequest(
        baseline=old, candidates=[old], builds=3, output_dir=trtexec.folder / "same", **QUICK
    )
    (alike,) = Builds(store=store, config=config, execution=Execution()).networks(itself)
    assert alike.comparison.verdicts[0].kind == "same"


def test_the_command_and_build_times_say_the_same(
    trtexec: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    trtexec.behave("draw")
    model = str(trtexec.onnx())
    assert (
        command(["lottery", model, "--builds", "2", "--launches", "1", "--duration", "50ms"]) == 0
    )
    shown = capsys.readouterr().out
    assert "2 builds of net.onnx" in shown
    assert "claims need" in shown
    quick = ["--launches", "1", "--duration", "50ms", "--output-dir", str(trtexec.folder / "out")]
    assert command(["compare", model, "--builds", "2", *quick]) == 0
    assert "2 builds of net.onnx" in capsys.readouterr().out
    pythons = ["--python", sys.executable] * 2
    assert command(["compare", model, "--builds", "2", *quick, *pythons, "-r", "trtexec"]) == 0
    assert "net.onnx: new against old" in capsys.readouterr().out
    assert command(["build", model, "--times", "2", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["draws"]) == 2
    assert not Path(model).with_suffix(".engine").exists()


def test_an_upgrade_builds_with_what_both_interpreters_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tensorrt.py").write_text("raise ImportError('not here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    pythons = [sys.executable, sys.executable]
    assert builder_of_both(pythons) == "tensorrt", "which says what is missing"
    (tmp_path / "tensorrt_rtx.py").write_text("")
    assert builder_of_both(pythons) == "tensorrt-rtx"
    (tmp_path / "tensorrt.py").write_text("")
    assert builder_of_both(pythons) == "tensorrt"


def test_a_task_judges_both_versions_with_all_its_flags(
    trtexec: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Nothing is calibrated, so the task prepares no images for that; trtexec hands out nothing."""
    monkeypatch.chdir(tmp_path)
    models.conv_model(tmp_path / "net.onnx", batch=1)
    words = ["upgrade", f"a={sys.executable}", f"b={sys.executable}", "net.onnx", "-r", "trtexec",
             "--task", "depth", "--data", "images", "--gt", "truth", "--align", "none",
             "--builds", "2", "--launches", "1", "--duration", "20ms"]  # fmt: skip
    assert command([*words, "--store", "store", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert all("trtexec" in note for note in told["notes"])
    assert len(told["notes"]) == 2
    assert not (tmp_path / "artifacts").exists()
