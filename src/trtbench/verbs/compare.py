"""Compare models, engines or stored runs: which is faster, and how sure is that.

Files are measured afresh, both sides in turn, in several fresh launches; stored runs are
compared as they are. -r and --python are given once for all sides or once per side, in order;
without a candidate, the sides are one model.

With --builds N, ONNX files are built so many times, because a builder times kernels while it
chooses them, and each build is a draw. One model alone: bytes, layers, kernels, outputs and
latency are each the same or different, and the spread between builds says how many builds a
claim needs. One model with two runtimes, or two interpreters that have two versions of TensorRT:
speed is judged over builds, outputs and layers are compared. Two models: networks are judged by
pairs of builds.

With --why two runs of one model are explained: each condition in which they differ is listed with
what the facts allow to say, and with --measure it is changed and measured one after the other.

Examples:
  trtbench compare model.onnx model.int8.onnx --batch 8
  trtbench compare model.onnx -r onnxruntime -r torch
  trtbench compare model.onnx --python ~/ort-1.20/bin/python \\
      --python ~/ort-1.27/bin/python
  trtbench compare tag:release last
  trtbench compare --selftest model.onnx
  trtbench compare old.onnx new.onnx --builds 3
  trtbench compare model.onnx --builds 5 --build precision=fp16
  trtbench compare model.onnx --builds 3 --python ~/trt86/bin/python \\
      --python ~/trt10/bin/python
  trtbench compare last tag:trtexec --why
  trtbench compare serve-run trtexec.log,times.json --why
  trtbench compare last tag:graph --why --measure
  >>> trtbench.compare("model.onnx", "model.int8.onnx", batch=8).verdicts[0].kind
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from trtbench.core.errors import UsageError
from trtbench.requests.convert import LotteryRequest, UpgradeRequest
from trtbench.requests.fields import option
from trtbench.requests.measure import CompareRequest
from trtbench.requests.stored import ExplainRequest
from trtbench.verbs._screen import draw, print_json, say, show_value
from trtbench.verbs._verb import AnyVerb, Caller, JsonView, Verb, python_function, refuse_unwritable

if TYPE_CHECKING:
    from trtbench.analysis.builds import Lottery, NetworksCompared, Upgrade
    from trtbench.core.results import Compared, Comparison
    from trtbench.workflows.explain.engines import Explanation

    Pairs: TypeAlias = Sequence[Compared | NetworksCompared]


@dataclass(frozen=True, kw_only=True)
class WhyRequest(CompareRequest):
    """A comparison, or the reasons of a difference."""

    why: bool = option(False, "Explain the difference between two runs of one model.")
    measure: bool = option(False, "With --why: change one condition after the other and measure.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.measure and not self.why:
            raise UsageError("--measure measures the steps of --why", fix="--why --measure")


@dataclass(frozen=True, kw_only=True)
class CompareView(JsonView):
    """What the table is called."""

    output_name: str | None = option(
        None, "Name of the table (default: <base>_vs_<cand>.csv).", metavar="NAME"
    )


def run(request: WhyRequest, caller: Caller) -> Pairs | Lottery | Upgrade | Explanation:
    if not request.why:
        return compared(request, caller)
    if len(request.candidates) != 1:
        raise UsageError(
            "--why explains the difference between two runs",
            fix="trtbench compare last tag:NAME --why",
        )
    asked = ExplainRequest(
        run=request.baseline,
        against=request.candidates[0],
        measure=request.measure,
        launches=request.launches or 3,
        store=request.store,
    )
    return explained(asked, caller)


def compared(request: CompareRequest, caller: Caller) -> Pairs | Lottery | Upgrade:
    from trtbench.compare.compare import compare

    config = caller.settings(request.store)
    if caller.on_terminal or request.builds is not None:
        refuse_unwritable(Path(request.output_dir), flag="--output-dir")
    store = caller.store(config, at_once=False)  # workers are started first
    with caller.executing(request, config, "compare") as execution:
        if request.builds is None:
            return compare(request, store=store, config=config, execution=execution)
        from trtbench.workflows.builds import Builds

        return Builds(store=store, config=config, execution=execution).compare(request)


def explained(request: ExplainRequest, caller: Caller) -> Explanation:
    from trtbench.requests.execution import Execution
    from trtbench.workflows.explain.engines import explain_measured, explain_stated, named_run

    store, config = caller.opened(request)
    a, b = (named_run(str(name), store) for name in (request.run, request.against))
    if not request.measure:
        return explain_stated(a, b)
    with caller.progress("compare") as listen:
        execution = Execution(
            python=config.python_for(a.record.spec.runtime), command=caller.command, listen=listen
        )
        return explain_measured(a, b, store=store, execution=execution, launches=request.launches)


def several_builds(request: LotteryRequest, caller: Caller) -> Lottery:
    from trtbench.convert.build import refuse_without_builder
    from trtbench.workflows.builds import Builds

    config = caller.settings(request.store)
    if request.runtime is None and request.python is None:
        refuse_without_builder(config, request.options)
    store = caller.store(config)
    with caller.executing(request, config, "lottery") as execution:
        return Builds(store=store, config=config, execution=execution).lottery(request)


def two_versions(request: UpgradeRequest, caller: Caller) -> Upgrade:
    from trtbench.workflows.builds import Builds

    store, config = caller.opened(request)
    with caller.executing(request, config, "upgrade") as execution:
        return Builds(store=store, config=config, execution=execution).upgrade(request)


def show(
    found: Pairs | Lottery | Upgrade | Explanation, request: WhyRequest, view: CompareView
) -> None:
    from trtbench.analysis.builds import Lottery, NetworksCompared, Upgrade
    from trtbench.report.sections.verdicts import (
        document_from_comparisons,
        document_from_ladder,
        document_from_networks,
    )
    from trtbench.workflows.explain.engines import Explanation

    if isinstance(found, Lottery | Upgrade):
        show_builds(found, request, view)
        return
    if isinstance(found, Explanation):
        from trtbench.workflows.explain.engines import labels_of

        run, against = str(request.baseline), str(request.candidates[0])
        hint = f"to measure every step: trtbench compare {run} {against} --why --measure"
        document = document_from_ladder(
            found.ladder,
            labels_of(run, against),
            measured=found.measured,
            hint=None if found.measured else hint,
        )
        print_json(document.data) if view.as_json else draw(document)
        return
    networks = [each for each in found if isinstance(each, NetworksCompared)]
    pairs = [each for each in found if not isinstance(each, NetworksCompared)]
    if view.as_json:
        from trtbench.verbs._outputs import comparison_output

        print_json(comparison_output(found))
    elif networks:
        draw(document_from_networks(networks))
    else:
        draw(document_from_comparisons(pairs, selftest=request.selftest))
    if not request.selftest:
        _write(pairs, Path(request.output_dir), view)


def _write(found: Sequence[Compared], folder: Path, view: CompareView) -> None:
    from trtbench.compare.compare import csv_name, write_comparison

    if view.output_name and len(found) > 1:
        raise UsageError(
            "--output-name names one table, and there are several candidates",
            fix="leave --output-name out: each table is named after its candidate",
        )
    taken: set[str] = set()
    for each in found:
        models = (run.record.spec.model.name for run in (each.baseline, each.candidate))
        name = view.output_name or csv_name(*models)
        if name in taken:  # one model on several devices
            name = f"{name.removesuffix('.csv')}_{each.candidate.id}.csv"
        taken.add(name)
        path = write_comparison(each, folder / name)
        say(f"table {path}, runs {each.baseline.id} and {each.candidate.id}")


def show_builds(found: Lottery | Upgrade, request: object, view: JsonView) -> None:
    from trtbench.analysis.builds import Lottery
    from trtbench.report.sections.verdicts import document_from_lottery, document_from_upgrade

    if isinstance(found, Lottery):
        show_value(found, document_from_lottery, as_json=view.as_json)
    else:
        show_value(found, document_from_upgrade, as_json=view.as_json)


def first_comparison(request: CompareRequest, caller: Caller) -> Comparison:
    from trtbench.analysis.builds import Lottery, Upgrade

    found = compared(request, caller) if request.candidates or request.builds is None else None
    if found is None or isinstance(found, Lottery | Upgrade):
        fix = "trtbench.lottery(model, builds=N), or trtbench.upgrade(old, new, model)"
        raise UsageError("several builds of one model are no comparison of two", fix=fix)
    return found[0].comparison


LOTTERY = """Build an engine several times: what differs. See: trtbench compare MODEL --builds N.

