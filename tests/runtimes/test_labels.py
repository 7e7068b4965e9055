"""Labels hold what the session did: every runtime that runs here, with every flag that names one.

A flag is either refused before the run, or what it names is what ran, or a finding says so.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto

import models
from gpu_standin import plan_bytes
from quick import bench, record_beside
from trtbench.analysis.comparability import differences
from trtbench.analysis.findings.rules import contradictions
from trtbench.analysis.history import key_from_record
from trtbench.analysis.summary import summary_from_run
from trtbench.core.codec import json_from_value
from trtbench.core.errors import TrtbenchError, UsageError
from trtbench.core.properties import protocol_of, title_of_record, without_tf32
from trtbench.core.results import Sidecar
from trtbench.core.run import Fact, Run, batch_that_ran, precision_of
from trtbench.core.spec import ShapeProfile
from trtbench.measure.model_facts import work_of_model
from trtbench.models.identity import index_limits, model_ref, sha256_of
from trtbench.report.run_facts import labels_from_runs
from trtbench.report.sections.summary import facts_of, finding_names
from trtbench.store.directory import entry_from_record
from trtbench.store.store import Store
from trtbench.workflows.inspect import inspect_engine

STANDIN_GPU = Path(__file__).resolve().parents[1] / "standin_gpu"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def on_standin_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have child processes find TensorRT and CUDA made of Python."""
    monkeypatch.setenv("PYTHONPATH", str(STANDIN_GPU))


def items_per_query(run: Run) -> float | None:
    summary = summary_from_run(run)
    if summary.items_per_s is None or summary.queries_per_s is None:
        return None
    return round(summary.items_per_s / summary.queries_per_s, 6)


# Single cases that were found untrue.


def test_a_batch_that_trtexec_did_not_run_is_not_counted(trtexec: Any, store: Store) -> None:
    run = bench(trtexec.engine(), store, runtime="trtexec", batch=8)
    assert run.record.inputs[0].shape == (1, 3, 8, 8)
    assert run.record.batch == 1
    assert items_per_query(run) == 1
    [finding] = [each for each in run.findings if each.code == "H46"]
    assert finding.message == "batch 8 was requested, but 1 ran"
    named = finding_names(run.findings, beside=None)
    assert named.startswith("batch 8 was requested, but 1 ran, "), "whatever else there is"
    assert entry_from_record(run.record, path="").batch == 1


def test_a_dynamic_model_gets_the_shapes_of_its_batch(trtexec: Any, tmp_path: Path, store: Store):
    run = bench(models.conv_model(tmp_path / "net.onnx"), store, runtime="trtexec", batch=4)
    assert "--shapes=image:4x3x16x16" in str(run.record.reported["command"])
    assert run.record.inputs[0].shape == (4, 3, 16, 16)
    assert items_per_query(run) == 4
    fixed = models.conv_model(tmp_path / "fixed.onnx", batch=2)
    with pytest.raises(TrtbenchError, match="fixed at 2"):
        bench(fixed, store, runtime="trtexec", batch=4)


def test_a_precision_is_what_layers_or_records_tell_or_unknown(trtexec: Any, store: Store) -> None:
    engine = trtexec.engine()
    blind = bench(engine, store, runtime="trtexec", profile=False)
    assert precision_of(blind.record) is None
    run = bench(engine, store, runtime="trtexec", precision="int8", profile=False)
    assert precision_of(run.record) is None
    assert entry_from_record(run.record, path="").precision is None
    assert [ran for _, _, ran in contradictions(run.record)] == [None]
    run = bench(engine, store, runtime="trtexec", precision="int8")
    assert [ran for _, _, ran in contradictions(run.record)] == ["fp16"], "layers tell it"
    record_beside(engine, precision="int8")
    run = bench(engine, store, runtime="trtexec", profile=True)
    assert run.graph is not None
    assert precision_of(run.record) == "fp16", "the lowest type that its layers compute in"
    assert "H26" in {each.code for each in run.findings}
    record_beside(engine, precision="fp16")
    run = bench(engine, store, runtime="trtexec", profile=True)
    assert precision_of(run.record) == "fp16"
    assert "claimed_precision" not in run.record.facts, "one of its layers does"
    assert precision_of(bench(engine, store, runtime="trtexec", precision="fp16").record)
    with pytest.raises(UsageError, match="was built in fp16, not in int8"):
        bench(engine, store, runtime="trtexec", precision="int8")
    Path(f"{engine}.json").unlink()
    run = bench(engine, store, runtime="trtexec", profile=True)
    assert precision_of(run.record) == "fp16", "nothing is claimed, but the layers tell it"


