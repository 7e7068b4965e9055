"""One model on many devices: a table of models and devices, and every model's devices in order.

Runs here were mostly measured by others, elsewhere: a ratio between two devices says which is
faster at this, and not which version, precision or clock made it so; what differs stands beside.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from trtbench.analysis.column_summary import ColumnSummary
from trtbench.analysis.comparability import DEVICE_KEYS, differences
from trtbench.analysis.reported import reported_s
from trtbench.domain.result import Run, gpu_of
from trtbench.report.cells import duration_cell, number_cell
from trtbench.report.document import Block, Cell, Heading, table_from_rows
from trtbench.report.headings import DEVICE_HEADING, ID_HEADING, MODEL_HEADING
from trtbench.report.labels import network_name, precision_name, shortened
from trtbench.report.numbers import common_unit, text_from_duration
from trtbench.report.run_facts import headline_summary, summary_of

MOST_COLUMNS = 8
"""More devices than this make a table wider than a page; the list below it has all."""
MOST_DIFFERENCES = 5

RANKING = (
    MODEL_HEADING,
    DEVICE_HEADING,
    Heading(key="typical_s", title="Median", align="right"),
    Heading(key="of_best", title="Of the best", align="right"),
    Heading(key="p99_s", title="p99", align="right", rank=3),
    Heading(key="items_per_s", title="Items/s", align="right", rank=2),
    Heading(key="tensorrt", title="TensorRT", rank=4),
    Heading(key="differs", title="Differs from the best in", fit="wrap", rank=1),
    ID_HEADING,
)
CAPTION = (
    "Best first, across devices. A median that another tool printed, or a mean where it printed "
    "no median, is marked."
)

DevicePlace = tuple[Run, ColumnSummary]


def device_names(runs: Sequence[Run]) -> dict[str, str]:
    """Name the device of each run; its machine is added where two have the same device.

    Where all have the same, machines go by what their owners call them alone.
    """
    bare = {run.id: _device(run) for run in runs}
    alike = len(set(bare.values())) == 1 and all(run.record.environment.machine for run in runs)
    hosts: dict[str, set[str]] = {}
    for run in runs:
        hosts.setdefault(bare[run.id], set()).add(run.record.environment.label)
    return {
        run.id: bare[run.id]
        if len(hosts[bare[run.id]]) == 1
        else run.record.environment.label
        if alike
        else f"{bare[run.id]} ({run.record.environment.label})"
        for run in runs
    }


def priced_name(run: Run) -> str:
    """Name the device of a run by all that a list of prices may call it."""
    return f"{_device(run)} ({run.record.environment.label})"


def _device(run: Run) -> str:
    """Find the GPU of a run that used one, else the processor, else the machine."""
    environment, asked = run.record.environment, run.record.spec.device or ""
    printed = reported_s(run.record, "gpu", "mean") is not None
    on_gpu = run.times.gpu is not None or printed or asked.startswith("cuda")
    gpu = gpu_of(run.record) if on_gpu else None
    return gpu.name if gpu is not None else environment.cpu or environment.host


def device_blocks(runs: Sequence[Run], names: Mapping[str, str]) -> Iterator[Block]:
    """Put runs of each model on their devices side by side; nothing where there is one device."""
    groups = _groups(runs, names)
    shared = {name: places for name, places in groups.items() if len(places) > 1}
    if not shared:
        return
    devices = _order(shared)
    if len(devices) <= MOST_COLUMNS:
        yield _matrix(shared, devices)
    yield _ranking(shared)


def _groups(runs: Sequence[Run], names: Mapping[str, str]) -> dict[str, dict[str, DevicePlace]]:
    """Find the best run of every model on every device."""
    groups: dict[str, dict[str, DevicePlace]] = {}
    for run in runs:
        head = headline_summary(run)
        if head is None or math.isnan(head.typical):
            continue
        places = groups.setdefault(_model(run), {})
        known = places.get(names[run.id])
        if known is None or head.typical < known[1].typical:
            places[names[run.id]] = (run, head)
    return groups


def _model(run: Run) -> str:
    """Name what was run; engines of one network go by one name, precisions and batches apart."""
    record = run.record
    parts = [network_name(record), precision_name(record) or ""]
    parts.append(f"batch {record.batch}" if record.batch else "")
    return " · ".join(part for part in parts if part)


def _order(groups: Mapping[str, Mapping[str, DevicePlace]]) -> list[str]:
    """Order devices by how far they are from the best, over all models they have run."""
    ratios: dict[str, list[float]] = {}
    for places in groups.values():
        best = min(head.typical for _, head in places.values())
        for device, (_, head) in places.items():
            ratios.setdefault(device, []).append(head.typical / best if best else 1.0)
    return sorted(ratios, key=lambda device: median(ratios[device]))


def _matrix(groups: Mapping[str, Mapping[str, DevicePlace]], devices: Sequence[str]) -> Block:
    heads = [head for places in groups.values() for _, head in places.values()]
    unit = common_unit(head.typical for head in heads)
    headings = (
        MODEL_HEADING,
        *(
            Heading(key=f"device_{number}_s", title=shortened(name, length=32), align="right")
            for number, name in enumerate(devices, start=1)
        ),
    )
    rows: list[list[Cell | str]] = []
    for model, places in sorted(groups.items()):
        best = min(head.typical for _, head in places.values())
        row: list[Cell | str] = [model]
        for device in devices:
            head = places[device][1] if device in places else None
            tone = "good" if head is not None and head.typical == best else "plain"
            value = head.typical if head is not None else None
            text = "" if head is None else text_from_duration(value, unit=unit) + _mark(head)
            row.append(Cell(value=value, text=text, tone="good" if tone == "good" else "plain"))
        rows.append(row)
    return table_from_rows("model_by_device", headings=headings, rows=rows)


def _ranking(groups: Mapping[str, Mapping[str, DevicePlace]]) -> Block:
    heads = [head for places in groups.values() for _, head in places.values()]
    unit = common_unit(head.typical for head in heads)
    rows: list[list[Cell | str]] = []
    for model, places in sorted(groups.items()):
        ordered = sorted(places.items(), key=lambda item: item[1][1].typical)
        best_run, best = ordered[0][1]
        for device, (run, head) in ordered:
            rate, tail = summary_of(run).items_per_s, head.statistic("p99")
            ratio = head.typical / best.typical if best.typical else None
            text = text_from_duration(head.typical, unit=unit) + _mark(head)
            rows.append(
                [
                    model,
                    device,
                    Cell(value=head.typical, text=text),
                    Cell(value=ratio, text="" if ratio is None else f"{ratio:.2f}x"),
                    duration_cell(tail, unit=unit),
                    number_cell(rate),
                    run.record.environment.versions.get("tensorrt", ""),
                    _differing(best_run, run),
                    run.id,
                ]
            )
    return table_from_rows("devices_ranked", headings=RANKING, rows=rows, caption=CAPTION)


def _mark(head: ColumnSummary) -> str:
    if not head.reported:
        return ""
    return " (reported)" if head.typical_of == "median" else " (mean, reported)"


def _differing(best: Run, run: Run) -> str:
    """Name the conditions that differ beside the device itself."""
    if best is run:
        return ""
    told = [
        f"{each.key.replace('_', ' ')}: {each.baseline} / {each.candidate}"
        for each in differences(best.record, run.record)
        if each.key not in DEVICE_KEYS and each.baseline != each.candidate
    ]
    more = f"; and {len(told) - MOST_DIFFERENCES} more" if len(told) > MOST_DIFFERENCES else ""
    return "; ".join(shortened(each, length=60) for each in told[:MOST_DIFFERENCES]) + more