Examples:
  trtbench lottery model.onnx --precision fp16
  trtbench lottery model.onnx --builds 10 --timing-cache model.cache
  >>> trtbench.lottery("model.onnx", precision="fp16", builds=5).spread.between
"""
UPGRADE = """Compare two TensorRT versions on one network. See: trtbench compare MODEL --builds N.

MODEL is built several times with each version, which is an interpreter that has it, with a name
before it. With --task and --data accuracy is compared, too.

Examples:
  trtbench upgrade 8.6=~/trt86/bin/python 10.13=~/trt10/bin/python model.onnx
  trtbench upgrade old=/usr/bin/python3 new=~/new/bin/python model.onnx \\
      --precision fp16 --builds 3 --task classification --data val
  >>> trtbench.upgrade("8.6=/opt/trt86/bin/python", "10=/opt/trt10/bin/python", "model.onnx")
"""

verb = Verb(WhyRequest, run, show, CompareView)
compare = python_function(CompareRequest, first_comparison)
explain = python_function(ExplainRequest, explained)
lottery = python_function(LotteryRequest, several_builds, doc=LOTTERY)
upgrade = python_function(UpgradeRequest, two_versions, doc=UPGRADE)
old_verbs: dict[str, AnyVerb] = {
    "lottery": Verb(
        LotteryRequest, several_builds, show_builds, JsonView,
        task="images", joins_dims=True, hidden=True, doc=LOTTERY,
    ),
    "upgrade": Verb(
        UpgradeRequest, two_versions, show_builds, JsonView,
        task="all", joins_dims=True, hidden=True, doc=UPGRADE,
    ),
}  # fmt: skip
"""Verbs of earlier versions that are now part of this one."""
