"""What a sweep plans: matrices from files and flags, steps, orders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sweeps import matrix

from models import conv_model, tiny_model
from trtbench.errors import UnavailableError, UsageError
from trtbench.extras import missing_package
from trtbench.runtimes import RUNTIMES
from trtbench.workflows.request.choice import unusable
from trtbench.workflows.request.config import Config
from trtbench.workflows.sweep.graph import reason_of
from trtbench.workflows.sweep.matrix import (
    cases_from_matrix,
    matrix_from_file,
    matrix_from_preset,
    matrix_from_table,
    names_of_models,
    preset_names,
    with_flags,
)
from trtbench.workflows.sweep.plan import plan_sweep
from trtbench.workflows.sweep.run import order_of


def test_a_file_of_toml_gives_lists_and_single_values(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(
        'models = "net.onnx"\nbatch = [1, 8]\nprecision = ["fp32", "int8"]\nrounds = 3\n'
        '[options]\nthreads = [1, 2]\nduration = "1s"\n[options.build]\noptimization_level = 3\n'
        '[[exclude]]\nprecision = "int8"\nthreads = 2\n'
    )
    asked = matrix_from_file(file)
    assert asked.models == (str(tmp_path / "net.onnx"),)
    assert asked.options["build.optimization_level"] == (3,)
    tiny_model(tmp_path / "net.onnx")
    plan = plan_sweep(asked, config=Config(store=str(tmp_path)))
    assert len(plan.cases) == 2 * 3  # of four kinds of options, one is excluded
    assert {case.options["threads"] for case in plan.cases if case.precision == "int8"} == {1}
    assert plan.cases[0].fixed["duration"] == "1s"


def test_an_engine_that_was_given_is_neither_called_static_nor_dynamic() -> None:
    """Nobody knows what it was built for; asking for both kinds makes one case."""
    asked = matrix("net.engine", batch=[1], engine=["static", "dynamic"])
    cases = cases_from_matrix(asked, runtime_of=lambda model: "tensorrt", builds=["tensorrt"])
    assert [case.engine for case in cases] == [None]
    asked = matrix("net.onnx", batch=[1], engine=["static", "dynamic"])
    cases = cases_from_matrix(asked, runtime_of=lambda model: "tensorrt", builds=["tensorrt"])
    assert [case.engine for case in cases] == ["static", "dynamic"]


def test_other_code_of_a_repository_is_another_model(tmp_path: Path) -> None:
    """Else a sweep would take the export of the code as it was."""
    (tmp_path / "hubconf.py").write_text("from nets import small\n")
    code = tmp_path / "nets.py"
    source = f"torch.hub:{tmp_path}/small"
    asked = matrix(source, runtime=["onnxruntime"], input_shape="-1x3x8x8")
    found = []
    for number in (1, 1, 2):
        code.write_text(f"def small():\n    return {number}\n")
        steps = plan_sweep(asked, config=Config(store=str(tmp_path))).steps
        parts = RUNTIMES.load("torch").model_parts
        assert parts is not None
        found.append(([*steps], parts(source, {})))
    assert found[0] == found[1]
    assert found[0][0] != found[2][0]
    assert found[0][1] != found[2][1]


def test_yaml_means_the_same_as_toml_or_says_what_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text("models: [net.onnx]\nbatch: 4\noptions:\n  threads: [1, 2]\n")
    try:
        import yaml  # noqa: F401
    except ImportError:
        with pytest.raises(UnavailableError, match="PyYAML"):
            matrix_from_file(file)
        return
    asked = matrix_from_file(file)
    assert asked.batch == (4,)
    assert asked.options["threads"] == (1, 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('model = ["a.onnx"]', "did you mean models"),
        ('models = ["a"]\n[options]\nthread = 2', "did you mean threads"),
        ('models = ["a"]\nbatch = [0]', "at least 1"),
        ('models = ["a"]\n[options.build]\noptimisation_level = 3', "optimization_level"),
        (
            'models = ["a"]\n[options.build]\noptimization_level = [3, 9]',
            "build.optimization_level",
        ),
        ('models = ["a"]\n[options.build]\nworkspace = "much"', "build.workspace"),
        ('models = ["a"]\n[options.build]\nprecision = "fp16"', "settled by the sweep"),
        ('models = ["a"]\nprecision = ["fp12"]', "'fp12' is no precision of a sweep"),
        ('models = ["a"]\nprecision = ["fp12"]', "fp32, tf32, fp16"),
        ('models = ["a"]\nengine = ["each"]', "static, dynamic"),
        ("models = [", "not TOML"),
        ('models = ["a"]\nprofile = [4, 2, 1]', "rise"),
        ('models = ["a"]\nrounds = 0', "between 1 and 1000"),
        (
            f'models = ["a"]\nbatch = {[*range(1, 400)]}\n[options]\nthreads = {[*range(1, 400)]}',
            "more cases than anybody can measure",
        ),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        matrix_from_file(file)
    assert said in str(caught.value)


@pytest.mark.parametrize("shape", ["ax", "1x0x3", "1x-2", "", "1x²", "1xx3"])
def test_axes_that_are_no_shapes_say_what_one_is(
    shape: str, tmp_path: Path, config: Config
) -> None:
    table = {"models": [str(tiny_model(tmp_path / "n.onnx"))], "options": {"shape": {"x": [shape]}}}
    with pytest.raises(UsageError, match="is no shape") as caught:
        plan_sweep(matrix_from_table(table, where="test"), config=config)
    assert "1x3x224x224" in (caught.value.fix or "")


def test_flags_stand_above_the_file_and_presets_are_files(tmp_path: Path) -> None:
    assert preset_names() == ["classification", "depth", "pose", "stgcn"]
    for name in preset_names():
        assert matrix_from_preset(name).rounds == 3
    with pytest.raises(UsageError, match="no preset"):
        matrix_from_preset("dept")
    asked = with_flags(
        matrix_from_preset("classification"),
        {"models": ["x.onnx"], "runtime": ["onnxruntime"], "batch": [], "options": {"threads": 2}},
    )
    assert asked.models == ("x.onnx",)
    assert asked.runtime == ("onnxruntime",)
    assert asked.batch == (1, 32, 64, 128, 256)
    assert asked.options["threads"] == (2,)
    assert asked.options["protocol"] == ("serve",)


def test_steps_are_shared_and_named_by_content(tmp_path: Path, config: Config) -> None:
    model = tiny_model(tmp_path / "net.onnx")
    asked = matrix(model, precision=["fp32", "int8"], batch=[1, 4], calibration="random")
    plan = plan_sweep(asked, config=config)
    assert [step.kind for step in plan.steps.values()] == ["quantize"]
    assert [len(chain) for chain in plan.chains] == [0, 1, 0, 1]
    again = plan_sweep(asked, config=config)
    assert (again.keys, list(again.steps)) == (plan.keys, list(plan.steps))
    conv_model(model)  # other bytes under the same name are another step and other cases
    other = plan_sweep(asked, config=config)
    assert not set(other.steps) & set(plan.steps)
    assert not set(other.keys) & set(plan.keys)


def test_an_unknown_runtime_is_an_error_and_in_a_preset_a_row(
    tmp_path: Path, config: Config
) -> None:
    asked = matrix(tiny_model(tmp_path / "net.onnx"), runtime=["onnxruntim", "onnxruntime"])
    with pytest.raises(UsageError, match="no runtime"):
        plan_sweep(asked, config=config)
    plan = plan_sweep(asked, config=config, lenient=True)
    assert list(plan.refused) == [0]
    assert "onnxruntim" in plan.refused[0]


def test_what_is_not_installed_is_a_row_with_the_command_that_installs_it(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, module in RUNTIMES.loaded():
        monkeypatch.setattr(module, "available", lambda: "it is not installed")
        told = unusable(name, config, lenient=False)
        assert told == f"{name} is not usable here: it is not installed ({module.fix()})"
    lacking = missing_package(ModuleNotFoundError(name="onnx"))
    assert lacking is not None
    assert reason_of(lacking) == "the package onnx is not installed (pip install 'trtbench[onnx]')"


def test_orders_differ_by_round_and_repeat_by_seed() -> None:
    rounds = [order_of(20, seed=7, number=number) for number in range(3)]
    assert len({tuple(order) for order in rounds}) == 3
    assert rounds == [order_of(20, seed=7, number=number) for number in range(3)]
    assert all(sorted(order) == list(range(20)) for order in rounds)


def test_one_engine_is_not_listed_under_two_precisions(trtexec: Any, config: Config) -> None:
    asked = matrix(trtexec.engine(), runtime=["trtexec"], precision=["fp32", "int8"], batch=[1])
    with pytest.raises(UsageError, match="nobody knows the precision"):
        plan_sweep(asked, config=config)
    plain = matrix(trtexec.engine(), runtime=["trtexec"], batch=[1])
    assert [case.precision for case in plan_sweep(plain, config=config).cases] == [None]


def test_no_two_models_are_called_alike() -> None:
    """Where the own names of models are the same, more of what was written tells them apart."""
    called = {
        ("a/net.onnx", "b/other.onnx"): ["net", "other"],
        ("fp16/net.engine", "int8/net.engine", "x.onnx"): ["fp16/net", "int8/net", "x"],
        ("net.onnx", "net.engine"): ["net.onnx", "net.engine"],
        ("timm:vit.augreg", "timm:vit.dino"): ["vit.augreg", "vit.dino"],
        ("a/v1/net.pt", "b/v1/net.pt"): ["a/v1/net.pt", "b/v1/net.pt"],
        ("torchvision:net", "torch.hub:here/net"): ["torchvision:net", "net"],
        ("ultralytics:yolov8n-cls.pt",): ["yolov8n-cls"],
    }
    for models, names in called.items():
        assert list(names_of_models(models).values()) == names
