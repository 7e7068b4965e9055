"""ONNX Runtime with bound tensors, on the CPU provider, and traces of where nodes ran."""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as library
import pytest

from models import save_text
from trtbench.core.errors import TrtbenchError, UnavailableError, UsageError
from trtbench.core.jobs import Stage
from trtbench.core.spec import Length, ModelRef, RunSpec, Warmup
from trtbench.runtimes import onnxruntime
from trtbench.runtimes.onnxruntime import end_trace, events_of_nodes, nodes_and_providers


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    text = "net (float[n, 4] x) => (float[n, 4] y) {h = Relu(x) y = Neg(h)}"
    path = save_text(tmp_path / "model.onnx", text)
    return RunSpec(
        model=ModelRef(path=str(path), format="onnx"),
        runtime="onnxruntime",
        batch=2,
        warmup=Warmup(floor=Length(iterations=2), until_steady=False),
        stop=Length(iterations=20),
    )


def test_bound_tensors_give_the_same_outputs(spec: RunSpec) -> None:
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    plain, bound = (
        onnxruntime.open_session(spec.having(options={"io_binding": wish}))
        for wish in ("off", "on")
    )
    for session in (plain, bound):
        session.bind({"x": x})
    np.testing.assert_array_equal(plain.fetch()["y"], bound.fetch()["y"])
    bound.bind({"x": -x})
    np.testing.assert_array_equal(bound.fetch()["y"], -np.maximum(-x, 0))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"optimization": "disable"},
         {"graph_optimization_level": library.GraphOptimizationLevel.ORT_DISABLE_ALL}),
        ({"spinning": "off"}, {}),
        ({"spinning": "run"}, {}),
    ],
)  # fmt: skip
def test_options_reach_the_library_and_change_no_number(
    spec: RunSpec, options: dict[str, str], told: dict[str, object]
) -> None:
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    session = onnxruntime.open_session(spec.having(options=options))
    session.bind({"x": x})
    np.testing.assert_array_equal(session.fetch()["y"], -np.maximum(x, 0))
    used = session._session.get_session_options()
    assert {name: getattr(used, name) for name in told} == told
    assert session.conditions["spinning"].value == options.get("spinning", "on")
    stops = [note for note in session.notes if "stopped after every query" in note]
    assert bool(stops) is (options.get("spinning") == "run")


def test_transfers_can_be_left_out_only_with_bound_tensors(spec: RunSpec, tmp_path: Path) -> None:
    asked = spec.having(options={"io_binding": "on"}, transfers=False)
    outcome, times = onnxruntime.bench(asked, folder=tmp_path, stage=Stage())
    assert len(times) == 20
    assert outcome.conditions["transfers"].value is False
    with pytest.raises(UsageError, match="--no-transfers"):
        onnxruntime.open_session(spec.having(transfers=False))


def test_a_trace_tells_where_nodes_ran(spec: RunSpec, tmp_path: Path) -> None:
    options = library.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "trace")
    options.graph_optimization_level = library.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = library.InferenceSession(spec.model.path, options, providers=["CPUExecutionProvider"])
    session.run(None, {"x": np.zeros((2, 4), np.float32)})
    assert list(nodes_and_providers(end_trace(session)).values()) == ["CPUExecutionProvider"] * 2
    assert list(tmp_path.glob("trace*")) == []


