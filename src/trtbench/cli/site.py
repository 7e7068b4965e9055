"""``trtbench site``: a static web site over the whole store."""

from __future__ import annotations

from pathlib import Path

import click

from trtbench.cli._flags import flags
from trtbench.units import counted
from trtbench.workflows.request.keeping import SiteRequest


@click.command("site", short_help="Write a web site over all runs.")
@flags(SiteRequest)
def command(request: SiteRequest) -> None:
    """Write a web site over all runs: search, filters, a page per model, any two runs compared.

    It needs no server: open index.html from the disk, or copy the folder to any web server.
    What is shown is in the address, so that links can be sent. Called again, it writes only
    what is new.

    \b
    Examples:
      trtbench site
      trtbench site -o public --title "Vision models"
    """
    from trtbench.cli._screen import Talk, say
    from trtbench.cli._settings import open_store_of
    from trtbench.workflows.request.progress import Event
    from trtbench.workflows.stored.site import write_site

    opened, _ = open_store_of(request)
    with Talk("site") as talk:

        def tell(done: int, total: int) -> None:
            if done % 50 == 0:
                text = f"run {done} of {total}"
                talk(Event(kind="stage", text=text, done=done / total))

        made = write_site(opened, Path(request.output), title=request.title, tell=tell)
    for problem in made.problems:
        say(f"cannot be read: {problem}")
    runs, pages = counted(made.runs, "run"), counted(made.pages, "page")
    say(f"{runs}, {made.written} written anew, {pages}: {made.index}")
