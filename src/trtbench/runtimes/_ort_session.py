"""Sessions of ONNX Runtime with their inputs bound: handed over with each call, or on a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.onnx_stamp import notes_from_metadata
from trtbench.domain.arrays import Arrays
from trtbench.domain.result import Fact, Scalar
from trtbench.domain.samples import LayerProfile
from trtbench.domain.spec import MAP, NO_TENSORS, OPTIONAL, SEQUENCE, SPARSE, RunSpec, TensorSpec
from trtbench.errors import InputError
from trtbench.host.cuda import index_of
from trtbench.runtimes._ort_providers import CPU, short_name
from trtbench.runtimes._ort_trace import (
    computed_elsewise,
    end_trace,
    listed,
    nodes_and_providers,
    profile_nodes,
    traced,
)
from trtbench.runtimes._session import Session

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, NodeArg, OrtValue

_TYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bfloat16)": "bfloat16",
    **{f"tensor({u}int{n})": f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)},
    "tensor(bool)": "bool",
    "tensor(string)": "str",
}
_KINDS = {"seq": SEQUENCE, "map": MAP, "sparse_tensor": SPARSE, "optional": OPTIONAL}


class OrtSession(Session):
    """One ``InferenceSession`` with its inputs bound."""

    def __init__(
        self,
        session: InferenceSession,
        spec: RunSpec,
        *,
        profiling: Callable[[], InferenceSession] | None = None,
    ) -> None:
        self._session, self._model = session, spec.model
        self._profiling = profiling
        self._feed: dict[str, NDArray[np.generic]] = {}
        self.inputs = tuple(_tensor(each) for each in session.get_inputs())
        found = [_tensor(each) for each in session.get_outputs()]
        self.outputs = tuple(each for each in found if each.dtype not in NO_TENSORS)
        self.notes = notes_from_metadata(session.get_modelmeta().custom_metadata_map)
        self._names = [each.name for each in found]
        if spec.options.get("spinning") == "run":
            self.notes += ("its pool of threads stopped whenever a query ended",)
        threads = int(session.get_session_options().intra_op_num_threads) or None
        self.conditions = {
            "providers": Fact(value=",".join(session.get_providers())),
            "threads": Fact(value=threads, source="stated" if threads else "implied"),
            "spinning": Fact(
                value=spec.options.get("spinning", "on"),
                source="stated" if "spinning" in spec.options else "implied",
            ),
            "streams": Fact(value=1),
        }

    def bind(self, arrays: Arrays) -> None:
        self._feed = {name: np.ascontiguousarray(array) for name, array in arrays.items()}

    def step(self) -> Callable[[], object]:
        """Make one call of ``run`` on bound inputs, as a caller would write it."""
        return partial(self._session.run, self._names, self._feed)

    def query(self, arrays: Arrays, *, profile: int = 0) -> Callable[[], object]:
        """Do as ``step``, on inputs of its own."""
        feed = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        return partial(self._session.run, self._names, feed)

    def fetch(self) -> dict[str, NDArray[np.generic]]:
        names = [tensor.name for tensor in self.outputs]
        return dict(zip(names, self._session.run(names, self._feed), strict=True))

    def look_back(self) -> dict[str, Scalar]:
        """Run once with a trace: a file may hold types that no node of it computes in here."""
        if self._profiling is None:
            return {}
        session, names, feed = self._profiling, self._names, self._feed
        return computed_elsewise(self._model, lambda: traced(session(), names, feed))

    def profile_layers(self) -> tuple[LayerProfile, float | None]:
        """Time every node in a second session, where the profiler is on."""
        if self._profiling is None:
            return super().profile_layers()
        session = self._profiling()
        return profile_nodes(session, partial(session.run, self._names, self._feed)), None


class BoundSession(OrtSession):
    """The same with tensors on the device, and a count of the nodes that ran elsewhere.

    Inputs and outputs are bound once; what a query copies is what it must.
    """

    def __init__(
        self, onnxruntime: ModuleType, session: InferenceSession, spec: RunSpec, *, device: str
    ) -> None:
        super().__init__(session, spec)
        self._place = ("cpu", 0) if device == "cpu" else ("cuda", index_of(device))
        self._make = onnxruntime.OrtValue.ortvalue_from_numpy
        self._binding = session.io_binding()
        self._values: list[OrtValue] = []
        self._transfers = spec.transfers
        self._traced = device != "cpu"
        self.evidence: dict[str, Scalar] = {}
        self.conditions |= {
            "transfers": Fact(value=spec.transfers),
            "memory": Fact(value="pageable"),
            "io_binding": Fact(value=True),
        }

    def bind(self, arrays: Arrays) -> None:
        """Place inputs on the device, and let outputs be allocated there."""
        super().bind(arrays)
        self._values = [self._make(array, *self._place) for array in self._feed.values()]
        self._binding.clear_binding_inputs()
        self._binding.clear_binding_outputs()
        for name, value in zip(self._feed, self._values, strict=True):
            self._binding.bind_ortvalue_input(name, value)
        for tensor in self.outputs:
            self._binding.bind_output(tensor.name, *self._place)

    def first(self) -> None:
        """Run once with a trace, which tells where each node ran."""
        self._bound_step(transfers=True)()
        if not self._traced:
            return
        self._traced = False
        placed = nodes_and_providers(end_trace(self._session))
        elsewhere = [node for node, provider in placed.items() if provider == CPU]
        self.evidence["fallback_nodes"] = len(elsewhere)
        if elsewhere:
            self.evidence["fallback_names"] = listed(elsewhere)
        counts = Counter(short_name(provider) for provider in placed.values())
        placement = ", ".join(f"{name} {count}" for name, count in counts.most_common())
        self.conditions["placement"] = Fact(value=placement or None)

    def step(self) -> Callable[[], object]:
        return self._bound_step(transfers=self._transfers)

    def _bound_step(self, *, transfers: bool) -> Callable[[], object]:
        """Make a query: copies in and out around the run, or the run and a wait for its end."""
        run, binding = self._session.run_with_iobinding, self._binding
        pairs = list(zip(self._values, self._feed.values(), strict=True))
        fetch, wait = binding.copy_outputs_to_cpu, binding.synchronize_outputs

        def whole() -> object:
            for value, host in pairs:
                value.update_inplace(host)
            run(binding)
            return fetch()

        def bare() -> object:
            run(binding)
            return wait()

        return whole if transfers else bare

    def fetch(self) -> dict[str, NDArray[np.generic]]:
        self._bound_step(transfers=True)()
        names = [tensor.name for tensor in self.outputs]
        return dict(zip(names, self._binding.copy_outputs_to_cpu(), strict=True))


def _tensor(value: NodeArg) -> TensorSpec:
    kind = _KINDS.get(value.type.partition("(")[0])
    if kind is not None:
        return TensorSpec(name=value.name, dtype=kind, shape=())
    dtype = _TYPES.get(value.type)
    if dtype is None:
        raise InputError(
            f"the tensor {value.name!r} has a type that cannot be fed", facts={"type": value.type}
        )
    return TensorSpec(name=value.name, dtype=dtype, shape=tuple(value.shape))
