"""What is asked of the verbs about what is there already: runs, files, reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from trtbench.boundary import check_title
from trtbench.workflows.request.fields import Argument, Option, VerbRequest
from trtbench.workflows.request.groups import FilterFields, StoreFields, TagFields
from trtbench.workflows.request.kinds import (
    FILE,
    LIST,
    SHAPES,
    TIME,
    Duration,
    File,
    Shapes,
    Words,
)


@dataclass(frozen=True, kw_only=True)
class StatedFields(VerbRequest):
    """What is known of files, whatever is on record."""

    batch: Annotated[int | None, Option("Items in one query, whatever is on record.", least=1)] = (
        None
    )
    engine: Annotated[File | None, Option("The engine that was run; it is hashed.", kind=FILE)] = (
        None
    )
    warmup: Annotated[
        Duration | None,
        Option("Length of the warm-up to leave out, whatever the log says.", kind=TIME),
    ] = None
    gpu: Annotated[str | None, Option("The GPU it ran on, where no log tells.", metavar="NAME")] = (
        None
    )
    tensorrt: Annotated[
        str | None, Option("The version of TensorRT, such as 8.5.", metavar="VERSION")
    ] = None
    date: Annotated[
        str | None, Option("When it was measured, such as 2024-05-17.", metavar="DAY")
    ] = None
    precision: Annotated[
        str | None, Option("The precision of the engine, such as fp16.", metavar="NAME")
    ] = None


@dataclass(frozen=True, kw_only=True)
class ImportRequest(StatedFields, TagFields, StoreFields):
    """Make runs of what trtexec (TensorRT 5 to 11) and other tools left behind."""

    paths: Annotated[Sequence[File], Argument("Files, folders or patterns.", "PATH...")]
    output: Annotated[
        File | None,
        Option(
            "Also write the trtexec evaluation toolkit's files of the one run here.",
            ("-o", "--output"), kind=FILE, metavar="DIR",
        ),
    ] = None  # fmt: skip
    again: Annotated[bool, Option("Import files that were imported before.")] = False
    pictures: Annotated[
        bool | None, Option("Draw the layers, 0.4 s a run (default: where 8 runs or fewer come).")
    ] = None
    dry_run: Annotated[bool, Option("Print what would be done, and do nothing.")] = False


@dataclass(frozen=True, kw_only=True)
class RunsRequest(FilterFields, StoreFields):
    """List runs, newest first."""

    model: Annotated[
        str | None, Option("Only models whose name contains this.", metavar="TEXT")
    ] = None
    failed: Annotated[bool, Option("Only runs that did not finish.")] = False
    limit: Annotated[int | None, Option("At most so many; 0 is all (default on screens: 50).")] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class ExportRunsRequest(FilterFields, StoreFields):
    """Export runs, all or those named, to Parquet files or to MLflow."""

    to: Annotated[
        Literal["parquet", "mlflow"], Option("Parquet files, or an MLflow tracking server.")
    ]
    output: Annotated[
        File,
        Option(
            "A folder for Parquet files; a tracking URI for MLflow.", ("-o", "--output"),
            metavar="DIR|URI",
        ),
    ]  # fmt: skip
    names: Annotated[Sequence[str], Argument("Stored runs.", "[RUN]...", needed=False)] = ()
    experiment: Annotated[str, Option("Of MLflow.")] = "trtbench"
    model: Annotated[
        str | None, Option("Only models whose name contains this.", metavar="TEXT")
    ] = None


@dataclass(frozen=True, kw_only=True)
class ReportRequest(StoreFields):
    """Describe one or more runs, or folders of runs, as one document."""

    names: Annotated[
        Sequence[File], Argument("Stored runs, or folders of runs or sweeps.", "RUN...|FOLDER")
    ]
    output: Annotated[File, Option("Folder of the report.", ("-o", "--output"), kind=FILE)] = (
        "report"
    )
    format: Annotated[
        Words | None,
        Option(
            "Comma separated, of html, md, json, csv, png and tex.  "
            "[default: html,md,json; with --brief: md]",
            kind=LIST, metavar="FORMATS",
        ),
    ] = None  # fmt: skip
    brief: Annotated[bool, Option("A Markdown text short enough for a comment.")] = False
    title: Annotated[str | None, Option("Title of the document.")] = None
    prices: Annotated[
        File | None,
        Option("What devices cost, as TOML: the cost of a million items.", metavar="FILE"),
    ] = None
    under: Annotated[
        Duration | None,
        Option("Compare devices under this latency (default: round ones).", kind=TIME),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.title is not None:
            check_title(self.title)


@dataclass(frozen=True, kw_only=True)
class HistoryRequest(FilterFields, StoreFields):
    """Show series of runs over time, and where they changed."""

    model: Annotated[
        str | None,
        Argument("Part of the name of a model.", "[MODEL]", needed=False),
    ] = None
    reference: Annotated[
        str | None,
        Option(
            "Show ratios to this model, measured on the same machine within half an hour.",
            metavar="MODEL",
        ),
    ] = None
    least: Annotated[int, Option("Only series of so many runs.", least=1)] = 2
    changes: Annotated[bool, Option("Only series that changed.")] = False
    output: Annotated[
        File | None, Option("Write a report here.", ("-o", "--output"), kind=FILE)
    ] = None
    format: Annotated[Words, Option("Of the report.", kind=LIST)] = "html,md,json"


@dataclass(frozen=True, kw_only=True)
class SiteRequest(StoreFields):
    """Write a web site over all runs: search, filters, a page per model."""

    output: Annotated[File, Option("Folder of the site.", ("-o", "--output"), kind=FILE)] = (
        "artifacts/site"
    )
    title: Annotated[str, Option("What the site is called.")] = "Benchmarks"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_title(self.title)


@dataclass(frozen=True, kw_only=True)
class InspectRequest(StoreFields):
    """Show what a model, an engine, a file of trtexec or a run holds."""

    file: Annotated[File, Argument("A file, a run directory, or a run by its id.", "FILE")]
    batch: Annotated[int | None, Option("Open leading dimensions, for estimates.", least=1)] = None
    shapes: Annotated[
        Shapes,
        Option(
            "Shape of one input, for estimates; repeat for several.", ("--shape",), kind=SHAPES
        ),
    ] = field(default_factory=dict)  # fmt: skip
    onnx: Annotated[
        File | None,
        Option(
            "The ONNX file an engine was built from, to compare parameters with.", kind=FILE
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class DoctorRequest(VerbRequest):
    """Show what is installed, which runtimes work here, and what to type to get the rest."""


@dataclass(frozen=True, kw_only=True)
class DemoRequest(VerbRequest):
    """Measure a small network in FP32 and INT8 on ONNX Runtime, and write a report."""

    output: Annotated[
        File,
        Option("Folder of the report and of the demo's own store.", ("-o", "--output"), kind=FILE),
    ] = "demo-report"
