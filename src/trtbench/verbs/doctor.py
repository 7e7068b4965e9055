"""Show which runtimes work here, and how to install the others.

Exit status 4 when no runtime works here.

A trtbench.toml can name an interpreter, which is run with your permissions. Like git, trtbench
refuses a file that another user owns or can change; read it, then trust it with --trust.

Examples:
  trtbench doctor
  trtbench doctor --json
  trtbench doctor --trust /srv/team/project
  trtbench doctor --distrust /srv/team/project
  trtbench doctor --trusted
  >>> trtbench.doctor().working_runtimes
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.core.errors import EXIT_UNAVAILABLE
from trtbench.core.safety import clean_line
from trtbench.requests.fields import FILE, File, VerbRequest, option
from trtbench.verbs._screen import say, show_value, write
from trtbench.verbs._verb import Caller, JsonView, Verb, python_function

if TYPE_CHECKING:
    from trtbench.workflows.doctor import Diagnosis


class DoctorRequest(VerbRequest):
    """Show what is installed, which runtimes work here, and how to install the others."""


class DoctorView(JsonView):
    """How the result is printed, and which settings files of other users are trusted."""

    trust: File | None = option(
        None, "Trust a trtbench.toml owned by another user, or that of a folder.", kind=FILE
    )
    distrust: File | None = option(None, "Stop trusting it.", kind=FILE)
    trusted: bool = option(False, "List the trusted files.")


def run(request: DoctorRequest, caller: Caller) -> Diagnosis:
    from trtbench.workflows.doctor import diagnose

    with caller.progress("doctor"):
        return diagnose(caller.say)


def show(diagnosis: Diagnosis, request: DoctorRequest, view: JsonView) -> int | None:
    from trtbench.report.listings import document_from_diagnosis

    show_value(diagnosis, document_from_diagnosis, as_json=view.as_json)
    return None if diagnosis.working_runtimes else EXIT_UNAVAILABLE


def handle_trust_flags(request: DoctorRequest, view: DoctorView) -> list[DoctorRequest]:
    """Carry out --trust, --distrust or --trusted; only without them the request is run."""
    from trtbench.requests import settings

    if view.trust is not None:
        write(clean_line(f"{settings.trust_settings(Path(view.trust))} is now trusted"))
    elif view.distrust is not None:
        found = settings.distrust_settings(Path(view.distrust))
        write(clean_line(f"{view.distrust} is {'no longer' if found else 'not'} trusted"))
    elif view.trusted:
        names = settings.trusted_settings()
        write("\n".join(names)) if names else say("no files of other users are trusted")
    else:
        return [request]
    return []


verb = Verb(DoctorRequest, run, show, DoctorView, each=handle_trust_flags)
doctor = python_function(DoctorRequest, run)
