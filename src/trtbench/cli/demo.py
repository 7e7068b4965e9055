"""``trtbench demo``: the whole tool on this machine, no GPU needed."""

from __future__ import annotations

from pathlib import Path

import click

from trtbench.cli._flags import command_line, flags
from trtbench.cli._options import json_option
from trtbench.workflows.request.keeping import DemoRequest


@click.command("demo", short_help="The whole tool on a small network, without a GPU.")
@flags(DemoRequest)
@json_option
def command(request: DemoRequest, as_json: bool) -> None:
    """Measure a small network in FP32 and INT8 on ONNX Runtime, and write a report.

    Takes about a minute, one thread of one CPU, and nothing from a network. What it measures
    is real: both models at two batch sizes, their accuracy on images they have never seen, and
    a comparison of the two with a verdict.

    \b
    Examples:
      trtbench demo
      trtbench demo -o /tmp/first-look
    """
    from trtbench.cli._screen import Talk, print_json, say, show
    from trtbench.cli._settings import load_config, open_store
    from trtbench.report.documents.demo import document_from_demo
    from trtbench.workflows.demo import run_demo
    from trtbench.workflows.request.conduct import Conduct

    output = Path(request.output)
    config = load_config(store=str(output.absolute() / "store"))
    with Talk("demo") as talk:
        found = run_demo(
            output,
            store=open_store(config),
            config=config,
            conduct=Conduct(command=command_line(), listen=talk),
        )
    if as_json:
        from trtbench.cli._outputs import demo_output

        print_json(demo_output(found))
    else:
        show(document_from_demo(found))
    report = next(path for path in found.files if path.suffix == ".html")
    say(f"report: {report}")
