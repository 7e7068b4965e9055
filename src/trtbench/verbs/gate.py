"""Check a model against rules: exit status 0 when all are met, 3 when not.

\b
Rules:
  --max-slowdown 3%             against BASELINE, both measured in turn
  --metric 'speedup>=2'         the same, as baseline / candidate
  --metric 'p99<5ms'            median, mean, min, max, p50 to p99.9; gpu.p99
  --metric 'throughput>=100/s'  batches per second; items>=... counts items
  --metric 'count(MatMul)==0'   of layers: also share, time; (precision=int8)

Examples:
  trtbench gate new.onnx --against old.onnx --max-slowdown 3%
  trtbench gate model.onnx --against tag:release --max-slowdown 3% \\
      --metric 'p99<5ms'
  trtbench gate model.onnx --baseline best --max-slowdown 3%
  trtbench gate model.onnx --batch 8 --metric 'items>=2000/s' \\
      --on-unclear pass
  trtbench gate gates.toml      # several models, a table of rules each
  >>> trtbench.gate("new.onnx", against="old.onnx", max_slowdown="3%").open
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.core.errors import EXIT_BROKEN
from trtbench.requests.fields import File, output_path
from trtbench.requests.measure import GateRequest
from trtbench.verbs import _verb
from trtbench.verbs._screen import draw, say, write

if TYPE_CHECKING:
    from trtbench.core.results import Failed, Gate


class GateView(_verb.JsonView):
    """How the result is printed, and where its files are written."""

    output: File | None = output_path(
        None, "Folder of gate.json, gate.junit.xml and gate.md (default: in the store)."
    )

    def validate(self) -> None:
        if self.output is not None:
            _verb.refuse_unwritable(Path(self.output))


@dataclass(frozen=True, kw_only=True)
class Gates:
    """The gates of one or several models."""

    gates: tuple[Gate, ...]
    failed: tuple[Failed, ...] = ()

    @property
    def open(self) -> bool:
        """Whether every model was measured and meets its rules."""
        return not self.failed and all(each.open for each in self.gates)


def run(request: GateRequest, caller: _verb.Caller) -> Gates:
    from trtbench.compare.gate import gate, requests_from_file, rules_from_request
    from trtbench.measure.bench import Failures
    from trtbench.workflows.runs import baseline_run

    rules_from_request(request)  # invalid rules are refused before anything is opened
    requests = requests_from_file(request)
    store, config = caller.store_and_settings(request)
    found, failures = [], Failures(len(requests))
    for one, rules in requests:
        with failures.collecting(str(one.candidate)):
            against = None
            with caller.executing(one, config, "gate") as execution:
                if one.baseline is not None:
                    against = baseline_run(one, store=store, config=config, execution=execution)
                    caller.say(f"baseline {one.baseline}: run {against}")
                judged = gate(
                    one, store=store, config=config, against=against, execution=execution,
                    further=rules,
                )  # fmt: skip
            found.append(judged)
    return Gates(gates=tuple(found), failed=tuple(failures.found))


def show(found: Gates, request: GateRequest, view: GateView) -> int | None:
    from trtbench.compare.gate import append_summary, gate_files
    from trtbench.host.files import write_output
    from trtbench.measure.bench import raise_if_failed
    from trtbench.report.sections.verdicts import document_from_gates

    gates, failed = found.gates, found.failed
    files = gate_files(gates, on_unclear=request.on_unclear, failed=failed)
    if view.as_json:
        write(files["gate.json"].decode())
    else:
        draw(document_from_gates(gates, failed))
    folder = _verb.output_of(request, view.output, "gate")
    paths = [write_output(folder / name, content) for name, content in files.items()]
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        append_summary(gates, Path(summary), failed=failed)
    say(f"gate {'passed' if found.open else 'failed'}; wrote {', '.join(map(str, paths))}")
    if not all(each.open for each in gates):
        return EXIT_BROKEN
    raise_if_failed(failed, what="some models could not be checked against their rules")
    return None


def gate_or_raise(request: GateRequest, caller: _verb.Caller) -> Gate | list[Gate]:
    from trtbench.measure.bench import raise_if_failed

    found = run(request, caller)
    raise_if_failed(found.failed, what="some models could not be checked against their rules")
    return list(found.gates) if len(found.gates) > 1 else found.gates[0]


verb = _verb.Verb(GateRequest, run, show, GateView, task="images")
gate = _verb.python_function(GateRequest, gate_or_raise)
