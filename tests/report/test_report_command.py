from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from made_runs import made_failure, made_profile, made_run

from trtbench.cli import trtbench as group
from trtbench.core.errors import InputError, UsageError
from trtbench.core.run import Run
from trtbench.store.directory import write_record, write_samples
from trtbench.store.store import Store
from trtbench.trtexec.exports import profile_json
from trtbench.workflows.report import load_runs, with_files, write_report


def stored(folder: Path, run: Run) -> Path:
    """Write a run directory as the store keeps it."""
    target = folder / run.id
    target.mkdir(parents=True)
    write_record(target, run.record)
    write_samples(target, run.times)
    return target


@pytest.fixture
def runs_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    for number in range(2):
        stored(folder, made_run(id=f"run-{number}", batch=2**number))
    failed = folder / "run-bad"
    failed.mkdir()
    write_record(failed, made_failure())
    return folder


def invoke(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(group, ["report", *map(str, arguments)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def test_a_folder_of_runs_becomes_a_page_a_text_and_data(runs_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    status, said = invoke(runs_folder, "-o", out, "--store", tmp_path / "store", "--title", "Night")
    assert status == 0, said
    assert {"report.html", "report.md", "report.json"} <= {path.name for path in out.iterdir()}
    assert "<title>Night</title>" in (out / "report.html").read_text("utf-8")
    data = json.loads((out / "report.json").read_bytes())
    assert data["runs"] == ["run-0", "run-1"]
    assert data["failed"] == ["run-bad"]


def test_brief_is_markdown_and_nothing_else(runs_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        invoke(runs_folder, "-o", tmp_path / "out", "--brief", "--format", "html,md")
    assert caught.value.fix == "--brief --format md"
    assert not (tmp_path / "out").exists()


def test_brief_is_one_short_text(runs_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    status, said = invoke(runs_folder, "-o", out, "--brief", "--store", tmp_path / "store")
    assert status == 0, said
    assert [path.name for path in out.iterdir()] == ["report.md"]
    text = (out / "report.md").read_text("utf-8")
    assert "## Summary" in text
    assert "![" not in text
    assert "## Latency" not in text


def test_formats_are_chosen_and_wrong_ones_named(runs_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = runs_folder / "run-0"
    status, said = invoke(run, "-o", out, "--format", "tex, csv", "--store", tmp_path / "store")
    assert status == 0, said
    assert {path.suffix for path in out.rglob("*.*")} == {".tex", ".csv"}
    with pytest.raises(UsageError, match="htlm"):
        invoke(run, "-o", out / "new", "--format", "htlm", "--store", tmp_path / "store")
    assert not (out / "new").exists()
    with pytest.raises(UsageError, match="needs a format"):
        invoke(run, "-o", out, "--format", ",", "--store", tmp_path / "store")


def test_no_runs_are_an_error_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        write_report([], tmp_path / "out")
    assert caught.value.fix
    assert not (tmp_path / "out").exists()


def test_what_lies_beside_a_run_is_taken_in(tmp_path: Path) -> None:
    run = made_run(id="a")
    folder = stored(tmp_path / "runs", run)
    (folder / "output_diff.json").write_text('{"max_abs": 0.5}')
    (folder / "checks.json").write_text('[{"output": "y", "cosine": 0.99}]')
    (folder / "profile.json").write_bytes(profile_json(made_profile()))
    (folder / "pictures").mkdir()
    (folder / "pictures" / "worst.png").write_bytes(b"")
    (loaded,), _ = load_runs([str(folder)], store=Store(tmp_path / "store"))
    assert loaded.extra["output_comparison"] == {"max_abs": 0.5}
    assert loaded.extra["checks"] == [{"output": "y", "cosine": 0.99}]
    assert loaded.extra["pictures"] == [str(Path("pictures") / "worst.png")]
    assert loaded.layers is not None


def test_a_damaged_file_beside_a_run_is_named(tmp_path: Path) -> None:
    folder = stored(tmp_path / "runs", made_run(id="a"))
    (folder / "output_diff.json").write_text("{")
    with pytest.raises(InputError, match="output_diff"):
        load_runs([str(folder)], store=Store(tmp_path / "store"))


@pytest.mark.parametrize(
    ("told", "taken"), [('{"sha256": "abc", "build_s": 3}', True), ('{"sha256": "x"}', False),
                        ('{"build_s": 3}', False), ("{", False), ("[]", False)],
)  # fmt: skip
def test_a_build_record_is_believed_if_it_speaks_of_the_same_bytes(
    tmp_path: Path, told: str, taken: bool
) -> None:
    engine = tmp_path / "net.engine"
    Path(f"{engine}.json").write_text(told)
    run = made_run()
    model = run.record.spec.model.having(path=str(engine), format="engine", sha256="abc")
    spec = run.record.spec.having(model=model)
    record = run.record.having(spec=spec)
    assert ("build" in with_files(Run(record=record, times=run.times)).extra) is taken


def test_a_picture_that_is_none_does_not_stop_the_page(tmp_path: Path) -> None:
    folder = stored(tmp_path / "runs", made_run(id="a"))
    (folder / "pictures").mkdir()
    (folder / "pictures" / "worst.png").write_bytes(b"no picture")
    runs, _ = load_runs([str(folder)], store=Store(tmp_path / "store"))
    paths = write_report(runs, tmp_path / "out", formats=["html"])
    assert "worst" in paths[0].read_text("utf-8")
