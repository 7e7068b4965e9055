"""The runtime ``tensorrt`` over a stand-in GPU: protocols, graphs, tensors, what goes wrong."""

import gc
import json
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis_values import run
from gpu_standin import (
    BYTE_S,
    COPY_S,
    GPU_S,
    Code,
    Context,
    Cudart,
    DataType,
    Engine,
    Trt,
    plan_bytes,
)
from trtbench.analysis.findings import findings_from_run
from trtbench.core.errors import InputError, UnavailableError, UsageError
from trtbench.core.jobs import BenchOutcome, Stage
from trtbench.core.samples import IterationTimes
from trtbench.core.spec import InputSpec, Length, RunSpec
from trtbench.host.cuda import CudaError
from trtbench.runtimes import tensorrt, tensorrt_rtx
from trtbench.runtimes._gpu_query import is_close
from trtbench.runtimes._session import profile_from_rows
from trtbench.runtimes._trt_session import Port, array_from_bytes, output_evidence

Bench = Callable[..., tuple[BenchOutcome, IterationTimes]]


class Forgetful(list[Context]):
    """The contexts of an engine, which this does not keep alive."""

    def append(self, context: Context) -> None:
        pass


@pytest.fixture
def bench(spec: RunSpec, tmp_path: Path) -> Bench:
    """Measure the engine with some changes to how."""

    def measure(**changes: Any) -> tuple[BenchOutcome, IterationTimes]:
        return tensorrt.bench(spec.having(**changes), folder=tmp_path, stage=Stage())

    return measure


def test_gpu_runs_back_to_back_from_a_graph_and_coldl2_empties_the_cache_before_each_query(
    gpu: Trt, bench: Bench
) -> None:
    told = {"cuda_graph": "on", "transfers": False, "spin_wait": True}
    warm, times = bench(protocol="gpu", **told)
    assert set(times.durations()) == {"latency", "enqueue", "gpu"}
    assert warm.conditions["cuda_graph"].value is True
    assert np.median(times.gpu) == pytest.approx(GPU_S, rel=0.05)
    assert np.median(np.diff(times.start)) == pytest.approx(GPU_S, rel=0.02)
    assert gpu.cuda.flags == (1, 1)
    before = gpu.cuda.calls.count("cudaMemsetAsync")
    cold, times = bench(protocol="coldl2", **told)
    queries = 40 + cold.facts.warmup_iterations
    flushes = gpu.cuda.calls.count("cudaMemsetAsync") - before
    assert queries <= flushes <= queries + 5, "one each; the rest check the graph"
    np.testing.assert_allclose(times.gpu, GPU_S, rtol=0.02)
    assert set(times.durations()) == {"latency", "enqueue", "gpu"}
    emptied_s = 2 * 2**20 * BYTE_S
    assert cold.facts.wall_s - warm.facts.wall_s == pytest.approx(40 * emptied_s, rel=0.2)
    assert cold.conditions["cuda_graph"].value is True


def test_serve_times_each_phase_of_a_query(gpu: Trt, bench: Bench) -> None:
    outcome, times = bench()
    assert set(times.durations()) == {"host", "enqueue", "h2d", "gpu", "d2h"}
    assert len(times) == 40
    assert all(column.dtype == np.float64 for column in times.durations().values())
    spans = times.h2d + times.gpu + times.d2h
    # Spans also hold the host's own time between two events when the GPU has nothing else to do.
    assert COPY_S * 0.99 <= np.median(times.h2d) <= 2 * COPY_S
    assert GPU_S * 0.99 <= np.median(times.gpu) <= 1.3 * GPU_S
    assert np.all(times.host >= spans - 2e-6)
    assert outcome.conditions["overlapping"].value is False
    assert outcome.facts.first_s is not None
    assert outcome.inputs[0].shape == (4, 8)
    assert outcome.outputs[0].shape == (4, 8)
    assert outcome.evidence["outputs_finite"] is True
    assert outcome.evidence["outputs_vary"] is True
    assert gpu.cuda.live == {}
    assert set(bench(transfers=False)[1].durations()) == {"host", "enqueue", "gpu"}