def test_least_means_least(trtexec: Any, store: Store) -> None:
    engine = trtexec.engine()

    def measured(**flags: Any) -> tuple[float, int]:
        run = bench(engine, store, runtime="trtexec", profile=False, **flags)
        assert run.record.launches[0].wall_s is not None
        return run.record.launches[0].wall_s, len(run.times)

    assert measured(duration=0.001, iterations=None)[1] >= 10
    for duration in (0, None):  # without trtexec's own 3 s
        seconds, queries = measured(duration=duration, iterations=20)
        assert seconds < 1
        assert queries >= 20


@pytest.mark.parametrize(
    ("extra", "said", "fix"),
    [
        ("--iterations=200", "is passed to trtexec already", "leave"),
        ("--warmUp=0", "is passed to trtexec already", "leave"),
        ("--loadEngine=other", "--loadEngine cannot be passed on", "leave"),
        ("--streams=3 --infStreams=2", "is passed to trtexec already", ""),
        ("--fp16 --fp16", "is passed to trtexec already", ""),
        ("--onnx=other.onnx", "--onnx cannot be passed on", ""),
        ("--device=1", "--device cannot be passed on", ""),
    ],
)
def test_what_trtbench_decides_is_not_passed_to_trtexec_again(
    trtexec: Any, store: Store, extra: str, said: str, fix: str
) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        bench(trtexec.engine(), store, runtime="trtexec", extra_args=tuple(extra.split()))
    assert fix in str(caught.value.fix)


# Items of a query.


def test_a_batch_is_the_dimension_that_is_called_so(tmp_path: Path, store: Store) -> None:
    tokens = ("tokens", TensorProto.INT64, ["sequence", "batch"])
    path = models.identity(tmp_path / "net.onnx", tokens)
    run = bench(path, store, batch=8)
    assert run.record.inputs[0].shape == (128, 8)
    assert (run.record.batch, items_per_query(run)) == (8, 8)
    assert entry_from_record(run.record, path="").batch == 8
    assert bench(path, store).record.batch == 1
    assert bench(path, store, shapes={"tokens": (16, 4)}).record.batch == 4
    with pytest.raises(TrtbenchError, match="have 4 items"):
        bench(path, store, shapes={"tokens": (16, 4)}, batch=16)


def test_inputs_that_leave_the_batch_open_have_no_items(tmp_path: Path, store: Store) -> None:
    first, second = ("a", TensorProto.FLOAT, ["n", 3]), ("b", TensorProto.FLOAT, ["m", 2])
    path = models.identity(tmp_path / "net.onnx", first, second)
    run = bench(path, store, shapes={"a": (4, 3), "b": (2, 2)})
    assert run.record.batch is None
    assert summary_from_run(run).items_per_s is None
    assert summary_from_run(run).queries_per_s
    assert "(batch unknown)" in dict(facts_of(run))["throughput"]
    assert run.path is not None
    written = json.loads((run.path / "summary.json").read_text())
    told = {written.get(name) for name in ("batch", "items_per_s", "throughput_qps")}
    assert told == {None}, "files say no more than the screen"
    assert bench(path, store, batch=4).record.batch == 4


@pytest.mark.parametrize(
    ("inputs", "outputs", "items"),
    [
        ([(3, 224, 224)], [(1000,)], None),  # an image without a batch
        ([(3, 224, 224)], [(3, 10)], 3),
        ([(16000, 2)], [(1, 35)], None),  # a sound
        ([(8, 128)], [(2, 8, 64)], 8),  # the state of an LSTM
        ([(8, 128)], [(None, 64)], 8),
        ([(8, 128)], [], 8),
        ([(4, 3, 640, 640)], [(37, 7)], 4),  # boxes of all images
        ([(1, 128)], [(5, 5)], 1),
        ([(3, 224, 224)], [(3, 448, 448)], None),  # a larger image of one
        ([(3, 224, 224)], [], None),
        ([(3, 128, 768)], [(3, 128, 768)], 3),  # sequences are longer than wide
        ([(4, 128, 512)], [(4, 128, 512)], 4),
    ],
)
def test_outputs_tell_a_batch_from_channels(
    inputs: list[tuple[int, ...]], outputs: list[tuple[int | None, ...]], items: int | None
) -> None:
    assert batch_that_ran(inputs, asked=None, outputs=outputs) == items
    assert batch_that_ran(inputs, asked=inputs[0][0], outputs=outputs) == inputs[0][0]
    implicit = batch_that_ran([(3, 224, 224)], asked=None, reported=1, outputs=[(1000, 1, 1)])
    assert implicit == 1, "the channels are no batch"


