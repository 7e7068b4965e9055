"""The layers of an engine: looked at, grouped, held against expectations, written to files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trtbench.analysis.layers.columns import Row, rows_from_groups, rows_from_layers
from trtbench.analysis.layers.grouping import groups_of, matching
from trtbench.analysis.layers.layer import Layer
from trtbench.analysis.layers.precision import precision_truth
from trtbench.analysis.layers.reconcile import reconcile
from trtbench.errors import UsageError, writing
from trtbench.extras import optional_library
from trtbench.host.files import write_output
from trtbench.report.csv_lines import csv_from_lines
from trtbench.report.document import Document
from trtbench.report.documents.layers import document_from_layers
from trtbench.workflows.explain.source import EngineSource

TOP = 20
FORMATS = (".csv", ".json", ".parquet")


def chosen_layers(
    engine: EngineSource, *, pattern: str | None = None, sort: str = "time", top: int | None = TOP
) -> tuple[Layer, ...]:
    """Choose layers by pattern, put them in order and keep the first so many."""
    layers = matching(engine.table.layers, pattern) if pattern else engine.table.layers
    if pattern and not layers:
        raise UsageError(
            f"no layer and no node fits {pattern!r}", fix="patterns take * and ?: '/layer3/*'"
        )
    keys = {
        "time": lambda layer: -layer.seconds,
        "order": lambda layer: layer.index,
        "roofline": lambda layer: 1.0 if layer.roofline is None else layer.roofline,
    }
    return tuple(sorted(layers, key=keys[sort])[:top])


def layers_document(
    engine: EngineSource,
    *,
    by: str | None = None,
    pattern: str | None = None,
    sort: str = "time",
    top: int | None = TOP,
) -> Document:
    """Describe the layers of an engine."""
    facts, table = engine.facts, engine.table
    return document_from_layers(
        engine.label,
        table,
        chosen_layers(engine, pattern=pattern, sort=sort, top=top),
        facts=facts,
        truth=precision_truth(table, asked=facts.asked),
        sums=reconcile(
            table,
            facts.gpu_s,
            profiled_gpu_s=facts.profiled_gpu_s,
            cuda_graph=facts.cuda_graph,
            host_s=facts.host_s,
        ),
        groups=groups_of(table, by, top=top) if by else (),
        by=by,
        notes=engine.notes,
        created=engine.run.record.created if engine.run else "",
    )


def layer_rows(
    engine: EngineSource, *, by: str | None = None, pattern: str | None = None, sort: str = "order"
) -> list[Row]:
    """List all layers, or groups of them, as plain rows."""
    if by is not None:
        return rows_from_groups(groups_of(engine.table, by), by=by)
    return rows_from_layers(chosen_layers(engine, pattern=pattern, sort=sort, top=None))


def csv_of(rows: Sequence[Row]) -> str:
    """Write rows as CSV."""
    names = list(rows[0]) if rows else []
    return csv_from_lines(names, ([row[name] for name in names] for row in rows))


def write_rows(rows: Sequence[Row], path: Path) -> Path:
    """Write rows to a file; its ending says how."""
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise UsageError(
            f"{path.name} does not say how to write it", fix=f"end it in {', '.join(FORMATS)}"
        )
    if ending == ".csv":
        return write_output(path, csv_of(rows))
    if ending == ".json":
        from trtbench.domain.codec import json_from_value

        return write_output(path, json_from_value(list(rows)))
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_parquet(rows, path)
    return path


def frame_of(rows: Sequence[Row]) -> object:
    """Make a pandas DataFrame of rows."""
    return optional_library("pandas").DataFrame(list(rows))


def _write_parquet(rows: Sequence[Row], path: Path) -> None:
    arrow = optional_library("pyarrow")
    parquet = optional_library("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist(list(rows)), path, compression="zstd")
