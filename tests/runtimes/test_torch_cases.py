"""Models, sessions and exports where PyTorch is, all in one process of its interpreter."""

import json
from pathlib import Path
from typing import Any

import pytest

from waiting import printed

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src"
pytestmark = [pytest.mark.process, pytest.mark.xdist_group("torch")]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, torch_python: str) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("torch")
    command = [torch_python, str(HERE / "torch_probe.py"), str(SOURCE), str(folder)]
    return json.loads(printed(command).splitlines()[-1])


@pytest.mark.parametrize(
    ("name", "kind", "inputs", "suggested"),
    [
        ("torchvision", "torchvision", [["x", "float32", ["batch", 3, 96, 96]]], True),
        (
            "torchvision_without_a_size",
            "torchvision",
            [["x", "float32", ["batch", 3, 224, 224]]],
            True,
        ),
        ("torchvision_own_weights", "torchvision", [["x", "float32", ["batch", 3, 96, 96]]], True),
        ("timm", "timm", [["x", "float32", ["batch", 3, 48, 64]]], True),
        ("state_dict", "state dict", [["x", "float32", []]], False),
        ("state_dict_nested", "state dict", [["x", "float32", []]], False),
        ("module", "module", [["x", "float32", []]], False),
        ("checkpoint", "module", [["x", "float32", []]], False),
        ("torchscript", "TorchScript", [["x", "float32", []]], False),
        ("timm_own_weights", "timm", [["x", "float32", ["batch", 3, 48, 64]]], True),
        ("state_dict_wrapped", "state dict", [["x", "float32", []]], False),
        ("ultralytics", "ultralytics", [["images", "float32", ["batch", 4, 96, 96]]], True),
        ("ultralytics_network", "ultralytics", [["images", "float32", ["batch", 4, 96, 96]]], True),
        ("ultralytics_pickle", "ultralytics", [["images", "float32", ["batch", 4, 96, 96]]], True),
        ("hub_weights", "torch.hub", [["x", "float32", []]], False),
        ("hub_pretrained", "torch.hub", [["x", "float32", []]], False),
        ("hub_nothing", "torch.hub", [["x", "float32", []]], False),
        ("hub_backbone", "torch.hub", [["x", "float32", []]], False),
        ("hub_dinov2", "torch.hub", [["x", "float32", []]], False),
    ],
)
def test_sources_that_load(
    found: dict[str, Any], name: str, kind: str, inputs: list[Any], suggested: bool
) -> None:
    told = found[name]["ok"]
    assert (told["kind"], told["inputs"], told["suggested"]) == (kind, inputs, suggested)
    assert told["training"] is False
    trusted = kind in ("module", "torch.hub") or name in ("ultralytics", "ultralytics_pickle")
    assert any("was trusted" in note for note in told["notes"]) is trusted
    assert any("no argument for weights" in n for n in told["notes"]) is (name == "hub_nothing")


def test_a_program_tells_its_shapes_and_which_are_open(found: dict[str, Any]) -> None:
    told = found["program"]["ok"]
    assert told["kind"] == "ExportedProgram"
    ((name, dtype, shape),) = told["inputs"]
    assert (name, dtype, shape[1:]) == ("x", "float32", [3, 16, 16])
    assert isinstance(shape[0], str)


