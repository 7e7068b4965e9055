"""When work ran on a GPU, and what it moved, by CUPTI, NVIDIA's profiling interface.

Work is kernels, copies and memory sets, also those of CUDA graphs. It is numbered by the call that
enqueued it, as calls that record a CUDA event are. Does not know what is computed. Times come from
activity records (package cupti-python), hardware counters from the range profiler of libcupti.
"""

import ctypes
import importlib
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

Work = tuple[int, int, str, int, int]  # call, node in a graph, name, begin and end in ns
Call = tuple[int, int]  # its number, and its begin in ns
COPY, MEMSET = "copy", "memset"  # names of work that is no kernel
COUNTERS = (b"dram__bytes.sum", b"sm__cycles_active.avg.pct_of_peak_sustained_elapsed")
"""One pass reads both, so that no kernel has to be repeated, which would change what L2 holds."""
_U16, _U32, _SIZE, _POINTER = ctypes.c_uint16, ctypes.c_uint32, ctypes.c_size_t, ctypes.c_void_p
Field = ctypes.c_uint8 | ctypes.c_uint16 | ctypes.c_uint32 | ctypes.c_size_t | ctypes.c_void_p


class Recorder:
    """Records the work of this process; raises various exceptions if CUPTI cannot be used."""

    def __init__(self) -> None:
        # Packages of NVIDIA have the library in folders that the linker does not search.
        found = find_spec("nvidia")
        folders = found.submodule_search_locations if found else None
        for folder in folders or ():
            for library in Path(folder).glob("*/lib/libcupti.so.1[0-9]"):
                ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        self._api: ModuleType = importlib.import_module("cupti.cupti")
        kinds, calls = self._api.ActivityKind, self._api.driver_api_trace_cbid.__members__
        self._names = {kinds.CONCURRENT_KERNEL: None, kinds.MEMCPY: COPY, kinds.MEMSET: MEMSET}
        self._kinds_of_calls = kinds.DRIVER, kinds.RUNTIME
        self._marks = {int(calls[name]) for name in calls if name.startswith("cuEventRecord")}
        self._work: list[Work] = []
        self._calls: list[Call] = []
        self._every = False
        self._api.activity_register_callbacks(lambda: (8 << 20, 0), self._take)
        self.record(lambda: None, events=True)  # CUPTI begins now

    def record(
        self, run: Callable[[], object], *, events: bool = False, calls: bool = False
    ) -> tuple[list[Work], list[Call]]:
        """Return the work of a call, which must wait for it, and calls: of ``events``, or all."""
        kinds = [*self._names, *self._kinds_of_calls[: 2 if calls else events]]
        self._work, self._calls, self._every = [], [], calls
        for kind in kinds:
            self._api.activity_enable(kind)
        try:
            run()
        finally:
            self._api.activity_flush_all(1)  # also of buffers that are not full
            for kind in kinds:
                self._api.activity_disable(kind)
        return sorted(self._work), sorted(self._calls)

    def ahead_ns(self) -> int:
        """Return by how much the clock of records is ahead of the system's."""
        return int(self._api.get_timestamp()) - time.time_ns()

    def _take(self, activities: Sequence[SimpleNamespace]) -> None:
        for each in activities:
            if each.kind in self._names:
                name = self._names[each.kind] or each.name
                numbers = each.correlation_id, int(each.graph_node_id)
                self._work.append((*numbers, name, each.start, each.end))
            elif self._every or each.cbid in self._marks:
                self._calls.append((each.correlation_id, each.start))


def counters_of(run: Callable[[], object], *, kernels: int) -> list[tuple[float, ...]]:
    """Return the ``COUNTERS`` of each kernel of a call, which must wait for them, not in a graph.

    Raises RuntimeError with the name of the call that CUPTI refused, and OSError or AttributeError
    without a CUPTI that has it (12.6 or later).
    """
    driver, context, device = ctypes.CDLL("libcuda.so.1"), _POINTER(), ctypes.c_int()
    driver.cuCtxGetCurrent(ctypes.byref(context))
    driver.cuCtxGetDevice(ctypes.byref(device))
    chip = _call("cuptiDeviceGetChipName", _SIZE(device.value), _POINTER())[1]
    _call("cuptiProfilerInitialize")
    empty = _POINTER()
    host = _POINTER(_call("cuptiProfilerHostInitialize", _U32(), _POINTER(chip), empty, empty)[3])
    names = (ctypes.c_char_p * len(COUNTERS))(*COUNTERS)
    wanted = ctypes.cast(names, _POINTER), _SIZE(len(COUNTERS))
    _call("cuptiProfilerHostConfigAddMetrics", host, *wanted)
    config = _buffer(_call("cuptiProfilerHostGetConfigImageSize", host, _SIZE())[1])
    _call("cuptiProfilerHostGetConfigImage", host, *config)
    profiler = _POINTER(_call("cuptiRangeProfilerEnable", context, _POINTER())[1])
    try:
        most = _SIZE(kernels), _U32(kernels)
        data = _buffer(
            _call("cuptiRangeProfilerGetCounterDataSize", profiler, *wanted, *most, _SIZE())[5]
        )
        _call("cuptiRangeProfilerCounterDataImageInitialize", profiler, *data)
        by_kernel = _U32(1), _U32(2), most[0]  # CUPTI_AutoRange, CUPTI_KernelReplay
        level = _U16(1), _U16(1), _SIZE(), _U16()
        _call("cuptiRangeProfilerSetConfig", profiler, *config, *data, *by_kernel, *level)
        _call("cuptiRangeProfilerStart", profiler)
        run()
        _call("cuptiRangeProfilerStop", profiler, _SIZE(), _SIZE(), ctypes.c_uint8())
        _call("cuptiRangeProfilerDecodeData", profiler, _SIZE())
        image = data[1], data[0]
        found = _call("cuptiRangeProfilerGetCounterDataInfo", *image, _SIZE())[2]
        rows = []
        for index in range(found):
            values = (ctypes.c_double * len(COUNTERS))()
            kernel = *image, _SIZE(index), *wanted, ctypes.cast(values, _POINTER)
            _call("cuptiProfilerHostEvaluateToGpuValues", host, *kernel)
            rows.append(tuple(values))
        return rows
    finally:
        _call("cuptiRangeProfilerDisable", profiler)
        _call("cuptiProfilerHostDeinitialize", host)


def _buffer(size: int) -> tuple[ctypes.c_size_t, ctypes.c_void_p]:
    return _SIZE(size), ctypes.cast(ctypes.create_string_buffer(size), _POINTER)


def _call(name: str, *fields: Field) -> list[int]:
    """Call a function of CUPTI with a structure of these fields; returns their values after it."""
    kinds: list[tuple[str, type[Field]]] = [("size", _SIZE), ("private", _POINTER)]
    kinds += [(f"field_{place}", type(each)) for place, each in enumerate(fields)]
    structure = type("Parameters", (ctypes.Structure,), {"_fields_": kinds})
    last = getattr(structure, kinds[-1][0])
    given = structure(last.offset + last.size, None, *fields)
    library, text = ctypes.CDLL(None), ctypes.c_char_p()  # which the recorder has loaded
    if status := library[name](ctypes.byref(given)):
        library.cuptiGetResultString(status, ctypes.byref(text))
        raise RuntimeError(f"{name}: {(text.value or b'').decode() or status}")
    return [getattr(given, kind) for kind, _ in kinds[2:]]
