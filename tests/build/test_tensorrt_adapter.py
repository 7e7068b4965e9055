"""The adapter against the real Python bindings of every version, without TensorRT itself."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from bindings.stub_library import make_stub_libraries
from bindings.touched import touched_names
from bindings.wheels import PACKAGE, VERSIONS, NoWheel, bindings
from trtbench.host.tensorrt import NAME_VERSIONS, abilities_of_version, version_numbers
from waiting import printed

SOURCE = Path(__file__).resolve().parents[2] / "src"
PROBE = Path(__file__).resolve().parents[1] / "bindings" / "probe_bindings.py"

GUARDS = {
    **{name: name for name in NAME_VERSIONS},
    "ComputeCapability": "IBuilderConfig.set_compute_capability",
    "ComputeCapability.__members__": "IBuilderConfig.set_compute_capability",
    "IBuilderConfig.num_compute_capabilities": "IBuilderConfig.set_compute_capability",
    "IBuilderConfig.set_calibration_profile": "IBuilderConfig.int8_calibrator",
    "ICudaEngine.create_runtime_config": "IBuilderConfig.set_compute_capability",
    "IProgressMonitor": "IBuilderConfig.progress_monitor",
    "IProgressMonitor.__init__": "IBuilderConfig.progress_monitor",
    "ParserError.node_operator": "ParserError.node_name",
}
"""Names that the adapter touches only where another one, which it looks for, exists."""

pytestmark = pytest.mark.xdist_group("bindings")  # each version is looked at once

_probed: dict[str, dict[str, Any]] = {}
_absent: dict[str, str] = {}


def probe(version: str, folder: Path) -> dict[str, Any]:
    """Run the adapter against one version, once."""
    if version in _absent:
        pytest.skip(_absent[version])
    if version not in _probed:
        if shutil.which("gcc") is None or shutil.which("readelf") is None:
            pytest.skip("stand-in libraries are made with gcc and readelf")
        try:
            unpacked = bindings(version)
        except NoWheel as problem:
            _absent[version] = str(problem)
            pytest.skip(_absent[version])
        extension = unpacked / PACKAGE / "tensorrt.so"
        libraries = make_stub_libraries(extension, folder / "lib")
        env = {**os.environ, "LD_LIBRARY_PATH": str(libraries), "PYTHONPATH": str(unpacked)}
        command = [sys.executable, str(PROBE), str(SOURCE), str(folder), PACKAGE]
        _probed[version] = answer([*command, ",".join(sorted(touched_names(SOURCE)))], env)
    return _probed[version]


def answer(command: list[str], env: dict[str, str]) -> dict[str, Any]:
    return json.loads(printed(command, env=env).splitlines()[-1])


@pytest.fixture(params=VERSIONS)
def probed(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return probe(request.param, tmp_path)


def missing(probed: dict[str, Any]) -> list[str]:
    return [
        name
        for name, present in probed["present"].items()
        if not present and (name not in GUARDS or GUARDS[name] in probed["abilities"])
    ]


def check_bindings(told: dict[str, Any]) -> None:
    """The adapter's names are there, the table of versions is right, places hear of outputs."""
    assert missing(told) == []
    assert told["table"] == told["abilities"]
    assert told["room"] == [True, [4096, 0, 4096], [2, 3]]


def test_every_name_the_adapter_touches_is_there_and_in_the_table(probed: dict[str, Any]) -> None:
    check_bindings(probed)
    assert probed["builder"] == "TypeError", "without TensorRT itself, refused and not crashed"


def test_typing_is_weak_up_to_10_and_strong_from_10_on(probed: dict[str, Any]) -> None:
    major = version_numbers(probed["version"])[0]
    names = probed["abilities"]
    assert ("BuilderFlag.FP16" in names) == (major < 11)
    assert ("NetworkDefinitionCreationFlag.STRONGLY_TYPED" in names) == (major >= 10)


def test_a_logger_of_ours_is_called(probed: dict[str, Any]) -> None:
    errors, lines = probed["heard"]
    assert errors == ["said at ERROR", "said at INTERNAL_ERROR"]
    letters = [line.split("] [")[1] for line in lines]
    assert letters == ["I", "W", "E", "F"]  # verbose was not asked for


def test_a_monitor_of_ours_tells_progress_and_cancels(probed: dict[str, Any]) -> None:
    if probed["watched"] is None:
        assert version_numbers(probed["version"]) < (10,)
        return
    going, told = probed["watched"]
    assert going == [True, False]
    assert [done for done, _ in told] == [0.5, 1.0, 1.0]


def test_calibrators_of_ours_are_of_the_right_kind(probed: dict[str, Any]) -> None:
    if probed["calibrators"] is None:
        assert version_numbers(probed["version"]) >= (11,)
        return
    kinds = {name: facts["algorithm"] for name, facts in probed["calibrators"].items()}
    assert kinds == {"entropy2": "ENTROPY_CALIBRATION_2", "minmax": "MINMAX_CALIBRATION"}
    for facts in probed["calibrators"].values():
        assert facts["base"]
        assert facts["empty"]
        assert facts["kept"]
        assert facts["batch"] is None


@pytest.mark.usefixtures("tensorrt_rtx")
def test_tensorrt_rtx_has_every_name_too(tmp_path: Path) -> None:
    names = ",".join(sorted(touched_names(SOURCE)))
    command = [sys.executable, str(PROBE), str(SOURCE), str(tmp_path), "tensorrt_rtx", names]
    check_bindings(answer(command, dict(os.environ)))


def test_the_source_of_the_adapter_is_read_for_names() -> None:
    names = touched_names(SOURCE)
    assert {"IBuilderConfig.set_flag", "BuilderFlag.TF32", "OnnxParser.parse_from_file"} <= names
    assert set(GUARDS.values()) <= set(NAME_VERSIONS)


@pytest.mark.parametrize(
    ("version", "opset"), [("8.6.1", 17), ("10.0.1", 20), ("10.3.0", 20), ("10.16.1", 24)]
)
def test_what_the_parser_documents(version: str, opset: int) -> None:
    assert abilities_of_version(version, flavour="tensorrt").max_opset == opset
