"""The runtime trtexec against a stand-in: the same experiment everywhere, and every failure."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from quick import record_beside
from trtbench.core.errors import InputError, ProgramError
from trtbench.core.jobs import BenchOutcome, Stage
from trtbench.core.samples import IterationTimes
from trtbench.core.spec import Length, RunSpec, ShapeProfile, Warmup
from trtbench.host.process import trtexec_binary
from trtbench.models.identity import model_ref
from trtbench.runtimes import trtexec as runtime
from trtbench.trtexec.exports import profiles_from_json
from trtbench.trtexec.times import read_times

VERSIONS = ("8.6.1", "10.9.0", "11.1.0")
FAILURES = {
    "fail": (1, "not enough free memory"),
    "crash": (-11, "SIGSEGV"),
    "garbage": (0, "did not write times.json and profile.json"),
    "silent": (0, "did not write times.json and profile.json"),
    "truncate": (0, "times.json is cut off"),
    "late": (1, ", but its log says PASSED"),
}


def spec_for(path: Path, **changes: Any) -> RunSpec:
    spec = RunSpec(
        model=model_ref(path),
        runtime="trtexec",
        protocol="pipeline",
        profile=True,
        warmup=Warmup(floor=Length(seconds=0.05)),
        stop=Length(seconds=0.1, iterations=10),
    )
    return spec.having(**changes)


def bench(trtexec: Any, **changes: Any) -> tuple[BenchOutcome, IterationTimes, list[str], Path]:
    folder = Path(trtexec.folder) / "launch"
    folder.mkdir(exist_ok=True)
    stage = Stage()
    path = changes.pop("path", None) or trtexec.engine()
    outcome, times = runtime.bench(spec_for(path, **changes), folder=folder, stage=stage)
    return outcome, times, stage.begun, folder


@pytest.mark.parametrize("version", VERSIONS)
def test_a_run_keeps_what_trtexec_wrote_and_said(version: str, trtexec: Any) -> None:
    trtexec.version(version)
    outcome, times, stages, folder = bench(trtexec)
    data = (folder / "times.json").read_bytes()
    columns = read_times(data, where="t", warmup_ms=50)[0].columns
    assert times.headline == "latency"
    assert times.latency is not None
    assert len(times) == len(columns["computeMs"])
    assert times.gpu.max() * 1e3 == pytest.approx(columns["computeMs"].max())
    assert outcome.facts.wall_s is not None
    rate = len(times) / outcome.facts.wall_s
    assert outcome.reported["throughput_qps"] == pytest.approx(rate, rel=1e-3)
    assert outcome.reported["total_host_walltime_s"] == outcome.facts.wall_s
    assert outcome.versions == {"tensorrt": version}
    assert [t.name for t in outcome.inputs] == ["input"]
    assert outcome.inputs[0].shape == (1, 3, 8, 8)
    assert stages[0] == "load"
    assert profiles_from_json((folder / "profile.json").read_bytes(), where="p")[0].layers
    first, second, *rest = (folder / "trtexec_stdout.log").read_text().splitlines()
    assert first == "# run by trtbench:"
    assert second == outcome.reported["command"]
    assert rest[0].startswith("&&&& RUNNING")


@pytest.mark.parametrize(
    "asked",
    [
        {"transfers": True, "cuda_graph": "off", "spin_wait": False},
        {"transfers": False, "cuda_graph": "on", "spin_wait": True},
        {"transfers": True, "cuda_graph": "on", "spin_wait": False, "streams": 2},
        {"protocol": "gpu", "transfers": False, "cuda_graph": "on"},
    ],
)
def test_the_same_spec_is_the_same_experiment_on_every_version(
    asked: dict[str, Any], trtexec: Any
) -> None:
    found = []
    for version in VERSIONS:
        trtexec.version(version)
        outcome, times, _, _ = bench(trtexec, profile=False, **asked)
        names = ("transfers", "cuda_graph", "spin_wait", "streams")
        assert all(outcome.conditions[name].source == "stated" for name in names)
        facts = {name: outcome.conditions[name].value for name in names}
        assert facts["transfers"] is asked["transfers"]
        assert facts["cuda_graph"] is (asked["cuda_graph"] == "on")
        assert facts["streams"] == asked.get("streams", 1)
        assert (times.h2d is not None) is asked["transfers"]
        found.append((facts, times.latency.tobytes()))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("behaviour", FAILURES)
@pytest.mark.parametrize("version", VERSIONS)
def test_failures_say_what_happened(behaviour: str, version: str, trtexec: Any) -> None:
    trtexec.version(version)
    trtexec.behave(behaviour)
    status, words = FAILURES[behaviour]
    with pytest.raises(ProgramError) as caught:
        bench(trtexec)
    assert caught.value.program_status == status
    assert words in caught.value.message
    assert 0 < len(caught.value.log_tail) <= 20
    assert all(line.isprintable() for line in caught.value.log_tail)
    assert (trtexec.folder / "launch" / "trtexec_stdout.log").is_file()


def test_a_graph_that_cannot_be_captured_is_told(trtexec: Any) -> None:
    trtexec.behave("no-graph")
    outcome, _, _, _ = bench(trtexec, cuda_graph="on")
    assert outcome.conditions["cuda_graph"].value is False
    assert outcome.conditions["cuda_graph_fell_back"].value is True
    assert any("went on without one" in note for note in outcome.notes)


def test_stages_follow_the_log(trtexec: Any) -> None:
    trtexec.behave(pause_s=0.6)
    _, _, stages, _ = bench(trtexec)
    assert stages == ["load", "warm-up", "measure", "profile"]


def span(*batches: int) -> dict[str, ShapeProfile]:
    least, best, most = ((batch, 3, 8, 8) for batch in batches)
    return {"input": ShapeProfile(min=least, opt=best, max=most)}


@pytest.fixture
def recorded(trtexec: Any) -> Path:
    """An engine of two profiles, with the record that its build left beside it."""
    path: Path = trtexec.engine()
    record_beside(path, shapes=span(1, 4, 8), more_profiles=(span(16, 16, 32),))
    return path


@pytest.mark.parametrize(
    ("asked", "shape"),
    [
        ({"batch": 2}, "2x3x8x8"),
        ({"batch": 16, "profile_index": 1}, "16x3x8x8"),
        ({"shapes": {"input": (8, 3, 8, 8)}}, "8x3x8x8"),
    ],
)
def test_a_batch_becomes_the_shapes_of_an_engine_that_tells_them(
    recorded: Path, asked: dict[str, Any], shape: str
) -> None:
    assert f"--shapes=input:{shape}" in runtime.command_lines(spec_for(recorded, **asked))[0]
    assert "--shapes" not in runtime.command_lines(spec_for(recorded))[0]


@pytest.mark.parametrize(
    ("asked", "least"),
    [
        ({"batch": 9}, "1x3x8x8"),
        ({"batch": 2, "profile_index": 1}, "16x3x8x8"),
        ({"shapes": {"input": (2, 3, 9, 8)}}, "1x3x8x8"),
    ],
)
def test_shapes_that_an_engine_was_not_built_for_are_refused_before_anything_runs(
    recorded: Path, asked: dict[str, Any], least: str
) -> None:
    with pytest.raises(InputError, match="was not built for input") as caught:
        runtime.command_lines(spec_for(recorded, **asked))
    assert caught.value.facts["least"] == least
    assert "--shape-max" in (caught.value.fix or "")


def test_a_program_of_the_working_folder_is_not_one_of_the_search_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "trtexec"
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert trtexec_binary("./trtexec") == "./trtexec"
    assert trtexec_binary("~/trtexec") == str(fake)


def test_commands_can_be_shown_without_trtexec(
    monkeypatch: pytest.MonkeyPatch, trtexec: Any, tmp_path: Path
) -> None:
    spec = spec_for(trtexec.engine())
    here = runtime.command_lines(spec)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("trtbench.host.process.find_trtexec", lambda: None)
    note, assumed = runtime.command_lines(spec)
    assert "not installed here" in note
    assert shlex.split(assumed)[1:] == shlex.split(here[0])[1:]
    eleven = spec.having(options={"version": "11.1"})
    assert "--noCudaGraph" in runtime.command_lines(eleven)[1]