def test_pipeline_keeps_two_queries_in_flight(gpu: Trt, bench: Bench) -> None:
    outcome, times = bench(protocol="pipeline", stop=Length(iterations=60))
    assert set(times.durations()) == {"latency", "enqueue", "h2d", "gpu", "d2h", "end_to_end"}
    np.testing.assert_allclose(times.latency, times.h2d + times.gpu + times.d2h)
    assert np.median(times.gpu) == pytest.approx(GPU_S, rel=0.02)
    assert outcome.conditions["overlapping"].value is True
    # The copies of one query hide behind the work of another: a query takes the GPU time, no more.
    _, serial = bench(stop=Length(iterations=60))
    between = np.median(np.diff(times.start))
    assert between < np.median(np.diff(serial.start)) - COPY_S
    assert between == pytest.approx(GPU_S, rel=0.02)
    assert np.median(times.end_to_end) > np.median(times.latency)


def test_a_graph_that_cannot_be_captured_is_an_error_unless_auto(gpu: Trt, bench: Bench) -> None:
    gpu.cuda.capturable = False
    with pytest.raises(InputError, match="cannot be captured") as caught:
        bench(cuda_graph="on")
    assert "auto" in (caught.value.fix or "")
    outcome, times = bench(cuda_graph="auto")
    assert len(times) == 40
    assert outcome.conditions["cuda_graph"].value is False
    assert outcome.conditions["cuda_graph_fell_back"].value is True
    assert any("without a CUDA graph" in note for note in outcome.notes)
    slow = IterationTimes(host=1.2 * times.gpu, gpu=times.gpu, enqueue=0.9 * times.gpu)
    found = findings_from_run(run(slow, conditions=outcome.conditions))
    assert not any("--cuda-graph" in str(each.remedy) for each in found if each.code == "H20")
    gpu.cuda.capturable = True
    gpu.cuda.fail["cudaGraphInstantiate"] = Code.not_capturable
    outcome, _ = bench(cuda_graph="auto")
    assert outcome.conditions["cuda_graph_fell_back"].value is True
    assert gpu.cuda.calls.count("cudaGraphDestroy") == 1
    with pytest.raises(InputError, match="graph cannot be made"):
        bench(cuda_graph="on")


@pytest.mark.parametrize("captured", [True, False])
@pytest.mark.parametrize("protocol", ["serve", "pipeline"])
def test_contexts_are_freed_before_their_memory_and_streams(
    gpu: Trt, bench: Bench, monkeypatch: pytest.MonkeyPatch, protocol: str, captured: bool
) -> None:
    gpu.contexts, gpu.cuda.capturable = Forgetful(), captured
    freed = weakref.WeakSet[Context]()
    create = Engine.create_execution_context

    def followed(engine: Engine, config: object = None) -> Context:
        freed.add(context := create(engine, config))
        return context

    monkeypatch.setattr(Engine, "create_execution_context", followed)
    alive: list[int] = []
    free = Cudart.cudaFree
    monkeypatch.setattr(
        Cudart, "cudaFree", lambda cuda, address: (alive.append(len(freed)), free(cuda, address))[1]
    )
    gc.disable()
    try:
        bench(protocol=protocol, cuda_graph="auto")
    finally:
        gc.enable()
    assert alive == [0, 0]


def test_a_graph_that_keeps_its_first_inputs_is_left_out_with_a_finding(gpu: Trt, bench: Bench):
    gpu.replay_frozen = True
    with pytest.raises(InputError, match="different results"):
        bench(cuda_graph="on")
    outcome, _ = bench(cuda_graph="auto")
    assert outcome.conditions["cuda_graph"].value is False
    assert outcome.conditions["cuda_graph_fell_back"].value is True
    assert outcome.evidence["graph_outputs_differ"] is True
    seen = run(IterationTimes(), facts={"graph_outputs_differ": True})
    [told] = [each for each in findings_from_run(seen) if each.code == "H03"]
    assert (told.code, told.severity) == ("H03", "warning")
    assert "replayed on new inputs" in told.message


def test_empty_inputs_and_what_an_engine_is_loaded_with(gpu: Trt, bench: Bench, tmp_path: Path):
    gpu.shape = (0, 8)
    outcome, _ = bench(batch=None, options={"host_code": "on", "dla_core": "1"})
    assert (outcome.outputs[0].shape, gpu.runtime.engine_host_code_allowed) == ((0, 8), True)
    assert gpu.runtime.DLA_core == 1
    (tmp_path / "plugin.so").write_text("no library")
    for options in ({"plugins": str(tmp_path / "plugin.so")}, {"plugins": "/none.so"}):
        with pytest.raises(InputError, match="plugin library"):
            bench(options=options)
    with pytest.raises(UsageError, match="dla_core"):
        bench(options={"dla_core": "2"})


