"""Write a web site over all runs.

It has search, filters, a page per model, and any two runs compared. It needs no server: open
index.html from the disk, or copy the folder to any web server. What is shown is in the address,
so that links can be sent. Called again, it writes only what is new.

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
from trtbench.requests.fields import FILE, File, option
from trtbench.requests.groups import StoreFields
from trtbench.verbs._screen import say
from trtbench.verbs._verb import Caller, Verb, View, python_function

if TYPE_CHECKING:
    from trtbench.workflows.report import SiteMade


@dataclass(frozen=True, kw_only=True)
class SiteRequest(StoreFields):
    """Write a web site over all runs: search, filters, a page per model."""

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

        def tell(done: int, total: int) -> None:
            if done % 50 == 0:
                listen(Event(kind="stage", text=f"run {done} of {total}", done=done / total))

        return write_site(store, Path(request.output), title=request.title, tell=tell)


def show(made: SiteMade, request: SiteRequest, view: View) -> None:
    for problem in made.problems:
        say(f"cannot be read: {problem}")
    runs, pages = counted(made.runs, "run"), counted(made.pages, "page")
    say(f"{runs}, {made.written} written anew, {pages}: {made.index}")


verb = Verb(SiteRequest, run, show, View)
site = python_function(SiteRequest, run)
