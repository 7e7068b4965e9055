"""Build an engine from an ONNX file in a fresh process.

The folder of the engine also gets the build log and its metadata, the layers, the timing cache, and
``<engine>.json`` with the hash, the settings and the command. A build that fails or is
interrupted leaves no engine. What follows ``--`` is passed on to builders that are programs.

Examples:
  trtbench build model.onnx -o model.engine --precision fp16
  trtbench build model.onnx --shape-min x:1x3x224x224 \\
      --shape-max x:8x3x224x224
  trtbench build model.onnx --workspace 4GiB --dry-run
  trtbench build model.onnx -r tensorrt-rtx --target sm_86,sm_89
  >>> trtbench.build("model.onnx", precision="fp16", workspace="4GiB").path
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.requests.models import BuildRequest
from trtbench.verbs._screen import say, show_job, show_value
from trtbench.verbs._verb import Caller, PlanView, Verb, python_function

if TYPE_CHECKING:
    from trtbench.core.results import Artefact


def run(request: BuildRequest, caller: Caller) -> Artefact:
    from trtbench.convert.build import build_engine

    config = caller.settings()
    title = Path(request.output or f"{Path(request.model).stem}.engine").name
    with caller.executing(request, config, title) as execution:
        return build_engine(request, config=config, execution=execution)


def show(artefact: Artefact, request: BuildRequest, view: PlanView) -> None:
    from trtbench.report.sections.environment import document_from_artefact

    show_value(artefact, document_from_artefact, as_json=view.as_json)
    for note in artefact.notes:
        say(f"note: {note}")


def plan(request: BuildRequest, view: PlanView, caller: Caller) -> None:
    from trtbench.convert.build import build_spec
    from trtbench.convert.builders import BUILDERS
    from trtbench.core.jobs import BuildJob
    from trtbench.host.machine import version_elsewhere

    config = caller.settings()
    spec = build_spec(request, config)
    builder = BUILDERS.load(spec.runtime)
    python = builder.LIBRARY and (request.python or config.python_for(spec.runtime))
    found = version_elsewhere(builder.LIBRARY.replace("_", "-"), str(python)) if python else None
    planned = spec.having(options={**({"version": found} if found else {}), **spec.options})
    lines = builder.command_lines(planned) if builder.command_lines else []
    show_job(BuildJob(spec=spec), lines, as_json=view.as_json)
    if spec.assumed:
        say(f"note: {spec.assumed}")


verb = Verb(BuildRequest, run, show, PlanView, plan=plan, task="images", joins_dims=True)
build = python_function(BuildRequest, run)
