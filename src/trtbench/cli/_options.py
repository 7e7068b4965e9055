"""Flags that mean the same everywhere, and the reading of their values."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from trtbench.errors import StoreError, UsageError

F = TypeVar("F", bound=Callable[..., Any])

PROTOCOLS = ("serve", "pipeline", "gpu", "coldl2", "server", "first")
"""As the domain has them, which help need not load to list them."""

_SHAPE = re.compile(r"(?P<name>.+):(?P<dims>\d+(?:x\d+)*)")


def stack(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Apply several options in the order in which help shows them."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


store_words: dict[str, Any] = {
    "metavar": "DIR|URL",
    "help": "Folder or URL of the store (default: from configuration).",
}
store_option = click.option("--store", **store_words)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Print what would be done, and do nothing."
)


class ValueIfAny(click.Option):
    """An option whose value may be left out: ``--telemetry``, ``--telemetry 50ms``.

    click takes the word after such an option for its value, so that ``--telemetry model.engine``
    would lose its model. A word that cannot be the value is given back.
    """

    def __init__(self, *arguments: Any, looks_like: str, **named: Any) -> None:
        super().__init__(*arguments, **{**named, "is_flag": False})
        self._looks_like = re.compile(looks_like, re.IGNORECASE)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        for name in self.opts:
            option = parser._long_opt[name]
            option.process = self._sorting(option.process)

    def _sorting(self, process: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        def sorted_out(value: Any, state: Any) -> None:
            if isinstance(value, str) and not self._looks_like.fullmatch(value):
                state.rargs.insert(0, value)
                value = self.flag_value
            process(value, state)

        return sorted_out


precision_option = click.option(
    "--precision",
    type=click.Choice(["fp32", "tf32", "fp16", "bf16", "int8", "fp8", "best"]),
    help="Precision that a weakly typed builder, or PyTorch, may use.",
)

_model_options = (
    click.option(
        "--shape",
        "shapes",
        multiple=True,
        metavar="NAME:1x3x224x224",
        help="Shape of one input; repeat for several.",
    ),
    click.option(
        "--batch", type=int, metavar="N", help="Items per query: every dynamic leading dimension."
    ),
)

_length_options = (
    click.option("--warmup", metavar="TIME", help="Least warm-up, e.g. 500ms (default 200ms)."),
    click.option(
        "--warmup-iterations", type=int, metavar="N", help="Least warm-up as a count of queries."
    ),
    click.option(
        "--until-steady/--no-until-steady",
        default=True,
        show_default=True,
        help="Go on warming up (10 s at most) until two windows agree.",
    ),
    click.option("--duration", metavar="TIME", help="Least measured time, e.g. 10s (default 3s)."),
    click.option(
        "--iterations", type=int, metavar="N", help="Least measured queries (default 10)."
    ),
)

_input_options = (
    click.option(
        "--inputs", metavar="FILE", help="Inputs from .npz, .npy or a folder of raw binaries."
    ),
    click.option(
        "--seed",
        type=int,
        default=0,
        show_default=True,
        help="Of random inputs, orders and arrivals.",
    ),
    click.option("--threads", type=int, help="Threads within an operator (CPU runtimes)."),
    click.option("--device", metavar="NAME", help="cpu, cuda:0, cuda:1, ..."),
)

_query_options = (
    click.option(
        "--protocol",
        type=click.Choice(PROTOCOLS),
        help="How queries follow one another (default: serve; trtexec: pipeline).",
    ),
    click.option(
        "--rate", metavar="RATE", help="Arrivals of the protocol server, e.g. 500/s or 2kHz."
    ),
    click.option(
        "--arrivals",
        type=click.Choice(["poisson", "constant"]),
        default="poisson",
        show_default=True,
        help="How they are spread in time.",
    ),
    click.option(
        "--cuda-graph",
        cls=ValueIfAny,
        looks_like=r"[^./:]*",
        flag_value="on",
        type=click.Choice(["on", "auto", "off"]),
        metavar="[on|auto|off]",
        help="Launch queries as a CUDA graph; auto goes on without one that cannot be captured "
        "(default: off; protocols gpu and coldl2: on).",
    ),
    click.option(
        "--transfers/--no-transfers", default=True, help="Copy inputs and outputs each time."
    ),
    click.option("--spin-wait", is_flag=True, help="Wait for the GPU by spinning."),
    click.option(
        "--streams",
        type=int,
        metavar="N",
        default=1,
        show_default=True,
        help="Queries at a time, each in a context of its own; their latencies overlap.",
    ),
    click.option("--gap", metavar="TIME", help="Mean random rest between queries, e.g. 5ms."),
    click.option(
        "--profile-index",
        type=click.IntRange(min=0),
        metavar="N",
        default=0,
        show_default=True,
        help="Optimization profile of the engine, from 0.",
    ),
)

_own_option = click.option(
    "--opt",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option of the runtime itself, e.g. providers=cuda or torch:compile=default; "
    "repeat for several.",
)

_job_options = (
    click.option("--timeout", metavar="TIME", help="Give up on a launch after this long: 10min."),
    click.option("--no-wait", is_flag=True, help="Fail at once when the device is in use."),
)

measure_options = stack(
    click.option("-r", "--runtime", metavar="NAME", help="What executes the model."),
    *_model_options,
    *_length_options,
    click.option(
        "--launches", type=int, metavar="N", help="Fresh processes to measure in (default 1)."
    ),
    *_input_options,
    *_query_options,
    click.option(
        "--telemetry",
        cls=ValueIfAny,
        looks_like=r"[-+]?[\d.]+\s*[a-zµ]*|[a-z]+",
        flag_value="100ms",
        metavar="[TIME]",
        help="Look at the GPU this often (100ms), in a pass of its own after the measurement.",
    ),
    click.option(
        "--lock-clocks",
        cls=ValueIfAny,
        looks_like=r"[^./:]*",
        flag_value="base",
        metavar="[base|max|MHZ]",
        help="Lock the GPU's clock while measuring (needs root), and free it afterwards.",
    ),
    precision_option,
    click.option(
        "--profile/--no-profile",
        default=None,
        help="Time single layers too (default: as the runtime does; trtexec: yes).",
    ),
    click.option(
        "--separate-profile-run/--no-separate-profile-run",
        default=True,
        show_default=True,
        help="Time layers in a pass of their own.",
    ),
    _own_option,
    click.option("--python", metavar="PATH", help="Measure in another Python interpreter."),
    click.option("--memory-limit", metavar="SIZE", help="Address space of the child, e.g. 8GiB."),
    *_job_options,
)


pair_options = stack(
    click.option(
        "-r",
        "--runtime",
        multiple=True,
        metavar="NAME",
        help="What executes the models: once for all sides, or once per side.",
    ),
    click.option(
        "--python",
        multiple=True,
        metavar="PATH",
        help="Interpreter: once for all sides, or once per side.",
    ),
    *_model_options,
    click.option(
        "--launches",
        type=click.IntRange(min=1),
        metavar="N",
        help="Fresh launches of both sides (default 10, of slow models 5; of a model alone, in a "
        "gate: 5).",
    ),
    click.option(
        "--max-launches",
        type=int,
        metavar="N",
        default=40,
        show_default=True,
        help="Go on to so many while the answer is unclear.",
    ),
    click.option(
        "--pairs",
        type=click.IntRange(min=10),
        metavar="N",
        help="Iterations of each side per launch, in turn (default: what fits in 0.2 s, 6 to 200).",
    ),
    click.option(
        "--mode",
        type=click.Choice(["auto", "one-process", "lock-step", "launches"]),
        default="auto",
        show_default=True,
        help="How the sides take turns; --duration and --iterations are for launches.",
    ),
    click.option(
        "--margin",
        metavar="PERCENT",
        default="2%",
        show_default=True,
        help="Within this, interval and all, two sides are the same.",
    ),
    click.option(
        "--accept",
        multiple=True,
        metavar="KEY",
        help="Compare in spite of this difference (tf32, batch, protocol, ...).",
    ),
    *_length_options,
    *_input_options,
    _own_option,
    *_query_options,
    precision_option,
    *_job_options,
    click.option("--tag", "tags", multiple=True, metavar="NAME", help="Tag both runs."),
)


def shapes_from_flags(flags: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Read ``name:1x3x224x224``; a comma joins several, as in trtexec."""
    shapes: dict[str, tuple[int, ...]] = {}
    for flag in flags:
        for part in re.split(r",(?=[^,]*:)", flag):
            match = _SHAPE.fullmatch(part.strip())
            if not match:
                raise UsageError(
                    f"--shape {part} cannot be read", fix="write it like input:1x3x224x224"
                )
            if match["name"] in shapes:
                raise UsageError(
                    f"--shape gives the input {match['name']} twice", fix="give each input once"
                )
            shapes[match["name"]] = tuple(int(dim) for dim in match["dims"].split("x"))
    return shapes


def refuse_unwritable(folder: Path, *, flag: str = "-o") -> None:
    """Say before minutes of work that its result could not be written."""
    place = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
        return
    raise StoreError(
        f"{folder} cannot be written",
        facts={"reason": f"{place} is {'read-only' if place.is_dir() else 'no folder'}"},
        fix=f"give another place with {flag}",
    )


def pairs_from_flags(flags: tuple[str, ...]) -> dict[str, str]:
    """Read ``key=value``."""
    pairs = {}
    for flag in flags:
        key, equals, value = flag.partition("=")
        if not equals or not key:
            raise UsageError(f"--opt {flag} cannot be read", fix="write it like threads=2")
        pairs[key.strip()] = value
    return pairs
