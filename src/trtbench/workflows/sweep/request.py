"""The matrix that a request describes: a file, a preset, a mapping, or values of axes."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from trtbench.analysis.condition_text import condition_from_text
from trtbench.analysis.sweep import kinds, quantities
from trtbench.boundary import file_name_from_text, mask
from trtbench.boundary.secrets import SECRET
from trtbench.domain.result import Scalar
from trtbench.errors import UsageError, near_miss, refuse_unknown
from trtbench.store.place import address_from_text, is_url
from trtbench.tasks import TASKS
from trtbench.tasks.contract import settings_from_text
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.kinds import File
from trtbench.workflows.request.sweeping import AccuracyFields, AxisFields, SweepRequest, scalars
from trtbench.workflows.sweep.graph import is_hub
from trtbench.workflows.sweep.journal import read_outline
from trtbench.workflows.sweep.matrix import (
    MACHINE,
    Matrix,
    matrix_from_file,
    matrix_from_preset,
    matrix_from_table,
    with_flags,
)
from trtbench.workflows.sweep.plan import SweepPlan, plan_sweep

FILES = (".toml", ".yaml", ".yml")


def matrix_from_request(request: SweepRequest) -> Matrix:
    """Put the matrix together; what is said beside a file or a preset stands above it."""
    whole = [each for each in request.models if isinstance(each, Mapping) or _is_matrix(each)]
    if len(whole) > 1 or (whole and request.preset):
        raise UsageError("one file or one preset describes a sweep", fix="trtbench sweep --help")
    matrix = Matrix()
    if request.preset:
        matrix = matrix_from_preset(request.preset)
    for each in whole:
        matrix = (
            matrix_from_table(each, where="the matrix")
            if isinstance(each, Mapping)
            else matrix_from_file(Path(each))
        )
    named = [str(each) for each in request.models if each not in whole]
    axes = {"launches": request.launches, "duration": request.duration}
    options = {**_loading(request), **request.axis}
    options |= {k: scalars(v) for k, v in axes.items() if v not in ("", ())}
    return with_flags(
        matrix,
        {
            "models": [name if is_hub(name) else str(Path(name).absolute()) for name in named],
            "precision": scalars(request.precision),
            "runtime": scalars(request.runtime),
            "engine": scalars(request.engine),
            "batch": [_whole(each, "--batch") for each in scalars(request.batch)],
            "options": options,
            "exclude": [*matrix.exclude, *request.exclude] or None,
            "rounds": request.rounds,
            "seed": request.seed,
            "data": _path(request.data),
            "task": request.task,
            "task_settings": _task_settings(request, matrix),
            "check": request.check,
            "fetch_engines": request.fetch_engines or None,
            "inputs": _path(request.inputs),
            "calibration": _path(request.calibration),
            "shapes": {name: tuple(dims) for name, dims in request.shapes.items()},
            "input_shape": list(request.input_shape),
            "names": request.names,
        },
    )


def _loading(request: SweepRequest) -> dict[str, Sequence[Scalar]]:
    """Tell how PyTorch models are loaded, as options that reach every step."""
    weights = str(request.weights)
    own = weights if weights in ("default", "none") else str(Path(weights).absolute())
    given = {
        "opt.weights": None if weights == "default" else own,
        "opt.factory": request.factory,
        "opt.trust": "on" if request.trust else None,
    }
    return {name: [value] for name, value in given.items() if value is not None}


def refuse_more(request: SweepRequest) -> None:
    """Refuse what else is asked for: nothing of a sweep that is gone on with can change."""
    groups = (*fields(AxisFields), *fields(AccuracyFields))
    given = [each.name for each in groups if getattr(request, each.name)]
    given += [name for name, value in request.settings.items() if value is not None]
    if request.models or given or request.output or request.fetch_engines:
        raise UsageError(
            "--resume goes on with what was asked for before",
            fix="leave out everything else, or begin a new sweep",
        )


def sweep_folder(request: SweepRequest, matrix: Matrix) -> Path:
    """Tell where a sweep is kept: as asked, or by its title and the time."""
    if request.output is not None:
        return Path(request.output)
    first = Path(matrix.models[0].rpartition(":")[2]).stem
    name = file_name_from_text((matrix.title or first).lower(), otherwise="sweep")
    return Path("sweeps") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"


def _task_settings(request: SweepRequest, matrix: Matrix) -> dict[str, object] | None:
    """Put settings of the task together, of file and flags; files get their full names."""
    own = TASKS.load(request.task or matrix.task).FLAGS
    told = settings_from_text(own, request.task_opt)
    told |= {name: value for name, value in request.settings.items() if value is not None}
    words = {flag.key for flag in own if flag.choices}
    placed = {
        name: str(Path(value).absolute())
        if isinstance(value, str) and name not in words and Path(value).exists()
        else value
        for name, value in told.items()
    }
    return {**matrix.task_settings, **placed} if placed else None


def _whole(value: object, flag: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UsageError(f"{flag} {value} is not a number", fix=f"{flag} 1,8,32")
    return value


def _path(name: File | None) -> str | None:
    if name is None or name == "random":
        return None if name is None else str(name)
    return str(Path(name).absolute())


def _is_matrix(name: File) -> bool:
    return Path(name).suffix in FILES


def config_of_sweep(folder: Path, config: Config, *, given: str | None) -> Config:
    """Settle the store of a sweep that is gone on with: the one it was begun in."""
    outline = read_outline(folder.absolute())
    if SECRET in outline.store:
        if mask(config.store) == outline.store:
            return config
        raise UsageError(
            "the sweep's store needs its password",
            facts={"store": outline.store},
            fix="give it with --store URL, or TRTBENCH_STORE in the environment",
        )
    if given is not None:
        same = address_from_text(given) == outline.store
        if not same and not is_url(outline.store) and Path(outline.store).is_dir():
            raise UsageError(
                "the runs of this sweep are in another store",
                facts={"its store": outline.store, "given": given},
                fix=f"trtbench sweep --resume {folder}",
            )
        return config
    return config.having(store=outline.store, runs=outline.runs)


def check_plan(
    matrix: Matrix, *, config: Config, lenient: bool = False, elsewhere: bool = False
) -> SweepPlan:
    """Plan a sweep that is asked for here; what has no meaning is refused before a folder is."""
    if not elsewhere and MACHINE in matrix.options:
        raise UsageError(
            "an axis of machines needs others",
            fix="--executor ray --address HOST:6379, or --executor ssh --hosts FILE",
        )
    if not elsewhere and matrix.fetch_engines:
        raise UsageError(
            "engines are fetched from other machines; those that are built here are kept here",
            fix="--executor ssh --hosts FILE, or leave out --fetch-engines",
        )
    return plan_sweep(matrix, config=config, lenient=lenient, elsewhere=elsewhere)


def check_choice(where: str | None, best: str, matrix: Matrix) -> None:
    """Refuse a condition that cannot be read, or names what no row will have, before measuring."""
    names = [*quantities(()), *matrix.options]
    if matrix.data is not None:  # scores are known by their names once there are any
        asked = _NAMES.findall(f"{where or ''} {best}")
        names += [each for each in asked if near_miss(each, names) in (None, each)]
    refuse_unknown(best, names, f"--best {best} is no quantity", listed="quantities", flag="--best")
    if where is not None:
        condition_from_text(where, names=names, kinds=kinds(names))


_NAMES = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