def test_outputs_that_never_repeat_do_not_speak_against_a_graph(gpu: Trt, bench: Bench) -> None:
    gpu.unsteady = True
    outcome, _ = bench(cuda_graph="on")
    assert outcome.conditions["cuda_graph"].value is True
    assert "graph_outputs_differ" not in outcome.evidence
    assert outcome.evidence["outputs_repeat"] is False
    [note] = outcome.notes
    assert note.startswith("y differed in a second plain run on the same inputs")
    gpu.replay_wrong = True  # whose outputs stay empty: that too is no plain run's
    bench(cuda_graph="on")
    gpu.unsteady, gpu.replay_wrong, gpu.written = False, False, 0.5  # compared where it is written
    outcome, _ = bench(cuda_graph="on")
    assert outcome.conditions["cuda_graph"].value is True
    assert "outputs_repeat" not in outcome.evidence


def test_outputs_have_the_shape_that_their_data_give_them(gpu: Trt, bench: Bench, spec: RunSpec):
    gpu.finds = True
    session = tensorrt.open_session(spec)
    for many in (3, 1, 0):
        x = np.linspace(0, 0.4, 32, dtype=np.float32).reshape(4, 8)
        x[:many, 0] = 1
        session.bind({"x": x})
        np.testing.assert_array_equal(session.fetch()["y"], 2 * x[:many] + 1)
    session.close()
    gpu.finds = False
    session = tensorrt.open_session(spec)  # batches that come and go need no more memory
    for batch in (16, 1, 2, 16, 3, 8, 16):
        x = np.ones((batch, 8), np.float32)
        session.bind({"x": x})
        np.testing.assert_array_equal(session.fetch()["y"], 2 * x + 1)
        assert gpu.cuda.used() == 2 * 16 * 8 * 4
    session.close()
    gpu.finds = True
    # A graph tells no shapes: that of its capture would be taken for that of every replay.
    outcome, _ = bench(cuda_graph="auto", batch=16)
    assert outcome.conditions["cuda_graph"].value is False
    assert "cudaStreamBeginCapture" not in gpu.cuda.calls
    assert "graph_outputs_differ" not in outcome.evidence, "nothing is wrong with it"
    assert any("does not support outputs whose shape" in note for note in outcome.notes)
    with pytest.raises(InputError, match="does not support outputs whose shape") as caught:
        bench(cuda_graph="on", batch=16)
    assert caught.value.facts["outputs"] == "y"
    assert gpu.cuda.live == {}


