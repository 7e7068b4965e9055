"""Describe runs as one document: HTML, Markdown, TeX or data.

Takes one or more runs, or folders of runs. report.html opens anywhere, offline, and carries its
data; report.md shows well on GitHub.

Examples:
  trtbench report last
  trtbench report tag:release tag:candidate -o comparison
  trtbench report ./runs --format md,tex --title "Nightly"
  trtbench report last --brief -o comment
  >>> trtbench.report("last", output="report", format="html,md")
"""

from __future__ import annotations

from pathlib import Path

from trtbench.core.units import counted
from trtbench.requests.stored import ReportRequest
from trtbench.verbs._screen import write
from trtbench.verbs._verb import Caller, Verb, View, python_function


def run(request: ReportRequest, caller: Caller) -> list[Path]:
    from trtbench.workflows.report import report_from_request

    store, _ = caller.opened(request)
    runs, failed, paths = report_from_request(request, store=store)
    bad = f", {len(failed)} failed" if failed else ""
    files = counted(len(paths), "file")
    caller.say(f"{counted(len(runs), 'run')}{bad}, {files} in {request.output}")
    return paths


def show(paths: list[Path], request: ReportRequest, view: View) -> None:
    for path in paths:
        write(path)


verb = Verb(ReportRequest, run, show, View)
report = python_function(ReportRequest, run)
