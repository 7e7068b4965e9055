"""Headings that several tables share: the same column has the same key and title in all.

Ranks say what a narrow terminal leaves out first; medians and names stay.
"""

from __future__ import annotations

from trtbench.report.document import Heading

BATCH_HEADING = Heading(key="batch", title="Batch", align="right", rank=1)
CHANGE_HEADING = Heading(key="change", title="Change", align="right")
DEVICE_HEADING = Heading(key="device", title="Device")
ID_HEADING = Heading(key="id", title="Run", rank=6)
ITEMS_HEADING = Heading(key="items_per_s", title="Items/s", align="right", rank=2)
MEDIAN_HEADING = Heading(key="median_s", title="Median", align="right")
METRIC_HEADING = Heading(key="metric", title="Metric")
PART_HEADINGS = {
    "load": Heading(key="load_s", title="Load", align="right", rank=4),
    "preprocess": Heading(key="preprocess_s", title="Preprocess", align="right", rank=2),
    "inference": Heading(key="inference_s", title="Inference", align="right", rank=2),
    "model": Heading(key="network_s", title="Network", align="right", rank=3),
    "postprocess": Heading(key="postprocess_s", title="Postprocess", align="right", rank=2),
}
"""Parts of the work on one item, as a pass over data times them."""
PARTS_MEANING = (
    "Load decodes the file, preprocess makes the tensor, inference is what a caller waits for, "
    "transfers included, network the network alone, postprocess makes predictions of the outputs "
    "(NMS too), in numpy on the host."
)

MODEL_HEADING = Heading(key="model", title="Model", fit="shorten")
NETWORK_HEADING = Heading(key="network", title="Network", fit="shorten")
P99_HEADING = Heading(key="p99_s", title="p99", align="right", rank=3)
PRECISION_HEADING = Heading(key="precision", title="Precision", rank=1)
RUNTIME_HEADING = Heading(key="runtime", title="Runtime", rank=4)
RUN_HEADING = Heading(key="run", title="Run", fit="shorten")
SIZE_HEADING = Heading(key="size_bytes", title="Size", align="right", rank=5)
THROUGHPUT_HEADING = Heading(key="items_per_s", title="Throughput", align="right", rank=2)

SCORE_TITLES = {"top1": "Prec@1", "top5": "Prec@5", "agreement": "Agreement",
                "mAP": "mAP 50-95"}  # fmt: skip
"""Scores that people call otherwise than we do."""
LEADING = ("top1", "abs_rel", "map", "ap", "top5", "d1", "rmse", "map50", "ap50")
"""Scores that a narrow terminal keeps longest."""


def score_heading(metric: str, place: int) -> Heading:
    """Make the heading of a score, with its place among all of its table."""
    rank = 1 if metric.lower() in LEADING else 7 + place
    return Heading(key=metric, title=SCORE_TITLES.get(metric, metric), align="right", rank=rank)


def capitalized(sentence: str) -> str:
    """Begin a sentence with a capital, and leave the rest alone."""
    return f"{sentence[:1].upper()}{sentence[1:]}"
