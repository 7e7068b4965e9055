from pathlib import Path

import pytest
from made_runs import made_profile, made_run

from trtbench.core.errors import InputError
from trtbench.core.run import Run
from trtbench.store.directory import write_record, write_samples
from trtbench.store.store import Store
from trtbench.trtexec.exports import profile_json
from trtbench.workflows.report import load_runs, with_known_files, write_report


def stored(folder: Path, run: Run) -> Path:
    """Write a run directory as the store keeps it."""
    target = folder / run.id
    target.mkdir(parents=True)
    write_record(target, run.record)
    write_samples(target, run.times)
    return target


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
    record = run.record.having(spec=run.record.spec.having(model=model))
    assert ("build" in with_known_files(Run(record=record, times=run.times)).extra) is taken


def test_a_picture_that_is_none_does_not_stop_the_page(tmp_path: Path) -> None:
    folder = stored(tmp_path / "runs", made_run(id="a"))
    (folder / "pictures").mkdir()
    (folder / "pictures" / "worst.png").write_bytes(b"no picture")
    runs, _ = load_runs([str(folder)], store=Store(tmp_path / "store"))
    paths = write_report(runs, tmp_path / "out", formats=["html"])
    assert "worst" in paths[0].read_text("utf-8")
