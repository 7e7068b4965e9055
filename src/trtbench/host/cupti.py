"""When work ran on a GPU, recorded by CUPTI, NVIDIA's profiling interface (package cupti-python).

Work is kernels, copies and memory sets, also those of CUDA graphs. It is numbered by the call that
enqueued it, as calls that record a CUDA event are. Does not know what is computed.
"""

import ctypes
import importlib
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

Work = tuple[int, int, str, int, int]  # call, node in a graph, name, begin and end in ns


class Recorder:
    """Records the work of this process; raises various exceptions if CUPTI cannot be used."""

    def __init__(self) -> None:
        # Packages of NVIDIA have the library in folders that the linker does not search.
        found = find_spec("nvidia")
        for folder in found.submodule_search_locations or () if found else ():
            for library in Path(folder).glob("*/lib/libcupti.so.1[0-9]"):
                ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        self._api: ModuleType = importlib.import_module("cupti.cupti")
        kinds, calls = self._api.ActivityKind, self._api.driver_api_trace_cbid.__members__
        self._names = {kinds.CONCURRENT_KERNEL: None, kinds.MEMCPY: "copy", kinds.MEMSET: "memset"}
        self._call = kinds.DRIVER
        self._marks = {int(calls[name]) for name in calls if name.startswith("cuEventRecord")}
        self._work: list[Work] = []
        self._events: list[int] = []
        self._api.activity_register_callbacks(lambda: (8 << 20, 0), self._take)

    def record(
        self, run: Callable[[], object], *, events: bool = False
    ) -> tuple[list[Work], list[int]]:
        """Return the work of a call, which must wait for it, and event numbers if wanted."""
        kinds = [*self._names, *([self._call] if events else [])]
        self._work, self._events = [], []
        for kind in kinds:
            self._api.activity_enable(kind)
        try:
            run()
        finally:
            self._api.activity_flush_all(1)  # also of buffers that are not full
            for kind in kinds:
                self._api.activity_disable(kind)
        return sorted(self._work), sorted(self._events)

    def _take(self, activities: Sequence[SimpleNamespace]) -> None:
        for each in activities:
            if each.kind in self._names:
                name = self._names[each.kind] or each.name
                numbers = each.correlation_id, int(each.graph_node_id)
                self._work.append((*numbers, name, each.start, each.end))
            elif each.cbid in self._marks:
                self._events.append(each.correlation_id)
