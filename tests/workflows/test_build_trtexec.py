"""Builds with trtexec: a whole engine with everything beside it, or none."""

import json
from pathlib import Path
from typing import Any

import pytest

from trtbench.convert.build import all_profiles, build_spec, run_build
from trtbench.core.errors import JobError, UsageError
from trtbench.core.results import Artefact
from trtbench.core.spec import BuildSpec, ShapeProfile
from trtbench.models.identity import sha256_of
from trtbench.report.sections.environment import document_from_artefact
from trtbench.requests.execution import Event, Execution
from trtbench.requests.models import BuildRequest
from trtbench.requests.settings import load_config
from trtbench.trtexec.exports import graph_from_json
from waiting import with_patience

VERSIONS = ("8.6.1", "10.9.0", "11.1.0")
BESIDE = [".build.log", ".build.metadata.json", ".graph.json", ".json", ".timing.cache"]


def spec_for(trtexec: Any, **changes: Any) -> BuildSpec:
    changes.setdefault("output", trtexec.folder / "out" / "net.engine")
    model = changes.pop("model", None) or trtexec.onnx()
    return build_spec(BuildRequest(model=model, **changes), load_config())


def build(trtexec: Any, *, execution: Execution | None = None, **changes: Any) -> Artefact:
    return run_build(spec_for(trtexec, **changes), execution=execution)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_build_leaves_the_engine_and_what_belongs_to_it(version: str, trtexec: Any) -> None:
    trtexec.version(version)
    stages: list[Event] = []
    artefact = build(
        trtexec,
        execution=Execution(listen=stages.append),
        shapes_min={"input": (1, 3, 8, 8)},
        shapes_opt={"input": (2, 3, 8, 8)},
        workspace=1 << 30,
    )
    engine = Path(artefact.path)
    assert names_in(engine.parent) == sorted(engine.name + end for end in ["", *BESIDE])
    assert artefact.sha256 == sha256_of(engine)
    assert artefact.tensorrt == version
    assert (artefact.plan or "").startswith(version)
    assert artefact.build_s == 1.25
    metadata = json.loads(Path(f"{engine}.build.metadata.json").read_bytes())
    assert metadata["build_options"]["Memory Pools"] == "workspace: 1024 MiB, dlaSRAM: default"
    assert metadata["build_options"]["Input build shape"] == "input=1x3x8x8+2x3x8x8+2x3x8x8"
    assert metadata["trtexec"]["outcome"] == "passed"
    assert graph_from_json(Path(f"{engine}.graph.json").read_bytes(), where="g").detailed
    described = json.loads(Path(f"{engine}.json").read_bytes())
    assert described["sha256"] == artefact.sha256
    assert described["spec"]["workspace_bytes"] == 1 << 30
    assert f"--saveEngine={engine}" in described["command"]
    assert ".partial-" not in json.dumps(described)
    assert stages[0].text == "parsing"


def test_the_timing_cache_is_used_again_and_an_old_engine_survives_a_build_that_fails(trtexec: Any):
    cache = trtexec.folder / "shared.cache"
    build(trtexec, timing_cache=cache)
    first = cache.read_bytes()
    again = build(trtexec, timing_cache=cache)
    assert len(cache.read_bytes()) > len(first)
    assert again.facts["timing_cache_loaded_bytes"] == len(first)
    before = Path(again.path).read_bytes()
    trtexec.behave("no-build")
    with pytest.raises(JobError):
        build(trtexec)
    assert Path(again.path).read_bytes() == before
    assert json.loads(Path(f"{again.path}.json").read_bytes())["sha256"] == again.sha256


@pytest.mark.parametrize("behaviour", ["no-build", "silent", "garbage", "late"])
@pytest.mark.parametrize(
    "version", [pytest.param(VERSIONS[0], marks=pytest.mark.real("minutes")), *VERSIONS[1:]]
)
def test_a_build_that_fails_leaves_no_engine(behaviour: str, version: str, trtexec: Any) -> None:
    trtexec.version(version)
    trtexec.behave(behaviour)
    with pytest.raises(JobError, match="the engine was not built") as caught:
        build(trtexec)
    assert names_in(trtexec.folder / "out") == ["net.engine.build.log"]
    assert 0 < len(caught.value.log_tail) <= 20
    if behaviour == "no-build":
        assert "Could not find any implementation" in caught.value.message
        assert caught.value.facts["status"] == "1"


@pytest.mark.parametrize("version", VERSIONS)
def test_an_engine_whose_builder_crashed_while_leaving_is_kept(version: str, trtexec: Any) -> None:
    trtexec.version(version)
    trtexec.behave("leaving")
    artefact = build(trtexec)
    assert Path(artefact.path).is_file()
    [finding] = artefact.findings
    assert finding.code == "H49"
    assert "ended by SIGSEGV after it had printed PASSED" in finding.message
    assert finding.message in str(document_from_artefact(artefact))
    assert Path(f"{artefact.path}.timing.cache").is_file()


@pytest.mark.process
@pytest.mark.parametrize("behaviour", [("half",), ("half", "deaf")])
def test_a_build_that_hangs_is_ended_and_leaves_nothing(
    behaviour: tuple[str, ...], trtexec: Any
) -> None:
    trtexec.behave(*behaviour)

    def attempt(seconds: float) -> bool:
        with pytest.raises(JobError, match="timed out after") as caught:
            build(trtexec, execution=Execution(timeout_s=seconds))
        return any("Engine built in" in line for line in caught.value.log_tail)

    assert with_patience(attempt, far_enough=bool)
    assert names_in(trtexec.folder / "out") == ["net.engine.build.log"]
    assert trtexec.gone()


@pytest.mark.parametrize(
    ("version", "changes", "words"),
    [
        ("8.6.1", {"strip_weights": True}, "cannot be expressed"),
        ("8.6.1", {"precision": "bf16"}, "cannot be expressed"),
        ("10.9.0", {"options": {"spasity": "force"}}, "no option"),
        ("10.9.0", {"data": "random"}, "calibration with data"),
        ("10.9.0", {"target": ("sm_86",)}, "other GPUs"),
        ("10.9.0", {"extra_args": ("--memPolSize=1",)}, "no flag --memPolSize"),
        ("10.9.0", {"runtime": "tensorrt-rtx", "extra_args": ("--x=1",)}, "takes no arguments"),
    ],
)
def test_what_a_version_cannot_do_is_said_before_anything_runs(
    version: str, changes: dict[str, Any], words: str, trtexec: Any
) -> None:
    trtexec.version(version)
    with pytest.raises(UsageError, match=words):
        build(trtexec, **changes)
    assert not [*(trtexec.folder / "out").glob("*")]


def test_shapes_are_filled_in_from_their_neighbours() -> None:
    (found,) = all_profiles({"a": (1, 3)}, {"b": (2, 3)}, {"a": (8, 3)})
    assert found["a"] == ShapeProfile(min=(1, 3), opt=(8, 3), max=(8, 3))
    assert found["b"] == ShapeProfile(min=(2, 3), opt=(2, 3), max=(2, 3))
    with pytest.raises(UsageError, match="must not decrease"):
        all_profiles({"a": (4, 3)}, {"a": (2, 3)}, {})
    with pytest.raises(UsageError, match="must not decrease"):
        all_profiles({"a": (4, 3, 1)}, {"a": (4, 3)}, {})
