"""What a number is of: all bytes of a model, which must stay the same while it is measured."""

import os
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from made_data import colour_folder, colour_network
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data
from sweeps import matrix

import models
from trtbench.compare.turns import Duet, Sides
from trtbench.core.errors import InputError, JobError
from trtbench.core.jobs import JobEnd
from trtbench.core.spec import ModelRef
from trtbench.measure.bench import fail_if_model_changed, run_bench
from trtbench.models.identity import changed, model_ref, raise_if_changed
from trtbench.requests.execution import Event, Execution
from trtbench.requests.measure import BenchRequest, PairFields
from trtbench.requests.run_spec import run_spec
from trtbench.requests.settings import Config
from trtbench.store.store import Store
from trtbench.sweep.result import results_from_sweep
from trtbench.sweep.run import run_sweep, start_sweep

SHORT = {"duration": 0.02, "warmup": 0.005, "until_steady": False, "threads": 1}


def swap_weights(path: Path) -> None:
    """Change the order of the weights, in the file beside the model; the model stays as it is."""
    data = models.external_data_path(path)
    values = np.frombuffer(data.read_bytes(), np.float32)
    data.write_bytes(np.roll(values, 1).tobytes())


def test_weights_beside_a_model_are_part_of_its_hash_and_size(tmp_path: Path) -> None:
    path = models.external_data_model(tmp_path / "net.onnx")
    data = models.external_data_path(path)
    before = model_ref(path)
    assert before.size_bytes == path.stat().st_size + data.stat().st_size
    assert [each.name for each in before.files] == [data.name]
    facts = data.stat()
    swap_weights(path)
    os.utime(data, ns=(facts.st_atime_ns, facts.st_mtime_ns))  # neither size nor time tells
    after = model_ref(path)
    assert after.sha256 != before.sha256
    assert changed(before).facts["what"] == f"the bytes of {data.name} are no longer the same"
    data.unlink()
    with pytest.raises(InputError, match="is missing"):
        model_ref(path)
    unknown = model_ref(path, whole=False)
    assert (unknown.sha256, unknown.size_bytes) == (None, None)


def _stored(name: str, location: str) -> TensorProto:
    tensor = numpy_helper.from_array(np.ones(4, np.float32), name)
    set_external_data(tensor, location=location)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    return tensor


def test_tensors_in_nodes_bodies_and_functions_count_too(tmp_path: Path) -> None:
    def constant(location: str) -> onnx.NodeProto:
        return helper.make_node("Constant", [], [location], value=_stored("value", location))

    body = helper.make_graph([constant("body.bin")], "body", [], [])
    choose = helper.make_node("If", ["flag"], ["chosen"], then_branch=body, else_branch=body)
    opset = helper.make_opsetid("", 17)
    function = helper.make_function("own", "Double", ["x"], ["y"], [constant("own.bin")], [opset])
    graph = helper.make_graph(
        [constant("node.bin"), choose], "net", [], [], initializer=[_stored("w", "w.bin")]
    )
    path = tmp_path / "net.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[opset], functions=[function]).SerializeToString()
    )
    names = ["body.bin", "node.bin", "own.bin", "w.bin"]
    for name in names:
        (tmp_path / name).write_bytes(bytes(16))
    assert [each.name for each in model_ref(path).files] == names


def test_a_folder_is_all_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "net"
    (folder / "variables").mkdir(parents=True)
    (folder / "graph.bin").write_bytes(b"graph")
    (folder / "variables" / "0.shard").write_bytes(b"0123")
    before = model_ref(folder, folders=True)
    assert before.size_bytes == 9
    (folder / "variables" / "0.shard").write_bytes(b"0124")
    assert model_ref(folder, folders=True).sha256 != before.sha256
    with pytest.raises(InputError, match="is a folder"):
        model_ref(folder)


@pytest.mark.parametrize("moment", ["int8", "round 1", "accuracy"])
def test_a_model_that_changes_between_the_steps_of_a_sweep_is_noticed(
    tmp_path: Path, store: Store, config: Config, moment: str
) -> None:
    """Nothing of the new bytes is kept under the hash of the old ones."""
    path = models.move_weights_beside(colour_network(tmp_path / "net.onnx"))
    data, weights = colour_folder(tmp_path / "val"), models.external_data_path(path)
    own = weights.read_bytes()
    asked = matrix(
        path, precision=["fp32", "int8"], batch=[4], data=str(data), calibration=str(data),
        task_settings={"normalize": "none"}, rounds=2,
    )  # fmt: skip

    def change(event: Event) -> None:
        if moment in event.text and weights.read_bytes() == own:
            swap_weights(path)

    start_sweep(asked, tmp_path / "sweep", store=store)
    execution = Execution(listen=change)
    found = run_sweep(tmp_path / "sweep", store=store, config=config, execution=execution)
    told = [*found.failures.values(), *found.remarks.values()]
    assert any("net.onnx has changed since the sweep began" in each for each in told), told
    weights.write_bytes(own)
    start_sweep(asked, tmp_path / "again", store=store)
    found = run_sweep(tmp_path / "again", store=store, config=config, execution=Execution())
    rows = results_from_sweep(found).rows
    assert [row.scores["top1"].value for row in rows] == [1.0, 1.0]


