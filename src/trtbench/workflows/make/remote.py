"""Have an engine built on another machine: it comes back with its record, its log and its times."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path

from trtbench.boundary import file_name_from_text
from trtbench.build.builders import BUILDERS
from trtbench.domain.artefact import Artefact
from trtbench.domain.codec import json_from_value
from trtbench.domain.spec import BuildSpec
from trtbench.errors import writing
from trtbench.host.files import write_whole
from trtbench.host.locks import alone
from trtbench.models.identity import model_ref
from trtbench.workflows.make.build import CACHE, timing_cache_of
from trtbench.workflows.make.conversion import refuse_folder
from trtbench.workflows.measure.errand import run_errand
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.making import BuildRequest


def build_elsewhere(request: BuildRequest, *, config: Config, conduct: Conduct) -> Artefact:
    """Have an engine built on another machine; it comes back with its record and its log."""
    runtime = (
        request.runtime
        or min((each for each in BUILDERS.loaded()), key=lambda each: (each[1].CHOSEN, each[0]))[0]
    )
    engine = Path(request.output or Path(request.model).with_suffix(".engine")).absolute()
    refuse_folder(engine, name=Path(request.model).with_suffix(".engine").name)
    spec = BuildSpec(
        model=model_ref(Path(request.model)),
        output=str(engine),
        runtime=runtime,
        extra_args=tuple(request.extra_args),
    )
    builder = BUILDERS.load(runtime)
    cache = timing_cache_of(request, engine, keeps=builder.TIMING_CACHE)
    sent = _content(Path(cache)) if cache else None
    request = replace(request, timing_cache=cache if sent is not None else None)

    def take(artefact: Artefact, came: Path) -> Artefact:
        return _take_cache(artefact, came, Path(cache), sent) if cache else artefact

    artefact = run_errand(
        "build", request, Artefact, config=config, conduct=conduct,
        gpu=builder.device(spec) != "cpu", output=engine, take=take,
        libraries=() if request.options else (f"builder:{request.runtime or ''}",),
    )  # fmt: skip
    with writing(engine):
        write_whole(engine.with_name(f"{engine.name}.json"), json_from_value(artefact))
    return artefact


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _take_cache(artefact: Artefact, came: Path, target: Path, sent: bytes | None) -> Artefact:
    """Put the timing cache that came back in the place of the one that was sent.

    One that is no longer what was sent, or that was refused there, has times that the new one
    lacks: it stays, and the new one is put beside it.
    """
    names = [came / f"{artefact.filename}{CACHE}{end}" for end in ("", ".old")]
    data = _content(names[0])
    for name in names:
        name.unlink(missing_ok=True)
    artefact = artefact.having(spec=artefact.spec.having(timing_cache=str(target)))
    if data is None or data == sent:
        return artefact
    facts, host = artefact.facts, artefact.host or "the machine that built it"
    refused = facts.get("timing_cache") == "refused" or facts.get("timing_cache_refused") is True
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with alone(target.parent):
            changed = _content(target) != sent
            kept = _free_name(target, host, data) if changed or refused else target
            write_whole(kept, data)
    note = f"timing cache {target} has what was timed on {host} now"
    if kept != target:
        why = "was changed meanwhile" if changed else "is of another TensorRT or GPU"
        note = f"timing cache {target} {why} and stays; that of {host} is {kept}"
    return artefact.having(notes=(*artefact.notes, note))


def _free_name(target: Path, host: str, data: bytes) -> Path:
    """Name a file beside a timing cache that holds nothing else yet."""
    first = f"{target.name}.{file_name_from_text(host)}"
    names = (target.with_name(first if number == 1 else f"{first}-{number}") for number in count(1))
    return next(each for each in names if _content(each) in (None, data))
