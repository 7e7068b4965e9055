"""Write a web site over all runs.

An index lists all runs, to be searched and sorted, and each has a page. It needs no server: open
index.html from the disk, or copy the folder to any web server. Called again, it writes only what
is new.

Examples:
  trtbench site
  trtbench site -o public --title "Vision models"
  >>> trtbench.site(output="public").index
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.core.safety import check_title
from trtbench.core.units import counted
from trtbench.requests.fields import FILE, File, StoreFields, option
from trtbench.verbs._screen import say
from trtbench.verbs._verb import Caller, Verb, View, python_function

if TYPE_CHECKING:
    from trtbench.workflows.report import SiteMade


@dataclass(frozen=True, kw_only=True)
class SiteRequest(StoreFields):
    """Write a web site over all runs: an index to search and sort, a page per run."""

    output: File = option("artifacts/site", "Folder of the site.", ("-o", "--output"), kind=FILE)
    title: str = option("Benchmarks", "What the site is called.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_title(self.title)


def run(request: SiteRequest, caller: Caller) -> SiteMade:
    from trtbench.requests.execution import Event
    from trtbench.workflows.report import write_site

    store, _ = caller.opened(request)
    with caller.progress("site") as listen:

        def progress(done: int, total: int) -> None:
            listen(Event(kind="stage", text=f"run {done} of {total}", done=done / total))

        return write_site(store, Path(request.output), title=request.title, progress=progress)


def show(made: SiteMade, request: SiteRequest, view: View) -> None:
    for problem in made.problems:
        say(f"cannot be read: {problem}")
    say(f"{counted(made.runs, 'run')}, {made.written} written anew: {made.index}")


verb = Verb(SiteRequest, run, show, View)
site = python_function(SiteRequest, run)