def test_a_shape_that_the_engine_does_not_tell_is_asked_of_its_context(
    gpu: Trt, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of TensorRT 8.6 with an output whose shape depends on the data."""
    gpu.shape = (4, 8)
    monkeypatch.setattr(Engine, "get_tensor_shape", lambda *_: ())
    outcome, _ = bench()
    assert outcome.inputs[0].shape == (4, 8)


def test_the_graph_of_every_stream_is_checked(
    gpu: Trt, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay = Context._replay

    def broken(context: Context, stream: Any, kept: Any) -> None:
        if context is gpu.contexts[0]:
            replay(context, stream, kept)

    monkeypatch.setattr(Context, "_replay", broken)
    with pytest.raises(InputError, match="different results"):
        bench(cuda_graph="on", protocol="pipeline", streams=2)


def test_a_graph_does_not_outlive_the_shape_it_was_captured_with(gpu: Trt, spec: RunSpec) -> None:
    session = tensorrt.open_session(spec.having(cuda_graph="on"))
    session.bind({"x": np.ones((4, 8), np.float32)})
    session.step()
    assert gpu.cuda.calls.count("cudaGraphLaunch") > 0
    for rows in (2, 9):
        x = np.full((rows, 8), rows, np.float32)
        session.bind({"x": x})
        np.testing.assert_array_equal(session.fetch()["y"], 2 * x + 1)
    session.close()


def test_inputs_that_were_given_are_not_said_to_be_ignored(gpu: Trt, spec: RunSpec, tmp_path: Path):
    """Whole numbers are turned round, never drawn: others may be no rows of the engine's table."""
    path = tmp_path / "x.npy"
    gpu.dtype = DataType.INT32
    for values, backwards in ((np.arange(32), True), (np.full(32, 7), False)):
        np.save(path, values.astype(np.int32).reshape(4, 8))
        asked = spec.having(inputs=InputSpec(source=str(path)))
        session = tensorrt.open_session(asked)
        x = np.load(path)
        session.bind({"x": x})
        [unit] = session._units
        session._change_inputs(unit)
        fresh = unit.buffers["x"].host.view(np.int32)
        assert fresh.tolist() == x.reshape(-1)[::-1].tolist()
        assert (fresh.tolist() != x.reshape(-1).tolist()) is backwards
        session.close()


@pytest.mark.parametrize("profile", [0, 1])
def test_a_profile_for_one_context_alone_is_told(gpu: Trt, bench: Bench, profile: int) -> None:
    """TensorRT 8.6 shares a profile only where the builder was asked for it, else it crashes."""
    gpu.shares_profiles = False
    told = "only one context can use the engine's optimization profile, but each of the 2 streams"
    with pytest.raises(InputError, match=told):
        bench(protocol="pipeline", streams=2, profile_index=profile)
    gpu.contexts.clear()
    bench(protocol="pipeline", profile_index=profile)


def test_streams_overlap_and_say_so(gpu: Trt, bench: Bench) -> None:
    outcome, times = bench(protocol="pipeline", streams=3)
    assert len(gpu.contexts) == 3
    assert len(times) == 40
    assert outcome.conditions["streams"].value == 3
    assert outcome.conditions["overlapping"].value is True
    alone, _ = bench(streams=2)
    assert alone.conditions["overlapping"].value is True


def test_layers_are_timed_in_a_pass_of_their_own(gpu: Trt, spec: RunSpec, tmp_path: Path) -> None:
    stage = Stage()
    asked = spec.having(profile=True)
    outcome, _ = tensorrt.bench(asked, folder=tmp_path, stage=stage)
    assert stage.begun == ["load", "warm-up", "measure", "profile"]
    assert [layer.name for layer in outcome.layers.layers] == ["scale", "shift"]
    assert outcome.layers.layers[0].median_s == pytest.approx(0.2e-3)
    assert outcome.layers.layers[0].share == pytest.approx(0.5)
    assert outcome.evidence["layer_times"] == "profiler: No module named 'cupti'"
    assert json.loads((tmp_path / "graph.json").read_text())["Bindings"] == ["x", "y"]


REFUSALS = {
    "another GPU": "The engine plan file is generated on an incompatible device, expecting "
    "compute 8.6 got compute 9.0, please rebuild.",
    "built by TensorRT": "Serialization assertion stdVersionRead == kSERIALIZATION_VERSION "
    "failed.Version tag does not match.",
    "damaged or cut short": "Serialization assertion sizeRead == static_cast<uint64_t>",
    "is version-compatible": "condition: mEngineHostCodeAllowed (host code is not allowed)",
    "needs a plugin": "getPluginCreator could not find plugin: Unheard version: 1",
    "not enough GPU memory": "Error Code 2: OutOfMemory (no further information)",
}


@pytest.mark.parametrize("words", REFUSALS)
def test_an_engine_that_is_refused_is_explained(gpu: Trt, bench: Bench, words: str) -> None:
    gpu.refuse = REFUSALS[words]
    with pytest.raises((InputError, UnavailableError), match=words):
        bench()
    assert gpu.cuda.live == {}


def test_an_error_in_mid_run_ends_the_run_and_frees_the_device(gpu: Trt, bench: Bench) -> None:
    gpu.cuda.fail["cudaEventSynchronize"] = Code.illegal_address
    gpu.cuda.fail_after["cudaEventSynchronize"] = 20
    with pytest.raises(CudaError, match="illegal memory access"):
        bench(protocol="pipeline")
    assert gpu.cuda.live == {}


def test_an_engine_that_was_cut_short_is_refused_before_it_is_loaded(
    rtx: Trt, spec: RunSpec, tmp_path: Path
) -> None:
    whole = plan_bytes(magic=b"vtrt")
    stated = whole[:16] + (len(whole) + 7).to_bytes(8, "little") + whole[24:]
    Path(spec.model.path).write_bytes(stated)
    asked = spec.having(runtime="tensorrt-rtx")
    with pytest.raises(InputError, match="is cut short") as caught:
        tensorrt_rtx.bench(asked, folder=tmp_path, stage=Stage())
    assert caught.value.facts == {
        "bytes": str(len(whole)),
        "stated in its header": str(len(whole) + 7),
    }


def port(dtype: str = "float32", bits: int = 32, **more: object) -> Port:
    return Port(name="x", is_input=True, dtype=dtype, bits=bits, shape=(-1, 3), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "shape", "size"),
    [
        (port(), (2, 3), 24),
        (port("float16", 16), (2, 3), 12),
        (port("int4", 4), (1, 3), 2),  # half bytes are filled up
        (port("int8", 8, packed_dim=1, packed=32), (2, 3), 64),  # 3 channels in a place for 32
        (port(), (0, 3), 0),
        (port(), (), 4),
    ],
)
def test_bytes_that_a_tensor_takes(given: Port, shape: tuple[int, ...], size: int) -> None:
    assert given.size_bytes(shape) == size


