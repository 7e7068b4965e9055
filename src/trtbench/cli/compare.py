"""``trtbench compare``: which is faster, by how much, and how sure is that."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trtbench.cli._executor import executor_from_flags, executor_options, needs_from_flags
from trtbench.cli._options import (
    json_option,
    pair_options,
    pairs_from_flags,
    refuse_unwritable,
    shapes_from_flags,
    store_option,
)
from trtbench.errors import UsageError

if TYPE_CHECKING:
    from trtbench.workflows.compare.compare import Compared
    from trtbench.workflows.compare.sides import Asked
    from trtbench.workflows.request.config import Config


@click.command("compare", short_help="Which of two is faster, and how sure is that.")
@click.argument("baseline")
@click.argument("candidates", nargs=-1)
@pair_options
@click.option("--selftest", is_flag=True, help="Compare BASELINE with itself.")
@click.option(
    "--output-dir", type=click.Path(path_type=Path), default=Path("artifacts/compare"),
    show_default=True, help="Folder of the table.",
)  # fmt: skip
@click.option("--output-name", metavar="NAME", help="Its name (default: <base>_vs_<cand>.csv).")
@executor_options
@store_option
@json_option
def command(baseline: str, candidates: tuple[str, ...], **flags: Any) -> None:
    """Compare every CANDIDATE with BASELINE: models, engines, checkpoints or stored runs.

    Files are measured afresh, both sides in turn, in several fresh launches; stored runs are
    compared as they are. -r and --python are given once for all sides or once per side, in order.

    \b
    Examples:
      trtbench compare model.onnx model.int8.onnx --batch 8
      trtbench compare model.onnx model.onnx -r onnxruntime -r onnxruntime \\
                       --python ~/envs/ort-1.20/bin/python --python ~/envs/ort-1.27/bin/python
      trtbench compare tag:release last
      trtbench compare --selftest model.onnx
    """
    from trtbench.cli._screen import Talk
    from trtbench.cli._settings import load_config
    from trtbench.workflows.compare.compare import compare, selftest
    from trtbench.workflows.request.config import open_store

    config = load_config(store=flags["store"])
    store = open_store(config)
    if flags["selftest"] and candidates:
        raise UsageError(
            "--selftest takes one model", fix=f"trtbench compare --selftest {baseline}"
        )
    asked = asked_from_flags(flags)
    refuse_unwritable(flags["output_dir"], flag="--output-dir")
    with executor_from_flags(flags) as executor, Talk("compare") as talk:
        conduct = pair_conduct(flags, config, talk)
        conduct = replace(conduct, executor=executor, needs=needs_from_flags(flags["needs"]))
        if flags["selftest"]:
            rest = {"store": store, "config": config, "asked": asked, "conduct": conduct}
            found = [selftest(baseline, **rest)]
        else:
            found = compare(
                baseline, candidates, store=store, config=config, asked=asked, conduct=conduct
            )
    _show(found, flags)
    _write(found, flags)


def asked_from_flags(flags: dict[str, Any]) -> Asked:
    """Make what a comparison is asked to do."""
    from trtbench.units import fraction_from_text
    from trtbench.workflows.compare.sides import LAUNCHES, Asked

    names = ("batch", "warmup", "warmup_iterations", "until_steady", "duration", "iterations",
             "inputs", "seed", "threads", "device", "protocol", "rate", "arrivals", "cuda_graph",
             "transfers", "spin_wait", "streams", "gap", "profile_index",
             "precision")  # fmt: skip
    return Asked(
        launches=flags["launches"],
        most_launches=max(flags["launches"] or LAUNCHES, flags["max_launches"]),
        alone=flags["launches"],
        pairs=flags["pairs"],
        mode=flags["mode"],
        margin=fraction_from_text(flags["margin"]),
        accept=flags["accept"],
        flags={
            **{name: flags[name] for name in names},
            "shapes": shapes_from_flags(flags["shapes"]),
            "options": pairs_from_flags(flags["options"]),
        },
        runtimes=flags["runtime"] or (None,),
        pythons=flags["python"] or (None,),
    )


def pair_conduct(flags: dict[str, Any], config: Config, talk: Any) -> Any:
    """Make how the jobs of a comparison are carried out."""
    from trtbench.units import seconds_from_text
    from trtbench.workflows.request.conduct import Conduct

    timeout = flags["timeout"] or config.defaults.timeout
    return Conduct(
        timeout_s=seconds_from_text(timeout) if timeout else None,
        wait=not flags["no_wait"],
        command=shlex.join(["trtbench", *sys.argv[1:]]),
        tags=flags["tags"],
        listen=talk,
    )


def _show(found: list[Compared], flags: dict[str, Any]) -> None:
    if flags["as_json"]:
        from trtbench.domain.codec import json_from_value

        documents = [
            {"comparison": each.comparison, "mode": each.mode, "interference": each.interference}
            for each in found
        ]
        document = documents[0] if len(documents) == 1 else documents
        click.echo(json_from_value(document).decode(), nl=False)
        return
    from trtbench.cli._screen import show
    from trtbench.report.documents.comparison import document_from_comparisons

    show(document_from_comparisons(found, selftest=flags["selftest"]))


def _write(found: list[Compared], flags: dict[str, Any]) -> None:
    from trtbench.cli._screen import say
    from trtbench.workflows.compare.compare import compare_csv, csv_name, write_comparison

    if flags["selftest"]:
        return
    if flags["output_name"] and len(found) > 1:
        raise UsageError("--output-name names one table, and there are several candidates")
    for each in found:
        name = flags["output_name"] or csv_name(each.baseline, each.candidate)
        table = compare_csv(each.baseline, each.candidate)
        path = write_comparison(each, table, flags["output_dir"] / name)
        say(f"table {path}, runs {each.baseline.id} and {each.candidate.id}")