@pytest.mark.parametrize(
    ("name", "kind", "message", "fix"),
    [
        ("torchvision_unknown", "UsageError", "no model called 'netwo'", "did you mean nettwo"),
        ("torchvision_weights_are_none", "InputError", "is not a state dict", "torch.save"),
        ("torchvision_weights_do_not_fit", "InputError", "does not fit the model", None),
        ("no_such_zoo", "UsageError", "no source of models", "torchvision:resnet18"),
        ("no_such_file", "InputError", "there is no file", "torchvision:resnet18"),
        ("state_dict_alone", "UsageError", "weights without the module", "--factory "),
        (
            "factory_without_a_function",
            "UsageError",
            "names no function",
            "package.module:function",
        ),
        ("factory_not_there", "UsageError", "cannot be imported", None),
        ("module_untrusted", "UsageError", "can run any code", "--trust"),
        ("program_untrusted", "UsageError", "can run any code", "--trust"),
        ("no_module", "InputError", "holds no module", None),
        ("damaged", "InputError", "damaged", None),
        ("factory_with_arguments", "UsageError", "makes no module", "without arguments"),
        ("factory_that_is_broken", "UsageError", "cannot be imported", None),
        ("needs_code", "InputError", "needs code that is not here", "imported"),
        ("cut_script", "InputError", "cannot load cut.ts", "save it again"),
        ("hub_untrusted", "UsageError", "is a program: loading it can run", "--trust"),
        ("hub_without_a_model", "UsageError", "names no model", "resnet18"),
        ("hub_random", "UsageError", "no argument for weights", "--weights default"),
        ("hub_dinov2_offline", "InputError", "weights cannot be downloaded", "--weights none"),
        ("hub_offline", "InputError", "offline: github.com cannot", "torch.hub:FOLDER/net"),
        ("hub_offline_tag", "InputError", "offline: github.com", "torch.hub:FOLDER/net"),
        ("hub_unknown", "InputError", "cannot load 'by_noting'", None),
        ("hub_lacking", "InputError", "cannot load 'by_nothing'", "install what"),
        ("session_picky", "InputError", "cannot prepare the model", None),
        ("export_strict", "InputError", "does not run on inputs", "--input-shape"),
        ("export_branching", "InputError", "could not export", "--exporter legacy"),
        ("export_legacy_opset", "InputError", "could not export", "--exporter dynamo"),
        ("export_other_opset", "InputError", "the dynamo exporter wrote opset", "--opset"),
        ("export_without_an_example", "InputError", "no example", "--input-shape"),
        ("session_words", "InputError", "returns no tensors", "wrap it"),
        ("session_without_a_gpu", "UnavailableError", "device", "--device"),
        ("session_switch_unclear", "UsageError", "half must be one of on, off", "--opt half="),
        ("export_words", "InputError", "other than tensors", "wrap it"),
        ("export_without_a_shape", "UsageError", "shape of the input", "--input-shape"),
        ("export_wrong_shape", "InputError", "does not run on inputs", "--input-shape"),
        ("export_unknown_type", "UsageError", "no type 'float7'", "int64"),
        ("export_program_half", "UsageError", "--half cannot change", "again"),
    ],
)
def test_what_goes_wrong_is_said(
    found: dict[str, Any], name: str, kind: str, message: str, fix: str | None
) -> None:
    told = found[name]
    assert "ok" not in told, told
    assert told["error"] == kind
    assert message in told["message"]
    assert fix is None or fix in (told["fix"] or "")


def test_the_code_that_a_file_would_run_is_named(found: dict[str, Any]) -> None:
    assert "nets" in found["module_untrusted"]["facts"]["it names"]


def test_a_session_on_the_processor(found: dict[str, Any]) -> None:
    told = found["session"]["ok"]
    assert told["outputs"] == {"output0": ["float32", [2, 5]]}
    assert told["conditions"]["threads"] == 1
    assert told["conditions"]["precision"] == "fp32"
    assert told["conditions"]["loaded_as"] == "state dict"


def test_without_a_gpu_the_processor_is_taken_and_that_is_said(found: dict[str, Any]) -> None:
    told = found["session_on_what_there_is"]["ok"]
    noted = "PyTorch sees no GPU here: it ran on the CPU" in told["notes"]
    assert noted is ("device" not in told["conditions"])


@pytest.mark.parametrize(
    ("name", "kind", "precision"),
    [
        ("session_script", "TorchScript", "fp32"),
        ("session_frozen", "TorchScript", "fp32"),
        ("session_program", "ExportedProgram", "fp32"),
        ("session_quantized", "module", "int8"),
    ],
)
def test_the_precision_is_that_of_the_weights_wherever_they_lie(
    found: dict[str, Any], name: str, kind: str, precision: str
) -> None:
    """Those of a frozen script are constants of its graph, those of a quantized module packed."""
    told = found[name]["ok"]
    assert told["conditions"]["loaded_as"] == kind
    assert told["conditions"]["precision"] == precision
    assert told["first"] == pytest.approx(found["session"]["ok"]["first"], abs=0.02)


