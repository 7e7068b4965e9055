"""``trtbench profile``: which layers the time goes to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trtbench.cli._commands import ImageCommand
from trtbench.cli._flags import flags
from trtbench.cli._layers import top_options
from trtbench.cli._options import dry_run_option, json_option
from trtbench.errors import UsageError
from trtbench.workflows.request.fields import converted
from trtbench.workflows.request.measuring import BenchRequest, ProfileRequest

if TYPE_CHECKING:
    from trtbench.domain.result import Run


@click.command(
    "profile", short_help="Time the layers of a model, or show those of a run.", cls=ImageCommand
)
@flags(ProfileRequest)
@top_options
@click.option("--csv", "as_csv", is_flag=True, help="Print all layers as CSV.")
@json_option
@dry_run_option
def command(
    request: ProfileRequest, top: int, show_all: bool, as_csv: bool, as_json: bool, dry_run: bool
) -> None:
    """Time the layers of MODEL, or show those of a stored run.

    MODEL is a file, which is measured and profiled in a pass of its own, or the name of a run.
    For groups, rooflines, files and expectations see trtbench layers.

    \b
    Examples:
      trtbench profile model.engine
      trtbench profile model.engine --top 10 --csv > layers.csv
      trtbench profile last --json
    """
    from trtbench.cli._settings import conducting, load_config, open_store
    from trtbench.workflows.measure.profile import is_model_file, profile_model, stored_profile
    from trtbench.workflows.measure.remote import executor_for

    config = load_config(store=request.store)
    name, most = str(request.model), None if show_all else top
    if not is_model_file(name) and not _looks_like_file(name):
        run = stored_profile(name, store=open_store(config))
        _show(run, top=most, as_csv=as_csv, as_json=as_json)
        return
    from trtbench.cli._screen import say
    from trtbench.cli.bench import show_plan, spec_from_request

    if request.profile is False:
        raise UsageError(
            "profile times layers: --no-profile has no meaning here",
            fix="leave --no-profile out, or trtbench bench",
        )
    spec = spec_from_request(converted(request, BenchRequest, model=name, profile=True), config)
    if dry_run:
        show_plan(spec, as_json=as_json)
        return
    with (
        conducting(request, config, spec.model.name, runtime=spec.runtime) as told,
        executor_for(request, told) as conduct,
    ):
        run = profile_model(spec, store=open_store(config), conduct=conduct)
    _show(run, top=most, as_csv=as_csv, as_json=as_json)
    for note in run.record.notes:
        say(f"note: {note}")
    say(f"run {run.id} in {run.path}")


def _looks_like_file(name: str) -> bool:
    """Tell a file that is missing, by a model's ending, from the name of a run."""
    from trtbench.models.identity import SUFFIXES

    return Path(name).suffix.lower() in SUFFIXES


def _show(run: Run, *, top: int | None, as_csv: bool, as_json: bool) -> None:
    """Print the performance summary and the layers together, as trtexec does."""
    from trtbench.analysis.layers.columns import rows_from_layers
    from trtbench.cli._screen import print_json, show
    from trtbench.report.documents.run import document_from_run
    from trtbench.workflows.explain.layers import chosen_layers, csv_of, layer_rows, layers_document
    from trtbench.workflows.explain.source import engine_from_run

    engine = engine_from_run(run)
    if as_json:
        layers = rows_from_layers(chosen_layers(engine, top=top))
        count = engine.table.count
        from trtbench.cli._outputs import ProfileOutput

        print_json(ProfileOutput(run=run.id, path=str(run.path), count=count, layers=layers))
    elif as_csv:
        click.echo(csv_of(layer_rows(engine, sort="time")), nl=False)
    else:
        show(document_from_run(run))
        show(layers_document(engine, top=top))
