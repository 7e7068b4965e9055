"""Small logs of our own making, in the wording of each generation of trtexec."""

from collections.abc import Iterable

STAMP = "[03/04/2025-05:06:07]"


def lines(*texts: str, level: str = "I") -> list[str]:
    """Write before messages the prefix trtexec puts before them."""
    return [f"{STAMP} [{level}] {text}" for text in texts]


def block(name: str, entries: Iterable[str]) -> list[str]:
    return lines(f"=== {name} ===", *entries)


def text(parts: Iterable[str]) -> str:
    return "\n".join(parts) + "\n"


def banner(kind: str, *, version: str = "", command: str = "trtexec --loadEngine=a.plan") -> str:
    tag = f" [TensorRT v{version}]" if version and " " not in version else ""
    if " " in version:
        digits, build = version.split()
        tag = f" [TensorRT v{digits}] [{build}]"
    return f"&&&& {kind} TensorRT.trtexec{tag} # {command}"


def options(**changes: str) -> list[str]:
    """Find the blocks of options, with some values of the inference options changed."""
    inference = {
        "Batch": "Explicit",
        "Iterations": "10",
        "Duration": "3s (+ 200ms warm up)",
        "Inference Streams": "1",
        "ExposeDMA": "Disabled",
        "Data transfers": "Enabled",
        "Spin-wait": "Disabled",
        "CUDA Graph": "Disabled",
        **changes,
    }
    return [
        *block("Model Options", ["Format: ONNX", "Model: net.onnx", "Output:"]),
        *block(
            "Build Options",
            [
                "Memory Pools: workspace: 64 MiB, dlaSRAM: default",
                "Precision: FP32+FP16",
                "Tempfile Controls: { in_memory: allow, temporary: deny }",
                "Load engine: ",
                "Input build shape: a=1x3+2x3+4x3",
                "Input build shape: b:0=1+2+4",
            ],
        ),
        *lines(""),
        *block("Inference Options", [f"{name}: {value}" for name, value in inference.items()]),
        *block("Reporting Options", ["Percentiles: 50,99.9", "Dump refittable layers:Disabled"]),
        *lines(""),
        *block(
            "Device Information",
            [
                "Available Devices: ",
                '  Device 0: "Test GPU" UUID: GPU-0:1:2',
                "Selected Device: Test GPU",
                "Memory Bus Width: 384 bits (ECC disabled)",
            ],
        ),
        *lines("", "TensorRT version: 10.3.0"),
    ]


BUILD = [
    *lines(
        "[TRT] [MemUsageChange] Init CUDA: CPU +2, GPU -1, now: CPU 25, GPU 526 (MiB)",
        "[TRT] Opset version:    17",
        "Finished parsing network model. Parse time: 0.25",
        "[TRT] Global timing cache in use. Profiling results will be stored.",
        "[TRT] Total Host Persistent Memory: 5328 bytes",
        "[TRT] Engine generation completed in 7.5 seconds.",
        "[TRT] [MemUsageStats] Peak memory usage of TRT CPU/GPU memory allocators: "
        "CPU 3 MiB, GPU 13 MiB",
        "Saved 294419 bytes of timing cache to t.cache",
        "Created engine with size: 12.5 MiB",
        "Engine built in 8.25 sec.",
        "Engine deserialized in 0.5 sec.",
        "Input binding for a with dimensions 4x3 and type fp32 is created.",
        "Output binding for y with dimensions 4x10 and type fp16 is created.",
        "Warmup completed 7 queries over 200 ms",
        "Timing trace has 20 queries over 3.5 s",
    )
]

SUMMARY_10 = [
    *lines("", "=== Trace details ===", "Trace averages of 10 runs:"),
    *lines("Average on 10 runs - GPU latency: 0.5 ms - Host latency: 0.75 ms (enqueue 0.125 ms)"),
    *lines("... Omitting 12 lines", "", "=== Performance summary ==="),
    *lines(
        "Throughput: 1234.5 qps",
        "Latency: min = 0.7 ms, max = 0.9 ms, mean = 0.8 ms, median = 0.81 ms, "
        "percentile(50%) = 0.81 ms, percentile(99.9%) = 0.9 ms",
        "GPU Compute Time: min = 0.4 ms, max = 0.6 ms, mean = 0.5 ms, median = 0.51 ms, "
        "percentile(50%) = 0.51 ms, percentile(99.9%) = 0.6 ms",
        "Total Host Walltime: 3.5 s",
        "Total GPU Compute Time: 2.5 s",
    ),
    *lines("* GPU compute time is unstable, with coefficient of variance = 9.5%.", level="W"),
    *lines("  If not already in use, locking GPU clock frequency may help.", level="W"),
    *lines("Explanations of the performance metrics are printed in the verbose logs.", ""),
]

