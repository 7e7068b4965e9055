"""The allowed values of flags and records, in a module that is quick to import."""

from typing import Literal

Protocol = Literal["serve", "pipeline", "gpu", "coldl2", "server", "first"]
"""How queries follow one another; every number is shown with it.

serve     one query, wait, next: the latency of a synchronous caller
pipeline  two queries in flight on separate copy and compute streams: trtexec up to TensorRT 10
gpu       no transfers, CUDA graph, back to back: trtexec 11
coldl2    as gpu, with the L2 cache emptied before each query, outside its time
server    open-loop arrivals; latency counts from the scheduled start
first     load, first inference, time to steady
"""

CudaGraph = Literal["off", "on", "auto"]

Arrivals = Literal["poisson", "constant", "trace"]
"""How queries are spread in time; ``trace``, a recorded series, is in older records only."""

Precision = Literal["fp32", "tf32", "fp16", "bf16", "int8", "fp8", "best"]

ModelFormat = Literal["onnx", "engine", "torch", "folder", "unknown"]

Mode = Literal["auto", "one-process", "lock-step", "bursts", "launches"]  # how sides take turns

Scalar = float | int | str | bool | None
