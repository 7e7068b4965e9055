"""How exports, casts and quantizations are shown, and carried out from their flags."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from trtbench.cli._options import stack

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from rich.table import Table

    from trtbench.domain.conversion import Sidecar, TensorDiff

conduct_options = stack(
    click.option("--python", metavar="PATH", help="Work in another Python interpreter."),
    click.option("--timeout", metavar="TIME", help="Give up after this long, e.g. 30min."),
)


def conduct_from_flags(flags: dict[str, Any], config: Any, *, runtime: str, listen: Any) -> Any:
    """How the job is carried out; ``runtime`` names the interpreter in the configuration."""
    from trtbench.units import seconds_from_text
    from trtbench.workflows.request.conduct import Conduct

    return Conduct(
        python=flags["python"] or config.python_for(runtime),
        timeout_s=seconds_from_text(flags["timeout"]) if flags["timeout"] else None,
        command=shlex.join(["trtbench", *sys.argv[1:]]),
        listen=listen,
    )


def show_conversion(sidecar: Sidecar, output: Path, *, as_json: bool) -> None:
    """Print what was made and how far it is from its source; talk goes to stderr."""
    from trtbench.cli._screen import result_console, say

    if as_json:
        from trtbench.domain.codec import json_from_value

        click.echo(json_from_value({"path": str(output), **_fields(sidecar)}).decode(), nl=False)
        return
    console = result_console()
    for name, text in facts_of(sidecar, output):
        console.print(f"{name:<12} {text}", markup=False)
    if sidecar.difference:
        console.print()
        console.print(diff_table(sidecar.difference))
        console.print(f"on {sidecar.compared_on}", style="dim", markup=False)
    for line in warnings_of(sidecar):
        console.print(line, style="yellow", markup=False)
    say(f"wrote {output}")


def facts_of(sidecar: Sidecar, output: Path) -> Iterable[tuple[str, str]]:
    """What a conversion did, line by line."""
    from trtbench.units import text_from_bytes, text_from_seconds

    how = " ".join(filter(None, (sidecar.method, sidecar.exporter)))
    yield "made", f"{sidecar.precision} by {how} in {text_from_seconds(sidecar.seconds, digits=2)}"
    size = output.stat().st_size
    yield "file", f"{text_from_bytes(size)}, opset {sidecar.opset}, sha256 {sidecar.sha256[:12]}"
    if sidecar.changed:
        yield "changed", ", ".join(f"{count} {op}" for op, count in sidecar.changed.items())
    reasons: dict[str, list[str]] = {}
    for node, reason in sidecar.kept.items():
        reasons.setdefault(reason, []).append(node)
    for reason, nodes in reasons.items():
        more = f" and {len(nodes) - 4} more" if len(nodes) > 4 else ""
        yield "kept", f"{', '.join(nodes[:4])}{more} ({reason})"
    data = sidecar.calibration
    if data is not None:
        batches = f"{data.batches} batches of {data.batch}"
        yield "calibration", f"{data.items} items in {batches} from {data.source}, seed {data.seed}"
        if data.preprocessing:
            yield "images", ", ".join(f"{key} {value}" for key, value in data.preprocessing.items())


def warnings_of(sidecar: Sidecar) -> Iterable[str]:
    """What must not be overlooked."""
    from trtbench.analysis.numeric import is_unusual

    yield from sidecar.notes
    if sidecar.unverified:
        yield f"not compared with its source: {sidecar.unverified}"
    for diff in sidecar.difference:
        if is_unusual(diff, precision=sidecar.precision or "fp32"):
            what = f"{diff.nonfinite} values are not finite" if diff.nonfinite else (
                diff.note or f"SQNR {diff.sqnr_db or 0:.1f} dB is low for {sidecar.precision}"
            )  # fmt: skip
            yield f"{diff.name}: {what}"


def diff_table(diffs: Iterable[TensorDiff]) -> Table:
    """One row per output tensor."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("output")
    for name in ("rel L2", "SQNR", "cosine", "max |Δ|", "mean |Δ|", "close", "not finite"):
        table.add_column(name, justify="right", no_wrap=True)
    for diff in diffs:
        table.add_row(
            diff.name,
            _number(diff.rel_l2, ".2e"),
            "exact" if diff.rel_l2 == 0 else _number(diff.sqnr_db, ".1f", " dB"),
            _number(diff.cosine, ".7f"),
            _number(diff.max_abs, ".3g"),
            _number(diff.mean_abs, ".3g"),
            "–"
            if diff.close is None
            else f"{diff.close:.2%} (rtol {diff.rtol:g}, atol {diff.atol:g})",
            str(diff.nonfinite),
        )
    return table


def _number(value: float | None, form: str, unit: str = "") -> str:
    return "–" if value is None else f"{value:{form}}{unit}"


def _fields(sidecar: Sidecar) -> dict[str, Any]:
    import msgspec

    return msgspec.structs.asdict(sidecar)
