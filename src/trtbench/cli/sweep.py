"""``trtbench sweep``: models × precisions × batches × runtimes × any option."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trtbench.boundary import clean_line, mask
from trtbench.cli._commands import TaskCommand
from trtbench.cli._flags import command_line, flags
from trtbench.cli._options import dry_run_option, json_option
from trtbench.cli._screen import LiveDrawing
from trtbench.errors import EXIT_BROKEN, JobError, UsageError, refuse_unknown
from trtbench.units import text_from_long_time, text_from_seconds
from trtbench.workflows.request.sweeping import SweepRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trtbench.analysis.sweep import Chosen
    from trtbench.report.document import Document
    from trtbench.store.store import Store
    from trtbench.workflows.request.config import Config
    from trtbench.workflows.sweep.plan import SweepPlan
    from trtbench.workflows.sweep.progress import Found, SweepProgress
    from trtbench.workflows.sweep.result import Results


class SweepCommand(TaskCommand):
    """Adds the flags of its task; what is not typed may stand in the file of the sweep."""

    only_given = True


@click.command("sweep", short_help="Measure every case of a matrix.", cls=SweepCommand)
@flags(SweepRequest)
@json_option
@dry_run_option
@click.pass_context
def command(context: click.Context, /, request: SweepRequest, as_json: bool, dry_run: bool) -> None:
    """Measure every case of a matrix: MODELS, or a file of TOML or YAML that says it all.

    What cases share (export, quantize, build) is done once and kept by the content of its
    inputs. A case that fails is a row with its reason. After any interruption, kill -9
    included, --resume goes on without repeating what is done. Exit status 3 when nothing
    meets --where.

    \b
    Examples:
      trtbench sweep resnet18.onnx --precision fp32,int8 --batch 1,8,32 --rounds 3
      trtbench sweep sweep.toml --dry-run
      trtbench sweep model.onnx -r tensorrt --engine static,dynamic \\
          --batch 1,32,256
      trtbench sweep model.onnx --axis threads=1,2,4 --data val.npz \\
          --where 'p99<5ms and top1>=baseline-0.5%'
      trtbench sweep fp16.engine int8.engine --task depth --data images --gt truth
      trtbench sweep --preset classification -r torch,tensorrt
      trtbench sweep --resume sweeps/resnet18-20261115-120000
      trtbench sweep model.onnx --batch 1,8,32 --executor ray --address head:6379
    """
    from trtbench.cli._settings import load_config, open_store
    from trtbench.workflows.request.conduct import is_elsewhere
    from trtbench.workflows.sweep.journal import read_outline
    from trtbench.workflows.sweep.request import (
        check_choice,
        check_plan,
        config_of_sweep,
        matrix_from_request,
        refuse_more,
        sweep_folder,
    )
    from trtbench.workflows.sweep.run import start_sweep

    config = load_config(store=request.store)
    if request.resume is not None:
        refuse_more(request)
        if dry_run:
            raise UsageError("--resume has no dry run", fix="leave --dry-run out")
        folder = Path(request.resume)
        config = config_of_sweep(
            folder, config, given=None if request.store is None else str(request.store)
        )
        check_choice(request.where, request.best, read_outline(folder.absolute()).matrix)
        store = open_store(config)
        _carry_out(context, request, folder, store, config, as_json=as_json)
        return
    matrix = matrix_from_request(request)
    check_choice(request.where, request.best, matrix)
    lenient = request.preset is not None and not request.runtime
    plan = check_plan(matrix, config=config, lenient=lenient, elsewhere=is_elsewhere(request))
    store = open_store(config)
    if dry_run:
        _show_plan(plan, store, config, as_json=as_json)
        return
    folder = sweep_folder(request, matrix)
    start_sweep(matrix, folder, store=store, lenient=lenient)
    _carry_out(context, request, folder, store, config, as_json=as_json)


def _carry_out(
    context: click.Context,
    request: SweepRequest,
    folder: Path,
    store: Store,
    config: Config,
    *,
    as_json: bool,
) -> None:
    from trtbench.cli._screen import say, show
    from trtbench.report.documents.sweep import document_from_sweep
    from trtbench.workflows.measure.remote import executor_for
    from trtbench.workflows.request.conduct import conduct_from_request
    from trtbench.workflows.request.kinds import words_from_text
    from trtbench.workflows.sweep.remote import ENGINES
    from trtbench.workflows.sweep.result import results_from_sweep, write_results
    from trtbench.workflows.sweep.run import carry_out

    conduct = conduct_from_request(request, config, command=command_line())
    try:
        with executor_for(request, conduct) as conduct, Board() as board:
            sweep = carry_out(
                folder, store=store, config=config, conduct=conduct,
                retry_failed=request.retry_failed, watch=board,
            )  # fmt: skip
    except KeyboardInterrupt:
        words = ["trtbench", "sweep", "--resume", str(folder), *_executor_words(request)]
        say(f"go on with: {shlex.join(words)}")
        raise
    for note in sweep.notes:
        say(f"note: {note}")
    results = results_from_sweep(sweep, store=store)
    title = sweep.outline.matrix.title or f"Sweep {sweep.outline.name}"
    formats = () if request.format == "none" else words_from_text(request.format)
    paths = write_results(results, folder, title=title, formats=formats)
    where, by = request.where or "", request.best
    chosen, where = _chosen(results, where, by) if where else (None, where)
    if as_json:
        click.echo(_json(results, folder, chosen), nl=False)
    else:
        advice = results.advice
        show(document_from_sweep(results.rows, chosen=chosen, where=where, by=by, advice=advice))
    say(f"sweep in {folder}: {len(paths)} files, {paths[0].name} first{_pictures(paths)}")
    if (engines := folder / ENGINES).is_dir():
        say(f"what other machines built is in {engines}, by machine and case")
    if chosen is not None and not chosen.rows:
        context.exit(EXIT_BROKEN)
    if not results.runs:
        raise JobError("no case of the sweep could be measured", fix=f"see {paths[0]}")


def _executor_words(request: SweepRequest) -> Iterator[str]:
    """Write anew where the work is done: the folder of a sweep does not say."""
    from trtbench.workflows.request.fields import fields_of
    from trtbench.workflows.request.groups import ExecutorFields

    for field in fields_of(ExecutorFields):
        value = getattr(request, field.name)
        if value != field.default:
            for each in value if isinstance(value, list | tuple) else (value,):
                yield from (field.flag, str(each))


def _pictures(paths: list[Path]) -> str:
    """Say where the pictures are, where there are any."""
    count = sum(path.suffix == ".png" for path in paths)
    folder = next((path.parent.name for path in paths if path.suffix == ".png"), "")
    return f", {count} pictures in {folder}/" if count else ""


def _chosen(results: Results, where: str, best: str) -> tuple[Chosen, str]:
    """Choose what meets a condition, and say how that was understood."""
    from trtbench.analysis.condition_text import condition_from_text, understood
    from trtbench.analysis.sweep import choose, kinds, quantities

    names = quantities(results.rows)
    refuse_unknown(best, names, f"--best {best} is no quantity", listed="quantities", flag="--best")
    condition = condition_from_text(where, names=names, kinds=kinds(names))
    return choose(results.rows, condition, by=best), understood(
        where, names=names, kinds=kinds(names)
    )


def _json(results: Results, folder: Path, chosen: Chosen | None) -> str:
    import msgspec

    from trtbench.domain.codec import json_from_value
    from trtbench.report.sweep_files import json_from_rows

    document = msgspec.json.decode(json_from_rows(results.rows, title=folder.name))
    document["folder"] = str(folder)
    document["advice"] = results.advice
    if chosen is not None:
        document["chosen"] = [row.runs for row in chosen.rows]
        document["unknown"] = chosen.unknown
    return json_from_value(document).decode()


def _show_plan(plan: SweepPlan, store: Store, config: Config, *, as_json: bool) -> None:
    from trtbench.cli._screen import show
    from trtbench.domain.codec import json_from_value
    from trtbench.report.documents.sweep import document_from_plan
    from trtbench.workflows.sweep.estimate import estimate

    kinds = estimate(plan, store=store, config=config)
    if not as_json:
        show(document_from_plan(plan, kinds))
        return
    document = {
        "matrix": plan.matrix,
        "cases": [
            {"case": case, "name": case.name, "steps": chain, "refused": plan.refused.get(place)}
            for place, (case, chain) in enumerate(zip(plan.cases, plan.chains, strict=True))
        ],
        "steps": list(plan.steps.values()),
        "estimate": kinds,
    }
    click.echo(json_from_value(document).decode(), nl=False)


MOST_ROWS = 24
"""Rows of the live table; more would scroll off the screen."""
_MARKS = {"now": "▶", "failed": "✗", "done": "✓", "waiting": "·"}
"""Of the states of cases, in the order in which they are worth a row."""


class Board(LiveDrawing):
    """The state of a sweep on stderr: a table on a terminal, a line for each case elsewhere."""

    def __init__(self) -> None:
        from rich.live import Live

        super().__init__()
        terminal = self._console.is_terminal
        self._drawn = self._live = (
            Live(console=self._console, auto_refresh=False, transient=True) if terminal else None
        )
        self._said: set[str] = set()

    def __call__(self, progress: SweepProgress) -> None:
        """Redraw between jobs only: while a child measures, this process sleeps."""
        if self._live:
            from rich.console import Group

            from trtbench.report.renderers.terminal import lines

            drawn = lines(_board(progress), width=self._console.width)
            self._live.update(Group(*drawn), refresh=True)
            return
        for place, reason in progress.reasons.items():
            self._say(f"failed: {progress.plan.cases[place].name}: {reason}")
        for place, found in progress.found.items():
            self._say(f"done: {progress.plan.cases[place].name}: {_median(found)} ({found.run})")
        if progress.doing:
            self._say(f"{_count(progress)} {progress.doing}{_left(progress)}")

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._console.print(mask(clean_line(text)), markup=False, soft_wrap=True)


def _board(progress: SweepProgress) -> Document:
    from trtbench.report.document import Cell, Heading, document_from_blocks, table_from_rows

    states = progress.state
    order = sorted(states, key=lambda place: list(_MARKS).index(states[place]))
    shown = set(order[:MOST_ROWS])
    rows = [
        (
            Cell(text=_MARKS[states[place]], tone="bad" if states[place] == "failed" else "plain"),
            case.name,
            _median(progress.found[place]) if place in progress.found else "",
            progress.reasons.get(place, ""),
        )
        for place, case in enumerate(progress.plan.cases)
        if place in shown
    ]
    headings = (
        Heading(key="state", title=""),
        Heading(key="case", title="Case", fit="shorten"),
        Heading(key="median_s", title="Median", align="right"),
        Heading(key="reason", title="", fit="wrap", rank=1),
    )
    more = f"… and {len(states) - len(shown)} more" if len(states) > len(shown) else None
    table = table_from_rows("board", headings=headings, rows=rows, caption=more)
    return document_from_blocks("board", [table], title=_headline(progress))


def _headline(progress: SweepProgress) -> str:
    elapsed = text_from_long_time(time.monotonic() - progress.began)
    parts = (_count(progress), progress.doing or "finishing", f"{elapsed} so far")
    return " · ".join(parts) + _left(progress)


def _count(progress: SweepProgress) -> str:
    return f"[{progress.done}/{progress.total}]" if progress.total else "[prepare]"


def _left(progress: SweepProgress) -> str:
    left = progress.left_s
    return f" · about {text_from_long_time(left)} left" if left is not None else ""


def _median(found: Found) -> str:
    return text_from_seconds(found.cached.median_s) if found.cached else "–"
