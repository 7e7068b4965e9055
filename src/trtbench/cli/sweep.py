"""``trtbench sweep``: models × precisions × batches × runtimes × any option."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trtbench.cli._flags import flags as request_flags
from trtbench.cli._options import dry_run_option, json_option, store_option
from trtbench.errors import EXIT_BROKEN, JobError, UsageError
from trtbench.workflows.request.groups import ExecutorFields
from trtbench.workflows.request.kinds import pairs_from_flags, shapes_from_flags

if TYPE_CHECKING:
    from trtbench.analysis.sweep import Chosen
    from trtbench.workflows.request.config import Config
    from trtbench.workflows.sweep.matrix import Matrix
    from trtbench.workflows.sweep.result import Results

FILES = (".toml", ".yaml", ".yml")


@click.command("sweep", short_help="Measure every case of a matrix.")
@click.argument("models", nargs=-1)
@click.option("--preset", metavar="NAME", help="classification, depth, pose or stgcn.")
@click.option("--precision", metavar="LIST", help="fp32,fp16,int8; as-is takes the file's own.")
@click.option("--batch", metavar="LIST", help="Batch sizes: 1,32,64.")
@click.option("-r", "--runtime", metavar="LIST", help="What executes: onnxruntime,tensorrt.")
@click.option("--engine", metavar="LIST", help="static: one per batch; dynamic: one for all.")
@click.option(
    "--axis", "axes", multiple=True, metavar="NAME=LIST",
    help="Another axis: a flag of bench, opt.KEY or build.KEY; repeat for several.",
)  # fmt: skip
@click.option("--exclude", "excluded", multiple=True, metavar="NAME=VALUE,...",
              help="Leave out the cases that have all these values.")  # fmt: skip
@click.option("--rounds", type=int, help="Measure every case so often, in turn (default 1).")
@click.option("--seed", type=int, help="Of the order within rounds (default 0).")
@click.option("--launches", metavar="LIST", help="Fresh processes of each measurement.")
@click.option("--duration", metavar="LIST", help="Least measured time.")
@click.option("--data", metavar="PATH", help="Take accuracies on this, as eval --data.")
@click.option("--task", metavar="NAME", help="Of eval, for --data (default: classification).")
@click.option("--task-opt", "task_options", multiple=True, metavar="KEY=VALUE",
              help="A flag of the task, e.g. gt=truth; repeat for several.")  # fmt: skip
@click.option("--calibration", metavar="DATA", help="For INT8: images, .npz or random.")
@click.option("--shape", "shapes", multiple=True, metavar="NAME:1x3x224x224",
              help="Shape of an input that is open in more than its batch.")  # fmt: skip
@click.option("--input-shape", multiple=True, metavar="SHAPE", help="To export with: -1x3x224x224.")
@click.option("--where", metavar="CONDITION", help="Show what meets this, the best first.")
@click.option("--best", metavar="NAME", default="items", show_default=True,
              help="What the best has most of, or least: items, median, size, top1.")  # fmt: skip
@click.option("--resume", type=click.Path(path_type=Path), metavar="DIR",
              help="Go on with the sweep in this folder.")  # fmt: skip
@click.option("--retry-failed", is_flag=True, help="With --resume: try again what failed.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder of the sweep.")
@click.option("--format", "formats", default="html,png", show_default=True, metavar="LIST",
              help="Of the report; none leaves it out.")  # fmt: skip
@click.option("--timeout", metavar="TIME", help="Give up on a launch or a step after this long.")
@click.option("--memory-limit", metavar="SIZE", help="Address space of each child, e.g. 8GiB.")
@click.option("--tag", "tags", multiple=True, metavar="NAME", help="Tag every run.")
@request_flags(ExecutorFields)
@store_option
@json_option
@dry_run_option
@click.pass_context
def command(
    context: click.Context, /, models: tuple[str, ...], request: ExecutorFields, **flags: Any
) -> None:
    """Measure every case of a matrix: MODELS, or a file of TOML or YAML that says it all.

    \b
    What cases share (export, quantize, build) is done once and kept by the content of its
    inputs. A case that fails is a row with its reason. After any interruption, kill -9
    included, --resume goes on without repeating what is done. Exit status 3 when nothing
    meets --where.
    \b
    Examples:
      trtbench sweep resnet18.onnx --precision fp32,int8 --batch 1,8,32 --rounds 3
      trtbench sweep sweep.toml --dry-run
      trtbench sweep model.onnx -r tensorrt --engine static,dynamic --batch 1,32,256
      trtbench sweep model.onnx --axis threads=1,2,4 --data val.npz \\
          --where 'p99<5ms and top1>=baseline-0.5%'
      trtbench sweep --preset classification -r torch,tensorrt
      trtbench sweep --resume sweeps/resnet18-20261115-120000
      trtbench sweep model.onnx --batch 1,8,32 --executor ray --address head:6379
    """
    from trtbench.cli._settings import load_config
    from trtbench.workflows.request.config import open_store

    config = load_config(store=flags["store"])
    if flags["resume"] is not None:
        _refuse_more(models, flags)
        _carry_out(
            context, flags["resume"], open_store(config), config, {**flags, "request": request}
        )
        return
    matrix = _matrix(models, flags)
    lenient = flags["preset"] is not None and not flags["runtime"]
    store = open_store(config)
    if flags["dry_run"]:
        _show_plan(matrix, store, config, lenient=lenient, as_json=flags["as_json"])
        return
    from trtbench.workflows.sweep.plan import plan_sweep
    from trtbench.workflows.sweep.run import start_sweep

    plan_sweep(matrix, config=config, lenient=lenient)  # what has no meaning leaves no folder
    folder = flags["output"] or _folder(matrix)
    start_sweep(matrix, folder, store=store, lenient=lenient)
    _carry_out(context, folder, store, config, {**flags, "request": request})


def _matrix(models: tuple[str, ...], flags: dict[str, Any]) -> Matrix:
    from trtbench.workflows.sweep.matrix import (
        Matrix,
        matrix_from_file,
        matrix_from_preset,
        with_flags,
    )

    files = [name for name in models if Path(name).suffix in FILES]
    if len(files) > 1 or (files and flags["preset"]):
        raise UsageError("one file or one preset describes a sweep", fix="trtbench sweep --help")
    matrix = Matrix()
    if files:
        matrix = matrix_from_file(Path(files[0]))
    elif flags["preset"]:
        matrix = matrix_from_preset(flags["preset"])
    named = [name for name in models if name not in files]
    lists = {name: _list(flags[name]) for name in ("precision", "runtime", "engine")}
    return with_flags(
        matrix,
        {
            **lists,
            "models": [name if _is_source(name) else str(Path(name).absolute()) for name in named],
            "batch": [_integer(each, "--batch") for each in _list(flags["batch"])],
            "options": _axes(flags),
            "exclude": [*matrix.exclude, *map(_pairs, flags["excluded"])] or None,
            "rounds": flags["rounds"],
            "seed": flags["seed"],
            "data": _path(flags["data"]),
            "task": flags["task"],
            "task_settings": _task_settings(flags, matrix),
            "calibration": _path(flags["calibration"]),
            "shapes": shapes_from_flags(flags["shapes"]),
            "input_shape": list(flags["input_shape"]),
        },
    )


def _task_settings(flags: dict[str, Any], matrix: Matrix) -> dict[str, Any] | None:
    """Read ``gt=truth``, each value in the kind that the task's flag has."""
    if not flags["task_options"]:
        return None
    from trtbench.tasks import TASKS
    from trtbench.tasks.contract import settings_from_text

    told = pairs_from_flags(flags["task_options"])
    own = TASKS.load(flags["task"] or matrix.task).FLAGS
    return {**matrix.task_settings, **settings_from_text(own, told)}


