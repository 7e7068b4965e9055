"""What runs took of the GPU's memory, part by part, and how many of each fit."""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.domain.result import Run
from trtbench.report.cells import bytes_cell
from trtbench.report.document import Block, Cell, Heading, Section, Text, table_from_rows
from trtbench.report.headings import RUN_HEADING
from trtbench.report.labels import labels_from_runs
from trtbench.report.run_memory import memory_of, name_of_part, words_from_memory
from trtbench.units import counted

ORDER = 74
HEADINGS = (
    RUN_HEADING,
    Heading(key="part", title="Part"),
    Heading(key="predicted_bytes", title="Predicted", align="right"),
    Heading(key="measured_bytes", title="Measured", align="right"),
    Heading(key="per", title="For each"),
)
CAPTION = (
    "Predicted: as the engine tells, of the engine the size of its file. Measured: what was less "
    "free on the device after the step, others that took memory meanwhile included; CUDA gives "
    "memory out in pieces of 2 MiB. Parts add up to all of it: those of a process once, those of a "
    "context as often as there were contexts."
)


def make(runs: Sequence[Run]) -> Section | None:
    """List every part of every run that looked."""
    rows: list[list[Cell | str]] = []
    fits: list[Block] = []
    for label, run in zip(labels_from_runs(runs), runs, strict=True):
        use = memory_of(run)
        if use is None:
            continue
        for part in use.parts:
            per = "context" if part.per_context else "process"
            name = name_of_part(part, use)
            rows.append(
                [
                    label,
                    name,
                    bytes_cell(part.predicted_bytes),
                    bytes_cell(part.measured_bytes),
                    per,
                ]
            )
        contexts = f", {counted(use.contexts, 'context')}" if use.contexts > 1 else ""
        whole = f"all of it{contexts}, the peak"
        rows.append([label, whole, Cell(), bytes_cell(use.peak_bytes), "process"])
        if use.counted_bytes is not None:
            told = bytes_cell(use.counted_bytes)
            rows.append([label, f"the driver's count{contexts}", Cell(), told, "process"])
        fits += [
            Text(text=f"{label}, {name}: {words}")
            for name, words in words_from_memory(use)
            if name != "memory"
        ]
    if not rows:
        return None
    table = table_from_rows("memory", headings=HEADINGS, rows=rows, caption=CAPTION)
    return Section(id="memory", title="GPU memory", blocks=(table, *fits))
