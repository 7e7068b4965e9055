"""Quantize a model with NVIDIA ModelOpt, in an interpreter of its own, before it is built."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path

from trtbench.build.builders._prepare import TYPED, notes_of, step_spec
from trtbench.build.builders.contract import Builder
from trtbench.domain.conversion import QuantOutcome
from trtbench.domain.job import QuantizeJob
from trtbench.domain.spec import BuildSpec
from trtbench.workflows.make.conversion import run_conversion
from trtbench.workflows.measure.job import read_outcome
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config


def modelopt_option(
    builder: Builder, *, config: Config, precision: str | None, options: Mapping[str, str]
) -> dict[str, str]:
    """Name the interpreter of ModelOpt, where a build may need it and one is known."""
    needed = precision == "fp8" or "quantizer" in options
    if not needed or builder.step_ahead is None:
        return {}
    here = sys.executable if importlib.util.find_spec("modelopt") is not None else None
    found = config.python_for("modelopt") or here
    return {"modelopt": found} if found else {}


def quantize_ahead(
    builder: Builder, spec: BuildSpec, *, folder: Path, conduct: Conduct
) -> tuple[tuple[str, ...], float]:
    """Leave the quantized model in the folder of the build, if needed; give notes and time."""
    step = builder.step_ahead(spec) if builder.step_ahead is not None else None
    if step is None:
        return (), 0.0
    work = folder / "ahead"
    work.mkdir()
    job = QuantizeJob(spec=step_spec(spec, step, work))
    end = run_conversion(job, folder=work, conduct=conduct, python=spec.options["modelopt"])
    outcome = read_outcome(work, QuantOutcome)
    for made in work.glob(f"{TYPED}*"):
        made.replace(folder / made.name)
    return notes_of(spec, step, outcome), end.seconds