def _axes(flags: dict[str, Any]) -> dict[str, Any]:
    """Read ``threads=1,2`` and the axes that have a flag of their own."""
    axes: dict[str, Any] = {}
    for text in flags["axes"]:
        name, equals, values = text.partition("=")
        if not equals or not values:
            raise UsageError(f"--axis {text} cannot be read", fix="write it like threads=1,2,4")
        axes[name.strip().replace("-", "_")] = [_scalar(each) for each in _list(values)]
    for name in ("launches", "duration"):
        if flags[name]:
            axes[name] = [_scalar(each) for each in _list(flags[name])]
    return axes


def _carry_out(
    context: click.Context, folder: Path, store: Any, config: Config, flags: dict[str, Any]
) -> None:
    from trtbench.cli._board import Board
    from trtbench.cli._screen import say, show
    from trtbench.report.documents.sweep import document_from_sweep
    from trtbench.units import bytes_from_text, seconds_from_text
    from trtbench.workflows.measure.remote import executor_for
    from trtbench.workflows.request.conduct import Conduct, needs_from_request
    from trtbench.workflows.sweep.result import results_from_sweep, write_results
    from trtbench.workflows.sweep.run import carry_out

    conduct = Conduct(
        command=shlex.join(["trtbench", *sys.argv[1:]]),
        tags=flags["tags"],
        timeout_s=seconds_from_text(flags["timeout"]) if flags["timeout"] else None,
        memory_bytes=bytes_from_text(flags["memory_limit"]) if flags["memory_limit"] else None,
    )
    try:
        with executor_for(flags["request"]) as executor, Board() as board:
            needs = needs_from_request(flags["request"])
            sweep = carry_out(
                folder, store=store, config=config,
                conduct=replace(conduct, executor=executor, needs=needs),
                retry_failed=flags["retry_failed"], watch=board,
            )  # fmt: skip
    except KeyboardInterrupt:
        say(f"go on with: trtbench sweep --resume {shlex.quote(str(folder))}")
        raise
    results = results_from_sweep(sweep, store=store)
    title = sweep.outline.matrix.title or f"Sweep {sweep.outline.name}"
    formats = [] if flags["formats"] == "none" else _list(flags["formats"])
    paths = write_results(results, folder, title=title, formats=formats)
    chosen = _chosen(results, flags) if flags["where"] else None
    if flags["as_json"]:
        click.echo(_json(results, folder, chosen), nl=False)
    else:
        where, by = flags["where"] or "", flags["best"]
        show(document_from_sweep(results.rows, chosen=chosen, where=where, by=by))
    say(f"sweep in {folder}: {len(paths)} files, {paths[0].name} first")
    if chosen is not None and not chosen.rows:
        context.exit(EXIT_BROKEN)
    if not results.runs:
        raise JobError("no case of the sweep could be measured", fix=f"see {paths[0]}")