def test_what_is_not_compiled_is_called_eager(found: dict[str, Any]) -> None:
    told = found["session_disabled"]["ok"]
    assert told["conditions"]["compile"] == "eager"
    assert any("did not compile any part of the model" in note for note in told["notes"])


def test_idle_threads_rest_where_that_is_asked_for(found: dict[str, Any]) -> None:
    told = found["session_passive"]["ok"]
    assert (told["passive"], told["conditions"]["waiting"]) == ("PASSIVE", "passive")
    assert found["session"]["ok"]["passive"] is None


def test_outputs_that_numpy_cannot_hold_become_wider(found: dict[str, Any]) -> None:
    told = found["session_sixteen"]["ok"]
    assert told["told"] == [["output0", "bfloat16"]]
    assert told["outputs"]["output0"][0] == "float32"


def test_types_and_layouts_change_numbers_only_a_little(found: dict[str, Any]) -> None:
    plain = found["session"]["ok"]["first"]
    for name, dtype, precision in (
        ("session_autocast", "bfloat16", "bf16"),
        ("session_half", "float16", "half"),
        ("session_channels_last", "float32", "fp32"),
    ):
        told = found[name]["ok"]
        assert told["told"] == [["output0", dtype]]
        assert told["conditions"]["precision"] == precision
        assert told["first"] == pytest.approx(plain, abs=0.02)
    assert found["session_autocast"]["ok"]["outputs"]["output0"][0] == "float32"
    assert found["session_channels_last"]["ok"]["conditions"]["channels_last"] is True


def test_outputs_are_found_however_deep_they_lie(found: dict[str, Any]) -> None:
    told = found["session_nested"]["ok"]["outputs"]
    assert [told[f"output{index}"] for index in range(3)] == [
        ["float32", [2, 5]],
        ["float32", [2, 5]],
        ["int64", [2]],
    ]


@pytest.mark.parametrize(
    ("name", "kind", "exporter", "outputs"),
    [
        ("export", "state dict", "dynamo", ["output"]),
        ("export_legacy", "state dict", "legacy", ["output"]),
        ("export_pair", "state dict", "dynamo", ["output0", "output1"]),
        ("export_by_name", "torchvision", "dynamo", ["output"]),
        ("export_program", "ExportedProgram", "dynamo", ["output"]),
        ("export_torchscript", "TorchScript", "legacy", ["output"]),
        ("export_named", "state dict", "dynamo", ["logits", "probabilities"]),
        ("export_by_keyword", "state dict", "legacy", ["logits", "probabilities"]),
        ("export_half", "state dict", "dynamo", ["output"]),
        ("export_open_sides", "state dict", "legacy", ["output"]),
        ("export_sixteen", "state dict", "dynamo", ["output"]),
    ],
)
def test_exports(found: dict[str, Any], name: str, kind: str, exporter: str, outputs: list[str]):
    told = found[name]["ok"]
    assert (told["kind"], told["exporter"], told["outputs"]) == (kind, exporter, outputs)
    assert told["stages"] == ["load", "export", "save"]
    assert told["kept"][1] == sorted(outputs)
    assert told["opset"] == 17 if exporter == "legacy" else told["opset"] >= 18


def test_notes_of_exports_say_what_proves_nothing(found: dict[str, Any]) -> None:
    assert found["export_pair"]["ok"]["notes"] == [
        "output1 is zero everywhere: its agreement proves nothing"
    ]
    assert any("weights are random" in n for n in found["export_by_name"]["ok"]["notes"])
    assert (
        "TorchScript is exported with the legacy exporter"
        in (found["export_torchscript"]["ok"]["notes"])
    )


def test_inputs_by_name_come_in_the_order_of_the_parameters(found: dict[str, Any]) -> None:
    assert found["export_masked"]["ok"]["inputs"] == ["x", "mask"]
    assert found["export_by_keyword"]["ok"]["inputs"] == ["x", "mask"]


@pytest.mark.parametrize("path", ["talk.pt", "talk.ts", "talk_quantized.pt"])
def test_a_module_that_knows_five_words_gets_no_others(found: dict[str, Any], path: str) -> None:
    assert found[path] == {"ok": {"highest": 4}}
    assert found["export_few_words"]["ok"]["inputs"] == ["ids"]
