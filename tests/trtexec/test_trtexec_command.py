"""Command lines: the same spec is the same experiment on every version."""

import shlex
from typing import Any

import pytest

import logs
from trtbench.core import spec as specs
from trtbench.core.errors import ParseError, UsageError
from trtbench.trtexec.command import bench_command, build_command
from trtbench.trtexec.version import abilities_from_help, abilities_of_version

ENGINE = specs.ModelRef(path="a b.engine", format="engine")
ONNX = specs.ModelRef(path="net.onnx", format="onnx")
VERSIONS = ("8.6.1", "10.9", "11.1")
PLACES = {"binary": "trtexec", "folder": "out"}


def bench(version: str, **changes: Any) -> list[str]:
    spec = specs.RunSpec(model=ENGINE, runtime="trtexec", protocol="pipeline").having(**changes)
    return bench_command(spec, abilities=abilities_of_version(version), **PLACES)


def build(version: str, **changes: Any) -> list[str]:
    spec = specs.BuildSpec(model=ONNX, output="net.engine").having(**changes)
    return build_command(spec, abilities=abilities_of_version(version), **PLACES)


def test_a_plain_run() -> None:
    assert shlex.join(bench("10.9")) == (
        "trtexec '--loadEngine=a b.engine' --warmUp=200 --iterations=10 --duration=3 "
        "--exportTimes=out/times.json"
    )


def test_flags_of_11_are_its_own() -> None:
    assert bench("11.1")[-3:] == ["--includeDataTransfers", "--noCudaGraph", "--noSpinWait"]
    assert bench("11.1", protocol="gpu", spin_wait=True)[-1] == "--exportTimes=out/times.json"
    assert bench("10.9", protocol="gpu")[-2:] == ["--noDataTransfers", "--useCudaGraph"]


@pytest.mark.parametrize(
    "changes",
    [
        {"rate_hz": 10.0},
        {"threads": 2},
        {"inputs": specs.InputSpec(source="x.npz")},
        {"warmup": specs.Warmup(floor=specs.Length(iterations=5))},
        {"stop": specs.Length()},
        {"device": "gpu one"},
        {"options": {"avgruns": "3"}},
        {"model": specs.ModelRef(path="m.pt", format="torch")},
    ],
)
def test_what_trtexec_cannot_do_is_an_error_before_it_runs(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        bench("10.9", **changes)


def test_profile_and_its_separate_run() -> None:
    for version in VERSIONS:
        command = bench(version, profile=True)
        assert ("--separateProfileRun" in command) is (version != "11.1")
        assert {"--exportProfile=out/profile.json", "--exportTimes=out/times.json"} <= {*command}
        assert {"--exportLayerInfo=out/graph.json", "--profilingVerbosity=detailed"} <= {*command}


def test_a_profile_in_the_timed_run_leaves_no_times() -> None:
    inline = {"profile": True, "separate_profile_run": False}
    assert not any("exportTimes" in word for word in bench("10.9", **inline))
    assert any("exportTimes" in word for word in bench("8.0", **inline))
    with pytest.raises(UsageError, match="TensorRT 11"):
        bench("11.1", **inline)


def test_everything_a_run_can_say() -> None:
    command = bench(
        "10.9",
        shapes={"x:0": (1, 3, 4), "y": ()},
        batch=8,
        warmup=specs.Warmup(floor=specs.Length(seconds=0.5)),
        stop=specs.Length(iterations=200),
        streams=2,
        gap_s=0.002,
        device="cuda:1",
        precision="fp16",
        options={"avg_runs": "100", "verbose": "true", "plugins": "a.so,b.so", "binary": "t"},
        extra_args=("--noTF32", "--extra=a b"),
    )
    assert command[2:] == shlex.split(
        "\"--shapes='x:0':1x3x4,y:scalar\" --warmUp=500 --iterations=200 --duration=0 --idleTime=2 "
        "--avgRuns=100 --staticPlugins=a.so --staticPlugins=b.so --verbose "
        "--exportTimes=out/times.json --infStreams=2 --fp16 --device=1 --noTF32 '--extra=a b'"
    )
    assert not any("--batch" in word for word in command)
    assert shlex.split(shlex.join(command)) == command


@pytest.mark.parametrize("precision", ["fp16", "bf16", "int8", "fp8", "best"])
def test_11_has_no_precision_flags(precision: str) -> None:
    with pytest.raises(UsageError, match="strongly typed") as caught:
        build("11.1", precision=precision)
    assert "10" in caught.value.facts["needs"]
    assert "quantize" in (caught.value.fix or "")
    assert "--stronglyTyped" not in build("11.1", precision=precision, options={"typing": "strong"})


def test_precisions_by_version() -> None:
    assert "--bf16" in build("10.0", precision="bf16")
    assert "--noTF32" in build("10.0", precision="fp32")
    assert "--noTF32" not in build("10.0", precision="tf32")
    assert "--stronglyTyped" in build("10.9", options={"typing": "strong"})
    with pytest.raises(UsageError) as caught:
        build("8.6.1", precision="bf16")
    assert caught.value.facts["needs"] == "TensorRT 10.0 to 10"
    with pytest.raises(UsageError) as caught:
        build("8.6.1", options={"typing": "strong"})
    assert "10.0" in caught.value.facts["needs"]


def test_everything_a_build_can_say() -> None:
    command = build(
        "10.9",
        precision="int8",
        shapes={"x": specs.ShapeProfile(min=(1, 3), opt=(4, 3), max=(8, 3))},
        workspace_bytes=4 << 30,
        optimization_level=5,
        timing_cache="t.cache",
        calibration_cache="c.cache",
        version_compatible=True,
        hardware_compatible=True,
        strip_weights=True,
        refit=True,
        plugins=("p.so",),
        dla_core=0,
        verbose=True,
        extra_args=("--maxTactics=3",),
    )
    assert shlex.join(command) == (
        "trtexec --onnx=net.onnx --saveEngine=net.engine --minShapes=x:1x3 --optShapes=x:4x3 "
        "--maxShapes=x:8x3 --int8 --calib=c.cache --memPoolSize=workspace:4096 "
        "--builderOptimizationLevel=5 --timingCacheFile=t.cache --versionCompatible "
        "--hardwareCompatibilityLevel=ampere+ --stripWeights --refit --useDLACore=0 "
        "--allowGPUFallback --profilingVerbosity=detailed --exportLayerInfo=out/graph.json "
        "--skipInference --staticPlugins=p.so --verbose --maxTactics=3"
    )


def test_abilities_are_read_from_help() -> None:
    abilities = abilities_from_help(logs.HELP_11)
    assert abilities.version == "11.1.0"
    assert abilities.has_inverted_defaults
    assert {"--vc", "--versionCompatible", "--help", "--onnx"} <= abilities.flags
    assert "--fp16" not in abilities.flags
    assert not abilities.has("--useCudaGraph"), "accepted by 11, and without effect"
    with pytest.raises(ParseError):
        abilities_from_help("command not found")


@pytest.mark.parametrize("version", VERSIONS)
def test_no_flag_is_given_that_a_version_lacks(version: str) -> None:
    abilities = abilities_of_version(version)
    words = [*bench(version, profile=True), *build(version)][1:]
    flags = {word.split("=")[0] for word in words if word.startswith("--")}
    assert flags <= abilities.flags
