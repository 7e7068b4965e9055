"""Headings that several tables share: the same column has the same key and title in all."""

from __future__ import annotations

from trtbench.report.document import Heading

BATCH_HEADING = Heading(key="batch", title="Batch", align="right")
CHANGE_HEADING = Heading(key="change", title="Change", align="right")
ID_HEADING = Heading(key="id", title="Run")
ITEMS_HEADING = Heading(key="items_per_s", title="Items/s", align="right")
MEDIAN_HEADING = Heading(key="median_s", title="Median", align="right")
METRIC_HEADING = Heading(key="metric", title="Metric")
NETWORK_HEADING = Heading(key="network", title="Network")
PRECISION_HEADING = Heading(key="precision", title="Precision")
RUNTIME_HEADING = Heading(key="runtime", title="Runtime")
RUN_HEADING = Heading(key="run", title="Run")
SIZE_HEADING = Heading(key="size_bytes", title="Size", align="right")