def test_outputs_come_as_numpy_can_hold_them() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    raw = np.concatenate([values.reshape(-1).view(np.uint8), np.zeros(8, np.uint8)])  # more room
    assert np.array_equal(array_from_bytes(raw, port(), (2, 3)), values)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    wide = array_from_bytes(bits.reshape(-1).view(np.uint8), port("bfloat16", 16), (2, 3))
    assert (wide.dtype, wide.tolist()) == (np.float32, values.tolist())
    for small in (port("float8_e4m3fn", 8), port("int4", 4), port("int8", 8, packed=4)):
        assert np.array_equal(array_from_bytes(raw, small, (2, 3)), raw)
    for shape in ((-1,), (-1, -1), (2, -1)):  # depends on data: all there is room for
        assert array_from_bytes(raw[:24], port(), shape).tolist() == [0, 1, 2, 3, 4, 5]


ONE = np.array([1.0, 2.0, 100.0], np.float32)
ENDLESS = np.array([np.inf, np.nan, 1.0], np.float32)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (ONE, ONE.copy(), True),
        (ONE, ONE + np.float32(0.9), True),  # below 1 % of the largest
        (ONE, ONE + np.float32(1.1), False),
        (ONE, ONE[:2], False),
        (ONE, np.array([1.0, np.nan, 100.0], np.float32), False),
        (ENDLESS, ENDLESS + np.float32(1e-3), True),
        (np.array([1, 2]), np.array([1, 3]), False),  # no tolerance for an index
        (ONE * 0, ONE * -0.0, True),
    ],
)
def test_whether_two_runs_gave_the_same(one: np.ndarray, other: np.ndarray, expected: bool) -> None:
    assert is_close(one, other) is expected


def test_what_two_inputs_tell_of_the_outputs() -> None:
    whole = {"ids": np.arange(3)}
    assert output_evidence(whole, whole) == {}
    before, after = {"y": ONE, **whole}, {"y": ONE * 2, **whole}
    assert output_evidence(before, after) == {"outputs_finite": True, "outputs_vary": True}
    assert output_evidence(before, before) == {"outputs_finite": True, "outputs_vary": False}
    odd = {"y": np.array([np.nan], np.float32)}
    assert output_evidence(odd, odd) == {"outputs_finite": False, "outputs_vary": False}


def test_layers_of_most_iterations_count_and_names_may_repeat() -> None:
    """An iteration that took another branch is left out."""
    usual = [[("a", 1.0), ("b", 2.0), ("a", 3.0)], [("a", 3.0), ("b", 2.0), ("a", 5.0)]]
    found = profile_from_rows([usual[0], [("c", 9.0)], usual[1]])
    assert found.count == 2
    assert [each.name for each in found.layers] == ["a", "b", "a"]
    assert [each.average_s for each in found.layers] == [2.0, 2.0, 4.0]
    assert [each.share for each in found.layers] == [4 / 16, 4 / 16, 8 / 16]
    assert (found.layers[0].min_s, found.layers[0].max_s) == (1.0, 3.0)
