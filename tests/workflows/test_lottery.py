"""One network built several times, with a stand-in that draws kernels as builders do."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import trtbench
from command import Say
from trtbench.requests.execution import Execution
from trtbench.requests.measure import CompareRequest
from trtbench.requests.settings import Config
from trtbench.store.store import Store
from trtbench.workflows.builds import Builds, common_builder

QUICK: dict[str, Any] = {"launches": 2, "duration": "50ms"}


def lottery(trtexec: Any, store: Store, config: Config, **changes: Any) -> Any:
    given = {"baseline": trtexec.onnx(), "output": trtexec.folder / "out", **QUICK, **changes}
    request = CompareRequest(**given)
    return Builds(request=request, store=store, config=config, execution=Execution()).compare()


def test_every_build_is_a_draw_and_the_spread_is_told(
    trtexec: Any, store: Store, config: Config
) -> None:
    trtexec.behave("draw")
    found = lottery(trtexec, store, config, builds=4)
    assert [each.same for each in found.aspects] == [False, True, False, False]
    assert found.spread.between > 0.01
    assert found.spread.within < 0.005
    assert len({each.run for each in found.draws}) == 4
    assert all(len(store.load(each.run).record.launches) == 2 for each in found.draws)
    assert found.spread.needed["1 %"] > found.spread.needed["10 %"]


def test_one_timing_cache_makes_them_alike(trtexec: Any, store: Store, config: Config) -> None:
    trtexec.behave("draw")
    cache = trtexec.folder / "shared.cache"
    found = lottery(trtexec, store, config, builds=3, build={"timing_cache": str(cache)})
    assert found.aspect("bytes").same is True
    assert found.aspect("latency").same is True
    again = lottery(trtexec, store, config, builds=3)
    assert again.aspect("latency").same is False, "a cache that nobody named was used"


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
    (found,) = lottery(trtexec, store, config, baseline=old, candidates=[new], builds=3)
    verdict = found.comparison.verdicts[0]
    assert verdict.kind == "slower"
    assert verdict.ratio == pytest.approx(1.03, abs=0.003)
    assert verdict.design == "builds"
    assert found.baseline.spread.range > 0.02, "draws were to differ more than the networks"
    itself = {"baseline": old, "candidates": [old], "output": trtexec.folder / "same"}
    (alike,) = lottery(trtexec, store, config, builds=3, **itself)
    assert alike.comparison.verdicts[0].kind == "same"


def test_compare_builds_by_command_and_in_python(trtexec: Any, say: Say) -> None:
    trtexec.behave("draw")
    model = trtexec.onnx()
    quick = ["--launches", "1", "--duration", "50ms", "--builds", "2"]
    quick += ["--output", trtexec.folder / "out"]
    build = ["--build", "workspace=64MiB", "--build", "refit=on"]
    shown = say("compare", model, *quick, *build, status=0).out
    assert "2 builds of net.onnx" in shown
    assert "claims need" in shown
    record = json.loads((trtexec.folder / "out/net.builds/build-1.engine.json").read_bytes())
    assert record["spec"]["refit"] is True
    assert record["spec"]["workspace_bytes"] == 64 * 2**20
    versions = ["--python", sys.executable, "--python", sys.executable]
    again = say("compare", *versions, model, *quick, "-r", "trtexec", status=0)
    assert "baseline: net.onnx" in again.out
    found = trtbench.compare_builds(
        model, builds=2, launches=1, duration="50ms", output=trtexec.folder / "out"
    )
    assert len(found.draws) == 2


def test_an_upgrade_builds_with_what_both_interpreters_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tensorrt.py").write_text("raise ImportError('not here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    pythons = [sys.executable, sys.executable]
    assert common_builder(pythons) == "tensorrt", "which says what is missing"
    (tmp_path / "tensorrt_rtx.py").write_text("")
    assert common_builder(pythons) == "tensorrt-rtx"
    (tmp_path / "tensorrt.py").write_text("")
    assert common_builder(pythons) == "tensorrt"
