"""Write a web site of all runs.

The index lists all runs and can be searched and sorted; each run has a page. No server is needed:
open index.html from the disk, or copy the folder to any web server. Later calls write only what
is new.

Examples:
  trtbench site
  trtbench site -o public --title "Vision models"
  >>> trtbench.site(output="public").index
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.core.safety import check_title
from trtbench.core.units import counted
from trtbench.requests.fields import FILE, File, StoreFields, option
from trtbench.verbs._screen import say
from trtbench.verbs._verb import Caller, Verb, View, python_function

if TYPE_CHECKING:
    from trtbench.workflows.report import SiteMade


class SiteRequest(StoreFields):
    """Write a web site of all runs: an index to search and sort, a page per run."""

    output: File | None = option(
        None, "Folder of the site (default: in the store).", ("-o", "--output"), kind=FILE
    )
    title: str = option("Benchmarks", "Title of the site.")

    def validate(self) -> None:
        check_title(self.title)


def run(request: SiteRequest, caller: Caller) -> SiteMade:
    from trtbench.requests.execution import Event
    from trtbench.workflows.report import write_site

    store, _ = caller.store_and_settings(request)
    folder = Path(request.output) if request.output else store.root / "site"
    with caller.progress("site") as listen:

        def progress(done: int, total: int) -> None:
            listen(Event(kind="stage", text=f"run {done} of {total}", done=done / total))

        return write_site(store, folder, title=request.title, progress=progress)


def show(made: SiteMade, request: SiteRequest, view: View) -> None:
    for problem in made.problems:
        say(f"cannot be read: {problem}")
    say(f"{counted(made.runs, 'run')}, {made.written} new or changed: {made.index}")


verb = Verb(SiteRequest, run, show, View)
site = python_function(SiteRequest, run)