def test_inputs_of_an_engine_that_differ_in_front_leave_the_batch_open(trtexec: Any, store: Store):
    """Unless a record tells which of them are open, as builders write it."""
    inputs = {"images": "4x3x8x8", "anchors": "100x4"}
    engine = trtexec.engine(inputs=inputs, outputs={"boxes": "4x100x4"})
    run = bench(engine, store, runtime="trtexec", profile=False)
    assert [each.shape for each in run.record.inputs] == [(4, 3, 8, 8), (100, 4)]
    assert (run.record.batch, items_per_query(run)) == (None, None)
    span = ShapeProfile(min=(1, 3, 8, 8), opt=(4, 3, 8, 8), max=(8, 3, 8, 8))
    record_beside(engine, precision="fp16", shapes={"images": span})
    assert bench(engine, store, runtime="trtexec", profile=False).record.batch == 4
    run = bench(engine, store, runtime="trtexec", profile=False, batch=2)
    assert [each.shape for each in run.record.inputs] == [(2, 3, 8, 8), (100, 4)]
    assert (run.record.batch, items_per_query(run)) == (2, 2)


# Settings: what ran names a run, however it was asked for.


def test_what_is_passed_on_to_trtexec_names_the_run(trtexec: Any, store: Store) -> None:
    engine = trtexec.engine()
    plain = bench(engine, store, runtime="trtexec", profile=False)
    several = bench(engine, store, runtime="trtexec", profile=False, extra_args=("--infStreams=4",))
    assert "4 streams, latencies overlap" in title_of_record(several.record)
    named = ["4 streams" in label for label in labels_from_runs([plain, several])]
    assert named == [False, True]
    assert key_from_record(plain.record) != key_from_record(several.record)
    exposed = bench(engine, store, runtime="trtexec", profile=False, extra_args=("--exposeDMA",))
    assert title_of_record(exposed.record).count("serve")
    assert entry_from_record(exposed.record, path="").protocol == "serve"
    [difference] = [d for d in differences(plain.record, exposed.record) if d.key == "protocol"]
    assert difference.blocking
    # Rests, profiles and further arguments: none of them ran differently than requested.
    given = (
        "--idleTime=5", "--useProfile=1", "--infStreams=2", "--loadInputs=input:x.bin",
        "--useManagedMemory", "--avgRuns=5", "--fp16",
    )  # fmt: skip
    run = bench(engine, store, runtime="trtexec", profile=False, extra_args=given)
    title = title_of_record(run.record)
    assert "loadInputs=input:x.bin, useManagedMemory=on" in title
    assert "2 streams, latencies overlap, gap 5.00 ms, profile 1" in title
    assert "fp16" not in title, "an engine is what it was built as"
    assert not {"H30", "H46"} & {each.code for each in run.findings}
    assert "H30" in {each.code for each in plain.findings}
    assert "useManagedMemory=on" in labels_from_runs([plain, run])[1]
    assert key_from_record(plain.record) != key_from_record(run.record)
    found = {each.key: each for each in differences(plain.record, run.record)}
    assert found["gap_s"].blocking
    assert found["arguments"].candidate == "loadInputs=input:x.bin, useManagedMemory=on"


def test_no_transfers_are_a_pipeline_without_them(trtexec: Any, store: Store) -> None:
    """Without a CUDA graph it is not the protocol gpu, and all ran as requested."""
    run = bench(trtexec.engine(), store, runtime="trtexec", profile=False, transfers=False)
    assert "H46" not in {each.code for each in run.findings}
    assert protocol_of(run.record) == "pipeline"
    for asked in ({"protocol": "gpu"}, {"transfers": False, "cuda_graph": "on"}):
        run = bench(trtexec.engine(), store, runtime="trtexec", profile=False, **asked)
        assert "H46" not in {each.code for each in run.findings}
        assert protocol_of(run.record) == "gpu"


# Records that lie beside models, of their very bytes.


def test_types_of_a_file_deny_the_record_beside_it(tmp_path: Path, store: Store) -> None:
    path = models.conv_model(tmp_path / "net.onnx")
    told = Sidecar(
        made_by="somebody", step="quantize", file=path.name, sha256=sha256_of(path),
        created="2026-01-01T00:00:00+00:00", source="net.onnx", source_sha256=None,
        precision="int8",
    )  # fmt: skip
    path.with_suffix(".json").write_bytes(json_from_value(told))
    run = bench(path, store, runtime="onnxruntime", profile=False)
    assert precision_of(run.record) == "fp32"
    assert entry_from_record(run.record, path="").precision == "fp32"
    [finding] = [each for each in run.findings if each.code == "H26"]
    assert finding.evidence == {"claimed": "int8", "ran": "fp32"}


