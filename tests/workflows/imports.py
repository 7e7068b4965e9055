"""Importing in a test, and what came of it."""

from pathlib import Path

from trtbench.core.run import Run, RunRecord
from trtbench.importing.run import Imported, ImportResult, import_artefacts
from trtbench.measure.bench import write_run_files
from trtbench.requests.stored import ImportRequest
from trtbench.store.store import Store


def bring(*paths: Path | str, store: Store, **options: object) -> ImportResult:
    options = {"pictures": False, **options}
    return import_artefacts(ImportRequest(paths=paths, **options), store=store)  # type: ignore[arg-type]


def only(result: ImportResult) -> Imported:
    assert len(result.runs) == 1, [each.files for each in result.runs]
    return result.runs[0]


def record(found: Imported) -> RunRecord:
    assert isinstance(found.record, RunRecord)
    return found.record


def stored(found: Imported, store: Store) -> Run:
    run = store.load(found.record.id)
    assert isinstance(run, Run)
    return run


def toolkit_files(found: Imported, store: Store) -> Path:
    """Write what ``runs series`` writes about a run, and return the folder."""
    folder = store.root / f"series-{found.record.id}"
    folder.mkdir()
    write_run_files(stored(found, store), folder, series=True)
    return folder


def reasons(result: ImportResult) -> dict[str, str]:
    return {Path(each.path).name: each.reason for each in result.unused}


def of(result: ImportResult, part: str) -> list[Imported]:
    """List what came of the files whose names have a part."""
    return [each for each in result.runs if any(part in str(path) for path in each.files)]