class Silent:
    """A package with CUDA inside whose sessions go on without it, as ONNX Runtime's do."""

    __version__ = "1.31.0"
    prints = False  # problems, as 1.17 does
    cuda_version = "12.8"
    GraphOptimizationLevel = library.GraphOptimizationLevel
    ExecutionMode = library.ExecutionMode
    SessionOptions = library.SessionOptions
    OrtValue = library.OrtValue

    def __init__(self, folder: Path, *, problem: Exception | None = None) -> None:
        self.__file__ = str(folder / "__init__.py")
        self.calls: list[str] = []
        self.asked: list[Any] = []
        self._problem = problem

    def set_default_logger_severity(self, level: int) -> None:
        pass

    def preload_dlls(self) -> None:
        self.calls.append("preload")

    def get_available_providers(self) -> list[str]:
        self.calls.append("list")
        return ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]

    def InferenceSession(
        self, path: str, options: Any, *, providers: list[Any], enable_fallback: int
    ) -> Any:
        assert enable_fallback == 0
        self.asked = providers
        if self._problem and self.prints:
            print(f"{'*' * 15} EP Error {'*' * 15}\nEP Error {self._problem}\n when using [...]")
        elif self._problem:
            raise self._problem
        return library.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def opened(
    spec: RunSpec, package: Silent, monkeypatch: pytest.MonkeyPatch, **changes: Any
) -> TrtbenchError:
    monkeypatch.setitem(sys.modules, "onnxruntime", package)  # type: ignore[arg-type]
    with pytest.raises(TrtbenchError) as caught:
        onnxruntime.open_session(spec.having(**changes))
    return caught.value


def test_a_session_that_went_on_without_cuda_is_refused(
    spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = Silent(tmp_path)
    told = opened(spec, package, monkeypatch, options={"providers": "cuda"})
    assert isinstance(told, UnavailableError)
    assert "'cuda' does not start" in told.message
    assert package.calls == ["preload", "list"], "libraries first: a plug-in registers with them"
    assert "libonnxruntime_providers_cuda.so" in told.facts["reason"]
    assert told.facts["built for"] == "CUDA 12.8"


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        ("CUDA failure 100: no CUDA-capable device is detected", "trtbench doctor"),
        (
            "cuda_call.cc:121 std::conditional_t<THRW, void, common::Status> CudaCall(ERRTYPE) "
            "CUDA failure 35: CUDA driver version is insufficient ; GPU=-1 ; expr=cudaSetDevice",
            "trtbench doctor",
        ),
        (
            "Failed to load library libonnxruntime_providers_tensorrt.so with error: "
            "libnvinfer.so.10: cannot open shared object file",
            'pip install "tensorrt-cu12==10.*"',
        ),
        (
            "Failed to load library libonnxruntime_providers_cuda.so with error: "
            "libcublasLt.so.12: cannot open shared object file",
            'pip install "onnxruntime-gpu[cuda,cudnn]"',
        ),
    ],
)
def test_a_provider_that_fails_is_not_blamed_on_the_model(
    spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, fix: str
) -> None:
    package = Silent(tmp_path, problem=RuntimeError(words))
    told = opened(spec, package, monkeypatch, options={"providers": "tensorrt,cuda"})
    assert isinstance(told, UnavailableError)
    behind = words.find("CUDA failure")
    assert told.facts["reason"] == words[max(behind, 0) :].split(" ;")[0]
    assert told.fix == fix
    package.prints = True
    again = opened(spec, package, monkeypatch, options={"providers": "tensorrt,cuda"})
    assert (again.facts, again.fix) == (told.facts, told.fix)


