"""Describe runs as one document: HTML, Markdown, TeX or data.

Takes one or more runs, or folders of runs. report.html contains its data and can be opened
offline; report.md is meant for GitHub.

Examples:
  trtbench report last
  trtbench report tag:release tag:candidate -o comparison
  trtbench report ./runs --format md,tex --title "Nightly"
  >>> trtbench.report("last", output="report", format="html,md")
"""

from __future__ import annotations

from pathlib import Path

from trtbench.core.units import counted
from trtbench.requests.fields import words_from_text
from trtbench.requests.stored import ReportRequest
from trtbench.verbs._screen import write
from trtbench.verbs._verb import Caller, Verb, View, python_function


def run(request: ReportRequest, caller: Caller) -> list[Path]:
    from trtbench.core.plugins import optional_library
    from trtbench.workflows.report import FORMATS, load_runs, write_report

    store, _ = caller.store_and_settings(request)
    runs, failed = load_runs([str(name) for name in request.names], store=store)
    formats = FORMATS if request.format is None else words_from_text(request.format)
    if "png" in formats:  # refused before anything is written
        optional_library("matplotlib")
    output = Path(request.output)
    paths = write_report(runs, output, failed=failed, title=request.title, formats=formats)
    bad = f", {len(failed)} failed" if failed else ""
    files = counted(len(paths), "file")
    caller.say(f"{counted(len(runs), 'run')}{bad}, {files} in {request.output}")
    return paths


def show(paths: list[Path], request: ReportRequest, view: View) -> None:
    for path in paths:
        write(path)


verb = Verb(ReportRequest, run, show, View)
report = python_function(ReportRequest, run)
