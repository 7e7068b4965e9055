"""The log of the stand-in, in the wording of its version."""

import sys
import time
from typing import Any

from standin_options import Options


class Log:
    """Writes lines as trtexec of one version does."""

    def __init__(self, version: str, arguments: list[str]) -> None:
        major, minor, patch = (int(part) for part in version.split("."))
        self.version, self.major = version, major
        digits = f"{major}{minor}{patch:02}" if major < 10 else f"{major}{minor:02}{patch:02}"
        build = " [b34]" if (major, minor) >= (10, 4) else ""
        self._tail = f"TensorRT.trtexec [TensorRT v{digits}]{build} # " + " ".join(arguments)

    def banner(self, kind: str) -> None:
        self.raw(f"&&&& {kind} {self._tail}")

    def raw(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def say(self, *texts: str, level: str = "I") -> None:
        stamp = time.strftime("[%m/%d/%Y-%H:%M:%S]")
        for text in texts:
            self.raw(f"{stamp} [{level}] {text}")

    def block(self, name: str, entries: dict[str, str]) -> None:
        self.say(f"=== {name} ===", *(f"{key}: {value}" for key, value in entries.items()))

    def options(self, options: Options) -> None:
        """Print every block of options."""
        onnx = options.text("--onnx")
        if self.major >= 10 and self.major < 11 and not options.has("--noTF32"):
            self.say("TF32 is enabled by default. Add --noTF32 flag for more accuracy.")
        self.block(
            "Model Options", {"Format": "ONNX" if onnx else "*", "Model": onnx, "Output": ""}
        )
        if self.major < 10 or onnx:
            self.block("Build Options", _build_options(options, major=self.major))
        self.block("System Options", {"Device": options.text("--device", "0"), "DLACore": ""})
        self.say("")
        self.block(
            "Inference Options",
            _inference_options(options, explicit=self.major >= 10 or bool(onnx)),
        )
        self.block("Reporting Options", _reporting_options(options))
        self.say("")
        device = {"Selected Device": "Stand-in GPU"}
        if self.major >= 10:
            self.say("=== Device Information ===", "Available Devices: ")
            self.say('  Device 0: "Stand-in GPU" UUID: GPU-0000')
            self.say("Selected Device: Stand-in GPU", "Selected Device ID: 0")
        else:
            self.block("Device Information", device)
        self.say("Compute Capability: 9.0", "SMs: 132", "Memory Bus Width: 6016 bits (ECC enabled)")
        self.say("", f"TensorRT version: {self.version}", "Loading standard plugins")

    def summary(self, statistics: Any, *, enqueue_bound: bool) -> None:
        """Print the performance summary; the numbers come from the exported times."""
        self.say("", "=== Performance summary ===")
        self.say(f"Throughput: {statistics.throughput_qps:.6g} qps")
        order = ("Latency", "Enqueue Time", "H2D Latency", "GPU Compute Time", "D2H Latency")
        for label in order:
            parts = [f"{k} = {v:.6g} ms" for k, v in statistics.metrics[label].items()]
            self.say(f"{label}: {', '.join(parts)}")
        self.say(f"Total Host Walltime: {statistics.wall_s:.6g} s")
        self.say(f"Total GPU Compute Time: {statistics.gpu_total_s:.6g} s")
        if enqueue_bound:
            bound = "* Throughput may be bound by Enqueue Time rather than GPU Compute and the GPU"
            self.say(f"{bound} may be under-utilized.", level="W")
        self.say("Explanations of the performance metrics are printed in the verbose logs.", "")

    def profile(self, layers: list[dict[str, Any]], *, count: int) -> None:
        """Print the table of layers with the name last, as from 8.6.1 on; zero times are hidden."""
        self.say("", f"=== Profile ({count} iterations ) ===")
        self.say("   Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer")
        keys = ("timeMs", "averageMs", "medianMs", "percentage")
        total = {"name": "Total", **{key: sum(layer[key] for layer in layers) for key in keys}}
        for layer in [*layers, total]:
            if layer["timeMs"]:
                first, second, third, share = (layer[key] for key in keys)
                row = f"{first:11.2f}{second:13.4f}{third:13.4f}{share:10.1f}"
                self.say(f"{row}   {layer['name']}")
        self.say("")

    def failed(self, *lines: str) -> int:
        self.say(*lines, level="E")
        self.banner("FAILED")
        return 1


def _state(on: bool) -> str:
    return "Enabled" if on else "Disabled"


def _build_options(options: Options, *, major: int) -> dict[str, str]:
    pool = options.text("--memPoolSize").partition(":")[2]
    entries = (
        {"Max batch": "explicit batch" if options.has("--onnx") else "1"} if major < 10 else {}
    )
    entries |= {
        "Memory Pools": f"workspace: {pool + ' MiB' if pool else 'default'}, dlaSRAM: default",
        "Precision": options.precision,
        "Refit": _state(options.has("--refit")),
        "Version Compatible": _state(options.has("--versionCompatible")),
        "Tempfile Controls": "{ in_memory: allow, temporary: allow }",
        "Skip inference": _state(options.only_builds),
        "Save engine": options.text("--saveEngine"),
        "Load engine": options.text("--loadEngine"),
        "Profiling verbosity": "2" if options.text("--profilingVerbosity") == "detailed" else "0",
        "timingCacheMode": "global" if options.has("--timingCacheFile") else "local",
        "timingCacheFile": options.text("--timingCacheFile"),
        "Input(s)s format": "fp32:CHW",
    }
    for name in options.shapes("--optShapes"):
        ends = [
            options.shapes(flag)[name] for flag in ("--minShapes", "--optShapes", "--maxShapes")
        ]
        entries["Input build shape"] = f"{name}={'+'.join(ends)}"
    return entries


def _inference_options(options: Options, *, explicit: bool) -> dict[str, str]:
    shapes = options.shapes("--shapes")
    shown = {"Input inference shape": ",".join(f"{n}={s}" for n, s in shapes.items())}
    warm = options.text("--warmUp", "200")
    return {
        "Batch": "Explicit" if explicit else "1",
        **(shown if shapes else {"Input inference shapes": "model"}),
        "Iterations": options.text("--iterations", "10"),
        "Duration": f"{options.text('--duration', '3')}s (+ {warm}ms warm up)",
        "Idle time": f"{options.text('--idleTime', '0')}ms",
        "Inference Streams": options.text("--infStreams", options.text("--streams", "1")),
        "ExposeDMA": _state(options.has("--exposeDMA")),
        "Data transfers": _state(options.transfers),
        "Spin-wait": _state(options.spin),
        "CUDA Graph": _state(options.graph),
        "Separate profiling": _state(options.separate),
        "Inputs": "",
    }


def _reporting_options(options: Options) -> dict[str, str]:
    return {
        "Verbose": _state(options.has("--verbose")),
        "Averages": f"{options.text('--avgRuns', '10')} inferences",
        "Percentiles": options.text("--percentile", "90,95,99"),
        "Profile": _state(options.profile),
        "Export timing to JSON file": options.text("--exportTimes"),
        "Export output to JSON file": "",
        "Export profile to JSON file": options.text("--exportProfile"),
    }
