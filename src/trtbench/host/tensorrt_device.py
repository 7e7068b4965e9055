"""Whether there is a GPU to build on, and a little memory on it, through the CUDA driver alone.

TensorRT may crash instead of raising where the driver is missing, so somebody must look first.
Calibrators need plain device memory and nothing else; no CUDA library is needed for that.
"""

from __future__ import annotations

import ctypes

import numpy as np

from trtbench.domain.arrays import AnyArray
from trtbench.errors import UnavailableError

DRIVER = "libcuda.so.1"


def driver_problem(*, library: str = DRIVER) -> str | None:
    """Say why nothing can be built on a GPU here; ``None`` when there is one."""
    try:
        driver = ctypes.CDLL(library)
    except OSError:
        return "there is no NVIDIA driver (libcuda.so.1 is not found)"
    status = driver.cuInit(0)
    if status:
        return f"the NVIDIA driver does not start: {_error_name(driver, status)}"
    count = ctypes.c_int()
    status = driver.cuDeviceGetCount(ctypes.byref(count))
    if status or not count.value:
        return "the NVIDIA driver lists no GPU"
    return None


class DeviceArray:
    """Memory on the GPU that holds one numpy array."""

    def __init__(self, size_bytes: int, *, device: int = 0, library: str = DRIVER) -> None:
        self._driver = ctypes.CDLL(library)
        self._device = device
        self._use_context()
        pointer = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size_bytes))
        self.pointer = int(pointer.value)
        self.size_bytes = size_bytes

    def fill(self, values: AnyArray) -> None:
        """Copy an array of the same size from the host."""
        values = np.ascontiguousarray(values)
        if values.nbytes != self.size_bytes:
            raise ValueError(f"{values.nbytes} bytes do not fill {self.size_bytes}")
        source = values.ctypes.data_as(ctypes.c_void_p)
        target, size = ctypes.c_uint64(self.pointer), ctypes.c_size_t(values.nbytes)
        self._use_context()
        self._call("cuMemcpyHtoD_v2", target, source, size)

    def close(self) -> None:
        if self.pointer:
            self._driver.cuMemFree_v2(ctypes.c_uint64(self.pointer))
            self.pointer = 0

    def _use_context(self) -> None:
        """Use the primary context, which TensorRT uses as well; callers may be any thread."""
        self._call("cuInit", 0)
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device)
        self._call("cuCtxSetCurrent", context)

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._driver, name)(*arguments)
        if status:
            raise UnavailableError(
                "memory on the GPU cannot be used",
                facts={"call": name, "reason": _error_name(self._driver, status)},
            )


def _error_name(driver: ctypes.CDLL, status: int) -> str:
    text = ctypes.c_char_p()
    if driver.cuGetErrorName(status, ctypes.byref(text)) or not text.value:
        return f"error {status}"
    return text.value.decode("ascii", "replace")