def test_a_network_that_has_changed_tells_nothing_of_its_engine(tmp_path: Path) -> None:
    """Neither operations nor rows of tables are those of another file of the same name."""
    network = models.multi_input_model(tmp_path / "net.onnx", vocabulary=100)
    engine = tmp_path / "net.engine"
    engine.write_bytes(plan_bytes())
    record_beside(engine, precision="fp16", model=model_ref(network))
    model = model_ref(engine)
    assert index_limits(model) == {"input_ids": 100}
    assert work_of_model(model, ())["weight_bytes"]
    models.multi_input_model(network, vocabulary=50)
    os.utime(network, (1, 1))
    assert index_limits(model) == {}
    assert work_of_model(model, ()) == {}


def test_a_record_of_another_engine_is_left_aside(tmp_path: Path) -> None:
    engine = tmp_path / "net.engine"
    engine.write_bytes(plan_bytes())
    record_beside(engine, precision="int8")
    assert inspect_engine(engine).facts["precision"] == "int8"
    engine.write_bytes(plan_bytes() + b"built anew by somebody else")
    found = inspect_engine(engine)
    assert "precision" not in found.facts
    assert any("to another engine" in note for note in found.notes)


@pytest.mark.usefixtures("on_standin_gpu")
@pytest.mark.parametrize(
    ("kept", "named", "ran", "source"),
    [
        ("Float", "int8", "fp32", "implied"),
        ("Int8", "int8", "int8", "stated"),
        (None, "int8", "int8", "recorded"),
        ("Int8", None, "int8", "implied"),
    ],
)
def test_an_engine_is_held_to_its_layers_without_a_profile(
    store: Store, tmp_path: Path, kept: str | None, named: str | None, ran: str, source: str
) -> None:
    """The inspector tells types where the engine was built to; else the record alone speaks.

    Without a record, as of an engine of trtexec, the layers alone do.
    """
    engine = tmp_path / "net.engine"
    engine.write_bytes(plan_bytes() + (f"weights={kept};".encode() if kept else b""))
    if named is not None:
        record_beside(engine, precision=named)
    run = bench(engine, store, runtime="tensorrt", batch=1, profile=False)
    assert precision_of(run.record) == ran
    assert run.record.conditions["precision"].source == source
    found = {each.severity for each in run.findings if each.code == "H26"}
    told = {"implied": {"warning"}, "stated": set(), "recorded": {"note"}}[source]
    assert found == (told if named is not None else set())
    assert ("int8 by its record" in title_of_record(run.record)) is (source == "recorded")


@pytest.mark.usefixtures("on_standin_gpu")
def test_what_the_environment_sets_is_said(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a GPU what concerns it, of a CPU what concerns that: as a finding, and in comparisons."""
    engine, network = tmp_path / "net.engine", models.tiny_model(tmp_path / "net.onnx")
    engine.write_bytes(plan_bytes())
    before = bench(engine, store, runtime="tensorrt", batch=1, profile=False)
    assert "H51" not in {each.code for each in before.findings}
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("MKL_ROOT", "/opt/mkl")
    run = bench(engine, store, runtime="tensorrt", batch=1, profile=False)
    told = [(each.severity, each.evidence) for each in run.findings if each.code == "H51"]
    assert told == [("warning", {"variables": "CUDA_LAUNCH_BLOCKING=1"})]
    assert "CUDA_LAUNCH_BLOCKING=1" in title_of_record(run.record)
    [difference] = [each for each in differences(before.record, run.record) if each.blocking]
    assert difference.key == "variables"
    assert not [each for each in differences(run.record, run.record) if each.key == "variables"]
    run = bench(network, store, runtime="onnxruntime", batch=1, profile=False)
    told = [(each.severity, each.evidence) for each in run.findings if each.code == "H51"]
    assert told == [("note", {"variables": "OMP_NUM_THREADS=2"})]


def test_tf32_that_the_environment_forbids_did_not_run() -> None:
    allowed = {"precision": Fact(value="tf32"), "tf32": Fact(value=True)}
    found = without_tf32(allowed, {"NVIDIA_TF32_OVERRIDE": "0"})
    assert {key: fact.value for key, fact in found.items()} == {"precision": "fp32", "tf32": False}
    assert without_tf32(allowed, {"NVIDIA_TF32_OVERRIDE": "1"}) == allowed
    half = {"precision": Fact(value="fp32+fp16"), "tf32": Fact(value=True)}
    assert without_tf32(half, {"NVIDIA_TF32_OVERRIDE": "0"})["precision"] == half["precision"]
