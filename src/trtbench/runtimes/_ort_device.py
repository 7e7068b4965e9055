"""ONNX Runtime on a device: tensors bound there, and which nodes ran elsewhere after all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trtbench.runtimes._ort_layers import KERNEL, TraceEvent

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

_NAMED = 8
"""Nodes that are named where nodes are listed; the rest are counted."""


class IoBinding:
    """Inputs and outputs bound to a device once; what a query copies is what it must."""

    def __init__(
        self, onnxruntime: ModuleType, session: InferenceSession, *, device: str, index: int
    ) -> None:
        self._ort, self._session = onnxruntime, session
        self._device, self._index = device, index
        self._binding = session.io_binding()
        self._hosts: list[NDArray[np.generic]] = []
        self._values: list[Any] = []

    def bind(self, feed: dict[str, NDArray[np.generic]], outputs: list[str]) -> None:
        """Place inputs on the device, and let outputs be allocated there."""
        make = self._ort.OrtValue.ortvalue_from_numpy
        self._hosts = list(feed.values())
        self._values = [make(array, self._device, self._index) for array in self._hosts]
        self._binding.clear_binding_inputs()
        self._binding.clear_binding_outputs()
        for name, value in zip(feed, self._values, strict=True):
            self._binding.bind_ortvalue_input(name, value)
        for name in outputs:
            self._binding.bind_output(name, self._device, self._index)

    def step(self, *, transfers: bool) -> Callable[[], object]:
        """One query: copies in and out around the run, or the run alone and a wait for its end."""
        run, binding = self._session.run_with_iobinding, self._binding
        pairs = list(zip(self._values, self._hosts, strict=True))
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

    def fetch(self) -> list[NDArray[np.generic]]:
        self.step(transfers=True)()
        found: list[NDArray[np.generic]] = self._binding.copy_outputs_to_cpu()
        return found


def nodes_and_providers(events: Iterable[TraceEvent]) -> dict[str, str]:
    """Tell which provider ran each node, from the trace of one run."""
    placed: dict[str, str] = {}
    for event in events:
        arguments = event.get("args", {})
        if event.get("cat") == "Node" and "provider" in arguments:
            name = event["name"].removesuffix(KERNEL)
            placed[name] = arguments["provider"]
    return placed


def listed(nodes: Sequence[str]) -> str:
    """Name the first few of many nodes."""
    more = len(nodes) - _NAMED
    return ", ".join(nodes[:_NAMED]) + (f" and {more} more" if more > 0 else "")
