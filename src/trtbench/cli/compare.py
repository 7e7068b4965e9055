"""``trtbench compare``: which is faster, by how much, and how sure is that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trtbench.cli._flags import command_line, flags
from trtbench.cli._options import json_option, refuse_unwritable
from trtbench.errors import UsageError
from trtbench.workflows.request.comparing import CompareRequest

if TYPE_CHECKING:
    from trtbench.store.store import Store
    from trtbench.workflows.compare.compare import Compared
    from trtbench.workflows.request.config import Config


@click.command("compare", short_help="Which of two is faster, and how sure is that.")
@flags(CompareRequest)
@json_option
def command(request: CompareRequest, as_json: bool) -> None:
    """Compare every CANDIDATE with BASELINE: models, engines, checkpoints or stored runs.

    Files are measured afresh, both sides in turn, in several fresh launches; stored runs are
    compared as they are. -r and --python are given once for all sides or once per side, in order.

    \b
    Examples:
      trtbench compare model.onnx model.int8.onnx --batch 8
      trtbench compare model.onnx model.onnx -r onnxruntime -r onnxruntime \\
          --python ~/ort-1.20/bin/python --python ~/ort-1.27/bin/python
      trtbench compare tag:release last
      trtbench compare --selftest model.onnx
      trtbench compare old.onnx new.onnx --builds 3
    """
    from trtbench.cli._screen import Talk
    from trtbench.cli._settings import load_config, open_store
    from trtbench.workflows.compare.compare import compare
    from trtbench.workflows.measure.remote import executor_for
    from trtbench.workflows.request.conduct import conduct_from_request

    config = load_config(store=request.store)
    # Workers are started first; what is measured elsewhere takes a store that works.
    store = open_store(config, at_once=request.executor is not None)
    refuse_unwritable(Path(request.output_dir), flag="--output-dir")
    if request.builds is not None:
        _compare_networks(request, config, store, as_json=as_json)
        return
    conduct = conduct_from_request(request, config, command=command_line())
    with executor_for(request, conduct) as conduct, Talk("compare") as talk:
        conduct = replace(conduct, listen=talk)
        found = compare(request, store=store, config=config, conduct=conduct)
    _show(found, request, as_json=as_json)
    _write(found, request)


def _compare_networks(
    request: CompareRequest, config: Config, store: Store, *, as_json: bool
) -> None:
    from trtbench.cli._outputs import comparison_output
    from trtbench.cli._screen import print_json, show
    from trtbench.cli._settings import conducting
    from trtbench.report.documents.builds import document_from_networks
    from trtbench.workflows.builds.networks import compare_networks

    with conducting(request, config, "compare") as conduct:
        found = compare_networks(request, store=store, config=config, conduct=conduct)
    if as_json:
        print_json(comparison_output(found))
        return
    show(document_from_networks(found))


def _show(found: list[Compared], request: CompareRequest, *, as_json: bool) -> None:
    from trtbench.cli._screen import print_json, show

    if as_json:
        from trtbench.cli._outputs import comparison_output

        print_json(comparison_output(found))
        return
    from trtbench.report.documents.comparison import document_from_comparisons

    show(document_from_comparisons(found, selftest=request.selftest))


def _write(found: list[Compared], request: CompareRequest) -> None:
    from trtbench.cli._screen import say
    from trtbench.workflows.compare.compare import compare_csv, csv_name, write_comparison

    if request.selftest:
        return
    if request.output_name and len(found) > 1:
        raise UsageError(
            "--output-name names one table, and there are several candidates",
            fix="leave --output-name out: each table is named after its candidate",
        )
    taken: set[str] = set()
    for each in found:
        name = request.output_name or csv_name(each.baseline, each.candidate)
        if name in taken:  # one model on several devices
            name = f"{name.removesuffix('.csv')}_{each.candidate.id}.csv"
        taken.add(name)
        table = compare_csv(each.baseline, each.candidate)
        path = write_comparison(each, table, Path(request.output_dir) / name)
        say(f"table {path}, runs {each.baseline.id} and {each.candidate.id}")