def _chosen(results: Results, flags: dict[str, Any]) -> Chosen:
    from trtbench.analysis.conditions import condition_from_text
    from trtbench.analysis.sweep import TIMES, choose, quantities, shares

    names = quantities(results.rows)
    if flags["best"] not in names:
        raise UsageError(
            f"--best {flags['best']} is no quantity", facts={"quantities": " ".join(names)}
        )
    condition = condition_from_text(
        flags["where"], names=names, times=TIMES, shares=shares(results.rows)
    )
    return choose(results.rows, condition, by=flags["best"])


def _json(results: Results, folder: Path, chosen: Chosen | None) -> str:
    import msgspec

    from trtbench.domain.codec import json_from_value
    from trtbench.report.sweep_files import json_from_rows

    document = msgspec.json.decode(json_from_rows(results.rows, title=folder.name))
    document["folder"] = str(folder)
    if chosen is not None:
        document["chosen"] = [row.runs for row in chosen.rows]
        document["unknown"] = chosen.unknown
    return json_from_value(document).decode()


def _show_plan(matrix: Matrix, store: Any, config: Config, *, lenient: bool, as_json: bool) -> None:
    from trtbench.cli._screen import show
    from trtbench.domain.codec import json_from_value
    from trtbench.report.documents.sweep import document_from_plan
    from trtbench.workflows.sweep.estimate import estimate
    from trtbench.workflows.sweep.plan import plan_sweep

    plan = plan_sweep(matrix, config=config, lenient=lenient)
    kinds = estimate(plan, store=store, config=config)
    if not as_json:
        show(document_from_plan(plan, kinds))
        return
    document = {
        "matrix": matrix,
        "cases": [
            {"case": case, "name": case.name, "steps": chain, "refused": plan.refused.get(place)}
            for place, (case, chain) in enumerate(zip(plan.cases, plan.chains, strict=True))
        ],
        "steps": list(plan.steps.values()),
        "estimate": kinds,
    }
    click.echo(json_from_value(document).decode(), nl=False)


def _refuse_more(models: tuple[str, ...], flags: dict[str, Any]) -> None:
    axes = ("preset", "precision", "batch", "runtime", "engine", "axes", "output", "data",
            "task", "task_options", "excluded", "rounds", "seed", "launches", "duration",
            "calibration")  # fmt: skip
    given = [name for name in axes if flags[name]]
    if models or given or flags["dry_run"]:
        raise UsageError(
            "--resume goes on with what was asked for before",
            fix="leave out everything else, or begin a new sweep",
        )


def _folder(matrix: Matrix) -> Path:
    import time

    first = Path(matrix.models[0].rpartition(":")[2]).stem
    name = (matrix.title or first).lower().replace(" ", "-")
    return Path("sweeps") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"


def _list(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _scalar(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)


def _integer(text: str, flag: str) -> int:
    if not text.isdigit():
        raise UsageError(f"{flag} {text} is not a number", fix=f"{flag} 1,8,32")
    return int(text)


def _pairs(text: str) -> dict[str, Any]:
    pairs = dict(part.partition("=")[::2] for part in _list(text))
    if not all(pairs.values()):
        raise UsageError(f"--exclude {text} cannot be read", fix="runtime=torch,precision=int8")
    return {name: _scalar(value) for name, value in pairs.items()}


def _path(name: str | None) -> str | None:
    return name if name in (None, "random") else str(Path(str(name)).absolute())


def _is_source(name: str) -> bool:
    return ":" in name and not Path(name).exists()
