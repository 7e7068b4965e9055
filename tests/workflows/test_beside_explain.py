"""Ladders between runs that others measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from trtbench.workflows.explain.ladder import explain_stated, named_run


def test_files_of_trtexec_explain_a_cuda_graph(beside: Path) -> None:
    folder = beside / "h200__trtexec-8.6.0"
    a, b = (
        named_run(str(folder / name), None)
        for name in ("resnet18_fp16_load.log", "resnet18_fp16_load_cudagraph.log")
    )
    ladder = explain_stated(a, b).ladder
    graph = next(each for each in ladder.rungs if each.key == "cuda_graph")
    assert ladder.a_s is not None
    assert ladder.b_s is not None
    assert graph.seconds == pytest.approx(ladder.b_s - ladder.a_s)
    assert "the GPU waits for it" in graph.because
