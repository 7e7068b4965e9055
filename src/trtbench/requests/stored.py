"""Requests of the verbs about stored runs that workflows use too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Annotated, Literal, get_args

from trtbench.core.errors import refuse_unknown
from trtbench.core.safety import check_title
from trtbench.core.words import Precision
from trtbench.requests import fields
from trtbench.requests.fields import Argument, Duration, File, Option, Words, argument, option


class ImportRequest(fields.TagFields, fields.StoreFields, kw_only=False):
    """Import the files of trtexec (TensorRT 5 to 11) and other tools as runs."""

    paths: Annotated[Sequence[File], Argument("Files, folders or patterns.", "PATH...")]
    _: KW_ONLY
    output: File | None = fields.output_path(
        None, "If one run is imported, also write the evaluation toolkit's files here.", "DIR"
    )
    again: bool = option(False, "Import files again that were imported before.")
    pictures: bool = option(False, "Draw the layers (0.4 s per run).")
    dry_run: bool = option(False, "Print what would be done, and do nothing.")
    batch: int | None = option(None, "Items per query, instead of the recorded ones.", least=1)
    engine: File | None = option(None, "The engine that was run; it is hashed.", kind=fields.FILE)
    warmup: Duration | None = option(
        None, "Length of the warm-up to leave out, instead of the logged one."
    )
    gpu: str | None = option(None, "The GPU it ran on, if no log names it.", metavar="NAME")
    tensorrt: str | None = option(None, "The version of TensorRT, such as 8.5.", metavar="VERSION")
    date: str | None = option(None, "When it was measured, such as 2024-05-17.", metavar="DAY")
    precision: str | None = option(
        None, "The precision of the engine, such as fp16.", metavar="NAME"
    )

    def validate(self) -> None:
        for word in (self.precision or "fp32").lower().split("+"):
            known = (*get_args(Precision), "int4", "fp4")
            refuse_unknown(word, known, f"{word} is no precision", flag="--precision")


class RunsRequest(fields.FilterFields, fields.StoreFields):
    """List runs, newest first."""

    model: str | None = option(None, "Only models whose name contains this.", metavar="TEXT")
    failed: bool = option(False, "Only runs that did not finish.")
    limit: int | None = option(None, "Maximum number; 0 shows all (default on a terminal: 50).")


class ExportRunsRequest(fields.FilterFields, fields.StoreFields, kw_only=False):
    """Export runs, all or those named, to Parquet files."""

    names: Sequence[str] = argument((), "Stored runs.", "[RUN]...", needed=False)
    _: KW_ONLY
    to: Literal["parquet"] = option("parquet", "Format.")
    output: Annotated[File, Option("Folder of the files.", ("-o", "--output"), metavar="DIR")]
    model: str | None = option(None, "Only models whose name contains this.", metavar="TEXT")


class ReportRequest(fields.StoreFields, kw_only=False):
    """Describe one or more runs, or folders of runs, as one document."""

    names: Annotated[
        Sequence[File], Argument("Stored runs, or folders of runs or sweeps.", "RUN...|FOLDER")
    ]
    _: KW_ONLY
    output: File = fields.output_path("report", "Folder of the report.")
    format: Words | None = option(
        None,
        "Comma separated, of html, md, json, csv, png and tex.  [default: html,md,json]",
        metavar="FORMATS",
    )
    title: str | None = option(None, "Title of the document.")

    def validate(self) -> None:
        if self.title is not None:
            check_title(self.title)


class HistoryRequest(fields.FilterFields, fields.StoreFields, kw_only=False):
    """Show series of runs over time, and where they changed."""

    model: str | None = argument(None, "Part of the name of a model.", "[MODEL]", needed=False)
    _: KW_ONLY
    least: int = option(2, "Only series of at least N runs.", metavar="N", least=1)
    changes: bool = option(False, "Only series that changed.")
    output: File | None = fields.output_path(None, "Write a report here.")
    format: Words = option("html,md,json", "Formats of the report.")


class ExplainRequest(fields.StoreFields, kw_only=False):
    """Explain why two runs of one model differ, one condition at a time."""

    run: Annotated[File, Argument("A run, or files of trtexec.", "RUN")]
    _: KW_ONLY
    against: Annotated[File, Option("The run to compare with.", metavar="OTHER")]
