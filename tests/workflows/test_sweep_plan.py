"""What a sweep plans: matrices from files and flags, steps, orders."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from sweeps import SHORT, matrix, runs_of

import models
import trtbench
from models import conv_model, tiny_model
from trtbench.convert.steps import data_hash
from trtbench.core.errors import UsageError
from trtbench.requests.execution import Execution
from trtbench.requests.measure import SweepRequest
from trtbench.requests.settings import Config
from trtbench.store.store import Store
from trtbench.sweep import matrix as sweep_matrix
from trtbench.sweep.plan import plan_sweep
from trtbench.sweep.records import config_of_sweep, read_outline, start_sweep
from trtbench.sweep.result import results_from_sweep
from trtbench.sweep.run import Sweep, run_sweep
from trtbench.workflows.report import load_runs


def test_a_file_of_toml_gives_lists_and_single_values(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(
        'models = "net.onnx"\nbatch = [1, 8]\nprecision = ["fp32", "int8"]\nrounds = 3\n'
        '[options]\nthreads = [1, 2]\nduration = "1s"\n[options.build]\noptimization_level = 3\n'
        '[[exclude]]\nprecision = "int8"\nthreads = 2\n'
    )
    asked = sweep_matrix.matrix_from_file(file)
    assert asked.models == (str(tmp_path / "net.onnx"),)
    assert asked.options["build.optimization_level"] == (3,)
    tiny_model(tmp_path / "net.onnx")
    plan = plan_sweep(asked, config=Config(store=str(tmp_path)))
    assert len(plan.cases) == 2 * 3  # of four kinds of options, one is excluded
    cases = [each.case for each in plan.cases]
    assert {case.options["threads"] for case in cases if case.precision == "int8"} == {1}
    assert plan.cases[0].case.fixed["duration"] == "1s"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('model = ["a.onnx"]', "did you mean models"),
        ('models = ["a"]\n[options]\nthread = 2', "did you mean threads"),
        ('models = ["a"]\n[options.build]\noptimisation_level = 3', "optimization_level"),
        ('models = ["a"]\n[options.build]\nworkspace = "much"', "build.workspace"),
        ('models = ["a"]\n[options.build]\nprecision = "fp16"', "set by the sweep"),
        ('models = ["a"]\nrounds = 0', "between 1 and 1000"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        sweep_matrix.matrix_from_file(file)
    assert said in str(caught.value)


def test_data_calibrates_int8_unless_other_data_are_named() -> None:
    for given, used in (
        ({}, None),
        ({"data": "val"}, "val"),
        ({"calibration": "random"}, "random"),
    ):
        found = sweep_matrix.matrix_from_request(SweepRequest(models=("net.onnx",), **given))
        assert found.calibration == (used if used != "val" else str(Path("val").absolute()))


def test_steps_are_shared_and_named_by_content(tmp_path: Path, config: Config) -> None:
    model = tiny_model(tmp_path / "net.onnx")
    asked = matrix(model, precision=["fp32", "int8"], batch=[1, 4], calibration="random")
    plan = plan_sweep(asked, config=config)
    assert [step.kind for step in plan.steps.values()] == ["quantize"]
    assert [len(each.chain) for each in plan.cases] == [0, 1, 0, 1]
    again = plan_sweep(asked, config=config)
    assert (again.cases, again.steps) == (plan.cases, plan.steps)
    conv_model(model)  # other bytes under the same name are another step and other cases
    other = plan_sweep(asked, config=config)
    assert not set(other.steps) & set(plan.steps)
    assert not {each.key for each in other.cases} & {each.key for each in plan.cases}


def test_an_unknown_runtime_is_an_error_and_in_a_preset_a_row(tmp_path, config):
    asked = matrix(tiny_model(tmp_path / "net.onnx"), runtime=["onnxruntim", "onnxruntime"])
    with pytest.raises(UsageError, match="no runtime"):
        plan_sweep(asked, config=config)
    plan = plan_sweep(asked, config=config, lenient=True)
    assert list(plan.refused) == [0]
    assert "onnxruntim" in plan.refused[0]


def test_a_sweep_of_engines_alone_uses_cuda_graphs(tmp_path: Path, config: Config) -> None:
    model = conv_model(tmp_path / "net.onnx")
    for runtimes, options, graph in (
        (("tensorrt", "tensorrt-rtx"), {}, "auto"),
        (("tensorrt",), {"cuda_graph": ("off",)}, "off"),
        (("onnxruntime", "tensorrt"), {}, None),
    ):
        asked = sweep_matrix.Matrix(models=(str(model),), runtime=runtimes, options=options)
        plan = plan_sweep(asked, config=config, elsewhere=True)
        assert {each.case.settings.get("cuda_graph") for each in plan.cases} == {graph}


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
    for given, names in called.items():
        assert list(sweep_matrix.unique_model_names(given).values()) == names


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    asked = matrix(tiny_model(tmp_path / "net.onnx"), batch=[1, 2])
    store = Store(tmp_path / "store")
    start_sweep(asked, tmp_path / "out", store=store)
    go_on(tmp_path / "out")
    return tmp_path / "out"


def go_on(folder: Path) -> Sweep:
    """Go on with a sweep as ``--resume`` does, from settings that name another store."""
    config = config_of_sweep(folder, Config(store=str(folder.parent / "another")), given=None)
    return run_sweep(folder, store=Store(config.store), config=config, execution=Execution())


def test_going_on_uses_the_store_that_the_sweep_recorded(folder: Path) -> None:
    before = runs_of(folder)
    found = go_on(folder)
    assert runs_of(folder) == before
    assert found.journal.notes == []
    assert not (folder.parent / "another").exists()
    assert read_outline(folder).store == str(folder.parent / "store")


def test_another_store_is_refused_while_the_recorded_one_is_there(folder: Path) -> None:
    with pytest.raises(UsageError, match="another store"):
        config_of_sweep(folder, Config(store="x"), given="x")
    same = str(folder.parent / "store")
    assert config_of_sweep(folder, Config(store=same), given=same).store == same
    shutil.move(same, folder.parent / "moved")
    assert config_of_sweep(folder, Config(store="moved"), given="moved").store == "moved"


def test_a_store_with_a_password_is_recorded_without_it_and_asked_for(tmp_path: Path) -> None:
    asked = matrix(tiny_model(tmp_path / "net.onnx"))
    url = f"file://me:hunter2@localhost{tmp_path / 'store'}"
    start_sweep(asked, tmp_path / "out", store=Store(url))
    assert "hunter2" not in (tmp_path / "out" / "sweep.json").read_text()
    with pytest.raises(UsageError, match="password"):
        config_of_sweep(tmp_path / "out", Config(store="x"), given=None)
    assert config_of_sweep(tmp_path / "out", Config(store=url), given=url).store == url


@pytest.mark.parametrize("how", ["removed", "folder", "run.json", "samples.npz"])
def test_a_run_that_was_lost_is_measured_again_and_said(folder: Path, how: str) -> None:
    store = Store(folder.parent / "store")
    lost, kept = runs_of(folder)
    if how == "removed":
        store.remove(lost)
    elif how == "folder":
        shutil.rmtree(store.runs / lost)
    else:
        (store.runs / lost / how).write_text("{")
    found = go_on(folder)
    assert any(lost in note for note in found.journal.notes)
    assert len(runs_of(folder)) == 3
    rows = results_from_sweep(found).rows
    assert {row.reason for row in rows} == {None}
    assert sorted(run for row in rows for run in row.runs) == sorted([kept, runs_of(folder)[-1]])
    again = go_on(folder)  # the old line is still in the journal
    assert again.journal.notes == found.journal.notes
    assert len(runs_of(folder)) == 3


@pytest.mark.parametrize(
    ("where", "best"),
    [("p98<5ms", "items"), ("median<", "items"), ("nosuch<5", "items"), ("median<5ms", "itms"),
     ("not " * 5000 + "median<5ms", "items"), ("median<" + "-" * 5000 + "5ms", "items"),
     ("(" * 5000, "items"), ("median<" + "+".join(["1ms"] * 5000), "items")],
    ids=range(8),
)  # fmt: skip
def test_conditions_are_checked_before_anything_is_measured(tmp_path, where, best):
    with pytest.raises(UsageError):
        sweep_matrix.check_where_and_best(where, best, matrix(tmp_path / "net.onnx"))


def test_data_with_the_same_names_and_sizes_is_other_data(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"one")
    before = data_hash(str(tmp_path))
    (tmp_path / "a.png").write_bytes(b"two")
    assert data_hash(str(tmp_path)) != before


@pytest.mark.process
def test_runs_of_a_sweep_are_loaded_by_its_folder(tmp_path):
    model = models.tiny_model(tmp_path / "tiny.onnx")
    found = trtbench.sweep(
        model, precision=["fp32", "fp16"], batch=[1], runtime="onnxruntime",
        axis={name: [value] for name, value in SHORT.items()},
        output=tmp_path / "sweep", store=tmp_path / "store",
    )  # fmt: skip
    runs, _ = load_runs([str(tmp_path / "sweep")], store=Store(tmp_path / "store"))
    assert {run.id for run in runs} == {run.id for run in found.runs}
    with pytest.raises(UsageError, match="are in another store"):
        load_runs([str(tmp_path / "sweep")], store=Store(tmp_path / "other"))


def test_settings_that_no_runtime_takes_are_refused_and_builds_make_no_cases_of_others(
    trtexec: Any, tmp_path: Path, config: Config
) -> None:
    model = conv_model(tmp_path / "net.onnx")
    with pytest.raises(UsageError, match="no option 'nonsense'") as caught:
        plan_sweep(matrix(model, batch=[1], options={"opt.nonsense": 1}), config=config)
    assert "--axis opt.NAME" in str(caught.value.fix)
    asked = matrix(model, runtime=["onnxruntime", "trtexec"], batch=[1])
    levels = {"build.optimization_level": (1, 3)}
    cases = plan_sweep(asked.having(options=levels), config=config).cases
    assert [each.case.runtime for each in cases] == ["onnxruntime", "trtexec", "trtexec"]