def test_a_model_that_changes_while_it_is_measured_ends_the_run(tmp_path, store, config):
    path = models.move_weights_beside(models.conv_model(tmp_path / "net.onnx"))

    def change(event: Event) -> None:
        if event.text.endswith("measuring") and "2/3" in event.text:
            swap_weights(path)

    spec = run_spec(BenchRequest(model=path, batch=1, launches=3, **SHORT), config)
    with pytest.raises(JobError, match=r"changed while it was in use.*net\.onnx\.data"):
        run_bench(spec, store=store, execution=Execution(listen=change))
    [entry] = store.index.find()
    record = store.load(entry.id)
    assert "net.onnx.data" in record.reason
    with pytest.raises(InputError, match="has changed since"):
        run_bench(spec, store=store)


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (JobEnd(seconds=1, stage="measure", exit_status=0), True),
        (JobEnd(seconds=1, stage="measure", signal="SIGBUS"), True),
        (JobEnd(seconds=1, stage="measure", signal="SIGTERM"), False),
        (JobEnd(seconds=1, stage="measure", signal="SIGKILL", timed_out=True), False),
    ],
)
def test_a_crash_over_weights_that_changed_is_told_as_that(tmp_path, end, told):
    path = models.move_weights_beside(models.conv_model(tmp_path / "net.onnx"))
    model = model_ref(path)
    raise_if_changed(model)
    assert fail_if_model_changed(end, model) == end
    swap_weights(path)
    found = fail_if_model_changed(end, model)
    assert ("net.onnx.data" in found.reason) is told


def test_a_side_that_changes_ends_a_comparison(tmp_path, store, config):
    paths = [models.tiny_model(tmp_path / f"{name}.onnx") for name in "ab"]
    specs = [run_spec(BenchRequest(model=path, batch=1, **SHORT), config) for path in paths]
    seen: list[str] = []

    def change(event: Event) -> None:
        seen.append(event.text)
        if "launch 2" in event.text:
            models.conv_model(paths[1])

    request = PairFields(mode="one-process", pairs=10)
    sides = Sides(baseline=specs[0], candidate=specs[1])
    duet = Duet(sides, request, store=store, execution=Execution(listen=change))
    with pytest.raises(JobError, match=r"b\.onnx changed while"):
        duet.measure(3)
    assert duet.launches == 1


def torch_reference(model: str, folder: Path, **options: str) -> ModelRef:
    request = BenchRequest(model=model, runtime="torch", device="cpu", options=options)
    return run_spec(request, Config(store=str(folder))).model


def test_code_that_a_factory_imports_is_part_of_the_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.pt").write_bytes(b"PK\x03\x04 a state dict")
    files = {
        "nets/__init__.py": "WIDTH = 3",
        "nets/small.py": "import numpy\nfrom . import blocks\nfrom shared.parts import Block",
        "nets/blocks.py": "from .small import make  # round in a circle",
        "shared/parts.py": "import nets.deep.er",
        "nets/deep/er.py": "nothing python can read (",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    seen = torch_reference("net.pt", tmp_path, factory="nets.small:make")
    assert changed(seen) is None
    other = torch_reference("net.pt", tmp_path, factory="nets.small:other")
    assert other.sha256 != seen.sha256, "one file of code may make two networks"
    assert {str(Path(each.name).relative_to(tmp_path)) for each in seen.files} == {*files}
    for name in files:
        (tmp_path / name).write_text("WIDTH = 5")
        assert torch_reference("net.pt", tmp_path, factory="nets.small:make") != seen, name
        (tmp_path / name).write_text(files[name])


def test_random_weights_are_told_by_their_seed(tmp_path: Path) -> None:
    """Two models that a library has by name are two, though nobody knows their bytes."""
    trained = torch_reference("torchvision:resnet18", tmp_path)
    drawn = torch_reference("torchvision:resnet18", tmp_path, weights="none")
    other = torch_reference("torchvision:resnet18", tmp_path, weights="none", seed="7")
    assert drawn == torch_reference("torchvision:resnet18", tmp_path, weights="none", seed="0")
    assert len({each.identity for each in (trained, drawn, other)}) == 3
    assert changed(drawn) is None
    assert drawn.size_bytes is None
    assert trained.identity != torch_reference("torchvision:resnet50", tmp_path).identity


def test_where_weights_lie_makes_no_other_model(tmp_path: Path) -> None:
    """The same network with the same weights is one model on every machine."""
    found = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights.pt").write_bytes(b"of the last epoch")
        weights = str(tmp_path / name / "weights.pt")
        found.append(torch_reference("torchvision:resnet18", tmp_path / name, weights=weights))
    assert found[0].sha256 == found[1].sha256
    assert found[0].files != found[1].files
    assert changed(found[0]) is None


def test_weights_that_an_option_names_are_part_of_the_model(tmp_path: Path) -> None:
    """Other weights are another model, of a library or of a file, and a change is noticed."""
    network, weights = tmp_path / "net.pt", tmp_path / "weights.pt"
    network.write_bytes(b"PK\x03\x04 a module")
    weights.write_bytes(b"of the first epoch")

    reference = partial(torch_reference, folder=tmp_path)
    for model in ("torchvision:resnet18", str(network)):
        alone = reference(model)
        first = reference(model, weights=str(weights))
        assert first.sha256 not in (None, alone.sha256)
        assert first.size_bytes == (alone.size_bytes or 0) + weights.stat().st_size
        assert (reference(model, weights="none") == alone) is (model == str(network))
        assert changed(first) is None
        weights.write_bytes(b"of the second epoch")
        assert "weights.pt" in str(changed(first))
        assert reference(model, weights=str(weights)).sha256 != first.sha256
        weights.write_bytes(b"of the first epoch")
        assert changed(first) is None, "the same bytes are the same model"
