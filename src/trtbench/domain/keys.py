"""Which facts a record may carry, by name: their type, their unit, who fills them, what they mean.

``RunRecord.facts`` and ``conditions`` and ``Environment.extra`` are open mappings, so that records
of other versions can be read; what this version writes and reads is listed here, and tests hold
the code to it. A plug-in's own keys have a dot in them (``myruntime.tiles``) and need no entry.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

KeyKind = Literal["number", "whole", "switch", "text"]


class Key(NamedTuple):
    """One name under which something is known."""

    kind: KeyKind
    unit: str
    """``s``, ``B``, ``Hz``, ``J``, ``W``, ``1`` for shares and counts, empty where none applies."""
    filled_by: str
    """The module that writes it, below ``trtbench``."""
    meaning: str


FACTS: dict[str, Key] = {
    # queries and outputs
    "activation_bytes": Key("whole", "B", "host.tensorrt_inspect", "memory of one context"),
    "activations_by_profile": Key("text", "B", "host.tensorrt_inspect", "each profile's need"),
    "module_loading": Key("text", "", "runtimes._trt_session", "lazy, or eager: all kernels"),
    "io_bytes": Key("whole", "B", "runtimes._trt_session", "memory of inputs and outputs"),
    "memory_free_before_bytes": Key("whole", "B", "workflows.measure.watch", "before the process"),
    "memory_free_opened_bytes": Key("whole", "B", "runtimes._gpu_memory", "once CUDA was open"),
    "memory_free_bytes": Key("whole", "B", "runtimes._gpu_memory", "with all loaded and run"),
    "memory_process_bytes": Key("whole", "B", "workflows.measure.watch", "as NVML counts it"),
    "memory_of_host": Key("switch", "", "runtimes._gpu_memory", "CPU and GPU share it"),
    "memory_total_bytes": Key("whole", "B", "runtimes._gpu_memory", "of the device"),
    "memory_engine_bytes": Key("whole", "B", "runtimes._trt_bench", "taken by loading"),
    "memory_context_bytes": Key("whole", "B", "runtimes._trt_session", "taken by the first"),
    "memory_further_context_bytes": Key("whole", "B", "runtimes._trt_session", "by each further"),
    "memory_buffers_bytes": Key("whole", "B", "runtimes._trt_session", "by inputs and outputs"),
    "memory_modules_bytes": Key("whole", "B", "runtimes._trt_session", "taken by first queries"),
    "items_per_query": Key("whole", "1", "runtimes._session", "by names of dimensions"),
    "inputs_constant": Key("switch", "", "runtimes._bench", "every input holds one value only"),
    "outputs_finite": Key("switch", "", "runtimes._trt_tensors", "no NaN and no infinity"),
    "outputs_vary": Key("switch", "", "runtimes._trt_tensors", "other inputs, other outputs"),
    "outputs_repeat": Key("switch", "", "runtimes._trt_check", "same inputs, same outputs"),
    "graph_outputs_differ": Key("switch", "", "runtimes._trt_check", "of a CUDA graph, replayed"),
    "fallback_nodes": Key("whole", "1", "runtimes._ort_session", "nodes on another device"),
    "fallback_names": Key("text", "", "runtimes._ort_session", "which nodes"),
    "graph_breaks": Key("whole", "1", "runtimes._torch_session", "parts torch.compile left out"),
    "switch_to": Key("text", "", "analysis.switching", "other shapes, or another profile"),
    "switch_stay_s": Key("number", "s", "analysis.switching", "query there, after its like"),
    "switch_cost_s": Key("number", "s", "analysis.switching", "more for the first one there"),
    "switch_cost_low_s": Key("number", "s", "analysis.switching", "its interval of 95 %"),
    "switch_cost_high_s": Key("number", "s", "analysis.switching", "its interval of 95 %"),
    "switch_back_stay_s": Key("number", "s", "analysis.switching", "query here, after its like"),
    "switch_back_cost_s": Key("number", "s", "analysis.switching", "more for the first back here"),
    "switch_back_cost_low_s": Key("number", "s", "analysis.switching", "its interval of 95 %"),
    "switch_back_cost_high_s": Key("number", "s", "analysis.switching", "its interval of 95 %"),
    "time_to_steady_s": Key("number", "s", "runtimes._protocols", "from loading to steady"),
    "claimed_precision": Key("text", "", "workflows.measure.model_notes", "on record, and untrue"),
    "computes_in": Key("text", "", "runtimes._ort_trace", "none of the types that a file holds"),
    "executes_engine": Key("switch", "", "workflows.measure.launches", "an engine is what ran"),
    # work of one query
    "flops": Key("number", "1", "workflows.measure.model_notes", "operations of one query"),
    "weight_bytes": Key("whole", "B", "workflows.measure.model_notes", "all weights"),
    "parameters": Key("whole", "1", "runtimes._torch_session", "numbers that were trained"),
    "parameter_bytes": Key("whole", "B", "runtimes._torch_session", "with buffers, in memory"),
    "modules": Key("whole", "1", "runtimes._torch_session", "without modules inside"),
    # load
    "offered_hz": Key("number", "Hz", "runtimes._server", "arrivals"),
    "achieved_hz": Key("number", "Hz", "runtimes._server", "answers"),
    "late_share": Key("number", "1", "runtimes._server", "requests sent later than planned"),
    "queue_grows": Key("switch", "", "runtimes._server", "waiting times rise"),
    "busy_share": Key("number", "1", "runtimes._server", "time spent answering"),
    "abandoned": Key("whole", "1", "runtimes._server", "arrivals after the end"),
    # the device
    "gpu_index": Key("whole", "", "workflows.measure.watch", "number of the GPU for NVML"),
    "sm_clock_before_hz": Key("number", "Hz", "workflows.measure.watch", "before the timed part"),
    "sm_clock_after_hz": Key("number", "Hz", "workflows.measure.watch", "after the timed part"),
    "sm_clock_drop": Key("number", "1", "workflows.measure.watch", "largest fall in a launch"),
    "telemetry_queries": Key("whole", "1", "workflows.measure.watch", "queries of that pass"),
    "idle_power_w": Key("number", "W", "workflows.measure.watch", "before the pass"),
    "energy_per_query_j": Key("number", "J", "workflows.measure.watch", "energy of one query"),
    "energy_window_s": Key("number", "s", "workflows.measure.watch", "time energy was counted"),
    "energy_update_s": Key("number", "s", "workflows.measure.watch", "how often the counter moves"),
    "energy_counter_j": Key("number", "J", "workflows.measure.watch", "by the GPU's counter"),
    "energy_integral_j": Key("number", "J", "workflows.measure.watch", "by samples of power"),
    "energy_part_time_sensor": Key("switch", "", "workflows.measure.watch", "it looks at times"),
    "nvpmodel": Key("text", "", "host.jtop", "power mode of a Jetson"),
    "jetson_clocks": Key("switch", "", "host.jtop", "clocks held at their highest"),
    # imported
    "measured_at": Key("text", "", "workflows.importing.make", "when, by the files"),
    "built_only": Key("switch", "", "workflows.importing.make", "the log of a build, no more"),
    "engine_path": Key("text", "", "workflows.importing.make", "the engine a log names"),
    "build_s": Key("number", "s", "workflows.importing.make", "building, by the log"),
    "created_from": Key("text", "", "workflows.importing.make", "how its time is known"),
    "outcome": Key("text", "", "workflows.importing.make", "how trtexec ended, if not well"),
    "enqueue_resolution_s": Key("number", "s", "workflows.importing.make", "steps of enqueueing"),
    "items_per_s": Key("number", "Hz", "workflows.importing.make", "by the printed rate"),
}

CONDITIONS: dict[str, Key] = {
    "batch": Key("whole", "1", "trtexec.conditions", "items in one query"),
    "precision": Key("text", "", "trtexec.conditions", "types that compute, or were allowed"),
    "typing": Key("text", "", "trtexec.conditions", "strong: the types of the file hold"),
    "tf32": Key("switch", "", "trtexec.conditions", "FP32 may be rounded to TF32"),
    "transfers": Key("switch", "", "trtexec.conditions", "copies are in the query"),
    "cuda_graph": Key("switch", "", "trtexec.conditions", "queries are launched as a graph"),
    "cuda_graph_fell_back": Key("switch", "", "trtexec.conditions", "a capture failed"),
    "spin_wait": Key("switch", "", "trtexec.conditions", "the host spins for the GPU"),
    "streams": Key("whole", "1", "trtexec.conditions", "queries at a time"),
    "gap_s": Key("number", "s", "trtexec.conditions", "mean rest between queries"),
    "protocol": Key("text", "", "trtexec.conditions", "how queries follow one another"),
    "overlapping": Key("switch", "", "runtimes._trt_session", "queries overlap"),
    "memory": Key("text", "", "runtimes._trt_session", "pinned or pageable"),
    "profile_index": Key("whole", "", "runtimes._trt_session", "optimization profile"),
    "device": Key("text", "", "runtimes._trt_session", "name of the GPU"),
    "specialization": Key("text", "", "runtimes._trt_session", "when RTX makes kernels"),
    "flavour": Key("text", "", "build.builders._python_api", "which TensorRT built it"),
    "providers": Key("text", "", "runtimes._ort_session", "execution providers in order"),
    "threads": Key("whole", "1", "runtimes._ort_session", "threads within an operator"),
    "spinning": Key("text", "", "runtimes._ort_session", "whether idle threads spin"),
    "waiting": Key("text", "", "runtimes._torch_session", "how idle threads wait"),
    "io_binding": Key("switch", "", "runtimes._ort_session", "tensors live on the device"),
    "placement": Key("text", "", "runtimes._ort_session", "nodes by provider"),
    "autocast": Key("switch", "", "runtimes._torch_session", "PyTorch chooses types"),
    "compile": Key("text", "", "runtimes._torch_session", "mode of torch.compile, or eager"),
    "channels_last": Key("switch", "", "runtimes._torch_session", "memory format of images"),
    "cudnn_benchmark": Key("switch", "", "runtimes._torch_session", "cuDNN tries algorithms"),
    "loaded_as": Key("text", "", "runtimes._torch_session", "what kind of PyTorch model"),
    "interleaved": Key("text", "", "runtimes._duet", "how two sides took turns"),
    "arrivals": Key("text", "", "runtimes._protocols", "how requests are spread in time"),
    "clocks_locked": Key("switch", "", "workflows.measure.watch", "the GPU's clock was locked"),
}

MACHINE: dict[str, Key] = {
    "python_path": Key("text", "", "host.environment", "interpreter of the parent"),
    "turbo": Key("switch", "", "host.environment", "the CPU may go above its base clock"),
    "smt": Key("switch", "", "host.environment", "two threads share a core"),
    "allowed_cpus": Key("text", "", "host.environment", "CPUs this process may use"),
    "container": Key("switch", "", "host.environment", "inside a container"),
    "cuda_visible_devices": Key("text", "", "host.environment", "GPUs this process may use"),
    "mps_daemon": Key("text", "", "host.environment", "folder of its pipes, where it runs"),
    "mps_memory_limit": Key("text", "", "host.environment", "of a client, by device"),
    "mps_thread_percentage": Key("text", "", "host.environment", "share of the SMs under MPS"),
    "variables": Key("text", "", "host.environment", "those that libraries obey, NAME=VALUE"),
    "board": Key("text", "", "host.machine", "name of an embedded board"),
    "l4t": Key("text", "", "host.machine", "release of Linux for Tegra"),
    "nvpmodel": Key("text", "", "host.machine", "power mode of a Jetson"),
    "cpu_steal_fraction_since_boot": Key("number", "1", "host.contention", "taken by others"),
    "pressure_fraction_10s": Key("number", "1", "host.contention", "tasks that waited for a CPU"),
    "cpu_quota_cores": Key("number", "1", "host.contention", "cores a container may use"),
    "throttled_s_so_far": Key("number", "s", "host.contention", "stopped by the quota"),
    "memory_limit_bytes": Key("whole", "B", "host.contention", "of the container"),
    "elapsed_s": Key("number", "s", "host.contention", "of the whole measurement"),
    "cpu_busy_fraction": Key("number", "1", "host.contention", "of all CPUs meanwhile"),
    "cpu_steal_fraction": Key("number", "1", "host.contention", "taken by the hypervisor"),
    "pressure_fraction": Key("number", "1", "host.contention", "tasks that waited for a CPU"),
    "throttled_s": Key("number", "s", "host.contention", "stopped by the quota meanwhile"),
}

GPU_SIGNS: dict[str, Key] = {
    "processes": Key("whole", "1", "host.nvml", "other processes on the GPU"),
    "utilisation": Key("number", "1", "host.nvml", "busy before the start"),
    "display": Key("switch", "", "host.nvml", "a screen hangs on it"),
    "mig": Key("switch", "", "host.nvml", "divided into slices"),
    "mps": Key("switch", "", "host.nvml", "shared by MPS"),
    "exclusive": Key("switch", "", "host.nvml", "one process at a time"),
}
"""In ``Environment.extra`` with the GPU's number in front: ``gpu0_processes``."""

_KINDS: dict[KeyKind, tuple[type, ...]] = {
    "number": (int, float),
    "whole": (int,),
    "switch": (bool,),
    "text": (str,),
}


def problem_of(name: str, value: object, register: dict[str, Key]) -> str | None:
    """Say what is wrong with a fact by the register; ``None`` is right or not known."""
    key = register.get(name)
    if key is None:
        return None if "." in name else f"{name} is not in the register"
    fits = isinstance(value, _KINDS[key.kind])
    if isinstance(value, bool) and key.kind != "switch":
        fits = False
    return None if value is None or fits else f"{name} is no {key.kind}: {value!r}"
