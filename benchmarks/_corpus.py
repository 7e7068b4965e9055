"""A folder of many files as trtexec and people leave them, of our own making."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

VERSIONS = (("8205", "8.2.5"), ("8601", "8.6.1"), ("100300", "10.3.0"), ("110100", "11.1.0"))
DEVICES = ("Test GPU A", "Test GPU B", "Test GPU C")
LAYERS = 40


def write_corpus(folder: Path, *, count: int) -> None:
    """Write so many files: seven in ten logs, the others notes, notebooks and exports."""
    for number in range(count):
        place = folder / f"group{number // 40:02d}"
        place.mkdir(parents=True, exist_ok=True)
        kind = number % 20
        log = log_text(number, verbose=kind == 3, profile=kind in (5, 11))
        name = f"net{number:04d}"
        if kind == 15:
            (place / f"{name}.md").write_text(f"# Notes on {name}\n\n```\n{log}```\n")
        elif kind == 16:
            (place / f"{name}.ipynb").write_text(_notebook(log))
        elif kind == 17:
            lines = (
                f"2025-03-04T05:06:07.{i:06d}Z {line}" for i, line in enumerate(log.split("\n"))
            )
            (place / f"{name}.txt").write_text("\n".join(lines))
        elif kind == 18:
            (place / f"{name}.profile.json").write_text(json.dumps(_profile(number)))
        elif kind == 19:
            (place / f"{name}.yaml").write_text("kind: a file of somebody else's\n" * 40)
        else:
            (place / f"{name}.log").write_text(log)


def log_text(number: int, *, verbose: bool = False, profile: bool = False) -> str:
    """Write the log of one run, a few hundred lines long."""
    digits, version = VERSIONS[number % len(VERSIONS)]
    stamp = f"[{1 + number % 12:02d}/{1 + number % 28:02d}/2025-05:06:07]"
    engine = f"trtexec --onnx=net{number:04d}.onnx --fp16 --iterations={number + 10}"
    banner = f"TensorRT.trtexec [TensorRT v{digits}] # {engine}"
    lines = [*_options(number), f"TensorRT version: {version}", *_build()]
    if verbose:
        lines += _tactics(number)
    lines += _averages(number)
    lines += _summary(number)
    if profile:
        lines += _printed_profile(number)
    body = "\n".join(line if line[:1] == "[" else f"[I] {line}" for line in lines)
    body = "\n".join(f"{stamp} {line}" for line in body.split("\n"))
    return f"&&&& RUNNING {banner}\n{body}\n&&&& PASSED {banner}\n"


def verbose_log(path: Path, *, size_bytes: int) -> None:
    """Write the log of a build that tries tactics until so many bytes are there."""
    banner = "TensorRT.trtexec [TensorRT v8601] # trtexec --onnx=net.onnx --fp16 --verbose"
    stamp = "[03/04/2025-05:06:07] "
    with path.open("w") as file:
        file.write(f"&&&& RUNNING {banner}\n")
        file.writelines(f"{stamp}[I] {line}\n" for line in _options(0))
        number = 0
        while file.tell() < size_bytes:
            file.writelines(f"{stamp}{line}\n" for line in _tactics(number))
            number += 1
        file.write(f"{stamp}[I] Engine built in 812.5 sec.\n&&&& PASSED {banner}\n")


def _options(number: int) -> list[str]:
    blocks = {
        "Model": ["Format: ONNX", f"Model: net{number:04d}.onnx", "Output:"],
        "Build": ["Memory Pools: workspace: 64 MiB, dlaSRAM: default", "Precision: FP32+FP16",
                  *(f"Option {i}: Disabled" for i in range(30))],
        "Inference": ["Batch: Explicit", "Iterations: 10", "Duration: 3s (+ 200ms warm up)",
                      "Inference Streams: 1", "Data transfers: Enabled", "Spin-wait: Disabled",
                      "CUDA Graph: Disabled", *(f"Option {i}: Disabled" for i in range(20))],
        "Reporting": ["Percentiles: 90,95,99"],
    }  # fmt: skip
    found = []
    for name, entries in blocks.items():
        found += [f"=== {name} Options ===", *entries, ""]
    return [*found, "=== Device Information ===", f"Selected Device: {DEVICES[number % 3]}",
            "Compute Capability: 8.6", "SMs: 84", ""]  # fmt: skip


def _build() -> list[str]:
    return [
        "Start parsing network model.",
        "Finished parsing network model. Parse time: 0.25",
        "[I] [TRT] Global timing cache in use. Profiling results will be stored.",
        "[W] [TRT] onnx2trt_utils.cpp:374: Your ONNX model has been generated with INT64 weights.",
        "[I] [TRT] Engine generation completed in 7.5 seconds.",
        "Created engine with size: 12.5 MiB",
        "Engine built in 8.25 sec.",
        "Input binding for x with dimensions 4x3x224x224 and type fp32 is created.",
        "Output binding for y with dimensions 4x1000 and type fp32 is created.",
        "Starting inference",
        "Warmup completed 7 queries over 200 ms",
        "Timing trace has 600 queries over 3.01 s",
        "",
    ]


def _tactics(number: int) -> list[str]:
    found = []
    for layer in range(8):
        name = f"/block{number}/conv{layer} + /block{number}/relu{layer}"
        found.append(
            f"[V] [TRT] --------------- Timing Runner: {name} (CaskConvolution[0x80000009])"
        )
        for tactic in range(25):
            kernel = f"sm80_xmma_fprop_implicit_gemm_f16f16_tilesize{tactic}x64x32_stage4"
            time_ms = 0.01 + 0.001 * ((tactic * 7 + layer) % 25)
            found.append(f"[V] [TRT] Tactic Name: {kernel} Tactic: 0x{tactic * 99991:016x} "
                         f"Time: {time_ms:.6g}")  # fmt: skip
        found.append(
            f"[V] [TRT] {name} (CaskConvolution[0x80000009]) profiling completed in 0.25 s"
        )
        found.append("[V] [TRT] >>>>>>>>>>>>>>> Chose Runner Type: CaskConvolution Tactic: "
                     f"0x{0:016x}")  # fmt: skip
    return found


def _averages(number: int) -> list[str]:
    host = 5 + number % 7
    average = f"Average on 10 runs - GPU latency: {host - 0.5} ms - Host latency: {host} ms"
    return ["=== Trace details ===", "Trace averages of 10 runs:",
            *[f"{average} (enqueue 0.5 ms)"] * 60, ""]  # fmt: skip


def _summary(number: int) -> list[str]:
    low = 5 + number % 7 + number / 1000
    metrics = ("Latency", "Enqueue Time", "H2D Latency", "GPU Compute Time", "D2H Latency")
    return [
        "=== Performance summary ===",
        f"Throughput: {1000 / low:g} qps",
        *(
            f"{name}: min = {low:g} ms, max = {low + 2:g} ms, mean = {low + 0.5:g} ms, "
            f"median = {low + 0.4:g} ms, percentile(90%) = {low + 1:g} ms, "
            f"percentile(95%) = {low + 1.2:g} ms, percentile(99%) = {low + 1.5:g} ms"
            for name in metrics
        ),
        "Total Host Walltime: 3.01 s",
        "Total GPU Compute Time: 2.9 s",
        "[W] * GPU compute time is unstable, with coefficient of variance = 4.5%.",
        "Explanations of the performance metrics are printed in the verbose logs.",
        "",
    ]


def _printed_profile(number: int) -> list[str]:
    rows = _profile(number)[1:]
    total = sum(float(str(row["averageMs"])) for row in rows)
    return [
        "=== Profile (600 iterations ) ===",
        "   Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer",
        *(
            f"{row['timeMs']:11.2f}  {row['averageMs']:11.4f}  {row['medianMs']:11.4f}  "
            f"{row['percentage']:8.1f}   {row['name']}"
            for row in rows
        ),
        f"{600 * total:11.2f}  {total:11.4f}  {total:11.4f}  {100.0:8.1f}   Total",
        "",
    ]


def _profile(number: int) -> list[dict[str, object]]:
    draw = np.random.default_rng(number)
    times = draw.uniform(0.01, 0.3, LAYERS)
    share = 100 / times.sum()
    return [
        {"count": 600},
        *(
            {"name": f"conv{i} + relu{i}", "timeMs": 600 * t, "averageMs": t, "medianMs": t,
             "percentage": t * share}
            for i, t in enumerate(map(float, times))
        ),
    ]  # fmt: skip


def _notebook(log: str) -> str:
    output = {"name": "stdout", "output_type": "stream", "text": log.splitlines(keepends=True)}
    cell = {"cell_type": "code", "source": ["!trtexec"], "outputs": [output], "metadata": {}}
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]})
