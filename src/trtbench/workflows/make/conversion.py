"""What exporting and quantizing share: a job, a comparison, a sidecar, and files put in place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trtbench.analysis.numeric import TOLERANCES
from trtbench.domain.codec import json_from_value
from trtbench.domain.conversion import Sidecar, VerifyOutcome, VerifySpec
from trtbench.domain.job import ConversionJob, JobEnd, VerifyJob
from trtbench.errors import UsageError, writing
from trtbench.executors import check_interpreter
from trtbench.host.files import write_whole
from trtbench.host.unfinished import remove_abandoned, scratch_directory
from trtbench.models.sidecar import kept_value
from trtbench.version import __version__
from trtbench.workflows.measure.failure import raise_unfinished
from trtbench.workflows.measure.job import carry_out_job, read_outcome
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.progress import Event

PATIENCE_S = 2 * 3600.0
"""Calibrating a large network on a CPU takes long; longer than this counts as hung."""

_STAGE_TEXT = {
    "load": "loading",
    "export": "exporting",
    "cast": "casting",
    "calibrate": "calibrating",
    "compare": "comparing",
    "save": "saving",
}
_STAGE_PART = {"load": 0.05, "export": 0.2, "cast": 0.2, "calibrate": 0.2, "save": 0.7}


@contextmanager
def conversion_folder(output: Path) -> Iterator[Path]:
    """Make a scratch folder beside the output, so that files can be moved without being copied."""
    with writing(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(output.parent)
        with scratch_directory(output.parent) as folder:
            yield folder


def run_conversion(
    job: ConversionJob, *, folder: Path, conduct: Conduct, python: str | None = None
) -> JobEnd:
    """Do one conversion in a child process; whatever goes wrong is raised."""
    if python is not None:
        check_interpreter(python)
    end = carry_out_job(
        job,
        folder=folder,
        conduct=conduct,
        patience_s=PATIENCE_S,
        python=python,
        on_stage=lambda stage: conduct.listen(_event(stage, job)),
    )
    if not end.ok:
        raise_unfinished(end, "the work did not finish")
    return end


def verify(
    model: Path, *, reference: Path, inputs: Path, precision: str, folder: Path, conduct: Conduct
) -> VerifyOutcome:
    """Check a model and compare it with its source, in this interpreter."""
    rtol, atol = TOLERANCES[precision]
    spec = VerifySpec(
        model=str(model), reference=str(reference), inputs=str(inputs), rtol=rtol, atol=atol
    )
    run_conversion(VerifyJob(spec=spec), folder=folder, conduct=conduct)
    return read_outcome(folder, VerifyOutcome)


def refuse_overwriting(source: Path, output: Path) -> None:
    """Refuse to write a conversion over what it is made from."""
    if output.absolute() == source.absolute():
        raise UsageError("the result would overwrite its source", fix="give another name with -o")


def refuse_folder(output: Path, *, name: str) -> None:
    """Say before the work that a file cannot be called like a folder that is there."""
    if output.is_dir():
        raise UsageError(f"{output} is a folder, not a file to write", fix=f"-o {output / name}")


def put_in_place(made: Path, output: Path) -> None:
    """Move a model, and its data file first, to where they belong."""
    data = made.with_name(made.name + ".data")
    with writing(output):
        if data.is_file():
            data.replace(output.with_name(output.name + ".data"))
        made.replace(output)


def made_by() -> str:
    return f"trtbench {__version__}"


def sidecar_path(model: Path) -> Path:
    """Tell where the sidecar of a model goes: ``model.json``, unless that is somebody else's."""
    plain = model.with_suffix(".json")
    if not plain.exists() or kept_value(plain, Sidecar) is not None:
        return plain
    return model.with_name(model.name + ".json")


def write_sidecar(sidecar: Sidecar, model: Path) -> Path:
    """Keep beside a model how it was made."""
    path = sidecar_path(model)
    with writing(path):
        write_whole(path, json_from_value(sidecar))
    return path


def _event(stage: str, job: ConversionJob) -> Event:
    done = 0.8 if isinstance(job, VerifyJob) else _STAGE_PART.get(stage, 0.0)
    return Event(kind="stage", text=_STAGE_TEXT.get(stage, stage), done=done)