EXPLANATIONS = [
    "=== Explanations of the performance metrics ===",
    "Total Host Walltime: 9 s is how long it took, in words.",
    "Latency: min = 1 is what a careless reader would take for a number.",
    "Throughput: 99999 qps is another.",
]


def log_10(*, version: str = "100300 b26", **changes: str) -> str:
    """Make a complete log of TensorRT 10 that built, ran and passed."""
    begin = banner("RUNNING", version=version, command="trtexec --onnx=net.onnx --fp16")
    end = banner("PASSED", version=version, command="trtexec --onnx=net.onnx --fp16")
    return text([begin, *options(**changes), *BUILD, *SUMMARY_10, end])


def log_82() -> str:
    summary = lines(
        "=== Performance summary ===",
        "Throughput: 40 qps",
        "Latency: min = 1 ms, max = 4 ms, mean = 2 ms, median = 2.5 ms, percentile(99%) = 4 ms",
        "End-to-End Host Latency: min = 2 ms, max = 8 ms, mean = 4 ms, median = 5 ms, "
        "percentile(99%) = 8 ms",
        "Total Host Walltime: 3 s",
    )
    trace = lines(
        "Average on 10 runs - GPU latency: 1.5 ms - Host latency: 2 ms "
        "(end to end 4 ms, enqueue 0.5 ms)"
    )
    return text([banner("RUNNING", version="8205"), *trace, *summary, banner("PASSED")])


def log_7(*, host: str = "Host Latency", batch: int = 4) -> str:
    """Make a log of TensorRT 7: no version, one number per line; 7.0 writes the heading small."""
    blocks = lines(
        host,
        "min: 3 ms (end to end 3.5 ms)",
        "max: 6 ms (end to end 6.5 ms)",
        "mean: 4 ms (end to end 4.5 ms)",
        "median: 3.75 ms (end to end 4.25 ms)",
        "percentile: 5.5 ms at 99% (end to end 5.75 ms at 99%)",
        "throughput: 250 qps", "walltime: 3.25 s",
        "Enqueue Time", "min: 0.25 ms", "max: 0.75 ms", "median: 0.5 ms",
        "GPU Compute", "min: 2 ms", "max: 5 ms", "mean: 3 ms", "median: 2.75 ms",
        "percentile: 4.5 ms at 99%", "total compute time: 2.75 s",
    )  # fmt: skip
    settings = [
        *block("Inference Options", [f"Batch: {batch}", "Streams: 2", "Spin-wait: Enabled"]),
        *lines(""),
    ]
    return text([banner("RUNNING"), *settings, *blocks, banner("PASSED")])


def log_5() -> str:
    """Make a log of TensorRT 5, with neither prefixes nor banner."""
    return text(
        [
            "deploy: net.prototxt",
            "batch: 4",
            "fp16",
            "Average over 10 runs is 25 ms (host walltime is 26 ms, 99% percentile time is 25.5).",
            "Average over 30 runs is 29 ms (host walltime is 30 ms, 99% percentile time is 29.5).",
            "Done.",
        ]
    )


NAME_LAST = lines(
    "=== Profile (1000 iterations ) ===",
    "   Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer",
    "      31.40       0.0314       0.0313       25.0   conv 1 + relu",
    "      94.20       0.0942       0.0940       75.0   {ForeignNode[a...b]}",
    "     125.60       0.1256       0.1253      100.0   Total",
    "",
)
NAME_FIRST = lines(
    "=== Profile (1000 iterations ) ===",
    " " * 500 + "Layer   Time (ms)   Avg. Time (ms)   Median Time (ms)   Time %",
    " " * 490 + "conv 1 + relu       31.40           0.0314             0.0313     25.0",
    " " * 484 + "{ForeignNode[a...b]}       94.20           0.0942             0.0940     75.0",
    " " * 498 + "Total      125.60           0.1256             0.1253    100.0",
    "",
)
NAME_FIRST_WITHOUT_MEDIAN = lines(
    "=== Profile (1000 iterations ) ===",
    "                 Layer   Time (ms)   Avg. Time (ms)   Time %",
    "         conv 1 + relu       31.40           0.0314     25.0",
    "  {ForeignNode[a...b]}       94.20           0.0942     75.0",
    "                 Total      125.60           0.1256    100.0",
    "",
)

HELP_11 = text(
    [
        banner("RUNNING", version="110100 b7", command="trtexec --help"),
        "=== Model Options ===",
        "  --onnx=<file>               a model",
        "",
        "=== Inference Options ===",
        "  --includeDataTransfers      with copies",
        "  --noCudaGraph               without a graph",
        "  --noSpinWait                blocking",
        "  --useCudaGraph              [Deprecated] no effect",
        "  --versionCompatible, --vc   engine for later versions",
        "                              this text names --fp16 and must not count",
        "=== Help ===",
        "  --help, -h                  this",
    ]
)