def test_the_second_gpu_is_told_to_the_provider(
    spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = Silent(tmp_path)
    opened(spec, package, monkeypatch, options={"providers": "CUDA, cpu"}, device="cuda:1")
    assert package.asked == [("CUDAExecutionProvider", {"device_id": "1"}), "CPUExecutionProvider"]
    opened(spec, package, monkeypatch, device="cuda:0")
    assert package.asked == ["CUDAExecutionProvider"], "a device alone asks for its provider"
    monkeypatch.setenv("ORT_TENSORRT_FP16_ENABLE", "1")
    given = {"providers": "tensorrt,cuda", "cuda.use_tf32": "0"}
    opened(spec, package, monkeypatch, options=given, device="cuda:1")
    assert package.asked == [
        ("TensorrtExecutionProvider", {"trt_fp16_enable": "1", "device_id": "1"}),
        ("CUDAExecutionProvider", {"use_tf32": "0", "device_id": "1"}),
    ], "TensorRT's environment counts beside settings, too"
    told = opened(spec, package, monkeypatch, options={"cuda.use_tf32": "0"}, device="cpu")
    assert told.message == "--opt cuda.use_tf32 is a setting of 'cuda', which is not asked for"
    package = Silent(tmp_path, problem=RuntimeError('Unknown provider option: "tf32".'))
    told = opened(spec, package, monkeypatch, options={"cuda.tf32": "0"}, device="cuda:0")
    assert told.message == 'Unknown provider option: "tf32".'
    words = "The value for the key 'trt_fp16_enable' should be 'True' or 'False'."
    package = Silent(tmp_path, problem=RuntimeError(f"[ERROR] [TensorRT] {words}"))
    package.prints = True
    given = {"providers": "tensorrt", "tensorrt.trt_fp16_enable": "1"}
    assert opened(spec, package, monkeypatch, options=given).message == words


class Pretended(Silent):
    """A package whose CUDA is the CPU."""

    class OrtValue:
        @staticmethod
        def ortvalue_from_numpy(array: Any, *place: object) -> Any:
            return library.OrtValue.ortvalue_from_numpy(array)

    def InferenceSession(self, path: str, options: Any, **asked: Any) -> Any:
        session = library.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        bindings = session.io_binding

        def io_binding() -> Any:
            binding = bindings()
            bind = binding.bind_output
            binding.bind_output = lambda name, *place: bind(name)
            return binding

        session.io_binding = io_binding
        session.get_providers = lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"]
        return session


class Recorder:
    """Records calls before and during a query, and two kernels of 1 us that end it."""

    late_ns = 0

    def record(self, run: Any, *, calls: bool = False) -> Any:
        began = time.time_ns()
        run()
        every = [began, *np.linspace(began, time.time_ns(), 100).astype(int).tolist()]
        work = [(99, 0, "exp", 0, 1000), (100, 0, "sum", 1000, 2000)]
        return work * (1 if calls else 2), [*enumerate(every)] if calls else []

    def ahead_ns(self) -> int:
        return self.late_ns


def test_a_node_starts_the_calls_that_begin_in_it() -> None:
    def event(name: str, ts: int, **more: Any) -> dict[str, Any]:
        return {"name": name, "ts": ts, "cat": more.pop("cat", "Node"), "args": more}

    runs = [event("model_run", ts, cat="Session") for ts in (0, 100)]
    nodes = [event("/a_kernel_time", ts, op_name="Conv") for ts in (1, 101)]
    nodes += [event("/b_kernel_time", 103), event("/c_kernel_time", 108)]
    # A thread of its own begins call 9 before call 8.
    calls = [(7, 1_101_500), (9, 1_103_100), (8, 1_103_200), (10, 1_107_000), (3, 1_000_100)]
    found = events_of_nodes([*runs, *nodes], calls, began_ns=1_000_000)
    assert found == (["/a (Conv)", "/b", "/c"], [7, 8, 11, 11])


def test_nodes_on_a_gpu_are_timed_by_the_kernels_they_start(
    spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "net (float[n, 4] x) => (float[n, 4] y) {h = Relu(x) e = Exp(h) y = Softmax(e)}"
    save_text(Path(spec.model.path), text)
    monkeypatch.setitem(sys.modules, "onnxruntime", Pretended(tmp_path))  # type: ignore[arg-type]
    monkeypatch.setattr(onnxruntime, "Recorder", Recorder)
    asked = spec.having(device="cuda:0", profile=True)
    with pytest.raises(UnavailableError, match="need CUPTI"):
        onnxruntime.bench(asked, folder=tmp_path, stage=Stage())
    monkeypatch.setattr(onnxruntime.util, "find_spec", lambda name: True)
    outcome, _ = onnxruntime.bench(asked, folder=tmp_path, stage=Stage())
    found = outcome.layers.layers if outcome.layers else ()
    assert [each.name.split()[-1] for each in found] == ["(Relu)", "(Exp)", "(Softmax)"]
    assert [each.median_s for each in found] == pytest.approx([0, 0, 2e-6])
    assert outcome.evidence["layer_times"] == "kernels"
    monkeypatch.setattr(Recorder, "late_ns", 10**12)  # another clock: no call is within a node
    with pytest.raises(UnavailableError, match="cannot be timed by their kernels") as caught:
        onnxruntime.bench(asked, folder=tmp_path, stage=Stage())
    assert "do not fit to layers" in caught.value.facts["reason"]
