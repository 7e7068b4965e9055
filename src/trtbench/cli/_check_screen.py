"""What checks look like on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trtbench.units import text_from_fraction, text_from_seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from trtbench.analysis.check import OutputCheck
    from trtbench.analysis.check_worst import WorstItem
    from trtbench.workflows.check.layers import LayersChecked
    from trtbench.workflows.check.values import Candidate, Checked

SHOWN_LAYERS = 12
SWEEP = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)


def show_check(checked: Checked) -> None:
    """Print every candidate's outputs, ranks, tolerances and worst inputs."""
    from trtbench.cli._screen import result_console

    console = result_console()
    reference = checked.reference
    console.print(
        f"reference {reference.model.name} · {reference.runtime} · {checked.inputs}",
        style="bold", markup=False,
    )  # fmt: skip
    _show_floor(console, checked)
    for candidate in checked.candidates:
        _show_candidate(console, candidate)


def _show_floor(console: Console, checked: Checked) -> None:
    if checked.floor is None:
        console.print(f"floor        not taken: {checked.floor_reason}", markup=False)
        return
    for check in checked.floor:
        told = "gives the same every time" if check.identical else (
            f"differs from itself by max {_number(check.max_abs)}, "
            f"rel. L2 {_number(check.rel_l2)}"
        )  # fmt: skip
        console.print(f"floor        {check.output} {told}", markup=False)


def _show_candidate(console: Console, candidate: Candidate) -> None:
    side = candidate.side
    took = text_from_seconds(side.seconds, digits=3)
    console.print(f"\n{side.model.name} · {side.runtime} · {took}", style="bold", markup=False)
    console.print(_numbers(candidate.checks))
    for name in candidate.unmatched:
        console.print(f"note: only one side has the output {name}", style="yellow", markup=False)
    for note in candidate.notes:
        console.print(f"note: {note}", markup=False)
    for check in candidate.checks:
        if check.note:
            console.print(f"{check.output}: {check.note}", style="red", markup=False)
        _show_oddities(console, check)
        if check.identical:
            console.print(f"{check.output}: equal to the reference's everywhere", markup=False)
            continue
        if check.classes is not None:
            _show_classes(console, check)
        _show_sweep(console, check)
        for worst in check.worst[:3]:
            console.print(f"worst        {check.output}: {_worst_words(worst)}", markup=False)


def _show_oddities(console: Console, check: OutputCheck) -> None:
    """Say what numbers alone would hide."""
    told = []
    if check.reference_nonfinite:
        told.append(f"{check.reference_nonfinite} values of the reference are not finite")
    if check.misshapen and not check.note:
        told.append(
            f"{check.misshapen} of {check.items} inputs give another shape than the reference; "
            "they match nothing and are left out of means"
        )
    classes = check.classes
    if classes is not None and classes.unranked:
        told.append(f"{classes.unranked} of {classes.items} inputs have no best class: NaN or Inf")
    if classes is not None and classes.mixed:
        told.append("one side gives probabilities, the other scores before softmax")
    for words in told:
        console.print(f"{check.output}: {words}", style="yellow", markup=False)


def _worst_words(worst: WorstItem) -> str:
    if worst.shapes is not None:
        return f"{worst.name} (shape {worst.shapes})"
    return (
        f"{worst.name} (rel. L2 {_number(worst.rel_l2)}, max {_number(worst.max_abs)}, "
        f"not finite {worst.nonfinite})"
    )


def _numbers(checks: tuple[OutputCheck, ...]) -> Table:
    table = _table(
        "output", "close", "max abs", "mean abs", "max rel", "mean rel", "RMSE", "rel. L2", "SQNR",
        "cosine", "NaN", "Inf",
    )  # fmt: skip
    for check in checks:
        named = (check.max_abs, check.mean_abs, check.max_rel, check.mean_rel, check.rmse)
        table.add_row(
            check.output,
            text_from_fraction(check.close, digits=3),
            *(_number(each) for each in named),
            _number(check.rel_l2),
            f"{check.sqnr_db:.1f} dB" if check.sqnr_db is not None else "–",
            _number(check.cosine, digits=7),
            str(check.nan),
            str(check.inf),
        )
    return table


def _show_classes(console: Console, check: OutputCheck) -> None:
    classes = check.classes
    assert classes is not None
    span = classes.argmax_interval
    console.print(
        f"{check.output}: same best class {text_from_fraction(classes.argmax_match)} "
        f"({text_from_fraction(span.low)} to {text_from_fraction(span.high)}), top-5 sets "
        f"{text_from_fraction(classes.top5_agreement)}, KL {_number(classes.kl)} nats "
        f"(max {_number(classes.kl_max)})",
        markup=False,
    )
    table = _table(f"{check.output}: rank", *(str(row.rank) for row in classes.ranks))
    table.add_row("MAE", *(_number(row.mae, digits=3) for row in classes.ranks))
    shares = (text_from_fraction(row.disagree) for row in classes.ranks)
    table.add_row("disagree", *shares)
    table.add_row("no ties", *(text_from_fraction(row.disagree_clear) for row in classes.ranks))
    console.print(table)


def _show_sweep(console: Console, check: OutputCheck) -> None:
    points = [point for point in check.sweep if point.tolerance in SWEEP]
    if not points:
        return
    table = _table(f"{check.output}: tolerance", *(f"{point.tolerance:g}" for point in points))
    table.add_row("as atol", *(text_from_fraction(p.by_atol) for p in points))
    table.add_row("as rtol", *(text_from_fraction(p.by_rtol) for p in points))
    console.print(table)


def show_layers(layers: LayersChecked) -> None:
    """Print the nodes that add most drift, and the flags to keep them."""
    from trtbench.cli._screen import result_console

    console = result_console()
    outcome = layers.outcome
    console.print(
        f"\nlayers of {layers.candidate}: {len(outcome.drifts)} tensors compared, "
        f"{len(outcome.unmatched)} of the reference have no match, {outcome.only_candidate} are "
        "only in the candidate",
        style="bold", markup=False,
    )  # fmt: skip
    table = _table("node", "op", "place", "rel. L2", "before", "added", "SQNR", "not finite")
    ranked = sorted(outcome.drifts, key=lambda each: -(each.added or 0.0))
    for each in ranked[:SHOWN_LAYERS]:
        sqnr = each.diff.sqnr_db
        table.add_row(
            each.node, each.op, str(each.position), _number(each.diff.rel_l2),
            _number(each.before), _number(each.added), f"{sqnr:.1f} dB" if sqnr else "–",
            str(each.diff.nonfinite),
        )  # fmt: skip
    console.print(table)
    if outcome.unmatched:
        shown = ", ".join(outcome.unmatched[:8])
        more = len(outcome.unmatched) - 8
        console.print(
            f"no match     {shown}{f' and {more} more' if more > 0 else ''}", markup=False
        )
    if layers.keep:
        console.print("worth keeping in FP32, to paste into trtbench quantize:")
        console.print(f"  {layers.keep_flags}", markup=False, soft_wrap=True)
    console.print(f"drawn in {', '.join(layers.files)}", markup=False, soft_wrap=True)


def _table(*names: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for place, name in enumerate(names):
        table.add_column(name, justify="left" if place == 0 else "right", no_wrap=True)
    return table


def _number(value: float | None, *, digits: int = 4) -> str:
    return "–" if value is None else f"{value:.{digits}g}"
