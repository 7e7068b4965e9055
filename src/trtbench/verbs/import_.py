"""Import the files of trtexec (TensorRT 5 to 11) and other tools as runs.

PATH is a file, a folder or a pattern: exported times, profiles, layer information, logs,
metadata, and the result files of toolkits. Files that belong together become one run.

Examples:
  trtbench import times.json profile.json trtexec_stdout.log
  trtbench import results/ --tag nightly
  trtbench import 'results/*.times.json' --warmup 500ms --batch 8
  trtbench import old-run/ --dry-run
  >>> trtbench.import_runs("results/", gpu="Tesla T4").runs
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.core.errors import EXIT_FAILED
from trtbench.core.units import counted
from trtbench.requests.stored import ImportRequest
from trtbench.verbs._screen import draw, print_json, say
from trtbench.verbs._verb import Caller, JsonView, Verb, python_function

if TYPE_CHECKING:
    from trtbench.importing.run import ImportResult


def run(request: ImportRequest, caller: Caller) -> ImportResult:
    from trtbench.importing.run import import_artefacts
    from trtbench.store.place import is_url

    if caller.on_terminal:
        import gc

        # Millions of numbers and no cycles: collecting garbage would take a tenth of the time.
        gc.set_threshold(200_000, 20, 20)
    config = caller.settings(request.store)
    exists = is_url(config.store) or Path(config.store).exists()
    store = caller.store(config) if exists or not request.dry_run else None
    with caller.progress("import") as listen:
        return import_artefacts(request, store=store, listen=listen)


def show(result: ImportResult, request: ImportRequest, view: JsonView) -> int | None:
    for warning in result.warnings:
        say(f"warning: {warning}")
    if view.as_json:
        from trtbench.importing.files import plain

        runs = [
            {
                **vars(each),
                "path": str(each.path) if each.path else None,
                "files": [plain(path) for path in each.files],
            }
            for each in result.runs
        ]
        print_json({**vars(result), "runs": runs, "written": list(map(str, result.written))})
    else:
        from trtbench.report.listings import document_from_import

        draw(document_from_import(result))
    if result.written:
        say(f"{counted(len(result.written), 'file')} in {request.output}")
    known = sum(each.known_as is not None for each in result.runs)
    new = counted(len(result.runs) - known, "run")
    again = f", {known} already imported (--again imports them again)" if known else ""
    made = f"{new} {'would be ' if request.dry_run else ''}imported{again}"
    say(f"{made}, {counted(len(result.unused), 'file')} not used")
    if not result.runs and not result.unused:
        say("fix: trtbench import FOLDER, with the logs or exported files of trtexec in it")
    return None if result.complete and result.runs else EXIT_FAILED


verb = Verb(ImportRequest, run, show, JsonView)
import_runs = python_function(ImportRequest, run)
