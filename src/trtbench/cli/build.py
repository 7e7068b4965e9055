"""``trtbench build``: an engine from an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trtbench.cli._commands import BuildCommand
from trtbench.cli._flags import flags
from trtbench.cli._options import dry_run_option, json_option
from trtbench.workflows.request.making import BuildRequest

if TYPE_CHECKING:
    from trtbench.domain.artefact import Artefact
    from trtbench.domain.spec import BuildSpec


@click.command("build", short_help="Build an engine from an ONNX file.", cls=BuildCommand)
@flags(BuildRequest)
@json_option
@dry_run_option
def command(request: BuildRequest, as_json: bool, dry_run: bool) -> None:
    """Build an engine from MODEL, an ONNX file, in a fresh process.

    Beside the engine lie its log, what the log tells, its layers, the timing cache, and
    ``<engine>.json`` with its hash, its settings and the command. A build that fails or is
    interrupted leaves no engine. What follows ``--`` is passed on to builders that are programs.

    \b
    Examples:
      trtbench build model.onnx -o model.engine --precision fp16
      trtbench build model.onnx --shape-min x:1x3x224x224 \\
          --shape-max x:8x3x224x224
      trtbench build model.onnx --workspace 4GiB --dry-run
      trtbench build model.onnx -r tensorrt-rtx --target sm_86,sm_89
      trtbench build model.onnx --times 5
    """
    from trtbench.cli._screen import say
    from trtbench.cli._settings import conducting, load_config
    from trtbench.workflows.make.build import build_spec, run_build
    from trtbench.workflows.make.remote import build_elsewhere

    if request.times > 1 and not dry_run:
        from trtbench.cli.lottery import play
        from trtbench.workflows.request.rebuilding import lottery_from_build

        play(lottery_from_build(request), as_json=as_json)
        return
    config = load_config()
    if request.executor is not None and not dry_run:
        with conducting(request, config, Path(request.model).name) as conduct:
            _told(build_elsewhere(request, config=config, conduct=conduct), as_json=as_json)
        return
    spec = build_spec(request, config)
    if dry_run:
        _show_plan(spec, as_json=as_json)
        if spec.assumed:
            say(f"note: {spec.assumed}")
        return
    from trtbench.workflows.request.choice import refuse_without_builder

    if request.runtime is None and request.python is None:
        refuse_without_builder(config, request.options)
    with conducting(request, config, Path(spec.output).name, runtime=spec.runtime) as conduct:
        artefact = run_build(spec, conduct=conduct)
    _told(artefact, as_json=as_json)


def _told(artefact: Artefact, *, as_json: bool) -> None:
    from trtbench.cli._screen import say, show_value
    from trtbench.report.documents.artefact import document_from_artefact

    show_value(artefact, document_from_artefact, as_json=as_json)
    for note in artefact.notes:
        say(f"note: {note}")


def _show_plan(spec: BuildSpec, *, as_json: bool) -> None:
    from trtbench.build.builders import BUILDERS
    from trtbench.cli._screen import show_job
    from trtbench.domain.job import BuildJob

    describe = BUILDERS.load(spec.runtime).command_lines
    show_job(BuildJob(spec=spec), describe(spec) if describe else [], as_json=as_json)
