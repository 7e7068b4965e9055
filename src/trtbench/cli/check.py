"""``trtbench check``: is it still right, and if not, where does it go wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trtbench.cli._commands import ImageCommand
from trtbench.cli._flags import flags
from trtbench.cli._options import json_option, refuse_unwritable
from trtbench.errors import BrokenRuleError
from trtbench.workflows.request.judging import IMAGES_TASK, CheckRequest

if TYPE_CHECKING:
    from trtbench.analysis.check_rules import CheckRule
    from trtbench.domain.feed import LayersChecked
    from trtbench.workflows.check.values import Checked


class CheckCommand(ImageCommand):
    def task_of(self, args: list[str]) -> str | None:
        images = any(word == "--images" or word.startswith("--images=") for word in args)
        return super().task_of(args) or (IMAGES_TASK if images else None)


@click.command(
    "check", short_help="Run models on the same inputs and compare their outputs.", cls=CheckCommand
)
@flags(CheckRequest)
@json_option
def command(request: CheckRequest, as_json: bool) -> None:
    """Run every side on the same inputs and compare each CANDIDATE with REFERENCE.

    Models, engines and checkpoints, each through its own runtime and interpreter: -r and --python
    are given once for all sides or once per side, in order, the reference first. An element is
    close when |candidate - reference| <= atol + rtol * |reference|.

    \b
    Examples:
      trtbench check model.onnx model.engine --random 5000
      trtbench check model.onnx model.fp16.engine model.int8.engine \\
          --images photos --batch 8
      trtbench check model.onnx model.int8.onnx --layers
      trtbench check a.engine b.engine --python ~/trt10/bin/python \\
          --python ~/trt11/bin/python
      trtbench check model.onnx model.engine --expect 'max_abs<=0.1' \\
          --expect 'argmax_match>=99%'
    """
    from trtbench.analysis.check_rules import rule_from_text
    from trtbench.cli._screen import say
    from trtbench.cli._settings import conducting, open_store_of
    from trtbench.workflows.check.check import run_check
    from trtbench.workflows.check.check_files import join_checks, write_check
    from trtbench.workflows.check.layers import run_layers
    from trtbench.workflows.measure.failure import refuse_failed

    rules = [rule_from_text(text) for text in request.expect]
    (store, config), output = open_store_of(request), Path(request.output)
    refuse_unwritable(output)
    with conducting(request, config, "check") as conduct:
        checked = run_check(request, store=store, config=config, conduct=conduct)
        # Before layers are looked at: what is found should not be lost when they cannot be.
        paths = write_check(checked, output)
        joined = join_checks(checked, store)
        layers = [
            run_layers(request, number, store=store, config=config, conduct=conduct)
            for number in range(len(request.candidates) if request.layers else 0)
        ]
    _show(checked, layers, as_json=as_json)
    say(f"written {', '.join(str(path) for path in paths)}")
    if joined:
        say(f"joined to the runs {', '.join(joined[:5])}{' ...' if len(joined) > 5 else ''}")
    _judge(checked, rules)
    refuse_failed(checked.failed, what="not all candidates could be checked")


def _show(checked: Checked, layers: list[LayersChecked], *, as_json: bool) -> None:
    from trtbench.cli._screen import print_json, show

    if as_json:
        from trtbench.cli._outputs import CheckOutput

        print_json(CheckOutput(check=checked, layers=layers))
        return
    from trtbench.report.documents.check import document_from_check

    show(document_from_check(checked, layers))


def _judge(checked: Checked, rules: list[CheckRule]) -> None:
    from trtbench.analysis.check_rules import broken_rules

    broken = {
        f"{candidate.side.model.name} {number}": told
        for candidate in checked.candidates
        for number, told in enumerate(broken_rules(rules, candidate.checks), start=1)
    }
    if broken:
        raise BrokenRuleError("the candidate is not right enough", facts=broken)
